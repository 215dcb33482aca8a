"""One process at a time acts on a run, and a dead one no longer does; whoever comes second looks on, and takes over."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.builders import RUN_ID, a_job, an_offer
from tests.doubles.clock import ctrl_c
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import ends, trains_well, until_asked
from tests.doubles.fresh_process import FRESH
from tests.doubles.waiting import until
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.events import Message, Progressed
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.runner import request_none
from trainplan.planner.runs.targets import Target
from trainplan.providers.base import EndKind, RunId


def _hold(folder: Path, run_id: RunId, line: Connection) -> None:
    """Another process: holds the lock until it is killed, or told to let go."""
    with RunLocks(folder).holding(run_id) as mine:
        line.send(mine)
        line.recv()


def holder(folder: Path, run_id: RunId = RUN_ID) -> tuple[BaseProcess, Connection]:
    here, there = FRESH.Pipe()
    process = FRESH.Process(target=_hold, args=(folder, run_id, there), daemon=True)
    process.start()
    there.close()
    assert here.poll(30)
    assert here.recv() is True
    return process, here


def is_locked(folder: Path, run_id: RunId = RUN_ID) -> bool:
    """Whether this process could not have it."""
    with RunLocks(folder).holding(run_id) as mine:
        return not mine


# --- the lock ----------------------------------------------------------------------------------------------------


def test_a_lock_is_one_processs_at_a_time(tmp_path: Path) -> None:
    process, told = holder(tmp_path / "locks")
    assert is_locked(tmp_path / "locks")
    assert not is_locked(tmp_path / "locks", RunId("another"))
    told.send("let go")
    process.join(30)
    assert not is_locked(tmp_path / "locks")


def test_within_a_process_it_is_one_holders_too(tmp_path: Path) -> None:
    with RunLocks(tmp_path).holding(RUN_ID) as mine:
        assert mine
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_a_process_that_is_killed_holds_nothing_any_more(tmp_path: Path) -> None:
    process, _ = holder(tmp_path)
    assert is_locked(tmp_path)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    assert not is_locked(tmp_path)


def test_an_error_while_it_is_held_lets_go_of_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunLocks(tmp_path).holding(RUN_ID):
        raise RuntimeError
    assert not is_locked(tmp_path)


def test_a_lock_that_is_kept_is_the_next_holdings(tmp_path: Path) -> None:
    locks = RunLocks(tmp_path)
    assert locks.keep(RUN_ID)
    assert is_locked(tmp_path)
    assert not RunLocks(tmp_path).keep(RUN_ID)
    with locks.holding(RUN_ID) as mine:
        assert mine
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_a_run_that_is_written_down_is_settled_by_nobody_until_it_is_followed(desk: Desk) -> None:
    """A `plan status` between the two would have ended it as one that was cut off."""
    runner = desk.runner()
    run = runner.draft(a_job(), [Target(offer=an_offer())], None, desk.folder / "model")
    runner.record(run, a_job(), {})
    assert desk.runner().settle(run).phase is Phase.PLANNED
    followed, _ = runner.follow(run, desk.request(a_job()))
    assert followed.outcome is Outcome.SUCCEEDED


def test_a_folder_that_cannot_be_made_is_this_machines_error(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("in the way")
    with pytest.raises(ThisMachineError, match="cannot lock"), RunLocks(tmp_path / "locks").holding(RUN_ID):
        pass


# --- looking on --------------------------------------------------------------------------------------------------


def elsewhere(desk: Desk, run: Run) -> ExitStack:
    """Another process acts on the run until this is closed."""
    stack = ExitStack()
    assert stack.enter_context(RunLocks(desk.settings.home / "locks").holding(run.run_id))
    return stack


def messages(desk: Desk) -> list[str]:
    return [event.text for event in desk.events_of(Message)]


def test_who_comes_second_shows_what_the_first_one_does_and_its_receipt(desk: Desk) -> None:
    run = desk.planned()
    first = elsewhere(desk, run)
    receipts = []

    def the_other(acts: int) -> None:
        """What the first process has done by the n-th second."""
        with desk.reopened() as journal:
            executor = desk.executor(journal)
            if acts == 2:
                with pytest.raises(Detached):
                    executor.follow(journal.run(run.run_id), desk.request(), until_launched=True)
            if acts == 4:
                executor.follow(journal.run(run.run_id), desk.request())
                receipts.append(desk.runner(journal)._receipts.write(journal.run(run.run_id)))
                first.close()

    desk.clock.at_sleep |= {number: lambda number=number: the_other(number) for number in (2, 4)}  # type: ignore[misc]
    seen, receipt = desk.runner().follow(run, desk.request())
    assert messages(desk)[0] == f"another plan follows run {run.run_id}; looking on"
    assert (seen.outcome, [receipt]) == (Outcome.SUCCEEDED, receipts)
    assert desk.provider.count("launch") == 1
    assert desk.events_of(Progressed)
    assert desk.leaked == []


@pytest.mark.parametrize("when", [1, 3])
def test_who_looks_on_takes_over_when_the_first_one_dies(desk: Desk, when: int) -> None:
    """It has launched, or not yet."""
    run = desk.planned()
    if when == 3:
        with pytest.raises(Detached):
            desk.executor().follow(run, desk.request(), until_launched=True)
    first = elsewhere(desk, run)
    desk.clock.at_sleep[when] = first.close
    run, receipt = desk.runner().follow(desk.journal.run(run.run_id), desk.request())
    assert (run.outcome, receipt.attempts, desk.provider.count("launch")) == (Outcome.SUCCEEDED, 1, 1)
    assert desk.leaked == []


def test_who_looks_on_at_a_run_that_was_finished_without_its_receipt_writes_it(desk: Desk) -> None:
    run = desk.planned()
    first = elsewhere(desk, run)

    def dies_before_the_receipt() -> None:
        with desk.reopened() as journal:
            desk.executor(journal).follow(journal.run(run.run_id), desk.request())
        first.close()

    desk.clock.at_sleep[1] = dies_before_the_receipt
    run, receipt = desk.runner().follow(run, desk.request())
    assert (run.outcome, receipt.outcome) == (Outcome.SUCCEEDED, "succeeded")
    assert desk.journal.receipt(run.run_id) == receipt.to_json()


def test_a_stop_reaches_the_run_that_another_process_follows(desk: Desk) -> None:
    desk.scripts(until_asked)
    run = desk.planned()
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(), until_launched=True)
    first = elsewhere(desk, run)

    def the_first_one_sees_it() -> None:
        with desk.reopened() as journal:
            kept = journal.run(run.run_id)
            assert kept.stop_asked is not None
            desk.executor(journal).follow(kept, request_none)
            first.close()

    slept = len(desk.clock.sleeps)
    desk.clock.at_sleep[slept + 2] = the_first_one_sees_it
    run, receipt = desk.runner().stop(desk.journal.run(run.run_id))
    assert (run.outcome, receipt.outcome, desk.leaked) == (Outcome.STOPPED, "stopped", [])


def test_ctrl_c_while_looking_on_lets_go_and_touches_nothing(desk: Desk) -> None:
    run = desk.planned()
    with elsewhere(desk, run):
        desk.clock.at_sleep[2] = ctrl_c
        with pytest.raises(Detached) as left:
            desk.runner().follow(run, desk.request())
    assert (left.value.run.run_id, left.value.run.stop_asked) == (run.run_id, None)
    assert desk.provider.calls == []


def test_settling_leaves_a_run_to_whoever_follows_it(desk: Desk) -> None:
    desk.scripts(ends(EndKind.FAILED))
    run = desk.planned()
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(), until_launched=True)
    with elsewhere(desk, run):
        assert desk.runner().settle(run).phase is Phase.BOOTING
    assert desk.runner().settle(run).outcome is Outcome.FAILED


# --- processes that are killed -----------------------------------------------------------------------------------


def _launch_and_hang(folder: Path, run_id: RunId, line: Connection) -> None:
    """A launch in a process of its own, which stays where its machine has been made."""
    desk = Desk(folder)

    def look(operation: str) -> None:
        if operation == "launch":
            line.send("made")
            line.recv()  # until it is killed

    desk.provider.after = look
    desk.runner().follow(desk.journal.run(run_id), desk.request())


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_who_looks_on_takes_over_from_a_launch_that_is_killed(desk: Desk) -> None:
    desk.scripts(trains_well)
    run = desk.planned()
    here, there = FRESH.Pipe()
    process = FRESH.Process(target=_launch_and_hang, args=(desk.folder, run.run_id, there), daemon=True)
    process.start()
    assert here.poll(30)
    assert here.recv() == "made"
    assert desk.journal.run(run.run_id).phase is Phase.LAUNCHING
    assert process.pid is not None
    pid = process.pid

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: not process.is_alive(), "it is dead")

    desk.clock.at_sleep[2] = kill
    run, _ = desk.runner().follow(run, desk.request())
    assert f"another plan follows run {run.run_id}; looking on" in messages(desk)
    assert (run.outcome, len(run.attempts), run.attempts[0].tries) == (Outcome.SUCCEEDED, 1, 1)
