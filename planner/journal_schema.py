"""The journal's tables, version by version, and how an older file becomes one of this version."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from planner.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# One text per version of the schema; a journal of an earlier one goes through those that came after it.
_SCHEMAS = (
    """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    job_name TEXT NOT NULL,
    job_digest TEXT NOT NULL,
    job_json TEXT NOT NULL,
    provider TEXT NOT NULL,
    phase TEXT NOT NULL,
    outcome TEXT,
    message TEXT,
    created_at TEXT NOT NULL,
    deadline TEXT NOT NULL,
    usd_per_hour TEXT NOT NULL,
    model_folder TEXT NOT NULL,
    stop_asked TEXT,
    estimate_json TEXT NOT NULL,
    receipt_json TEXT
) STRICT;
CREATE INDEX runs_by_digest ON runs (job_digest, created_at);
CREATE TABLE attempts (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    number INTEGER NOT NULL,
    request_json TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    instance_provider TEXT,
    instance_region TEXT,
    instance_id TEXT,
    exit_code INTEGER,
    reason TEXT,
    PRIMARY KEY (run_id, number)
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run_id, id);
""",
    """
ALTER TABLE runs ADD COLUMN targets_json TEXT NOT NULL DEFAULT '[]';
ALTER TABLE runs ADD COLUMN budget_usd TEXT;
ALTER TABLE runs ADD COLUMN on_slow TEXT NOT NULL DEFAULT 'ask';
ALTER TABLE runs ADD COLUMN slow TEXT;
ALTER TABLE runs ADD COLUMN unverified TEXT;
ALTER TABLE runs ADD COLUMN moving TEXT;
ALTER TABLE runs ADD COLUMN deadline_given INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN checkpoint_seconds REAL NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN total_steps INTEGER;
ALTER TABLE attempts ADD COLUMN target_json TEXT;
ALTER TABLE attempts ADD COLUMN deadline TEXT;
ALTER TABLE attempts ADD COLUMN sent_at TEXT;
ALTER TABLE attempts ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN end_kind TEXT;
ALTER TABLE attempts ADD COLUMN ended_at TEXT;
ALTER TABLE attempts ADD COLUMN step INTEGER;
ALTER TABLE attempts ADD COLUMN lost_steps INTEGER;
ALTER TABLE attempts ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;
CREATE TABLE refusals (
    id INTEGER PRIMARY KEY,
    until TEXT NOT NULL,
    refusal_json TEXT NOT NULL
) STRICT;
""",
    """
ALTER TABLE attempts ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN bills_from TEXT;
""",
    # Whose a run is: the label of each attempt's request, and whether a person has taken it over from another client.
    """
ALTER TABLE attempts ADD COLUMN client TEXT;
UPDATE attempts SET client =
    CASE WHEN json_valid(request_json) THEN nullif(json_extract(request_json, '$.client'), '') END;
ALTER TABLE runs ADD COLUMN taken_over INTEGER NOT NULL DEFAULT 0;
""",
    """
ALTER TABLE runs ADD COLUMN again_at TEXT;
""",
    # Where a run that was interrupted may go on, compressed; a run that ended otherwise needs no places any more.
    """
ALTER TABLE runs ADD COLUMN packed_targets BLOB;
CREATE INDEX IF NOT EXISTS runs_by_provider ON runs (provider);
CREATE INDEX IF NOT EXISTS runs_unverified ON runs (run_id) WHERE unverified IS NOT NULL;
""",
)
SCHEMA_VERSION = len(_SCHEMAS) + 1
"""With the last version every done run is packed; the text of the schema is that of the version before."""
_RUNS_AT_ONCE = 200
"""Done runs that are packed in one transaction: a migration that is cut off has lost at most this much work."""


def pack_run(db: sqlite3.Connection, run_id: str) -> None:
    """Drop what a done run does not need any more: its requests, and the places that it might have gone to.

    A run that was interrupted keeps its places, compressed: `plan attach` goes on from there. Inside a transaction.
    """
    targets_json, outcome, packed = db.execute(
        "SELECT targets_json, outcome, packed_targets FROM runs WHERE run_id = ?", (run_id,)
    ).fetchone()
    if outcome == "interrupted" and targets_json != "[]":
        packed = zlib.compress(targets_json.encode(), 9)
    db.execute("UPDATE runs SET targets_json = '[]', packed_targets = ? WHERE run_id = ?", (packed, run_id))
    db.execute("UPDATE attempts SET request_json = '{}' WHERE run_id = ?", (run_id,))


def migrate(db: sqlite3.Connection, path: Path, say: Callable[[str], None]) -> None:
    """Bring the journal at `path` to this version's schema. Raises StateError for one of a newer version.

    `say` is told how far it is where that takes long. What is cut off is gone on with by the next command.
    """
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise StateError(
            f"the journal {path} was written by a newer version of plan", "update trainplan, or set PLAN_HOME elsewhere"
        )
    if version == SCHEMA_VERSION:
        return
    # Another process may be creating it at this moment: look again once the lock is held.
    db.execute("BEGIN IMMEDIATE")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    for text in _SCHEMAS[version:]:
        for statement in text.split(";\n"):
            if statement.strip():
                db.execute(statement)
    has_runs = db.execute("SELECT 1 FROM runs WHERE phase = 'done' LIMIT 1").fetchone() is not None
    db.execute(f"PRAGMA user_version = {max(version, len(_SCHEMAS)) if has_runs else SCHEMA_VERSION}")
    db.execute("COMMIT")
    if has_runs and version < SCHEMA_VERSION:
        _pack_done_runs(db, say)


def _pack_done_runs(db: sqlite3.Connection, say: Callable[[str], None]) -> None:
    """Pack every done run, some at a time, and give the disk space back."""
    last, packed = 0, 0
    while True:
        db.execute("BEGIN IMMEDIATE")
        rows = db.execute(
            "SELECT rowid, run_id FROM runs WHERE rowid > ? AND phase = 'done' ORDER BY rowid LIMIT ?",
            (last, _RUNS_AT_ONCE),
        ).fetchall()
        for _, run_id in rows:
            pack_run(db, run_id)
        if not rows:
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
        if not rows:
            break
        last, packed = rows[-1][0], packed + len(rows)
        if packed % 2000 == 0:
            say(f"the journal is brought to this version's form: {packed:,} runs so far")
    # Without room for it, or beside another command, the file stays as large as it is and is filled up again.
    with suppress(sqlite3.OperationalError):
        db.execute("VACUUM")
