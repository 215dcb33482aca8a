"""Files that are no journal or cannot be written, disks without room, and several processes that write at once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from tests.builders import RUN_ID, a_ref, a_run, a_target
from tests.doubles.clock import NOON
from tests.doubles.fresh_process import FRESH
from tests.unit.planner.runs.journal.entries import LATER, a_numbered_run, add, attempted
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.reader import readable_runs
from trainplan.planner.runs.journal.schema import SCHEMA_VERSION
from trainplan.planner.runs.run import Attempt, Outcome, Phase
from trainplan.planner.runs.targets import no_capacity
from trainplan.providers.base import RunId

# --- files that are no journal, or cannot be one -----------------------------------------------------------------


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()


def _damaged(path: Path) -> None:
    path.write_bytes(b"no database at all, but as long as one has to be " * 40)


def _cut_off(path: Path) -> None:
    with Journal.open(path) as journal:
        add(journal, a_run())
    path.write_bytes(path.read_bytes()[:5000])


def _another_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (x)")
    db.close()


def _a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_newer, "was written by a newer version of plan"),
        (_damaged, "cannot be used: file is not a database"),
        (_cut_off, "cannot be used: database disk image is malformed"),
        (_another_database, "cannot be used: table runs already exists"),
        (_a_folder, "cannot be used: unable to open database file"),
    ],
)
def test_a_file_that_is_no_journal_is_this_machines_error(
    path: Path, make: Callable[[Path], None], message: str
) -> None:
    path.parent.mkdir()
    make(path)
    with pytest.raises(ThisMachineError) as caught, Journal.open(path) as journal:
        journal.runs()
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert "PLAN_HOME" in caught.value.hint


def test_a_home_that_is_a_file_is_this_machines_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(ThisMachineError, match="cannot be used"):
        Journal.open(tmp_path / "home" / "journal.sqlite")


def test_a_write_that_fails_changes_nothing(journal: Journal, path: Path) -> None:
    run = add(journal, a_run())
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE events")
    db.close()
    with pytest.raises(ThisMachineError, match="no such table: events"):
        journal.save(replace(run, phase=Phase.TEARING_DOWN, outcome=Outcome.FAILED), LATER)
    assert journal.run(RUN_ID) == run


def test_a_run_is_recorded_once(journal: Journal) -> None:
    add(journal, a_run())
    with pytest.raises(ThisMachineError, match="UNIQUE"):
        add(journal, a_run(job_name="another"))
    assert journal.run(RUN_ID).job_name == "tiny"


def test_a_journal_that_was_never_finished_is_made_anew(path: Path) -> None:
    """The process that created it died before its first transaction."""
    path.parent.mkdir()
    path.touch()
    with Journal.open(path) as journal:
        add(journal, a_run())
        assert len(journal.runs()) == 1


def test_a_damaged_journal_is_named_and_read_by_nobody(path: Path) -> None:
    path.parent.mkdir()
    assert readable_runs(path) == {}
    _damaged(path)
    assert readable_runs(path) is None


def test_a_journal_is_read_where_it_cannot_be_written(journal: Journal, path: Path) -> None:
    run = add(journal, a_run())
    journal._db.execute("PRAGMA max_page_count = 1")
    assert readable_runs(path) == {RUN_ID: run}


# --- no room, no permission --------------------------------------------------------------------------------------


def full(journal: Journal) -> None:
    """The disk takes not a page more."""
    (pages,) = journal._db.execute("PRAGMA page_count").fetchone()
    journal._db.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_refuses_the_run_and_says_so_and_what_is_there_stays(journal: Journal) -> None:
    first = add(journal, a_run())
    full(journal)
    with pytest.raises(ThisMachineError, match="full") as caught:
        journal.add_run(a_numbered_run(1), "x" * 100_000, {}, NOON)
    assert "free disk space" in caught.value.hint
    assert caught.value.exit_code == 9
    assert journal.run(RUN_ID) == first
    journal._db.execute("PRAGMA max_page_count = 100000")
    add(journal, a_numbered_run(2000))


def test_an_attempt_that_finds_no_room_is_not_half_written(journal: Journal) -> None:
    run = add(journal, a_run())
    full(journal)
    with pytest.raises(ThisMachineError, match="full"):
        attempted(journal, job_json="x" * 100_000)
    assert journal.run(RUN_ID) == run


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_journal_without_permission_is_this_machines_error(path: Path) -> None:
    Journal.open(path).close()
    path.chmod(0o400)
    with Journal.open(path) as journal, pytest.raises(ThisMachineError, match="readonly"):
        add(journal, a_run())


def test_a_read_only_journal_refuses_the_run_and_can_be_read(path: Path) -> None:
    with Journal.open(path) as journal:
        run = add(journal, a_run())
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    db.row_factory = sqlite3.Row
    with Journal(db, path) as journal:
        assert journal.run(RUN_ID) == run
        with pytest.raises(ThisMachineError, match="readonly") as caught:
            add(journal, a_numbered_run(1))
        assert "permissions" in caught.value.hint


# --- several at once ---------------------------------------------------------------------------------------------


def _write_some(path: Path, name: str, count: int, ready: Barrier) -> None:
    ready.wait(60)
    with Journal.open(path) as journal:
        journal._db.execute("PRAGMA synchronous = OFF")
        for number in range(count):
            run = a_run(run_id=RunId(f"{name}-{number}"))
            add(journal, run)
            attempt = Attempt(number=1, target=a_target(), asked_at=NOON)
            run = replace(run, phase=Phase.LAUNCHING, attempts=(attempt,))
            journal.add_attempt(run, {"who": name}, NOON)
            journal.refuse(no_capacity(a_target(zone=f"{name}-{number}"), NOON, name), NOON)
            ref = a_ref(1, run.run_id)
            journal.save(replace(run, phase=Phase.BOOTING, attempts=(replace(attempt, ref=ref),)), NOON)


def test_several_processes_write_at_once_and_nothing_is_lost(path: Path) -> None:
    """From the very first opening, which makes the tables."""
    ready = FRESH.Barrier(4)
    writers = [FRESH.Process(target=_write_some, args=(path, name, 10, ready)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * len(writers)
    with Journal.open(path) as journal:
        found, refusals = journal.runs(), journal.refusals(NOON)
    made = {f"{name}-{number}" for name in "abcd" for number in range(10)}
    assert {run.run_id for run in found} == made
    assert all(run.phase is Phase.BOOTING and run.attempts[0].ref is not None for run in found)
    assert {refusal.zone for refusal in refusals} == made


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET run_json = json_set(run_json, '$.phase', 'nowhere')",
        "UPDATE runs SET run_json = json_set(run_json, '$.deadline', '')",
        "UPDATE runs SET run_json = json_set(run_json, '$.attempts', 'none')",
        "UPDATE runs SET run_json = substr(run_json, 1, 100)",
        "UPDATE runs SET run_json = '[]'",
        "UPDATE runs SET targets = '[{'",
        "UPDATE runs SET targets = x'00'",
        "UPDATE runs SET targets = 7",
    ],
)
def test_a_row_that_cannot_be_is_a_damaged_journal_and_no_traceback(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal.open(path) as journal:
        journal.add_run(a_run(), "{}", {}, NOON)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(damage)
    with Journal.open(path) as journal, pytest.raises(ThisMachineError, match="cannot be used"):
        journal.runs()
    runs = readable_runs(path)
    assert runs is not None
    with pytest.raises(ThisMachineError, match="cannot be used"):
        runs[RUN_ID]


def test_a_journal_that_another_program_holds_says_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal.open(path) as journal, closing(sqlite3.connect(path, isolation_level=None)) as other:
        journal._db.execute("PRAGMA busy_timeout = 10")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ThisMachineError, match="is locked") as caught:
            journal.ask_to_stop(RunId("x"), NOON)
    assert caught.value.hint.startswith("another program has held it for a minute: close what has it open")
