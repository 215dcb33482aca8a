"""Done runs are packed and lose nothing that is needed again; journals of other versions are refused."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders import a_run, a_target
from tests.doubles.clock import NOON
from trainplan.planner.errors import StateError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.reader import readable_runs
from trainplan.planner.runs.journal.schema import LAUNCHED, SCHEMA_VERSION
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import RunId

MANY_TARGETS = tuple(a_target(region=f"region-{number}") for number in range(100))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def finished_run(journal: Journal, number: int = 1, outcome: Outcome = Outcome.SUCCEEDED) -> Run:
    """A run with one attempt that was written as a launch writes it, to its receipt."""
    run = a_run(attempts=1, run_id=RunId(f"261122-{number:08x}"), targets=MANY_TARGETS)
    journal.add_run(replace(run, attempts=()), "{}", {"seconds": 60.0}, NOON)
    journal.add_attempt(run, {"client": "ours", "calls": "x" * 10_000}, NOON)
    run = replace(run, phase=Phase.DONE, outcome=outcome)
    journal.save(run, NOON)
    journal.save_receipt(run.run_id, {"attempts": 1, "outcome": str(outcome)}, NOON)
    return run


def test_a_done_run_keeps_neither_placements_nor_requests(path: Path) -> None:
    with Journal.open(path) as journal:
        run = finished_run(journal)
        assert journal.run(run.run_id) == replace(run, targets=())
        assert journal.request(run.run_id, 1) == {}
        assert (journal.estimate(run.run_id), journal.owes_receipt(run)) == ({"seconds": 60.0}, False)


def test_an_interrupted_run_keeps_its_placements_since_attach_goes_on_there(path: Path) -> None:
    with Journal.open(path) as journal:
        run = finished_run(journal, outcome=Outcome.INTERRUPTED)
        assert journal.run(run.run_id) == run
        again = replace(run, phase=Phase.LAUNCHING, outcome=None)
        journal.save(again, NOON)
        assert journal.run(run.run_id).targets == MANY_TARGETS
        journal.save(replace(run, outcome=Outcome.SUCCEEDED), NOON)
        journal.save_receipt(run.run_id, {"attempts": 1}, NOON)
        assert journal.run(run.run_id).targets == ()


def test_a_receipt_of_a_run_that_goes_on_packs_nothing(path: Path) -> None:
    with Journal.open(path) as journal:
        run = a_run(targets=MANY_TARGETS)
        journal.add_run(run, "{}", {}, NOON)
        journal.save_receipt(run.run_id, {"attempts": 0}, NOON)
        assert journal.run(run.run_id).targets == MANY_TARGETS


def test_a_text_that_is_not_utf8_leaves_one_run_unreadable_and_no_other(path: Path) -> None:
    runs = [a_run(run_id=RunId(f"261123-{number:08x}"), targets=()) for number in range(3)]
    lines: list[str] = []
    with Journal.open(path) as journal:
        for run in runs:
            journal.add_run(run, "{}", {}, NOON)
        journal._db.execute("UPDATE runs SET run_json = CAST(x'6eff' AS TEXT) WHERE run_id = ?", (runs[1].run_id,))
        assert sorted(run.run_id for run in journal.runs(lines.append)) == [runs[0].run_id, runs[2].run_id]
    (line,) = lines
    assert line.startswith(f"run {runs[1].run_id} is left out: ")


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_a_journal_of_a_version_that_was_never_released_is_refused_and_left_as_it_is(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE runs (run_id TEXT PRIMARY KEY)")
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StateError, match="a version before 0") as refusal:
        Journal.open(path)
    assert "end its runs with that version" in refusal.value.hint
    assert readable_runs(path) is None
    assert path.read_bytes() == before


def test_a_journal_of_a_newer_version_is_refused(path: Path) -> None:
    Journal.open(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StateError, match="a newer version of plan"):
        Journal.open(path)


def test_commands_that_make_a_journal_at_once_all_get_it(path: Path) -> None:
    counts: list[int] = []

    def open_and_count() -> None:
        with Journal.open(path) as journal:
            counts.append(len(journal.runs()))

    threads = [threading.Thread(target=open_and_count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counts == [0, 0, 0, 0]


def test_measuring_runs_are_not_in_the_list_of_past_runs(path: Path) -> None:
    with Journal.open(path) as journal:
        run = finished_run(journal)
        journal.add_run(a_run(run_id=RunId("261122-ffffffff"), model_folder=""), "{}", {}, NOON)
        assert [summary.run_id for summary in journal.summaries(pytest.fail)] == [run.run_id]
        assert journal.launched() == 1


def test_the_newest_runs_are_found_without_reading_the_others(path: Path) -> None:
    with Journal.open(path) as journal:
        for number in range(4):
            run = a_run(run_id=RunId(f"261122-0000000{number}"), created_at=NOON + timedelta(hours=number))
            journal.add_run(run, "{}", {}, NOON)
        newest = [summary.run_id[-1] for summary in journal.summaries(pytest.fail, limit=2)]
        assert (newest, journal.launched()) == (["3", "2"], 4)
    with sqlite3.connect(path) as db:
        query = f"SELECT receipt_json FROM runs WHERE {LAUNCHED} ORDER BY created_at DESC, rowid DESC LIMIT 2"
        steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert steps == ["SCAN runs USING INDEX runs_by_age"], "nothing is sorted, and it stops after the second"
