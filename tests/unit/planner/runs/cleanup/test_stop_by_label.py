"""`plan stop` and `plan cleanup --all` where the journal is full, read-only, damaged or gone, or its holder hangs."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from tests.doubles.fake_cloud import FakeCloud
from tests.doubles.fake_machine import stubborn, trains_well, until_asked
from tests.doubles.fake_provider import FACTORY, PROVIDERS
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import ExitCode
from trainplan.planner.runs.cleanup.stop_by_label import CHECKPOINT_PATIENCE, stop_by_label
from trainplan.planner.runs.directory.run_directory import stopped_path
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.runner import FOLLOWER_PATIENCE, request_none
from trainplan.providers.base import RunId
from trainplan.providers.errors import IncompleteListingError, TransientError

OTHERS = ("sim", "aws", "azure", "gcp")


@pytest.fixture
def run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that trains and that nobody follows, at the only provider there is, which has a time of its own."""
    desk.provider = FakeCloud(desk.clock, name="local")
    monkeypatch.setitem(*FACTORY)
    for name in OTHERS:
        monkeypatch.delitem(FACTORY[0], name)
    monkeypatch.setattr(f"{FACTORY[2].split(':')[0]}.PROVIDERS", [*PROVIDERS, desk.provider])
    monkeypatch.setenv("PLAN_HOME", str(desk.settings.home))
    plan("status")  # the home has its client's id from its first command on
    desk.scripts(until_asked)
    with pytest.raises(Detached):
        desk.executor().follow(desk.planned(), desk.request(), until_launched=True)
    (launched,) = desk.journal.live()
    return launched


# --- what is wrong with the journal ------------------------------------------------------------------------------


@contextmanager
def full(desk: Desk) -> Iterator[None]:
    """No file may grow, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def read_only(desk: Desk) -> Iterator[None]:
    """SQLite writes no file whose header (byte 18) asks for a newer way of writing; it holds for root too."""
    _set_write_version(desk, 3)
    yield
    _set_write_version(desk, 1)


def _set_write_version(desk: Desk, version: int) -> None:
    with desk.settings.journal.open("r+b") as file:
        file.seek(18)
        file.write(bytes([version]))


@contextmanager
def damaged(desk: Desk) -> Iterator[None]:
    desk.settings.journal.write_bytes(b"not a journal")
    yield


@contextmanager
def without_journal(desk: Desk) -> Iterator[None]:
    desk.settings.journal.unlink()
    yield


@contextmanager
def no_locks(desk: Desk) -> Iterator[None]:
    """Nothing can be locked: a file is in the way of the folder."""
    folder = desk.settings.home / "locks"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    yield


EVERY = [full, read_only, damaged, without_journal, no_locks]


@pytest.mark.parametrize("wrong", EVERY)
def test_stop_ends_the_machine_of_a_run_by_its_label(
    desk: Desk, run: Run, wrong: Callable[[Desk], AbstractContextManager[None]]
) -> None:
    desk.close()
    with wrong(desk):
        said = plan("stop", run.run_id, "--json")
    assert said.code == ExitCode.OK, said.err
    assert desk.leaked == []
    assert said.json == {"run_id": run.run_id, "ended": [f"{run.run_id}-1"], "recorded": False}
    assert "the outcome is not recorded: " in said.err
    assert f"{run.run_id}-1" in said.err
    assert "nothing was launched" not in said.err
    assert desk.provider.store(run.run_id).list("checkpoints"), "it was asked for a checkpoint first"


@pytest.mark.parametrize("wrong", EVERY)
def test_cleanup_works_from_labels_with_such_a_journal(
    desk: Desk, run: Run, wrong: Callable[[Desk], AbstractContextManager[None]]
) -> None:
    """A machine that no run of the journal uses any more."""
    desk.journal.save(replace(run, phase=Phase.DONE, outcome=Outcome.FAILED), desk.clock.now())
    desk.close()
    desk.clock.advance(3600)
    with wrong(desk):
        said = plan("cleanup", "--provider", "local", "--all", "--yes")
    assert (said.code, desk.leaked) == (ExitCode.OK, []), said.err
    assert "nothing was launched" not in said.err


def test_the_beginning_of_an_id_is_enough_and_of_two_is_not(desk: Desk, run: Run) -> None:
    other = desk.planned()
    with pytest.raises(Detached):
        desk.executor().follow(other, desk.request(), until_launched=True)
    desk.close()
    with damaged(desk):
        both = plan("stop", run.run_id[:6])
        assert (both.code, len(desk.leaked)) == (ExitCode.BAD_INPUT, 2)
        assert run.run_id in both.hint
        assert other.run_id in both.hint
        assert plan("stop", run.run_id[:12]).code == ExitCode.OK
    assert desk.leaked == [f"{other.run_id}-1"]


def test_a_run_that_nobody_has_heard_of_is_bad_input_after_a_look(desk: Desk, run: Run) -> None:
    said = plan("stop", "990101-0123abcd")
    assert (said.code, said.error) == (ExitCode.BAD_INPUT, "there is no run '990101-0123abcd'")
    assert desk.provider.count("list_owned") == 1
    assert desk.leaked == [f"{run.run_id}-1"]


def test_a_machine_that_is_not_listed_yet_is_waited_for(desk: Desk, run: Run) -> None:
    """Launched a moment ago from another computer, or from here before the journal broke: it would go on and bill."""
    desk.close()
    desk.provider.lag = timedelta(minutes=2)
    with damaged(desk):
        said = plan("stop", run.run_id)
    assert (said.code, desk.leaked) == (ExitCode.OK, []), said.err
    assert "what was created a moment ago is listed at local within 2m 00s: looking again then" in said.err


def test_what_cannot_be_an_id_asks_no_provider(desk: Desk, run: Run) -> None:
    assert plan("stop", "x").code == ExitCode.BAD_INPUT
    assert desk.provider.count("list_owned") == 0


def test_placements_that_do_not_answer_are_exit_code_7(desk: Desk, run: Run) -> None:
    desk.close()
    desk.provider.down["list_owned"] = IncompleteListingError("half", resources=(), unanswered=("sim-west",))
    with damaged(desk):
        said = plan("stop", run.run_id)
    assert (said.code, "sim-west did not answer" in said.error) == (ExitCode.TEARDOWN_UNVERIFIED, True)


def test_a_machine_that_does_not_go_is_exit_code_7(desk: Desk, run: Run) -> None:
    desk.close()
    desk.provider.slow_deletes = None
    with damaged(desk):
        said = plan("stop", run.run_id)
    assert (said.code, f"{run.run_id}-1" in said.error) == (ExitCode.TEARDOWN_UNVERIFIED, True)
    assert "may still be there" in said.error


def test_a_run_of_a_journal_that_cannot_be_written_with_nothing_left_is_told(desk: Desk, run: Run) -> None:
    desk.provider.machines.clear()
    desk.close()
    with no_locks(desk):
        said = plan("stop", run.run_id, "--json")
    assert said.code == ExitCode.OK
    assert "nothing with the label of run" in said.err
    assert said.json == {"run_id": run.run_id, "ended": [], "recorded": False}


# --- the record afterwards ---------------------------------------------------------------------------------------


def test_the_next_command_that_can_write_records_the_end(desk: Desk, run: Run) -> None:
    with read_only(desk):
        assert plan("stop", run.run_id).code == ExitCode.OK
    (row,) = plan("status", run.run_id, "--json").json
    assert (row["phase"], row["outcome"], row["attempts"]) == ("done", "stopped", 1)
    (kept,) = plan("history", "--json").json
    assert kept["receipt"]["outcome"] == "stopped"
    assert desk.provider.count("launch") == 1


def test_who_follows_the_run_meanwhile_launches_nothing_anew(desk: Desk, run: Run) -> None:
    """Its journal cannot be written either: it learns of the wish from the run directory."""
    desk.scripts(stubborn, trains_well)
    said: list[CommandResult] = []
    slept = len(desk.clock.sleeps)

    def the_other_terminal() -> None:
        with read_only(desk):
            said.append(plan("stop", run.run_id))

    desk.clock.at_sleep[slept + 3] = the_other_terminal
    ended, receipt = desk.runner().follow(run, desk.request())
    assert said[0].code == ExitCode.OK, said[0].err
    assert (ended.outcome, receipt.outcome, len(ended.attempts)) == (Outcome.STOPPED, "stopped", 1)
    assert (desk.provider.count("launch"), desk.leaked) == (1, [])


# --- a machine that does not react -------------------------------------------------------------------------------


def test_a_trainer_that_does_not_react_is_ended_all_the_same_and_told(desk: Desk) -> None:
    desk.scripts(stubborn)
    run = desk.planned()
    with pytest.raises(Detached):
        desk.executor().follow(run, desk.request(), until_launched=True)
    said: list[str] = []
    owned = desk.provider.list_owned(run.run_id)
    assert stop_by_label(desk.provider, run.run_id, owned, desk.clock, said.append) == []
    assert desk.leaked == []
    assert "ended without a new checkpoint" in said[0]
    assert CHECKPOINT_PATIENCE < desk.clock.now() - NOON < 2 * CHECKPOINT_PATIENCE


@pytest.mark.parametrize("operation", ["stop", "get"])
def test_a_provider_that_does_not_answer_about_the_checkpoint_is_no_reason_to_leave_it(
    desk: Desk, run: Run, operation: str
) -> None:
    desk.provider.down[operation] = TransientError("away")
    owned = desk.provider.list_owned(run.run_id)
    assert stop_by_label(desk.provider, run.run_id, owned, desk.clock, lambda _: None) == []
    assert desk.leaked == []


def test_what_a_list_shows_late_is_ended_too(desk: Desk, run: Run) -> None:
    desk.provider.attached["disk-1"] = run.run_id
    owned = [known for known in desk.provider.list_owned(run.run_id) if known.instance]
    assert stop_by_label(desk.provider, run.run_id, owned, desk.clock, lambda _: None) == []
    assert desk.leaked == []


# --- another process that hangs ----------------------------------------------------------------------------------


def elsewhere(desk: Desk, run_id: RunId) -> ExitStack:
    """Another process holds the run until this is closed, and does nothing."""
    stack = ExitStack()
    assert stack.enter_context(RunLocks(desk.settings.home / "locks").holding(run_id))
    return stack


def test_stop_ends_the_machine_of_a_run_whose_holder_hangs(desk: Desk, run: Run) -> None:
    began = desk.clock.now()
    with elsewhere(desk, run.run_id):
        said = plan("stop", run.run_id, "--json")
        assert said.code == ExitCode.OK, said.err
        assert desk.leaked == []
        assert "another process follows the run and does not respond" in said.err
        assert desk.clock.now() - began < FOLLOWER_PATIENCE + CHECKPOINT_PATIENCE + timedelta(minutes=1)
        kept = desk.journal.run(run.run_id)
        assert (kept.stop_asked is not None, desk.journal.receipt(run.run_id)) == (True, None)
    assert desk.provider.store(run.run_id).list(stopped_path(1))
    ended, receipt = desk.runner().follow(desk.journal.run(run.run_id), request_none)
    assert (ended.outcome, receipt.attempts, desk.provider.count("launch")) == (Outcome.STOPPED, 1, 1)
