"""A seeded tenth of `make faults PROVIDER=` for each real cloud's double, and planted defects that turn it red."""

from __future__ import annotations

import os

import pytest

from tests.faults.clouds import REAL, row_of
from tests.faults.test_kill_points import assert_caught, assert_nothing_wrong

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")

DEFECTS = {
    "aws": (
        "aws: each send has a token of its own @ lost reply",
        "aws: disks are not listed @ throttled",
        "aws: the tag that the reaper reads is not part of the create @ cloud's timer",
        "concludes from age @ left alone",
    ),
    "gcp": (
        "gcp: each create has a name and a token of its own @ lost reply",
        "gcp: a machine that has stopped is not listed @ maintenance",
        "gcp: disks are not listed @ throttled",
        "gcp: the machine only powers off @ machine's timer",
        "gcp: no maxRunDuration @ cloud's timer",
        "concludes from age @ left alone",
        "a wish to stop has no limit @ left hung",
    ),
    "tpu": (
        "tpu: each create has a name and a token of its own @ lost reply",
        "tpu: no timers in the cloud @ cloud's timer",
        "tpu: the machine only powers off @ machine's timer",
        "tpu: nodes are not listed @ throttled",
        "tpu: a place that refuses keeps its timers @ failover",
        "second launch ignores a live run @ left alone",
        "a wish to stop has no limit @ left hung",
    ),
    "azure": (
        "azure: rights are not listed @ lost reply",
        "azure: a conflict is read as: it exists already @ failover",
        "azure: the operation is not followed: a create is taken for a machine @ failover",
        "azure: an expired sign-in is taken as a machine that is gone @ expired",
        "azure: the machine's own timer is not armed @ machine's timer",
        "concludes from age @ left alone",
        "second launch ignores a live run @ left alone",
        "same client id in two homes @ left alone",
        "a question holds the lock @ left hung",
        "a wish to stop has no limit @ left hung",
        "a refused place is asked for ever @ failover",
    ),
    "slurm": (
        "slurm: nobody looks for the job before it is submitted @ lost reply",
        "slurm: a submission without an answer is taken as refused @ lost reply",
        "slurm: a requeued job is taken for one that has ended @ maintenance",
        "slurm: the script does not hold the deadline @ machine's timer",
        "slurm: a login node that lets nobody in is taken as a job that is gone @ expired",
        "slurm: jobs that wait are not listed @ expired",
        "slurm: a delete of a job that waits does nothing @ left alone",
        "concludes from age @ left alone",
        "second launch ignores a live run @ left alone",
        "a wish to stop has no limit @ left hung",
    ),
}


@pytest.mark.parametrize("provider", [row.name for row in REAL])
def test_a_tenth_of_all_points_leaves_nothing_and_is_recorded(provider: str) -> None:
    assert_nothing_wrong(provider, *DEFECTS[provider], least=row_of(provider).least_points)


@pytest.mark.parametrize("provider", DEFECTS)
def test_the_harness_turns_red_for_planted_defects(provider: str) -> None:
    assert_caught(provider, *DEFECTS[provider])
