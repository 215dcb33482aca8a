"""What the cluster says of the wait in its queue, over the double of its commands."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders import a_job, a_rental
from tests.contract.slurm import SlurmHarness
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.abilities import JobChecker, QueueQuestion, QueueTeller
from trainplan.providers.base import PreflightState
from trainplan.providers.errors import TransientError

MINUTES = timedelta(minutes=1)


def question(lasting: timedelta, region: str = "two", instance_type: str = "node:1") -> QueueQuestion:
    rental = a_rental(provider="slurm", instance_type=instance_type, vcpus=3, memory_gib=2.0)
    return QueueQuestion(rental, region, lasting)


def test_a_job_is_asked_about_with_its_own_length_nodes_and_devices(tmp_path: Path) -> None:
    harness = SlurmHarness(tmp_path)
    harness.cluster.starts_after_seconds = 1200
    harness.cluster.accounting = "100|130|n1\n100|100|None assigned\n100|Unknown|None assigned\n"
    provider = harness.provider()
    assert isinstance(provider, QueueTeller)
    asked = [question(30.5 * MINUTES), question(30 * MINUTES, instance_type="gpu:v100:2")._replace(machines=2)]
    first, second = provider.queue_answers(asked)
    assert 19 * MINUTES < (first.starts_in or timedelta(0)) <= 20 * MINUTES
    assert first.past == second.past == (timedelta(seconds=30),)
    sacct, one, other = harness.cluster.questions
    assert sacct[-1] == "--partition=two"
    assert one == ("--partition=two", "--nodes=1", "--time=31", "--exclusive")
    assert other[1] == "--nodes=2"
    assert other[3:] == ("--gres=gpu:v100:2", "--cpus-per-task=3", "--mem=2048M")


def test_no_longer_time_is_asked_for_than_the_partition_gives(tmp_path: Path) -> None:
    harness = SlurmHarness(tmp_path)
    harness.provider().queue_answers([question(300 * MINUTES)])
    assert "--time=60" in harness.cluster.questions[-1]


def test_a_refusal_is_an_answer_and_a_missing_accounting_none(tmp_path: Path) -> None:
    harness = SlurmHarness(tmp_path)
    (answer,) = harness.provider().queue_answers([question(MINUTES, region="nope")])
    assert answer.starts_in is None
    assert answer.past is None
    assert "Invalid partition name specified" in answer.refusal


def test_a_cluster_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    harness = SlurmHarness(tmp_path)
    harness.break_listing()
    with pytest.raises(TransientError, match="Unable to contact slurm controller"):
        harness.provider().queue_answers([question(MINUTES)])


def test_a_controller_that_does_not_answer_refuses_no_partition(tmp_path: Path) -> None:
    """Taken for a refusal, one lost answer ended a launch before it began."""
    harness = SlurmHarness(tmp_path)
    provider = harness.provider()
    (offer,) = provider.offers(OfferQuery())
    harness.break_listing()
    checks = {check.name: check.state for check in provider.preflight(offer).checks}
    assert checks["partition"] is PreflightState.UNKNOWN


def test_a_preflight_for_a_job_asks_for_all_its_nodes(tmp_path: Path) -> None:
    harness = SlurmHarness(tmp_path)
    provider = harness.provider()
    assert isinstance(provider, JobChecker)
    (offer,) = provider.offers(OfferQuery())
    checks = {check.name: check.state for check in provider.preflight_for(offer, a_job(nodes=2)).checks}
    assert checks["partition"] is PreflightState.OK
    assert "--nodes=2" in harness.cluster.questions[-1]
    provider.preflight(offer)
    assert "--nodes=1" in harness.cluster.questions[-1]
