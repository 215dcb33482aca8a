"""Bringing a run to its end: again after a crash, from a slow store, and never called done before nothing is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.builders import a_target
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import MODEL, FakeMachine, Sighting, ends, ends_after, trains_well
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.end import KEPT_LINES, TEARDOWN_PATIENCE
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import EndKind, InstanceRef, InstanceState
from trainplan.providers.errors import CredentialsError, IncompleteListingError, TransientError

EXPIRED = CredentialsError("expired", hint="Sign in again")
AWAY = IncompleteListingError("a region is away", resources=(), unanswered=("eu-west-1",))


def messages(desk: Desk) -> list[str]:
    return [event.text for event in desk.events_of(Message)]


def unverified(desk: Desk) -> Run:
    """A launch whose teardown could not be made sure of."""
    with pytest.raises(TeardownUnverifiedError) as caught:
        desk.launch()
    assert caught.value.exit_code == 7
    (run,) = desk.journal.live()
    return run


# --- not sure ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["list_owned", "delete"])
@pytest.mark.parametrize("error", [EXPIRED, AWAY, TransientError("lost")])
def test_a_teardown_that_is_not_sure_is_kept_and_shown_until_it_is(
    desk: Desk, operation: str, error: Exception
) -> None:
    desk.provider.down[operation] = error
    run = unverified(desk)
    assert (run.phase, run.outcome) == (Phase.TEARING_DOWN, Outcome.SUCCEEDED)
    assert run.unverified is not None
    assert run.unverified.startswith("teardown unverified: ")
    assert run.bills
    assert desk.journal.receipt(run.run_id) is None
    # As long as nobody answers it stays so, at every later look.
    with pytest.raises(TeardownUnverifiedError):
        desk.runner().settle(run)
    desk.provider.down.clear()
    settled = desk.runner().settle(run)
    assert (settled.phase, settled.outcome, settled.unverified) == (Phase.DONE, Outcome.SUCCEEDED, None)
    assert desk.leaked == []
    assert desk.journal.receipt(run.run_id) is not None


def test_what_may_still_be_there_goes_on_costing_in_the_receipt(desk: Desk) -> None:
    desk.provider.slow_deletes = None
    with pytest.raises(TeardownUnverifiedError):
        desk.launch(targets=[a_target("3.6")])
    desk.clock.advance(7200)
    desk.provider.slow_deletes = 0
    (run,) = desk.journal.live()
    desk.runner().settle(run)
    receipt = desk.journal.receipt(run.run_id)
    assert receipt is not None
    assert receipt["actual_seconds"] > 7200


def test_an_interrupted_run_is_not_launched_again_before_the_first_machine_is_gone(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.KILLED, 10), trains_well)
    desk.provider.slow_deletes = None
    run = unverified(desk)
    assert (run.phase, run.outcome) == (Phase.INTERRUPTED, None)
    assert run.unverified is not None
    assert desk.provider.count("launch") == 1
    desk.provider.slow_deletes = 0
    run, _ = desk.runner().follow(run, desk.request())
    assert (run.outcome, run.unverified, desk.provider.count("launch")) == (Outcome.SUCCEEDED, None, 2)
    assert desk.leaked == []


def test_slow_deletes_are_waited_for_within_patience(desk: Desk) -> None:
    desk.provider.slow_deletes = 40
    desk.provider.disks = True
    run, receipt = desk.launch()
    assert (run.outcome, desk.leaked) == (Outcome.SUCCEEDED, [])
    assert timedelta(minutes=5) < timedelta(seconds=receipt.actual_seconds) < TEARDOWN_PATIENCE


def test_a_disk_alone_keeps_a_run_from_being_done(desk: Desk) -> None:

    def comes_back(operation: str) -> None:
        if operation == "list_owned":
            desk.provider.attached["a-disk"] = desk.journal.runs()[0].run_id

    desk.provider.before = comes_back
    run = unverified(desk)
    assert "disk a-disk" in (run.unverified or "")


# --- the model comes home ----------------------------------------------------------------------------------------


def test_a_store_that_is_slow_to_answer_is_asked_again_for_the_model(desk: Desk) -> None:
    run = desk.planned()
    store = desk.provider.store(run.run_id)
    tries: list[str] = []

    def fails_twice(path: str) -> None:
        if path.startswith("output/"):
            tries.append(path)
            if len(tries) < 3:
                raise TransientError("connection lost")

    store.at_get = fails_twice
    run, _ = desk.runner().follow(run, desk.request())
    assert run.outcome is Outcome.SUCCEEDED
    assert {path.name: path.read_bytes() for path in (desk.folder / "model").iterdir()} == MODEL


def test_a_stored_copy_that_cannot_be_deleted_does_not_undo_a_success(desk: Desk) -> None:
    run = desk.planned()
    store = desk.provider.store(run.run_id)

    def closed(event: object) -> None:
        if desk.provider.count("delete"):
            store.down = TransientError("connection lost")

    desk.provider.after = closed
    run, _ = desk.runner().follow(run, desk.request())
    assert run.outcome is Outcome.SUCCEEDED
    assert "the stored copy of the model is still there: connection lost" in messages(desk)


# --- a machine that crashes ----------------------------------------------------------------------------------------

BOOT = ("[    0.000000] Linux version 6.1.0", "[    1.000000] Run /init as init process")
PANIC = (
    "[ 6021.000001] watchdog: BUG: soft lockup - CPU#1 stuck for 41s! [python3:900]",
    "[ 6021.000002] Kernel panic - not syncing: softlockup: hung tasks",
    "[ 6021.000003] CPU: 1 PID: 900 Comm: python3",
)
QUIET = ("[ 6021.000001] nvme nvme0: I/O 5 QID 1 timeout", "a program says something")


def crashes_thrice(machine: FakeMachine) -> Iterator[Sighting]:
    yield Sighting(InstanceState.RUNNING)
    words = {"state": "failed", "reason": "MACHINE_CRASHES", "message": "three times in a row it went down"}
    machine.store.put(f"attempts/{machine.request.attempt}/status.json", json.dumps(words).encode())
    yield Sighting(InstanceState.ENDED, reason="the machine ended itself")


@pytest.mark.parametrize(
    ("console", "told"),
    [
        (
            (*BOOT, *PANIC, *BOOT, "[   60.000000] trainplan: MACHINE_CRASHES: …"),
            "; watchdog: BUG: soft lockup - CPU#1 stuck for 41s! [python3:900]"
            "; Kernel panic - not syncing: softlockup: hung tasks",
        ),
        ((*BOOT, *QUIET, *BOOT), f"; {'; '.join(line[15:] for line in (*BOOT, QUIET[0]))}"),
        (BOOT, f"; {'; '.join(line[15:] for line in BOOT)}"),
        ((), ""),
        (None, ""),
    ],
    ids=["a panic", "no word of a crash", "one boot", "nothing", "nobody may read it"],
)
def test_the_receipt_has_what_the_console_said_before_a_crash(
    desk: Desk, console: tuple[str, ...] | None, told: str
) -> None:
    desk.scripts(crashes_thrice)
    desk.provider.console = console
    run, receipt = desk.launch()
    assert (run.outcome, len(run.attempts)) == (Outcome.FAILED, 1)
    assert receipt.message is not None
    assert receipt.message.endswith(f"three times in a row it went down{told}")


# --- what the instance printed -----------------------------------------------------------------------------------


def test_of_what_an_instance_printed_the_end_is_kept(desk: Desk) -> None:
    provider = desk.provider

    def logs(ref: InstanceRef) -> Iterator[str]:
        for number in range(KEPT_LINES + 5):
            yield f"line {number}\n"

    provider.logs = logs  # type: ignore[method-assign]  # a longer one
    desk.scripts(ends(EndKind.FAILED))
    run, _ = desk.launch()
    kept = provider.store(run.run_id).get("attempts/1/log/output.log").decode().splitlines()
    assert (len(kept), kept[0], kept[-1]) == (KEPT_LINES, "line 5", f"line {KEPT_LINES + 4}")


def test_each_attempt_keeps_what_it_printed(desk: Desk) -> None:
    desk.scripts(ends_after(EndKind.KILLED, 10), trains_well)
    run, _ = desk.launch()
    logs = [path for path in desk.provider.store(run.run_id).list("attempts") if path.endswith(".log")]
    assert logs == ["attempts/1/log/output.log", "attempts/2/log/output.log"]
