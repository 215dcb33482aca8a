"""Following a run to its end: what is asked of the provider, what is on disk before, and that nothing is left."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from planner.ending import TEARDOWN_PATIENCE
from planner.errors import (
    BadInputError,
    ExitCode,
    PlanError,
    RefusedError,
    TeardownUnverifiedError,
    ThisMachineError,
    TrainingFailedError,
)
from planner.events import PhaseReached, Progressed, Said, TrainerStarted
from planner.launch import ended_error
from planner.next_action import TIMER_GRACE
from planner.run import Outcome, Phase
from planner.runner import request_none
from planner.watch import LAST_WORDS
from providers.base import EndKind, InstanceState
from providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    UnrecognizedError,
)
from tests.builders import a_job, a_target
from tests.doubles.clock import NOON, ctrl_c
from tests.doubles.fake_machine import (
    ENDED,
    MODEL,
    FakeMachine,
    Seen,
    disappears,
    done_at_once,
    ends,
    silent,
    stubborn,
    trains_well,
    until_asked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.run import Run
    from planner.targets import Target
    from tests.doubles.desk import Desk


HERE = ["local"]


def phases(desk: Desk) -> list[Phase]:
    return [event.phase for event in desk.told(PhaseReached)]


def two_places() -> list[Target]:
    return [a_target(zone="a"), a_target(zone="b")]


def packed(run: Run) -> Run:
    """A run as the journal keeps it once it has its receipt: one that may go on by itself keeps its places."""
    return run if run.outcome is Outcome.INTERRUPTED else replace(run, targets=())


def recorded(desk: Desk, run: Run) -> Run:
    """The run as another process finds it."""
    with desk.reopened() as journal:
        return journal.run(run.run_id)


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
    run = desk.planned(job)
    request = desk.request(job, max_steps=40, client="me")(run, 3, a_target(zone="a", vcpus=2, memory_gib=4.0))
    assert (request.run_id, request.attempt, request.max_steps) == (run.run_id, 3, 40)
    assert (request.vcpus, request.memory_gib, request.zone, request.client) == (2, 4.0, "a", "me")
    assert request.deadline == run.deadline == NOON + timedelta(hours=2)
    assert json.loads(request.job_json)["name"] == "tiny"


def test_the_person_is_told_what_trains_and_how_far_it_is(desk: Desk) -> None:
    desk.launch(usd_per_hour=Decimal(36))
    (started,) = desk.told(TrainerStarted)
    assert (started.device, started.framework) == ("AMD EPYC", "tensorflow 2.20.0")
    assert (started.total_steps, started.resumed_from_step) == (780, 0)
    half, whole = desk.told(Progressed)
    assert (half.epoch, half.epochs, half.step, half.total_steps) == (1, 2, 390, 780)
    assert (half.loss, half.accuracy, half.images_per_second) == (0.5, 0.75, 4000.0)
    # 390 steps of 128 images (50,000 of them in 390 steps) at 4,000 images a second.
    assert half.eta.total_seconds() == pytest.approx(12.5, rel=0.01)
    assert (whole.eta, whole.step) == (timedelta(0), 780)
    # Two seconds to start and 12.48 to train, and the polls between, at a cent a second.
    assert Decimal("0.15") <= half.usd_so_far < Decimal("0.20")
    assert whole.usd_so_far > half.usd_so_far


def _two_devices_that_say_little(machine: FakeMachine) -> Iterator[Seen]:
    fields = {"framework": "jax", "framework_version": "0.8", "epochs": 1, "total_steps": 9, "resumed_from_step": 0}
    machine.say("start", device_name="V100", device_count=2, images=90, steps_per_epoch=9, **fields)
    machine.say("step", epoch=1, step=3, images_per_second=None)
    machine.say("step", epoch=1, step=6, images_per_second=10.0)
    machine.say("checkpoint", step=6)
    machine.say("of the future")
    yield ENDED[EndKind.FAILED]


def test_what_the_trainer_does_not_say_is_not_made_up(desk: Desk) -> None:
    desk.scripts(_two_devices_that_say_little)
    desk.launch()
    (started,) = desk.told(TrainerStarted)
    assert (started.device, started.strategy) == ("2 x V100", "")
    first, second = desk.told(Progressed)
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
        (EndKind.DEADLINE, Outcome.DEADLINE, "the deadline was reached"),
        (EndKind.STOPPED, Outcome.STOPPED, "stopped, with a checkpoint"),
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


def powers_off_at_once(machine: FakeMachine) -> Iterator[Seen]:
    yield Seen(InstanceState.RUNNING)
    yield Seen(InstanceState.ENDED, reason="the machine ended itself")


def test_a_machine_that_may_not_read_its_run_directory_ends_the_run_as_refused(desk: Desk) -> None:
    """No other place would let it: the role is the same everywhere."""
    desk.scripts(powers_off_at_once)
    desk.provider.console = ("Booting", f"[   31.0] {REFUSED}", "Power down")
    run, _ = desk.launch(targets=two_places())
    assert run.outcome is Outcome.REFUSED
    assert isinstance(ended_error(run), RefusedError)
    assert "may not read its run directory; plan doctor" in (run.message or "")
    assert desk.provider.count("launch") == 1
    assert desk.leaked == []


@pytest.mark.parametrize("console", [("Booting", "Power down"), None])
def test_a_machine_whose_console_says_nothing_is_lost_and_another_place_is_tried(
    desk: Desk, console: tuple[str, ...] | None
) -> None:
    desk.scripts(powers_off_at_once, trains_well)
    desk.provider.console = console
    run, _ = desk.launch(targets=two_places())
    assert (run.outcome, len(run.attempts)) == (Outcome.SUCCEEDED, 2)


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
def test_a_refusal_that_another_place_would_not_mend_ends_the_run(
    desk: Desk, error: ProviderError, kind: type[PlanError], outcome: Outcome
) -> None:
    desk.provider.refuse["launch", 1] = error
    with pytest.raises(kind) as caught:
        desk.launch(targets=two_places())
    assert caught.value.message == f"{error.message}{f' ({error.code})' if error.code else ''}"
    assert caught.value.hint == error.hint
    (run,) = desk.journal.runs()
    assert (run.phase, run.outcome, run.message) == (Phase.DONE, outcome, error.message)
    assert desk.provider.count("launch") == 1
    assert desk.provider.count("list_owned") >= 1, "what exists is looked up"
    assert desk.leaked == []
    assert desk.journal.refusals(desk.clock.now()) == ()


@pytest.mark.parametrize(
    ("error", "outcome", "exit_code", "message"),
    [
        (
            CapacityError("none left"),
            Outcome.NO_CAPACITY,
            5,
            "1 place was asked in 3 passes with 3 creates, none has room: none left",
        ),
        (QuotaError("too many", quota="vCPUs"), Outcome.REFUSED, 4, "the account's quota is too small: vCPUs"),
    ],
)
def test_a_run_that_no_place_takes_ends_and_has_a_receipt(
    desk: Desk, error: ProviderError, outcome: Outcome, exit_code: int, message: str
) -> None:
    desk.provider.down["launch"] = error
    run, receipt = desk.launch()
    assert (run.phase, run.outcome, run.message) == (Phase.DONE, outcome, message)
    assert (ended_error(run).exit_code, ended_error(run).message) == (exit_code, f"run {run.run_id}: {message}")
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


# --- Ctrl-C ------------------------------------------------------------------------------------------------------


def test_ctrl_c_once_asks_for_a_checkpoint_and_ends(desk: Desk) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    run, receipt = desk.launch()
    assert (run.outcome, receipt.outcome) == (Outcome.STOPPED, "stopped")
    assert desk.provider.count("stop") >= 1
    assert any(path.endswith("/complete.json") for path in desk.provider.store(run.run_id).list("checkpoints"))
    assert recorded(desk, run).stop_asked is not None
    assert [event.text for event in desk.told(Said)] == [
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
    assert [event.text for event in desk.told(Said)] == [
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


# --- going on ----------------------------------------------------------------------------------------------------


def test_a_stopped_run_goes_on_as_its_second_attempt(desk: Desk) -> None:
    desk.scripts(until_asked, trains_well)
    desk.clock.at_sleep[3] = ctrl_c
    first, _ = desk.launch()
    stopped_at = int(desk.provider.store(first.run_id).list("checkpoints")[0].split("-")[1][:8])
    desk.clock.advance(86_400)
    second, receipt = desk.go_on()
    assert (second.run_id, second.outcome, len(second.attempts)) == (first.run_id, Outcome.SUCCEEDED, 2)
    assert [started.resumed_from_step for started in desk.told(TrainerStarted)] == [0, stopped_at]
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
    assert all(event.usd_so_far < 1 for event in desk.told(Progressed))


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
    assert (receipt.attempts, desk.told(TrainerStarted)[-1].resumed_from_step) == (1, 0)


def test_a_measuring_run_in_between_does_not_hide_the_checkpoint(desk: Desk) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep[3] = ctrl_c
    stopped, _ = desk.launch()
    desk.scripts(trains_well)
    runner = desk.runner()
    measuring = replace(runner.draft(a_job(), [a_target()], None, None), model_folder="")
    runner.record(measuring, a_job(), {})
    runner.measure(measuring, desk.request(max_steps=40))
    assert runner.resumable(a_job(), HERE) == packed(stopped)


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


# --- crashes -----------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone: nothing in it runs any more."""


class Fuse:
    """Blows at the n-th step, whatever that is, once."""

    def __init__(self, at: int) -> None:
        self.left = at

    def burn(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


def _steps_of_a_run(desk: Desk, script: Callable[[FakeMachine], Iterator[Seen]]) -> int:
    fuse = Fuse(10**9)
    _arm(desk, fuse)
    desk.scripts(script)
    desk.launch()
    return 10**9 - fuse.left


def _arm(desk: Desk, fuse: Fuse) -> None:
    desk.provider.before = desk.provider.after = desk.listen = fuse.burn


@pytest.mark.parametrize("script", [trains_well, ends(EndKind.FAILED)], ids=["trains well", "fails"])
def test_after_a_crash_at_any_point_the_next_look_leaves_nothing(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory, script: Callable[[FakeMachine], Iterator[Seen]]
) -> None:
    """Before and after each call of the provider, and after each entry in the journal."""
    from tests.doubles.desk import Desk

    steps = _steps_of_a_run(desk, script)
    assert steps > 20
    outcomes = set()
    for at in range(1, steps + 1):
        broken = Desk(tmp_path_factory.mktemp("crash"))
        broken.scripts(script)
        _arm(broken, Fuse(at))
        with pytest.raises(Crash):
            broken.launch()
        broken.close()
        _arm(broken, Fuse(10**9))
        run = _settled(broken)
        assert (run.phase, broken.leaked) == (Phase.DONE, []), f"crashed at step {at}"
        assert run.outcome is not None
        outcomes.add(run.outcome)
        if run.outcome is Outcome.SUCCEEDED:
            assert (broken.folder / "model" / "model.keras").read_bytes() == MODEL["model.keras"]
    ended = Outcome.SUCCEEDED if script is trains_well else Outcome.FAILED
    assert outcomes == {Outcome.INTERRUPTED, ended}


def _settled(desk: Desk) -> Run:
    """`plan status`, again and again, until the run is done."""
    for _ in range(20):
        with desk.reopened() as journal:
            (run,) = journal.runs()
            run = desk.runner(journal).settle(run)
            if run.phase is Phase.DONE:
                assert journal.run(run.run_id) == packed(run)
                return run
    raise AssertionError(f"never done: {run}")


def test_settling_does_not_wait_for_training(desk: Desk) -> None:
    desk.scripts(stubborn)
    desk.clock.at_sleep[3] = Fuse(1).burn
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    slept = len(desk.clock.sleeps)
    assert desk.runner().settle(run).phase is Phase.RUNNING
    assert desk.journal.receipt(run.run_id) is None
    assert len(desk.clock.sleeps) == slept
    assert desk.leaked == [f"{run.run_id}-1"]


def test_settling_launches_nothing(desk: Desk) -> None:
    run = desk.runner().settle(desk.planned())
    assert (run.phase, run.outcome, run.message) == (
        Phase.DONE,
        Outcome.INTERRUPTED,
        "the launch was cut off before anything was made",
    )
    assert desk.provider.count("launch") == 0


def test_what_was_put_there_ahead_of_a_create_is_no_sign_of_it(desk: Desk) -> None:
    """The process dies on the way to the create, with the machine's part in the run directory already."""
    desk.provider.before = lambda operation: Fuse(1).burn() if operation == "launch" else None
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    assert run.phase is Phase.LAUNCHING
    desk.provider.before = lambda operation: None
    store = desk.provider.store(run.run_id)
    store.put("attempts/1/machine/spec.json", b"{}")
    settled = desk.runner().settle(run)
    assert (settled.outcome, settled.message) == (
        Outcome.INTERRUPTED, "the launch was cut off before anything was made",
    )  # fmt: skip
    assert settled.total_usd(desk.clock.now()) == 0


def test_a_machine_that_ended_itself_yesterday_did_not_bill_until_today(desk: Desk) -> None:
    desk.scripts(stubborn)
    desk.clock.at_sleep[3] = Fuse(1).burn
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    del desk.provider.machines[f"{run.run_id}-1"]
    said = {"state": "stopped", "time": desk.clock.now().isoformat()}
    desk.provider.store(run.run_id).put("attempts/1/status.json", json.dumps(said).encode())
    until = desk.clock.now() + LAST_WORDS
    desk.clock.advance(24 * 3600)
    settled = desk.runner().settle(run)
    assert settled.phase is Phase.DONE
    assert settled.attempts[0].ended_at == until


def test_a_run_that_is_only_followed_launches_nothing(desk: Desk) -> None:
    with pytest.raises(BadInputError, match="was never launched"):
        desk.runner().follow(desk.planned(), request_none)
    assert desk.provider.count("launch") == 0


def test_a_finished_run_stays_as_it_is_when_looked_at_again(desk: Desk) -> None:
    run, receipt = desk.launch()
    desk.clock.advance(3600)
    assert desk.runner().settle(run) == packed(run)
    assert desk.journal.receipt(run.run_id) == receipt.to_json()


def test_a_replay_sends_what_was_recorded(desk: Desk) -> None:
    """The second try after a crash, in the same phase: the same request, the same instance."""
    desk.provider.after = Fuse(1).burn
    with pytest.raises(Crash):
        desk.launch()
    (run,) = desk.journal.live()
    assert run.phase is Phase.LAUNCHING
    desk.provider.dialect = "start in another way"
    run, _ = desk.runner().follow(run, desk.request(a_job(seed=7)))
    assert run.outcome is Outcome.SUCCEEDED
    first, second = desk.provider.received
    assert first == second
    assert [call.operation for call in first.calls] == ["start"]
    assert len(run.attempts) == 1


# --- the model comes home ----------------------------------------------------------------------------------------


def _leaves(write: Callable[[FakeMachine], None]) -> Callable[[FakeMachine], Iterator[Seen]]:
    def script(machine: FakeMachine) -> Iterator[Seen]:
        *looks, last = list(trains_well(machine))
        yield from looks
        write(machine)
        yield last

    return script


def _manifest(*entries: dict[str, object]) -> Callable[[FakeMachine], None]:
    return lambda machine: machine.store.put("output/manifest.json", json.dumps(entries).encode())


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda machine: machine.store.delete("output"), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b"[{"), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b"\xff"), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b'{"path": "x"}'), "left no complete output"),
        (lambda machine: machine.store.put("output/manifest.json", b"[1]"), "left no complete output"),
        (_manifest(), "left no complete output"),
        (_manifest({"path": "model.keras"}), "left no complete output"),
        (_manifest({"path": "model.keras", "sha256": "0" * 64}), "model.keras differs from its manifest"),
        (lambda machine: machine.store.put("output/model.keras", b"half"), "model.keras differs from its manifest"),
        (lambda machine: machine.store.delete("output/model.keras"), "names model.keras, which is not there"),
        (_manifest({"path": "../../evil", "sha256": "0" * 64}), "outside its folder"),
        (_manifest({"path": "/etc/evil", "sha256": "0" * 64}), "outside its folder"),
        (_manifest({"path": "a/../../evil", "sha256": "0" * 64}), "outside its folder"),
    ],
)
def test_output_that_is_not_whole_fails_the_run(desk: Desk, write: Callable[[FakeMachine], None], said: str) -> None:
    desk.scripts(_leaves(write))
    with pytest.raises(TrainingFailedError, match=said):
        desk.launch()
    (run,) = desk.journal.runs()
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.FAILED)
    assert desk.leaked == []
    assert not (desk.folder / "model").exists()
    # The checkpoint is kept: the next launch needs no more than the last step.
    assert desk.runner().resumable(a_job(), HERE) == packed(run)


def test_a_place_that_cannot_be_written_is_this_machines_fault_and_the_output_is_kept(desk: Desk) -> None:
    run = desk.planned()
    (desk.folder / "model").write_text("in the way")
    with pytest.raises(ThisMachineError, match="cannot write the model") as caught:
        desk.runner().follow(run, desk.request())
    assert caught.value.exit_code is ExitCode.THIS_MACHINE
    assert desk.leaked == []
    assert "output/model.keras" in desk.provider.store(run.run_id).list("output")
    (ended,) = desk.journal.runs()
    assert ended.phase is Phase.DONE
    assert desk.runner().resumable(a_job(), HERE) == ended


def test_files_in_folders_come_home_in_folders(desk: Desk) -> None:
    desk.scripts(_leaves(lambda machine: machine.write_output(MODEL | {"logs/a/b.txt": b"deep"})))
    desk.launch()
    assert (desk.folder / "model" / "logs" / "a" / "b.txt").read_bytes() == b"deep"
    assert not list(desk.folder.glob(".*partial*"))


def test_bringing_the_model_home_twice_changes_nothing(desk: Desk) -> None:
    """A crash after the files were moved: the next look collects again."""
    desk.listen = lambda event: Fuse(1).burn() if event == PhaseReached(Phase.TEARING_DOWN) else None
    with pytest.raises(Crash):
        desk.launch()
    desk.listen = lambda _: None
    (run,) = desk.journal.live()
    desk.journal.save(replace(run, phase=Phase.COLLECTING, outcome=None), desk.clock.now())
    (run,) = desk.journal.live()
    assert desk.runner().settle(run).outcome is Outcome.SUCCEEDED
    assert {path.name: path.read_bytes() for path in (desk.folder / "model").iterdir()} == MODEL
