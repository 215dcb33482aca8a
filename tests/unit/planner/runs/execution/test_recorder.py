"""What an executor writes down: a journal that fails in the middle of a run leaves no machine alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.builders import a_run, a_target
from tests.doubles.clock import NOON, ctrl_c
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import ends, ends_after, stubborn, trains_well, until_asked
from trainplan.planner.errors import TeardownUnverifiedError, ThisMachineError
from trainplan.planner.runs.events import Message, PhaseReached
from trainplan.planner.runs.execution.recorder import Recorder
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.targets import no_capacity
from trainplan.providers.base import EndKind
from trainplan.providers.errors import CredentialsError, TransientError


def read_only(desk: Desk) -> None:
    desk.journal._db.execute("PRAGMA query_only = ON")


def full(desk: Desk) -> None:
    """Not a page more, and no room for another event in those that are there."""
    db = desk.journal._db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute(f"PRAGMA max_page_count = {pages}")
    rows = [("x", "", "", "")] * 10_000
    with pytest.raises(sqlite3.Error, match="full"):
        db.executemany("INSERT INTO events (run_id, at, kind, detail) VALUES (?,?,?,?)", rows)
    db.execute("PRAGMA foreign_keys = ON")


def damaged(desk: Desk) -> None:
    """Nothing of it can be read any more."""
    desk.settings.journal.write_bytes(b"\x00" * desk.settings.journal.stat().st_size)


def remove_machine(desk: Desk) -> None:
    desk.journal._db.execute("ALTER TABLE runs RENAME TO elsewhere")


TROUBLES = [read_only, full, damaged, remove_machine]


def a_recorder(desk: Desk) -> Recorder:
    return Recorder(desk.journal, desk.clock, desk.events.append)


def recorded(desk: Desk) -> Run:
    run = a_run()
    desk.journal.add_run(run, "{}", {}, NOON)
    return run


def messages(desk: Desk) -> list[str]:
    return [event.text for event in desk.events_of(Message)]


# --- one page at a time ------------------------------------------------------------------------------------------


def test_a_move_is_on_disk_before_it_is_told(desk: Desk) -> None:
    on_disk: list[Phase] = []

    def listen(event: object) -> None:
        with desk.reopened() as journal:
            on_disk.append(journal.runs()[0].phase)

    run = recorded(desk)
    run = replace(run, outcome=Outcome.STOPPED, message="why")
    moved = Recorder(desk.journal, desk.clock, listen).moved(run, Phase.TEARING_DOWN)
    assert (on_disk, moved.phase) == ([Phase.TEARING_DOWN], Phase.TEARING_DOWN)


def test_what_another_command_asks_is_seen_at_the_next_look(desk: Desk) -> None:
    run = recorded(desk)
    with desk.reopened() as journal:
        journal.ask_to_stop(run.run_id, NOON)
    assert a_recorder(desk).fresh(run).stop_asked == NOON


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_run_goes_on_in_memory_where_the_journal_fails(desk: Desk, trouble: Callable[[Desk], None]) -> None:
    recorder, run = a_recorder(desk), recorded(desk)
    trouble(desk)
    run = recorder.moved(replace(run, outcome=Outcome.STOPPED, message="why"), Phase.TEARING_DOWN)
    assert recorder.fresh(a_run()) == run, "what is newest is in memory"
    stopped = recorder.ask_to_stop(run)
    assert stopped.stop_asked == NOON
    assert recorder.fresh(run) == stopped
    recorder.moved(stopped, Phase.DONE)
    assert recorder.fresh(run).phase is Phase.DONE
    assert [event.phase for event in desk.events_of(PhaseReached)] == [Phase.TEARING_DOWN, Phase.DONE]
    (line,) = [text for text in messages(desk) if "going on without it" in text]
    assert str(desk.settings.journal) in line


def test_a_journal_that_heals_has_what_was_done_meanwhile(desk: Desk) -> None:
    recorder, run = a_recorder(desk), recorded(desk)
    read_only(desk)
    run = recorder.moved(replace(run, outcome=Outcome.STOPPED), Phase.TEARING_DOWN)
    run = recorder.ask_to_stop(run)
    desk.journal._db.execute("PRAGMA query_only = OFF")
    run = recorder.keep(replace(run, message="healed"), "")
    with desk.reopened() as journal:
        kept = journal.run(run.run_id)
    assert (kept.phase, kept.message, kept.stop_asked) == (Phase.TEARING_DOWN, "healed", None)
    assert recorder.fresh(run).stop_asked == NOON, "the wish is not forgotten because it could not be written"


@pytest.mark.parametrize("trouble", TROUBLES)
def test_refused_placements_are_no_reason_to_stop_either(desk: Desk, trouble: Callable[[Desk], None]) -> None:
    recorder = a_recorder(desk)
    refusal = no_capacity(a_target(), NOON, "no room")
    recorder.remember(refusal)
    assert recorder.refusals() == (refusal,)
    trouble(desk)
    recorder.remember(refusal)
    assert set(recorder.refusals()) <= {refusal}


def test_what_is_not_answered_is_told_once_until_there_is_an_answer(desk: Desk) -> None:
    recorder = a_recorder(desk)
    for _ in range(3):
        recorder.report_no_answer(TransientError("connection lost"))
        recorder.report_no_answer(CredentialsError("token expired", hint="Sign in again"))
    assert messages(desk) == [
        "no answer: connection lost; trying again",
        "THE SIGN-IN HAS ENDED: token expired. What runs goes on, and ends itself at its deadline. Sign in again",
    ]
    recorder.note_answer()
    recorder.report_no_answer(TransientError("connection lost"))
    assert len(messages(desk)) == 3


# --- whole runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_journal_that_fails_before_the_launch_refuses_it(desk: Desk, trouble: Callable[[Desk], None]) -> None:
    trouble(desk)
    with pytest.raises(ThisMachineError, match="cannot be used"):
        desk.planned()
    assert desk.provider.calls == []


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_journal_that_fails_before_the_first_attempt_refuses_it(desk: Desk, trouble: Callable[[Desk], None]) -> None:
    run = desk.planned()
    trouble(desk)
    with pytest.raises(ThisMachineError, match="cannot be used"):
        desk.runner().follow(run, desk.request())
    assert desk.provider.count("launch") == 0


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("script", [trains_well, ends(EndKind.FAILED), until_asked, stubborn])
def test_a_journal_that_fails_while_it_trains_does_not_leave_the_machine_alone(
    desk: Desk, trouble: Callable[[Desk], None], script: Callable[..., object]
) -> None:
    """Followed to its end all the same, by training or by Ctrl-C."""
    desk.scripts(script)  # type: ignore[arg-type]  # any of them
    desk.clock.at_sleep |= {1: lambda: trouble(desk), 5: ctrl_c, 12: ctrl_c}
    if trouble in (read_only, full):
        desk.launch()
        assert any("this receipt is not recorded" in text for text in messages(desk))
    else:  # without the estimate that it recorded there is nothing to hold a receipt against
        with pytest.raises(ThisMachineError):
            desk.launch()
    assert desk.leaked == []
    assert (desk.folder / "model" / "model.keras").exists() == (script is trains_well)
    assert any("going on without it" in text for text in messages(desk))


def test_what_may_still_bill_is_told_though_the_journal_is_gone(desk: Desk) -> None:
    desk.scripts(trains_well)
    desk.provider.slow_deletes = None
    desk.clock.at_sleep[1] = lambda: damaged(desk)
    with pytest.raises(TeardownUnverifiedError, match="may still be there"):
        desk.launch()


def test_a_receipt_is_shown_though_what_was_measured_cannot_be_kept(desk: Desk) -> None:
    desk.scripts(trains_well)
    desk.settings.measurements.mkdir(parents=True)
    run, receipt = desk.launch()
    assert receipt.outcome is Outcome.SUCCEEDED
    assert desk.journal.receipt(run.run_id) is not None
    (line,) = [text for text in messages(desk) if "measured" in text]
    assert line.startswith(f"what this run has measured is not kept: cannot write {desk.settings.measurements}: ")


@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_interrupted_run_without_a_journal_launches_nothing_that_is_not_recorded(
    desk: Desk, trouble: Callable[[Desk], None]
) -> None:
    desk.scripts(ends_after(EndKind.KILLED, 10), trains_well)
    desk.clock.at_sleep[1] = lambda: trouble(desk)
    with pytest.raises(ThisMachineError):
        desk.launch()
    assert desk.provider.count("launch") == 1
    assert desk.leaked == []


def test_ctrl_c_ends_a_run_whose_wish_cannot_be_written(desk: Desk) -> None:
    desk.scripts(until_asked)
    desk.clock.at_sleep |= {1: lambda: read_only(desk), 3: ctrl_c}
    desk.launch()
    assert desk.provider.count("stop") == 1
    assert desk.leaked == []
    assert desk.clock.now() - NOON < timedelta(minutes=1)
