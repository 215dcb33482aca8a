"""Done runs are packed: what the journal keeps of them is small, and nothing that is needed again is lost."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from planner.journal import Journal
from planner.journal_schema import SCHEMA_VERSION, migrate
from planner.requests import targets_text
from planner.run import Outcome, Phase, Run
from providers.base import RunId
from tests.builders import a_run, a_target
from tests.doubles.clock import NOON

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MANY_TARGETS = tuple(a_target(region=f"region-{number}") for number in range(100))
DONE_RUNS = 450


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def done(journal: Journal, number: int = 1, outcome: Outcome = Outcome.SUCCEEDED) -> Run:
    """A run with one attempt that was written as a launch writes it, to its receipt."""
    run = a_run(attempts=1, run_id=RunId(f"261122-{number:08x}"), targets=MANY_TARGETS)
    journal.add_run(replace(run, attempts=()), "{}", {"seconds": 60.0}, NOON)
    journal.add_attempt(run, {"client": "ours", "calls": "x" * 10_000}, NOON)
    run = replace(run, phase=Phase.DONE, outcome=outcome)
    journal.save(run, NOON)
    journal.save_receipt(run.run_id, {"attempts": 1, "outcome": str(outcome)}, NOON)
    return run


def test_a_done_run_keeps_neither_places_nor_requests(path: Path) -> None:
    with Journal.open(path) as journal:
        run = done(journal)
        assert journal.run(run.run_id) == replace(run, targets=())
        assert journal.request(run.run_id, 1) == {}
        assert (journal.estimate(run.run_id), journal.owes_receipt(run)) == ({"seconds": 60.0}, False)


def test_an_interrupted_run_keeps_its_places_since_attach_goes_on_there(path: Path) -> None:
    with Journal.open(path) as journal:
        run = done(journal, outcome=Outcome.INTERRUPTED)
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


def _copied(db: sqlite3.Connection, of: RunId, run_ids: Sequence[str]) -> None:
    """Runs with the rows of another one, under ids of their own."""
    for table in ("runs", "attempts"):
        columns = ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "run_id")
        db.executemany(
            f"INSERT INTO {table} (run_id, {columns}) SELECT ?, {columns} FROM {table} WHERE run_id = '{of}'",
            ((run_id,) for run_id in run_ids),
        )


@pytest.fixture(scope="module")
def before_packing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Run]]:
    """A journal whose done runs keep everything, beside a live one; what its runs are to be after the migration."""
    path = tmp_path_factory.mktemp("before") / "journal.sqlite"
    with Journal.open(path) as journal:
        interrupted, succeeded = done(journal, 0, Outcome.INTERRUPTED), done(journal, 1)
        live = a_run(Phase.RUNNING, run_id=RunId("261122-ffffffff"), targets=MANY_TARGETS)
        journal.add_run(live, "{}", {}, NOON + timedelta(minutes=1))
    copies = [RunId(f"261122-{number:08x}") for number in range(2, DONE_RUNS)]
    with closing(sqlite3.connect(path)) as db:
        _copied(db, succeeded.run_id, copies)
        db.execute("UPDATE runs SET targets_json = ?", (targets_text(MANY_TARGETS),))
        db.execute("UPDATE attempts SET request_json = ?", (f'{{"calls": "{"x" * 10_000}"}}',))
        db.execute("ALTER TABLE runs DROP COLUMN packed_targets")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 2}")
        db.commit()
    ended = [replace(succeeded, run_id=run_id, targets=()) for run_id in (succeeded.run_id, *copies)]
    return path, [interrupted, *ended, live]


def _sorted(runs: Any) -> list[Run]:
    return sorted(runs, key=lambda run: run.run_id)


def test_a_journal_of_before_is_packed_and_loses_no_run(path: Path, before_packing: tuple[Path, list[Run]]) -> None:
    old, expected = before_packing
    before = shutil.copy(old, path).stat().st_size
    with Journal.open(path) as journal:
        assert _sorted(journal.runs()) == _sorted(expected)
    assert path.stat().st_size < before / 10


class _CutOffError(Exception):
    """What stands for the death of a migrating process."""


class _CutOff(sqlite3.Connection):
    """A connection that dies before its statement number `left`."""

    left = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self.left -= 1
        if self.left < 0:
            raise _CutOffError
        return super().execute(*arguments)


@pytest.mark.parametrize("statements", [0, 1, 3, 7, 150, 612, 1364, 1366, 1368])
def test_a_migration_that_is_cut_off_is_gone_on_with(
    path: Path, before_packing: tuple[Path, list[Run]], statements: int
) -> None:
    old, expected = before_packing
    shutil.copy(old, path)
    with closing(sqlite3.connect(path, isolation_level=None, factory=_CutOff)) as db:
        db.left = statements
        with suppress(_CutOffError):
            migrate(db, path, lambda _: None)
    with Journal.open(path) as journal:
        assert _sorted(journal.runs()) == _sorted(expected)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert db.execute("SELECT max(length(request_json)) FROM attempts").fetchone() == (2,)


def test_a_long_migration_says_how_far_it_is(path: Path) -> None:
    with Journal.open(path) as journal:
        done(journal)
    with closing(sqlite3.connect(path)) as db:
        _copied(db, RunId("261122-00000001"), [f"261123-{number:08x}" for number in range(2000)])
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
        db.commit()
    said: list[str] = []
    with Journal.open(path, said.append) as journal:
        assert len(journal.runs()) == 2001
    assert said == ["the journal is brought to this version's form: 2,000 runs so far"]


def test_measuring_runs_are_not_in_the_list_of_past_runs(path: Path) -> None:
    with Journal.open(path) as journal:
        run = done(journal)
        journal.add_run(a_run(run_id=RunId("261122-ffffffff"), model_folder=""), "{}", {}, NOON)
        assert [summary.run_id for summary in journal.summaries(pytest.fail)] == [run.run_id]
