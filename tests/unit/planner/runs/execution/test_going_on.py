"""A run that goes on as its next attempt: from which checkpoint, for which job, and what the time between costs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from tests.builders import a_job, a_target
from tests.doubles.clock import ctrl_c
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    ends,
    trains_well,
    until_asked,
)
from tests.unit.planner.runs.execution.followed import HERE, packed, recorded
from trainplan.planner.runs.events import Progressed, TrainerStarted
from trainplan.planner.runs.run import Outcome
from trainplan.providers.base import EndKind


def test_a_stopped_run_goes_on_as_its_second_attempt(desk: Desk) -> None:
    desk.scripts(until_asked, trains_well)
    desk.clock.at_sleep[3] = ctrl_c
    first, _ = desk.launch()
    stopped_at = int(desk.provider.store(first.run_id).list("checkpoints")[0].split("-")[1][:8])
    desk.clock.advance(86_400)
    second, receipt = desk.go_on()
    assert (second.run_id, second.outcome, len(second.attempts)) == (first.run_id, Outcome.SUCCEEDED, 2)
    assert [started.resumed_from_step for started in desk.events_of(TrainerStarted)] == [0, stopped_at]
    assert (receipt.attempts, receipt.steps) == (2, 780)
    assert recorded(desk, second) == packed(second)
    assert recorded(desk, second).stop_asked is None
    assert (desk.folder / "model" / "model.keras").exists()
    assert desk.leaked == []


def test_the_night_between_two_attempts_costs_nothing(desk: Desk) -> None:
    desk.scripts(until_asked, trains_well)
    desk.clock.at_sleep[3] = ctrl_c
    desk.launch(usd_per_hour=Decimal(36))
    desk.clock.advance(86_400)
    desk.events.clear()
    _, receipt = desk.go_on()
    assert receipt.actual_seconds < 120
    assert all(event.usd_so_far < 1 for event in desk.events_of(Progressed))


def test_a_run_that_succeeded_does_not_go_on(desk: Desk) -> None:
    desk.launch()
    assert desk.runner().resumable(a_job(), HERE) is None


@pytest.mark.parametrize("changes", [{"seed": 1}, {"epochs": 3}])
def test_another_job_does_not_go_on(desk: Desk, changes: dict[str, int]) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    desk.launch()
    assert desk.runner().resumable(a_job(), HERE) is not None
    assert desk.runner().resumable(a_job(name="renamed", constraints={"deadline": "9h"}), HERE) is not None
    assert desk.runner().resumable(a_job(**changes), HERE) is None


def test_without_a_complete_checkpoint_there_is_nothing_to_go_on_from(desk: Desk) -> None:
    desk.scripts(ends(EndKind.FAILED))
    run, _ = desk.launch()
    assert desk.runner().resumable(a_job(), HERE) is None
    desk.provider.store(run.run_id).put("checkpoints/step-00000003/weights", b"half")
    assert desk.runner().resumable(a_job(), HERE) is None
    desk.provider.store(run.run_id).put("checkpoints/step-00000003/complete.json", b"{}")
    assert desk.runner().resumable(a_job(), HERE) == packed(run)


def test_a_fresh_launch_is_a_run_of_its_own(desk: Desk) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep |= {3: ctrl_c}
    first, _ = desk.launch()
    desk.scripts(trains_well)
    second, receipt = desk.launch()
    assert second.run_id != first.run_id
    assert (receipt.attempts, desk.events_of(TrainerStarted)[-1].resumed_from_step) == (1, 0)


def test_a_measuring_run_in_between_does_not_hide_the_checkpoint(desk: Desk) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    stopped, _ = desk.launch()
    desk.scripts(trains_well)
    runner = desk.runner()
    measuring = replace(runner.draft(a_job(), [a_target()], None, None), model_folder="", max_steps=40)
    runner.record(measuring, a_job(), {})
    runner.measure(measuring, desk.request())
    assert runner.resumable(a_job(), HERE) == packed(stopped)
