"""Following a run to its end: what is asked of the provider, what is on disk before, and that nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.builders import a_job, a_target
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import (
    MODEL,
    SIGHTING_OF_END,
    FakeMachine,
    Sighting,
    disappears,
    done_at_once,
    ends,
    silent,
    stubborn,
    trains_well,
)
from tests.unit.planner.runs.execution.followed import packed, phases, recorded, two_placements
from trainplan.planner.api.following import to_follow
from trainplan.planner.errors import (
    BadInputError,
    ExitCode,
    PlanError,
    RefusedError,
    TeardownUnverifiedError,
    ThisMachineError,
)
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.events import Message, Progressed, TrainerStarted
from trainplan.planner.runs.execution.end import TEARDOWN_PATIENCE
from trainplan.planner.runs.execution.executor import ended_error
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.targets import Target
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)

# --- a plain run -------------------------------------------------------------------------------------------------


def test_a_plain_run_goes_through_its_phases_and_leaves_only_the_model(desk: Desk) -> None:
    run, receipt = desk.launch()
    assert phases(desk) == [
        Phase.LAUNCHING,
        Phase.BOOTING,
        Phase.RUNNING,
        Phase.COLLECTING,
        Phase.TEARING_DOWN,
        Phase.DONE,
    ]
    assert (run.outcome, run.message) == (Outcome.SUCCEEDED, None)
    assert recorded(desk, run) == packed(run)
    assert desk.leaked == []
    assert {path.name: path.read_bytes() for path in (desk.folder / "model").iterdir()} == MODEL
    kept = desk.provider.store(run.run_id).list()
    assert [path for path in kept if path.startswith(("checkpoints", "output"))] == []
    assert (receipt.outcome, receipt.accuracy, receipt.steps) == ("succeeded", 0.975, 780)


def test_the_attempt_and_its_request_are_on_disk_before_the_provider_is_asked(desk: Desk) -> None:
    seen: list[tuple[Phase, object]] = []

    def look(operation: str) -> None:
        if operation == "launch":
            with desk.reopened() as journal:
                (run,) = journal.live()
                seen.append((run.phase, journal.request(run.run_id, 1)["run_id"] == run.run_id))

    desk.provider.before = look
    desk.launch()
    assert seen == [(Phase.LAUNCHING, True)]


def test_the_end_is_on_disk_before_anything_is_deleted(desk: Desk) -> None:
    seen: list[tuple[Phase, Outcome | None]] = []

    def look(operation: str) -> None:
        if operation == "delete":
            with desk.reopened() as journal:
                (run,) = journal.live()
                seen.append((run.phase, run.outcome))

    desk.provider.before = look
    desk.launch()
    assert seen == [(Phase.TEARING_DOWN, Outcome.SUCCEEDED)]


def test_the_request_says_what_the_machine_needs(desk: Desk) -> None:
    job = a_job(constraints={"deadline": "2h"})
    run = replace(desk.planned(job), max_steps=40)
    request = desk.request(job, client="me")(run, 3, a_target(zone="a", vcpus=2, memory_gib=4.0))
    assert (request.run_id, request.attempt, request.max_steps) == (run.run_id, 3, 40)
    assert (request.vcpus, request.memory_gib, request.zone, request.client) == (2, 4.0, "a", "me")
    assert request.deadline == run.deadline == NOON + timedelta(hours=2)
    assert request.job.name == "tiny"


def test_the_person_is_told_what_trains_and_how_far_it_is(desk: Desk) -> None:
    desk.launch(usd_per_hour=Decimal(36))
    (started,) = desk.events_of(TrainerStarted)
    assert (started.device, started.framework) == ("AMD EPYC", "tensorflow 2.20.0")
    assert (started.total_steps, started.resumed_from_step) == (780, 0)
    half, whole = desk.events_of(Progressed)
    assert (half.epoch, half.epochs, half.step, half.total_steps) == (1, 2, 390, 780)
    assert (half.loss, half.accuracy, half.images_per_second) == (0.5, 0.75, 4000.0)
    # 390 steps of 128 images (50,000 of them in 390 steps) at 4,000 images a second.
    assert half.eta.total_seconds() == pytest.approx(12.5, rel=0.01)
    assert (whole.eta, whole.step) == (timedelta(0), 780)
    # Two seconds to start and 12.48 to train, and the polls between, at a cent a second.
    assert Decimal("0.15") <= half.usd_so_far < Decimal("0.20")
    assert whole.usd_so_far > half.usd_so_far


def _two_devices_that_say_little(machine: FakeMachine) -> Iterator[Sighting]:
    fields = {"framework": "jax", "framework_version": "0.8", "epochs": 1, "total_steps": 9, "resumed_from_step": 0}
    machine.say("start", device_name="V100", device_count=2, images=90, steps_per_epoch=9, **fields)
    machine.say("step", epoch=1, step=3, images_per_second=None)
    machine.say("step", epoch=1, step=6, images_per_second=10.0)
    machine.say("checkpoint", step=6)
    machine.say("of the future")
    yield SIGHTING_OF_END[EndKind.FAILED]


def test_what_the_trainer_does_not_say_is_not_made_up(desk: Desk) -> None:
    desk.scripts(_two_devices_that_say_little)
    desk.launch()
    (started,) = desk.events_of(TrainerStarted)
    assert (started.device, started.strategy) == ("2 x V100", "")
    first, second = desk.events_of(Progressed)
    assert (first.eta, first.loss, first.images_per_second) == (None, None, None)
    # Three steps of ten images are left, at ten a second.
    assert second.eta == timedelta(seconds=3)


def test_a_run_without_a_model_folder_brings_nothing_home(desk: Desk) -> None:
    run = replace(desk.planned(), model_folder="")
    desk.journal.save(run, desk.clock.now())
    run, _ = desk.runner().follow(run, desk.request())
    assert (run.outcome, phases(desk)[-3:]) == (Outcome.SUCCEEDED, [Phase.RUNNING, Phase.TEARING_DOWN, Phase.DONE])
    assert not (desk.folder / "model").exists()


def test_a_run_that_is_over_before_anybody_looks_is_collected(desk: Desk) -> None:
    desk.scripts(done_at_once)
    run, _ = desk.launch()
    assert run.outcome is Outcome.SUCCEEDED
    assert (desk.folder / "model" / "model.keras").exists()


# --- how it can end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "outcome", "message"),
    [
        (EndKind.OUT_OF_MEMORY, Outcome.FAILED, "killed: the memory limit was reached"),
        (EndKind.FAILED, Outcome.FAILED, "training failed"),
        (EndKind.BAD_JOB, Outcome.FAILED, "the trainer cannot train this job"),
        (EndKind.DEADLINE, Outcome.DEADLINE, "the deadline has passed"),
        (EndKind.STOPPED, Outcome.STOPPED, "stopped. It saved no checkpoint"),
    ],
)
def test_however_the_instance_ends_the_run_says_so_and_nothing_is_left(
    desk: Desk, kind: EndKind, outcome: Outcome, message: str
) -> None:
    desk.scripts(ends(kind))
    run, receipt = desk.launch()
    assert (run.phase, run.outcome, run.message) == (Phase.DONE, outcome, message)
    assert (receipt.outcome, receipt.steps, receipt.model_folder) == (outcome, 3, None)
    assert (receipt.attempts, receipt.interruptions) == (1, 0)
    assert desk.leaked == []
    assert not (desk.folder / "model").exists()
    assert desk.journal.receipt(run.run_id) == receipt.to_json()


def test_the_exit_code_and_the_reason_are_kept_with_the_attempt(desk: Desk) -> None:
    desk.scripts(ends(EndKind.OUT_OF_MEMORY))
    run, _ = desk.launch()
    (attempt,) = recorded(desk, run).attempts
    assert (attempt.exit_code, attempt.reason) == (86, "killed: the memory limit was reached")


def test_what_the_instance_printed_is_kept_when_it_goes(desk: Desk) -> None:
    run, _ = desk.launch()
    assert desk.provider.store(run.run_id).get("attempts/1/log/output.log") == b"the instance's own words\n"
    desk.scripts(disappears)
    gone, _ = desk.launch()
    assert desk.provider.store(gone.run_id).list("attempts/1/log") == []


def test_an_instance_that_outlives_its_deadline_is_ended_from_here(desk: Desk) -> None:
    desk.scripts(stubborn)
    job = a_job(constraints={"deadline": "1m"})
    run, receipt = desk.launch(job)
    assert (run.outcome, run.message) == (Outcome.DEADLINE, "the deadline has passed")
    assert desk.leaked == []
    late = TIMER_GRACE.total_seconds() + 60
    assert late < receipt.actual_seconds < late + 10


def test_an_instance_that_never_boots_is_ended_at_the_deadline(desk: Desk) -> None:
    desk.scripts(silent)
    run, receipt = desk.launch(a_job(constraints={"deadline": "1m"}))
    assert (run.outcome, receipt.steps, receipt.device) == (Outcome.DEADLINE, 0, None)


REFUSED = "trainplan: STORE_REFUSED: this machine may not read its run directory"


def powers_off_at_once(machine: FakeMachine) -> Iterator[Sighting]:
    yield Sighting(InstanceState.RUNNING)
    yield Sighting(InstanceState.ENDED, reason="the machine ended itself")


def test_a_machine_that_may_not_read_its_run_directory_ends_the_run_as_refused(desk: Desk) -> None:
    """No other placement would let it: the role is the same everywhere."""
    desk.scripts(powers_off_at_once)
    desk.provider.console = ("Booting", f"[   31.0] {REFUSED}", "Power down")
    run, _ = desk.launch(targets=two_placements())
    assert run.outcome is Outcome.REFUSED
    assert isinstance(ended_error(run), RefusedError)
    assert "may not read its run directory; plan doctor" in (run.message or "")
    assert desk.provider.count("launch") == 1
    assert desk.leaked == []


@pytest.mark.parametrize("console", [("Booting", "Power down"), None])
def test_a_machine_whose_console_says_nothing_is_lost_and_another_placement_is_tried(
    desk: Desk, console: tuple[str, ...] | None
) -> None:
    desk.scripts(powers_off_at_once, trains_well)
    desk.provider.console = console
    run, _ = desk.launch(targets=two_placements())
    assert (run.outcome, len(run.attempts)) == (Outcome.SUCCEEDED, 2)


def test_a_console_that_never_answers_keeps_no_run_waiting_until_its_deadline(desk: Desk) -> None:
    desk.scripts(powers_off_at_once, trains_well)
    desk.provider.down["logs"] = TransientError("no answer", hint="try again")
    run, _ = desk.launch(targets=two_placements())
    assert (run.outcome, len(run.attempts)) == (Outcome.SUCCEEDED, 2)
    messages = [event.text for event in desk.events if isinstance(event, Message)]
    assert sum("cannot be read: why the machine ended" in text for text in messages) == 1


# --- what a provider refuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "outcome"),
    [
        (CredentialsError("who?", hint="sign in"), RefusedError, Outcome.REFUSED),
        (PermissionDeniedError("not you"), RefusedError, Outcome.REFUSED),
        (BadRequestError("no such type"), BadInputError, Outcome.FAILED),
        (MachineError("no disk", hint="free some"), ThisMachineError, Outcome.FAILED),
        (UnrecognizedError("what", code="X"), ThisMachineError, Outcome.FAILED),
    ],
)
def test_a_refusal_that_another_placement_would_not_mend_ends_the_run(
    desk: Desk, error: ProviderError, kind: type[PlanError], outcome: Outcome
) -> None:
    desk.provider.refuse["launch", 1] = error
    with pytest.raises(kind) as caught:
        desk.launch(targets=two_placements())
    assert caught.value.message == f"{error.message}{f' ({error.code})' if error.code else ''}"
    assert caught.value.hint == error.hint
    (run,) = desk.journal.runs()
    assert (run.phase, run.outcome, run.message) == (Phase.DONE, outcome, error.message)
    assert desk.provider.count("launch") == 1
    assert desk.provider.count("list_owned") >= 1, "what exists is looked up"
    assert desk.leaked == []
    assert desk.journal.refusals(desk.clock.now()) == ()


@pytest.mark.parametrize("error", [TransientError("no answer"), ThrottledError("slow down")])
def test_a_launch_that_its_provider_does_not_answer_has_not_failed_and_is_tried_again_by_attach(
    desk: Desk, error: ProviderError
) -> None:
    planned, silent = desk.planned(), [error]

    def make_request(run: Run, number: int, target: Target) -> LaunchRequest:
        if silent:
            raise silent.pop()
        return desk.request()(run, number, target)

    with pytest.raises(PlanError):
        desk.runner().follow(planned, make_request)
    (run,) = desk.journal.runs()
    assert (run.phase, run.outcome, run.message) == (Phase.DONE, Outcome.INTERRUPTED, error.message)
    runner = desk.runner()
    again = to_follow(run, runner, desk.journal)
    assert again is not None
    assert runner.follow(again, make_request)[0].outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("error", "outcome", "exit_code", "message"),
    [
        (
            CapacityError("none left"),
            Outcome.NO_CAPACITY,
            5,
            "1 placement was asked in 3 passes with 3 creates, none has room: none left",
        ),
        (QuotaError("too many", quota="vCPUs"), Outcome.REFUSED, 4, "the account's quota is too small: vCPUs"),
    ],
)
def test_a_run_that_no_placement_takes_ends_and_has_a_receipt(
    desk: Desk, error: ProviderError, outcome: Outcome, exit_code: int, message: str
) -> None:
    desk.provider.down["launch"] = error
    run, receipt = desk.launch()
    assert (run.phase, run.outcome, run.message) == (Phase.DONE, outcome, message)
    assert (ended_error(run).exit_code, ended_error(run).message) == (exit_code, f"run {run.run_id}: {message}")
    assert "plan logs" not in ended_error(run).hint, "there was no machine that could say anything"
    assert (receipt.outcome, receipt.message, receipt.steps, receipt.actual_usd) == (outcome, message, 0, 0)
    assert desk.journal.receipt(run.run_id) == receipt.to_json()


def test_a_refused_launch_has_a_receipt(desk: Desk) -> None:
    desk.provider.refuse["launch", 1] = BadRequestError("no such type")
    with pytest.raises(BadInputError):
        desk.launch()
    (run,) = desk.journal.runs()
    receipt = desk.journal.receipt(run.run_id)
    assert receipt is not None
    assert (receipt["outcome"], receipt["message"], receipt["steps"]) == ("failed", "no such type", 0)


# --- teardown ----------------------------------------------------------------------------------------------------


def test_slow_deletes_are_waited_for(desk: Desk) -> None:
    desk.provider.slow_deletes = 5
    run, _ = desk.launch()
    assert run.phase is Phase.DONE
    assert desk.leaked == []
    assert desk.provider.count("list_owned") >= 6


def test_what_cannot_be_deleted_is_named_and_the_run_is_not_done(desk: Desk) -> None:
    desk.provider.slow_deletes = None
    with pytest.raises(TeardownUnverifiedError, match="may still be there") as caught:
        desk.launch()
    assert caught.value.exit_code is ExitCode.TEARDOWN_UNVERIFIED == 7
    (run,) = desk.journal.live()
    assert f"machine {run.run_id}-1" in caught.value.message
    assert (run.phase, run.outcome) == (Phase.TEARING_DOWN, Outcome.SUCCEEDED)
    assert desk.journal.receipt(run.run_id) is None
    assert sum(desk.clock.sleeps) >= TEARDOWN_PATIENCE.total_seconds()
    # The model is at home all the same, and looking again later finishes the run.
    assert (desk.folder / "model" / "model.keras").exists()
    desk.provider.slow_deletes = 0
    assert desk.runner().settle(run).outcome is Outcome.SUCCEEDED
    assert desk.journal.receipt(run.run_id) is not None
    assert desk.leaked == []


def test_teardown_looks_again_and_not_at_what_it_remembers(desk: Desk) -> None:
    """What a lost launch made has no reference in the run; its label is enough."""
    desk.provider.lose["launch", 1] = KeyboardInterrupt()
    run, _ = desk.launch()
    assert run.outcome is Outcome.STOPPED
    assert desk.leaked == []
