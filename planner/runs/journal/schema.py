"""The journal's tables, and what a journal of another version is told."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.errors import StateError
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    import sqlite3

SCHEMA_VERSION = 10
"""That of 0.1.0, the first version that was released: lower ones were never given to anybody (ADR 36)."""
LIVE = "phase IS NOT 'done' OR owes_receipt"
"""The runs that are not done, those that nobody came to write the last receipt of, and those that cannot be read."""

LAUNCHED = "model_folder IS NOT ''"
"""The runs that are no measuring ones, and those that cannot be read."""


def _of_document(field: str) -> str:
    """A field of the document in SQL; NULL where the document cannot be read, so that no other run is hidden by it."""
    return f"json_extract({_READABLE.format('run_json')}, '$.{field}')"


_READABLE = "CASE WHEN json_valid({0}) THEN {0} END"
_ATTEMPTS_IN_RECEIPT = f"json_extract({_READABLE.format('receipt_json')}, '$.attempts')"
_ATTEMPTS_IN_DOCUMENT = f"json_array_length({_READABLE.format('run_json')}, '$.attempts')"
_TABLES = (
    f"""CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    run_json TEXT NOT NULL,
    targets ANY NOT NULL,
    job_json TEXT NOT NULL,
    estimate_json TEXT NOT NULL,
    receipt_json TEXT,
    job_digest ANY AS ({_of_document("job_digest")}),
    provider ANY AS ({_of_document("provider")}),
    phase ANY AS ({_of_document("phase")}),
    created_at ANY AS (replace(coalesce({_of_document("launched_at")}, {_of_document("created_at")}), 'Z', '+00:00')),
    model_folder ANY AS ({_of_document("model_folder")}),
    unverified ANY AS ({_of_document("unverified")}),
    owes_receipt ANY AS (receipt_json IS NULL OR {_ATTEMPTS_IN_RECEIPT} < {_ATTEMPTS_IN_DOCUMENT})
) STRICT""",
    "CREATE INDEX runs_by_job ON runs (job_digest, created_at)",
    "CREATE INDEX runs_by_provider ON runs (provider)",
    f"CREATE INDEX runs_live ON runs (created_at) WHERE {LIVE}",
    # What `plan history` shows: the newest are found without reading the others' documents.
    f"CREATE INDEX runs_by_age ON runs (created_at) WHERE {LAUNCHED}",
    "CREATE INDEX runs_unverified ON runs (run_id) WHERE unverified IS NOT NULL",
    # `client` is the label of the request: whose the attempt is.
    """CREATE TABLE attempts (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    number INTEGER NOT NULL,
    client TEXT,
    request_json TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT""",
    "CREATE INDEX events_by_run ON events (run_id, id)",
    """CREATE TABLE refusals (
    id INTEGER PRIMARY KEY,
    until TEXT NOT NULL,
    refusal_json TEXT NOT NULL
) STRICT""",
)


def make_tables(db: sqlite3.Connection, path: Path, lost: Sequence[str] = ()) -> None:
    """Make the tables of a new journal at `path`. Raises StateError for a journal of another version, and for a new
    one where `lost` names runs of this home: they may be live."""
    if check_version(db, path):
        return
    # Another process may be creating it at this moment: look again once the lock is held.
    db.execute("BEGIN IMMEDIATE")
    if not check_version(db, path):
        if lost:
            raise StateError(
                f"the journal {path} is missing or empty, and this home has launched {len(lost)} runs, the newest "
                f"{lost[-1]}",
                f"put a copy of it back; without one, {Command('cleanup', Option.DRY_RUN)} lists what still bills, "
                "and plan stop RUN "
                f"ends it: do so before you remove {path.parent / 'locks'} to begin anew",
            )
        for statement in _TABLES:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")


def check_version(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the journal at `path` has this version's tables; False for a new file. Raises StateError for others."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise StateError(
            f"the journal {path} was written by a newer version of plan", "update trainplan, or set PLAN_HOME elsewhere"
        )
    if 0 < version < SCHEMA_VERSION:
        raise StateError(
            f"the journal {path} was written by a version before 0.1.0, which this one does not read",
            "end its runs with that version (plan stop, plan cleanup), then move its home away or set PLAN_HOME",
        )
    return version == SCHEMA_VERSION


def pack_run(db: sqlite3.Connection, run_id: str) -> None:
    """Drop what a done run does not need any more: its requests, and the placements that it might have gone to.

    A run that was interrupted keeps its placements, compressed: `plan attach` goes on from there. Inside a transaction.
    """
    outcome, targets = db.execute(
        "SELECT json_extract(run_json, '$.outcome'), targets FROM runs WHERE run_id = ?", (run_id,)
    ).fetchone()
    db.execute("UPDATE runs SET targets = ? WHERE run_id = ?", (_packed(outcome, targets), run_id))
    db.execute("UPDATE attempts SET request_json = '{}' WHERE run_id = ?", (run_id,))


def _packed(outcome: str | None, targets: str | bytes) -> str | bytes:
    if outcome != "interrupted":
        return "[]"
    return zlib.compress(targets.encode(), 9) if isinstance(targets, str) and targets != "[]" else targets
