"""The journal's tables, version by version, and how an older file becomes one of this version."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from planner.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _of_document(field: str) -> str:
    """A field of the document in SQL; NULL where the document cannot be read, so that no other run is hidden by it."""
    return f"json_extract({_READABLE.format('run_json')}, '$.{field}')"


_READABLE = "CASE WHEN json_valid({0}) THEN {0} END"
_ATTEMPTS_IN_RECEIPT = f"json_extract({_READABLE.format('receipt_json')}, '$.attempts')"
_ATTEMPTS_IN_DOCUMENT = f"json_array_length({_READABLE.format('run_json')}, '$.attempts')"

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
    # Every done run was packed; the tables stayed as they were. What packs them now is the move to documents.
    "",
    # Rows of `runs` move here some at a time; then this table takes the place and the name of that one.
    f"""
CREATE TABLE run_documents (
    run_id TEXT PRIMARY KEY,
    run_json TEXT NOT NULL,
    targets ANY NOT NULL,
    job_json TEXT NOT NULL,
    estimate_json TEXT NOT NULL,
    receipt_json TEXT,
    job_digest ANY AS ({_of_document("job_digest")}),
    provider ANY AS ({_of_document("provider")}),
    phase ANY AS ({_of_document("phase")}),
    created_at ANY AS (replace({_of_document("created_at")}, 'Z', '+00:00')),
    model_folder ANY AS ({_of_document("model_folder")}),
    unverified ANY AS ({_of_document("unverified")}),
    owes_receipt ANY AS (receipt_json IS NULL OR {_ATTEMPTS_IN_RECEIPT} < {_ATTEMPTS_IN_DOCUMENT})
) STRICT;
""",
)
SCHEMA_VERSION = len(_SCHEMAS) + 1
"""With the last version every run is a document (planner.runs.journal.rows), and every done one is packed."""
LIVE = "phase IS NOT 'done' OR owes_receipt"
"""The runs that are not done, those that nobody came to write the last receipt of, and those that cannot be read."""
_LAST_STEP = f"""
DROP TABLE runs;
ALTER TABLE run_documents RENAME TO runs;
CREATE INDEX runs_by_job ON runs (job_digest, created_at);
CREATE INDEX runs_by_provider ON runs (provider);
CREATE INDEX runs_live ON runs (created_at) WHERE {LIVE};
CREATE INDEX runs_unverified ON runs (run_id) WHERE unverified IS NOT NULL;
CREATE TABLE attempt_requests (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    number INTEGER NOT NULL,
    client TEXT,
    request_json TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO attempt_requests SELECT run_id, number, client, request_json FROM attempts;
DROP TABLE attempts;
ALTER TABLE attempt_requests RENAME TO attempts;
PRAGMA user_version = {SCHEMA_VERSION};
"""
_RUNS_AT_ONCE = 200
"""Runs that are moved in one transaction: a migration that is cut off has lost at most this much work."""
_APART = ("job_json", "estimate_json", "receipt_json", "usd_per_hour", "targets_json", "packed_targets")
"""Columns of a run up to version 7 that are no part of its document."""


def pack_run(db: sqlite3.Connection, run_id: str) -> None:
    """Drop what a done run does not need any more: its requests, and the places that it might have gone to.

    A run that was interrupted keeps its places, compressed: `plan attach` goes on from there. Inside a transaction.
    """
    outcome, targets = db.execute(
        "SELECT json_extract(run_json, '$.outcome'), targets FROM runs WHERE run_id = ?", (run_id,)
    ).fetchone()
    db.execute("UPDATE runs SET targets = ? WHERE run_id = ?", (_packed(outcome, targets), run_id))
    db.execute("UPDATE attempts SET request_json = '{}' WHERE run_id = ?", (run_id,))


def migrate(db: sqlite3.Connection, path: Path, say: Callable[[str], None]) -> None:
    """Bring the journal at `path` to this version's schema. Raises StateError for one of a newer version.

    `say` is told how far it is where that takes long. The next command continues what was interrupted. Foreign
    keys must not be enforced yet: tables take the place of others.
    """
    version = _version(db)
    if version > SCHEMA_VERSION:
        raise StateError(
            f"the journal {path} was written by a newer version of plan", "update trainplan, or set PLAN_HOME elsewhere"
        )
    if version == SCHEMA_VERSION:
        return
    # Another process may be creating it at this moment: look again once the lock is held.
    db.execute("BEGIN IMMEDIATE")
    version = _version(db)
    if version < len(_SCHEMAS):
        _carry_out(db, "".join(_SCHEMAS[version:]))
        db.execute(f"PRAGMA user_version = {len(_SCHEMAS)}")
    has_runs = db.execute("SELECT 1 FROM runs LIMIT 1").fetchone() is not None
    if version < SCHEMA_VERSION and not has_runs:
        _carry_out(db, _LAST_STEP)
    db.execute("COMMIT")
    if version < SCHEMA_VERSION and has_runs:
        _move_runs(db, say)


def _move_runs(db: sqlite3.Connection, say: Callable[[str], None]) -> None:
    """Make a document of every run, some at a time, and give the disk space back."""
    # A text that is not UTF-8 makes one run unreadable, not the journal.
    db.text_factory = lambda text: text.decode(errors="surrogateescape")
    moved = 0
    while (count := _move_some(db)) > 0:
        moved += count
        if moved % 2000 == 0:
            say(f"the journal is brought to this version's form: {moved:,} runs so far")
    db.text_factory = str
    # Without room for it, or beside another command, the file stays as large as it is and is filled up again.
    with suppress(sqlite3.OperationalError):
        db.execute("VACUUM")


def _move_some(db: sqlite3.Connection) -> int:
    """Move some runs in one transaction and return their number; 0 when none is left."""
    db.execute("BEGIN IMMEDIATE")
    rows = []
    if _version(db) == len(_SCHEMAS):
        rows = _dicts(db.execute("SELECT rowid AS row, * FROM runs ORDER BY rowid LIMIT ?", (_RUNS_AT_ONCE,)))
        for run in rows:
            _move(db, run.pop("row"), run)
        if not rows:
            _carry_out(db, _LAST_STEP)
    db.execute("COMMIT")
    return len(rows)


def _move(db: sqlite3.Connection, row: int, run: dict[str, Any]) -> None:
    of_run = "run_id = (SELECT run_id FROM runs WHERE rowid = ?)"
    attempts = _dicts(db.execute(f"SELECT * FROM attempts WHERE {of_run} ORDER BY number", (row,)))
    targets = run["targets_json"] if run["packed_targets"] is None else run["packed_targets"]
    if run["phase"] == "done":
        targets = _packed(run["outcome"], targets)
        db.execute(f"UPDATE attempts SET request_json = '{{}}' WHERE {of_run}", (row,))
    db.execute(
        "INSERT INTO run_documents (run_id, run_json, targets, job_json, estimate_json, receipt_json)"
        " SELECT run_id, ?, ?, job_json, estimate_json, receipt_json FROM runs WHERE rowid = ?",
        (_document(run, attempts), targets, row),
    )
    db.execute("DELETE FROM runs WHERE rowid = ?", (row,))


def _document(run: dict[str, Any], attempts: list[dict[str, Any]]) -> str:
    """A run of the tables of version 7, as version 9 keeps it: fields that are not set are left out."""
    record = {name: value for name, value in run.items() if name not in _APART}
    for name in ("deadline_given", "taken_over"):
        record[name] = bool(record[name])
    record["attempts"] = [_attempt(attempt) for attempt in attempts]
    return json.dumps({name: value for name, value in record.items() if value is not None}, separators=(",", ":"))


def _attempt(row: dict[str, Any]) -> dict[str, Any]:
    apart = ("run_id", "request_json", "target_json", "end_kind", "instance_provider", "instance_region", "instance_id")
    record = {name: value for name, value in row.items() if name not in apart}
    for name in ("cleared", "queued"):
        record[name] = bool(record[name])
    if row["instance_id"] is not None:
        record["ref"] = {name: row[f"instance_{name}"] for name in ("provider", "region", "id")}
    record |= {"end": row["end_kind"], "target": _target(row["target_json"])}
    return {name: value for name, value in record.items() if value is not None}


def _target(text: str | None) -> object:
    """The one place of the list; a text that is no such list stays one, and cannot be read as before."""
    try:
        return json.loads(text)[0] if text else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return text


def _packed(outcome: str | None, targets: str | bytes) -> str | bytes:
    if outcome != "interrupted":
        return "[]"
    return zlib.compress(targets.encode(), 9) if isinstance(targets, str) and targets != "[]" else targets


def _carry_out(db: sqlite3.Connection, text: str) -> None:
    for statement in text.split(";\n"):
        if statement.strip():
            db.execute(statement)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _dicts(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
