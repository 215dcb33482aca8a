"""A run that somebody stops, by Ctrl-C or from elsewhere: it ends with what it has, and nothing is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import a_job
from tests.doubles.clock import ctrl_c
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    SIGHTING_OF_END,
    FakeMachine,
    Sighting,
    ends,
    stubborn,
    trains_well,
    until_asked,
)
from tests.unit.planner.runs.execution.followed import HERE, packed, recorded
from trainplan.planner.runs.events import Message, PhaseReached
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.providers.base import EndKind
from trainplan.workloads.output_files import STOPPED_FOR_GOOD

# --- Ctrl-C ------------------------------------------------------------------------------------------------------


def test_ctrl_c_once_asks_for_a_checkpoint_and_ends(desk: Desk) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    run, receipt = desk.launch()
    assert (run.outcome, receipt.outcome) == (Outcome.STOPPED, "stopped")
    assert desk.provider.count("stop") >= 1
    assert any(path.endswith("/complete.json") for path in desk.provider.store(run.run_id).list("checkpoints"))
    assert recorded(desk, run).stop_asked is not None
    assert [event.text for event in desk.events_of(Message)] == [
        "stopping: the trainer writes a checkpoint and ends; Ctrl-C again ends it at once"
    ]
    assert desk.leaked == []


def test_ctrl_c_twice_ends_at_once(desk: Desk) -> None:
    desk.scripts(stubborn)
    desk.clock.at_sleep |= {3: ctrl_c, 5: ctrl_c}
    run, receipt = desk.launch()
    assert (run.outcome, run.message) == (Outcome.STOPPED, "ended at once by Ctrl-C")
    assert desk.leaked == []
    assert receipt.actual_seconds < 15


def test_ctrl_c_before_anything_was_asked_for_asks_for_nothing(desk: Desk) -> None:
    desk.listen = lambda event: ctrl_c() if event == PhaseReached(Phase.LAUNCHING) else None
    run, _ = desk.launch()
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.STOPPED)
    assert desk.provider.count("launch") == 0


@pytest.mark.parametrize("phase", [Phase.COLLECTING, Phase.TEARING_DOWN])
def test_ctrl_c_after_training_does_not_lose_the_run(desk: Desk, phase: Phase) -> None:
    """Once: it is on its way out anyway."""
    pressed: list[Phase] = []

    def press(event: object) -> None:
        if event == PhaseReached(phase) and not pressed:
            pressed.append(phase)
            ctrl_c()

    desk.listen = press
    run, _ = desk.launch()
    assert run.phase is Phase.DONE
    assert recorded(desk, run).outcome is run.outcome
    assert desk.leaked == []
    assert run.outcome is Outcome.SUCCEEDED
    assert (desk.folder / "model" / "model.keras").exists()


def test_ctrl_c_twice_while_the_model_comes_home_ends_without_it(desk: Desk) -> None:
    planned = desk.planned()
    desk.provider.store(planned.run_id).at_get = lambda path: ctrl_c() if path == "output/model.keras" else None
    run, _ = desk.runner().follow(planned, desk.request())
    assert [event.text for event in desk.events_of(Message)] == [
        "training is over, the model is on its way; Ctrl-C again ends without it"
    ]
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.STOPPED)
    assert desk.leaked == []
    assert desk.runner().resumable(a_job(), HERE) == packed(run)


def test_ctrl_c_while_things_are_deleted_does_not_make_a_success_a_failure(desk: Desk) -> None:
    desk.provider.lose["delete", 1] = KeyboardInterrupt()
    run, receipt = desk.launch()
    assert (run.outcome, receipt.outcome) == (Outcome.SUCCEEDED, "succeeded")
    assert recorded(desk, run).outcome is Outcome.SUCCEEDED
    assert desk.leaked == []


@pytest.mark.parametrize("operation", ["launch", "get", "list_owned", "delete"])
@pytest.mark.parametrize("reply", ["refuse", "lose"])
def test_ctrl_c_during_any_call_leaves_nothing(desk: Desk, operation: str, reply: str) -> None:
    getattr(desk.provider, reply)[operation, 1] = KeyboardInterrupt()
    desk.scripts(until_asked)
    desk.clock.at_sleep[6] = ctrl_c
    run, _ = desk.launch()
    assert run.phase is Phase.DONE
    assert recorded(desk, run) == packed(run)
    assert desk.leaked == []


def test_ctrl_c_while_a_second_attempt_is_launched_leaves_nothing(desk: Desk) -> None:
    desk.scripts(until_asked, trains_well)
    desk.clock.at_sleep[3] = ctrl_c
    desk.launch()
    desk.provider.lose["launch", 2] = KeyboardInterrupt()
    run, _ = desk.go_on()
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.STOPPED)
    assert desk.leaked == []
    assert desk.runner().resumable(a_job(), HERE) is not None


# --- two at once -------------------------------------------------------------------------------------------------


def test_a_script_that_is_stopped_finds_the_mark_of_it_and_what_it_saved_comes_home(desk: Desk) -> None:
    figures = json.dumps({"failure": "its newest checkpoint is that of step 5", "outcome": "stopped"}).encode()

    def saves_when_asked(machine: FakeMachine) -> Iterator[Sighting]:
        for sighting in until_asked(machine):
            if sighting.end is EndKind.STOPPED:
                assert f"attempts/1/{STOPPED_FOR_GOOD}" in machine.store.list("attempts")
                machine.write_output({"best.pt": b"so far", "metrics.json": figures})
                yield SIGHTING_OF_END[EndKind.DONE]
            yield sighting

    desk.scripts(saves_when_asked)
    desk.clock.at_sleep[3] = ctrl_c
    run, receipt = desk.launch()
    text = "stopped; what its script had saved is at home, and its newest checkpoint is that of step 5"
    assert (run.outcome, receipt.message) == (Outcome.STOPPED, text)
    assert (desk.folder / "model" / "best.pt").read_bytes() == b"so far"
    assert desk.leaked == []
    assert desk.runner().resumable(a_job(), HERE) == packed(run)


def test_plan_stop_from_elsewhere_ends_the_run_that_is_followed_here(desk: Desk) -> None:
    desk.scripts(until_asked)

    def stop() -> None:
        with desk.reopened() as journal:
            (run,) = journal.live()
            journal.ask_to_stop(run.run_id, desk.clock.now())

    desk.clock.at_sleep[3] = stop
    run, _ = desk.launch()
    assert run.outcome is Outcome.STOPPED
    assert desk.leaked == []


def test_a_stop_without_a_checkpoint_says_so_and_where_the_files_are(desk: Desk, tmp_path: Path) -> None:
    desk.scripts(ends(EndKind.STOPPED))
    run, receipt = desk.launch()
    assert (run.outcome, receipt.message) == (Outcome.STOPPED, "stopped. It saved no checkpoint")
    assert run.attempts[-1].step == 0
    assert not run.may_have_checkpoint
    (tmp_path / "work").mkdir()
    planned = desk.planned()
    desk.provider.store(planned.run_id).root = tmp_path  # type: ignore[attr-defined]  # as on this computer
    desk.scripts(ends(EndKind.STOPPED))
    run, _ = desk.runner().follow(planned, desk.request())
    assert run.message == f"stopped. The script saved no checkpoint; its files are in {tmp_path / 'work'}"
