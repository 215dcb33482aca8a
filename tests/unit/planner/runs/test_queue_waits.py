"""From the cluster's partitions to a plan with the wait in their queue, over the double of its commands."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.builders import a_job
from tests.contract.slurm import SlurmHarness
from tests.doubles.clock import NOON
from trainplan.planner.forecast.plan import Plan
from trainplan.planner.planning.build_plan import PlanQuery, make_plan, with_listed_offers
from trainplan.planner.report.estimate_json import estimate_json
from trainplan.planner.report.explain import explain
from trainplan.planner.report.queue_lines import queue_text
from trainplan.planner.runs.queue_waits import with_queue
from trainplan.planner.settings import Settings


def plans(folder: Path, harness: SlurmHarness, say: Any) -> tuple[Plan, Plan]:
    """Without and with the wait."""
    provider: Any = harness.provider()
    settings = Settings(home=folder, clouds={"slurm": {"directory": "/shared"}})
    query = with_listed_offers(PlanQuery(providers=("slurm",), prices=True), lambda _: provider, settings, say)
    plan = make_plan(a_job(), query, settings, NOON, say)
    return plan, with_queue(plan, query, settings, NOON, (lambda _: provider, say))[0]


def test_the_wait_is_in_the_time_and_on_the_screen_with_its_ground(tmp_path: Path) -> None:
    harness = SlurmHarness(tmp_path)
    harness.cluster.starts_after_seconds = 7200
    lines: list[str] = []
    before, after = plans(tmp_path, harness, lines.append)
    (first,), (then,) = before.candidates, after.candidates
    wait = then.candidate.estimate.time.total - first.candidate.estimate.time.total
    assert timedelta(minutes=119) < wait <= timedelta(hours=2)
    assert then.cost_usd == first.cost_usd
    assert lines == []
    assert "would begin in" in queue_text(after)
    assert "the cluster has no accounting that can be read; no run of this home began there" in queue_text(after)
    assert "would begin in" in explain(after, then)
    assert "not known and not counted" in explain(before, first)
    (candidate,) = json.loads(estimate_json(after))["candidates"]
    assert candidate["queue"]["waiting_seconds"] == wait.total_seconds()


def test_a_cluster_that_fails_after_it_listed_its_partitions_leaves_the_estimate_as_it_was(tmp_path: Path) -> None:
    harness = SlurmHarness(tmp_path)
    lines: list[str] = []
    provider: Any = harness.provider()
    settings = Settings(home=tmp_path, clouds={"slurm": {"directory": "/shared"}})
    query = with_listed_offers(PlanQuery(providers=("slurm",), prices=True), lambda _: provider, settings, lines.append)
    plan = make_plan(a_job(), query, settings, NOON, lines.append)
    harness.break_listing()
    assert with_queue(plan, query, settings, NOON, (lambda _: provider, lines.append))[0] == plan
    (line,) = lines
    assert line.startswith("slurm: the wait in the queue is not known and not counted: ")
