"""The journal's tables, version by version, and how an older file becomes one of this version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import ThisMachineError

if TYPE_CHECKING:
    import sqlite3
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
)
SCHEMA_VERSION = len(_SCHEMAS)


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the journal at `path` to this version's schema. Raises ThisMachineError for one of a newer version."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise ThisMachineError(
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
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")
