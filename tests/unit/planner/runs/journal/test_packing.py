"""Done runs are packed, and runs of earlier versions become documents: nothing that is needed again is lost."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from planner.runs.journal.journal import Journal
from planner.runs.journal.schema import SCHEMA_VERSION, migrate
from planner.runs.run import Outcome, Phase, Run
from providers.base import RunId
from tests.builders import a_run, a_target
from tests.doubles.clock import NOON
from tests.unit.planner.runs.journal.old_journal import (
    LAST_WITH_COLUMNS,
    attempt_columns,
    insert,
    make_tables,
    run_columns,
)
from tests.unit.planner.runs.journal.test_whole import RUN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow

MANY_TARGETS = tuple(a_target(region=f"region-{number}") for number in range(100))
DONE_RUNS = 450


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


def test_a_done_run_keeps_neither_places_nor_requests(path: Path) -> None:
    with Journal.open(path) as journal:
        run = finished_run(journal)
        assert journal.run(run.run_id) == replace(run, targets=())
        assert journal.request(run.run_id, 1) == {}
        assert (journal.estimate(run.run_id), journal.owes_receipt(run)) == ({"seconds": 60.0}, False)


def test_an_interrupted_run_keeps_its_places_since_attach_goes_on_there(path: Path) -> None:
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


@pytest.fixture(scope="module")
def before_packing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Run]]:
    """A journal of version 5, whose done runs keep everything, beside a live one; what its runs are to be after the
    migration."""
    path = tmp_path_factory.mktemp("before") / "journal.sqlite"
    ended = [_ended_run(number, Outcome.SUCCEEDED if number else Outcome.INTERRUPTED) for number in range(DONE_RUNS)]
    live = a_run(Phase.RUNNING, run_id=RunId("261122-ffffffff"), targets=MANY_TARGETS)
    _write_old(path, 5, [*ended, live])
    return path, [ended[0], *(replace(run, targets=()) for run in ended[1:]), live]


def _ended_run(number: int, outcome: Outcome) -> Run:
    return a_run(Phase.DONE, attempts=1, run_id=RunId(f"261122-{number:08x}"), targets=MANY_TARGETS, outcome=outcome)


def _write_old(path: Path, version: int, runs: Sequence[Run]) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        make_tables(db, version)
        for run in runs:
            insert(db, "runs", run_columns(run, estimate_json='{"seconds": 60.0}', receipt_json='{"attempts": 1}'))
            for attempt in run.attempts:
                insert(db, "attempts", attempt_columns(run, attempt, f'{{"calls": "{"x" * 10_000}"}}'))


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

    statements_left = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self.statements_left -= 1
        if self.statements_left < 0:
            raise _CutOffError
        return super().execute(*arguments)


# The first statements, those around the end of each transaction, and those of the last one with what follows it.
@pytest.mark.parametrize("statements", [*range(17), 500, *range(812, 818), 1500, 1617, 1618, *range(1821, 1841)])
def test_a_migration_that_is_cut_off_is_gone_on_with(
    path: Path, before_packing: tuple[Path, list[Run]], statements: int
) -> None:
    old, expected = before_packing
    shutil.copy(old, path)
    with closing(sqlite3.connect(path, isolation_level=None, factory=_CutOff)) as db:
        db.statements_left = statements
        with pytest.raises(_CutOffError):
            migrate(db, path, lambda _: None)
    with Journal.open(path) as journal:
        assert _sorted(journal.runs()) == _sorted(expected)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert db.execute("SELECT max(length(request_json)) FROM attempts").fetchone() == (2,)


def test_a_long_migration_says_how_far_it_is(path: Path) -> None:
    _write_old(path, 6, [a_run(run_id=RunId(f"261123-{number:08x}"), targets=()) for number in range(2001)])
    said: list[str] = []
    with Journal.open(path, said.append) as journal:
        assert journal._db.execute("SELECT count(*) FROM runs").fetchone()[0] == 2001
    assert said == ["the journal is brought to this version's form: 2,000 runs so far"]


COLUMNS_OF = {"targets": "targets_json", "target": "target_json", "ref": "instance_id", "end": "end_kind"}


@pytest.mark.parametrize("version", range(1, LAST_WITH_COLUMNS + 1))
def test_every_field_that_a_version_had_is_in_the_document(path: Path, version: int) -> None:
    """What its tables lack is as a run has it by default; before version 4 the request alone named the client."""
    before = replace(RUN, phase=Phase.RUNNING)
    with closing(sqlite3.connect(path)) as db, db:
        make_tables(db, version)
        insert(db, "runs", run_columns(before))
        for attempt in before.attempts:
            insert(db, "attempts", attempt_columns(before, attempt, '{"client": "of the request"}'))
        columns = {name: {row[1] for row in db.execute(f"PRAGMA table_info({name})")} for name in ("runs", "attempts")}
    expected = _as_in(columns["runs"] | {"attempts"}, before)
    made = tuple(_as_in(columns["attempts"], attempt) for attempt in before.attempts)
    if "client" not in columns["attempts"]:
        made = tuple(replace(attempt, client="of the request") for attempt in made)
    with Journal.open(path) as journal:
        assert journal.run(before.run_id) == replace(expected, attempts=made)


def _as_in(columns: set[str], value: Any) -> Any:
    """The value without the fields that have no column."""
    lost = [known for known in fields(value) if COLUMNS_OF.get(known.name, known.name) not in columns]
    return replace(value, **{known.name: known.default for known in lost})


def test_a_text_that_is_not_utf8_leaves_one_run_unreadable_and_no_other(path: Path) -> None:
    runs = [a_run(run_id=RunId(f"261123-{number:08x}"), targets=()) for number in range(3)]
    _write_old(path, 7, runs)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE runs SET message = CAST(x'6eff' AS TEXT) WHERE run_id = ?", (runs[1].run_id,))
    said: list[str] = []
    with Journal.open(path) as journal:
        assert _sorted(journal.runs(said.append)) == [runs[0], runs[2]]
    (line,) = said
    assert line.startswith(f"run {runs[1].run_id} is left out: ")


@pytest.mark.parametrize("text", ["[{", "[]", "7", "null", "[" * 10_000])
def test_places_that_could_not_be_read_are_as_unreadable_afterwards(path: Path, text: str) -> None:
    runs = [a_run(Phase.RUNNING, attempts=1, run_id=RunId(f"261123-{number:08x}")) for number in range(3)]
    _write_old(path, 7, runs)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE runs SET targets_json = ? WHERE run_id = ?", (text.replace("[]", "[0]"), runs[0].run_id))
        db.execute("UPDATE attempts SET target_json = ? WHERE run_id = ?", (text, runs[1].run_id))
    said: list[str] = []
    with Journal.open(path) as journal:
        assert _sorted(journal.runs(said.append)) == [runs[2]]
    assert len(said) == 2


def test_measuring_runs_are_not_in_the_list_of_past_runs(path: Path) -> None:
    with Journal.open(path) as journal:
        run = finished_run(journal)
        journal.add_run(a_run(run_id=RunId("261122-ffffffff"), model_folder=""), "{}", {}, NOON)
        assert [summary.run_id for summary in journal.summaries(pytest.fail)] == [run.run_id]
