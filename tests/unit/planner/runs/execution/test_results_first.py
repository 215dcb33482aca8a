"""No end is recorded before the store has answered whether a complete output is there; what is there comes home."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.builders import a_job
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    MODEL,
    SIGHTING_OF_END,
    FakeMachine,
    Sighting,
    done_at_once,
    ends_after,
    stubborn,
    trains_well,
)
from trainplan.planner.api.following import to_follow
from trainplan.planner.errors import ExitCode, ResultsUnknownError, TeardownUnverifiedError, ThisMachineError
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.end import COLLECT_PATIENCE, RESULTS_PATIENCE
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.runner import request_none
from trainplan.providers.base import EndKind
from trainplan.providers.errors import CredentialsError, PermissionDeniedError, ProviderError, TransientError

EXPIRED = CredentialsError("the sign-in has expired", hint="sign in again")
LOST = TransientError("connection lost")
DENIED = PermissionDeniedError("access denied")
DAYS = 86_400.0
SILENCES: list[ProviderError] = [EXPIRED, LOST, DENIED]


def unwatched(desk: Desk, seconds: float = 5 * DAYS) -> Run:
    """A run that was launched with a deadline of five hours and left alone for so long."""
    run = desk.planned(a_job(constraints={"deadline": "5h"}))
    with pytest.raises(Detached):
        desk.runner().follow(run, desk.request(), until_launched=True)
    desk.clock.advance(seconds)
    return desk.journal.run(run.run_id)


def trained_unwatched(desk: Desk) -> Run:
    """One whose machine has trained to the end, ended and gone meanwhile."""
    desk.scripts(done_at_once)
    run = unwatched(desk)
    (machine,) = desk.provider.machines.values()
    machine.live()
    desk.provider.machines.clear()
    return run


def silence(desk: Desk, run: Run, error: ProviderError | None, *, all_of_it: bool = False) -> None:
    """From now on the store does not answer, and with `all_of_it` nothing else does; None: all answers again."""
    desk.provider.store(run.run_id).down = error
    desk.provider.down = dict.fromkeys(("get", "list_owned", "delete"), error) if error and all_of_it else {}


def model(desk: Desk) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (desk.folder / "model").iterdir()}


@pytest.mark.parametrize("all_of_it", [True, False])
@pytest.mark.parametrize("error", SILENCES)
def test_a_model_in_a_store_that_does_not_answer_after_the_deadline_comes_home_once_it_does(
    desk: Desk, error: ProviderError, all_of_it: bool
) -> None:
    run = trained_unwatched(desk)
    silence(desk, run, error, all_of_it=all_of_it)
    with pytest.raises((ResultsUnknownError, TeardownUnverifiedError)) as caught:
        desk.runner().settle(run)
    assert caught.value.exit_code is ExitCode.TEARDOWN_UNVERIFIED
    assert desk.journal.run(run.run_id).live
    silence(desk, run, None)
    run = desk.runner().settle(run)
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.SUCCEEDED)
    assert "the deadline has passed" in (run.message or "")
    assert model(desk) == MODEL
    assert desk.provider.count("launch") == 1
    assert desk.provider.store(run.run_id).list("output") == []


def test_what_bills_is_deleted_while_the_store_does_not_answer(desk: Desk) -> None:
    desk.scripts(stubborn)
    run = unwatched(desk)
    silence(desk, run, LOST)
    with pytest.raises(ResultsUnknownError, match="waits for its store") as caught:
        desk.runner().settle(run)
    assert f"plan stop {run.run_id} --give-up-results" in caught.value.hint
    assert desk.leaked == []
    (waiting,) = desk.journal.live()
    assert (waiting.phase, waiting.bills) == (Phase.TEARING_DOWN, False)
    silence(desk, run, None)
    assert desk.runner().settle(waiting).outcome is Outcome.DEADLINE


def test_a_store_that_answers_nothing_for_a_month_is_given_up_and_not_before(desk: Desk) -> None:
    run = trained_unwatched(desk)
    silence(desk, run, EXPIRED)
    with pytest.raises(ResultsUnknownError):
        desk.runner().settle(run)
    desk.clock.advance(RESULTS_PATIENCE.total_seconds() - DAYS)
    with pytest.raises(ResultsUnknownError):
        desk.runner().settle(run)
    desk.clock.advance(2 * DAYS)
    run = desk.runner().settle(run)
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.DEADLINE)
    assert "given up" in (run.message or "")
    silence(desk, run, None)
    assert attached(desk, run).outcome is Outcome.SUCCEEDED  # and it comes home even so


def attached(desk: Desk, run: Run) -> Run:
    """`plan attach`, without a machine."""
    runner = desk.runner()
    ready = to_follow(desk.journal.run(run.run_id), runner, desk.journal)
    assert ready is not None
    followed, receipt = runner.follow(ready, request_none)
    assert receipt.outcome == followed.outcome == desk.journal.run(run.run_id).outcome
    return followed


def test_a_person_gives_up_a_store_by_name_and_the_run_ends_as_it_did(desk: Desk) -> None:
    run = trained_unwatched(desk)
    silence(desk, run, LOST)
    with pytest.raises(ResultsUnknownError):
        desk.runner().settle(run)
    desk.runner().give_up_results(run)
    run = desk.runner().settle(run)
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.DEADLINE)


def test_a_run_that_was_recorded_as_ended_with_its_output_stored_comes_home_without_a_machine(desk: Desk) -> None:
    """A launch of the same job finds it too, and asks the store before it rents anything."""
    run = trained_unwatched(desk)
    silence(desk, run, LOST)
    runner = desk.runner()
    with pytest.raises(ResultsUnknownError):
        runner.settle(run)
    runner.give_up_results(run)
    assert runner.settle(run).outcome is Outcome.DEADLINE
    job = a_job(constraints={"deadline": "5h"})
    with pytest.raises(TransientError):
        runner.results_of(job)
    silence(desk, run, None)
    found = runner.results_of(job)
    assert found is not None
    run = attached(desk, found)
    assert (run.outcome, model(desk)) == (Outcome.SUCCEEDED, MODEL)
    assert desk.provider.count("launch") == 1
    assert runner.results_of(job) is None


def test_a_run_that_was_stopped_does_not_wait_for_its_store(desk: Desk) -> None:
    run = trained_unwatched(desk)
    silence(desk, run, LOST)
    desk.journal.ask_to_stop(run.run_id, desk.clock.now())
    desk.journal.save(run.moved(Phase.RUNNING).moved(Phase.INTERRUPTED), desk.clock.now())
    run = desk.runner().settle(run)
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.STOPPED)
    silence(desk, run, None)
    assert attached(desk, run).outcome is Outcome.SUCCEEDED


def vanishes(machine: FakeMachine) -> Iterator[Sighting]:
    """Is lost with a checkpoint in its store."""
    yield from ends_after(EndKind.LOST, 390)(machine)


def test_a_lost_machine_is_not_replaced_before_the_store_has_answered_what_it_left(desk: Desk) -> None:
    """Its checkpoint was taken for none, three times of which end a run as failed."""
    desk.scripts(vanishes, trains_well)
    run = desk.planned()
    store = desk.provider.store(run.run_id)
    silences = iter([LOST] * 5)

    def away(path: str) -> None:
        if (
            desk.provider.machines
            and next(iter(desk.provider.machines.values())).sighting is SIGHTING_OF_END[EndKind.LOST]
        ):
            store.down = next(silences, None)

    store.at_get = away
    run, receipt = desk.runner().follow(run, desk.request())
    assert (run.outcome, run.attempts[0].step) == (Outcome.SUCCEEDED, 390)
    assert receipt.steps == 780


def test_a_machine_that_hangs_after_its_output_was_stored_is_not_trained_again(desk: Desk) -> None:
    def hangs(machine: FakeMachine) -> Iterator[Sighting]:
        *looks, _ = list(trains_well(machine))
        yield from looks
        while True:
            yield looks[-1]

    desk.scripts(hangs)
    run, _ = desk.launch()
    assert (run.outcome, len(run.attempts), model(desk)) == (Outcome.SUCCEEDED, 1, MODEL)
    assert desk.leaked == []


def test_a_store_that_does_not_answer_during_the_collection_keeps_the_run_collecting(desk: Desk) -> None:
    run = desk.planned()
    store = desk.provider.store(run.run_id)

    def fails(path: str) -> None:
        if path.startswith("output/"):
            raise TransientError("connection lost")

    store.at_get, began_at = fails, desk.clock.now()
    with pytest.raises(ResultsUnknownError, match="connection lost"):
        desk.runner().follow(run, desk.request())
    kept = desk.journal.run(run.run_id)
    assert (kept.phase, kept.outcome, kept.bills, desk.leaked) == (Phase.COLLECTING, None, False, [])
    assert desk.clock.now() - began_at > COLLECT_PATIENCE
    store.at_get = lambda _: None
    assert desk.runner().settle(kept).outcome is Outcome.SUCCEEDED
    assert model(desk) == MODEL


def test_a_folder_that_cannot_be_written_is_this_machines_fault_and_the_output_waits(desk: Desk) -> None:
    run = desk.planned()
    (desk.folder / "model").write_text("in the way")
    with pytest.raises(ThisMachineError, match="cannot write the model") as caught:
        desk.runner().follow(run, desk.request())
    assert caught.value.exit_code is ExitCode.THIS_MACHINE
    assert desk.leaked == []
    waiting = desk.journal.run(run.run_id)
    assert (waiting.phase, waiting.bills) == (Phase.COLLECTING, False)
    (desk.folder / "model").unlink()
    run = desk.runner().settle(waiting)
    assert (run.outcome, model(desk), desk.provider.count("launch")) == (Outcome.SUCCEEDED, MODEL, 1)


def test_a_measuring_run_that_was_over_when_nobody_answered_has_succeeded(desk: Desk) -> None:
    desk.scripts(done_at_once)
    from dataclasses import replace

    run = replace(desk.planned(a_job(constraints={"deadline": "5h"})), model_folder="", max_steps=40)
    desk.journal.save(run, desk.clock.now())
    with pytest.raises(Detached):
        desk.runner().follow(run, desk.request(), until_launched=True)
    desk.clock.advance(timedelta(days=1).total_seconds())
    next(iter(desk.provider.machines.values())).live()
    desk.provider.machines.clear()
    silence(desk, run, LOST, all_of_it=True)
    with pytest.raises(TeardownUnverifiedError):
        desk.runner().settle(run)
    silence(desk, run, None)
    assert desk.runner().settle(run).outcome is Outcome.SUCCEEDED


def test_the_end_is_told(desk: Desk) -> None:
    run = trained_unwatched(desk)
    silence(desk, run, LOST)
    with pytest.raises(ResultsUnknownError):
        desk.runner().settle(run)
    silence(desk, run, None)
    desk.runner().settle(run)
    texts = [event.text for event in desk.events_of(Message)]
    assert any("has left results in its store: they are brought home" in text for text in texts)
