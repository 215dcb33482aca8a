"""A journal as commit b318286 left it: schema 3, and each attempt's request labelled with a hash."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from planner.client import hash_of
from planner.journal import Journal
from planner.journal_schema import _SCHEMAS
from planner.run import Attempt

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from planner.computer import Computer
    from planner.run import Run


def as_of_the_hash(home: Path, runs: Iterable[Run], computer: Computer) -> None:
    """A home of that version, on this computer, with these runs."""
    label = hash_of(home, computer.host_name)
    with Journal.open(home / "journal.sqlite") as journal:
        for run in runs:
            journal.add_run(run, "{}", {}, run.created_at)
            for attempt in run.attempts:
                assert isinstance(attempt, Attempt)
                journal.add_attempt(run.with_attempt(attempt), {"client": label}, run.created_at)
            journal.save(run, run.created_at)
    to_schema_3(home / "journal.sqlite")


def to_schema_3(journal: Path) -> None:
    """Take away every column and table that came later; the rows stay."""
    with closing(sqlite3.connect(":memory:")) as old, closing(sqlite3.connect(journal)) as db, db:
        for text in _SCHEMAS[:3]:
            old.executescript(text)
        for table, columns in _tables(db).items():
            kept = _tables(old).get(table)
            if kept is None:
                db.execute(f"DROP TABLE {table}")
                continue
            for column in columns - kept:
                db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        db.execute("PRAGMA user_version = 3")


def _tables(db: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of each table."""
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: {row[1] for row in db.execute(f"PRAGMA table_info({name})")} for name in names}


def relabel(journal: Path, label: str) -> None:
    """Every request as if it had been made with this label."""
    with closing(sqlite3.connect(journal)) as db, db:
        for run, number, text in db.execute("SELECT run_id, number, request_json FROM attempts").fetchall():
            request = json.dumps(json.loads(text) | {"client": label}, sort_keys=True)
            db.execute("UPDATE attempts SET request_json = ? WHERE run_id = ? AND number = ?", (request, run, number))
