"""Journals as earlier versions left them: up to version 7 of the schema, with a column for each field of a run."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from planner.home.client import hash_of
from planner.runs.journal.journal import Journal
from planner.runs.journal.records import targets_text
from planner.runs.journal.schema import _SCHEMAS
from planner.runs.run import Attempt, Run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from planner.home.computer import Computer

LAST_WITH_COLUMNS = 7
"""The version of the schema before runs became documents."""


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
    to_schema(home / "journal.sqlite", 3)


def to_schema(path: Path, version: int) -> None:
    """Write the journal anew as that version of the schema has it; fields that came later are lost."""
    with Journal.open(path) as journal:
        runs = journal.runs()[::-1]
        texts = {row["run_id"]: row for row in journal._db.execute("SELECT * FROM runs")}
        requests = {(row[0], row[1]): row["request_json"] for row in journal._db.execute("SELECT * FROM attempts")}
        events = [tuple(row) for row in journal._db.execute("SELECT * FROM events")]
    path.unlink()
    with closing(sqlite3.connect(path)) as db, db:
        make_tables(db, version)
        for run in runs:
            kept = {name: texts[run.run_id][name] for name in ("job_json", "estimate_json", "receipt_json")}
            insert(db, "runs", run_columns(run, **kept))
            for attempt in run.attempts:
                insert(db, "attempts", attempt_columns(run, attempt, requests[run.run_id, attempt.number]))
        db.executemany("INSERT INTO events VALUES (?,?,?,?,?)", events)


def make_tables(db: sqlite3.Connection, version: int) -> None:
    """The empty tables of a version up to LAST_WITH_COLUMNS."""
    db.executescript("".join(_SCHEMAS[:version]))
    db.execute(f"PRAGMA user_version = {version}")


def insert(db: sqlite3.Connection, table: str, columns: dict[str, Any]) -> None:
    """A row with those of the columns that the table has."""
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] in columns]
    values = [columns[name] for name in names]
    db.execute(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values)


def run_columns(
    run: Run, job_json: str = "{}", estimate_json: str = "{}", receipt_json: str | None = None
) -> dict[str, Any]:
    """What a run's row had, as commit c4f35f3 wrote it."""
    return {
        "run_id": run.run_id, "job_name": run.job_name, "job_digest": run.job_digest, "job_json": job_json,
        "provider": run.provider, "phase": run.phase, "outcome": run.outcome, "message": run.message,
        "created_at": run.created_at.isoformat(), "deadline": run.deadline.isoformat(),
        "usd_per_hour": str(run.usd_per_hour), "model_folder": run.model_folder, "stop_asked": _instant(run.stop_asked),
        "estimate_json": estimate_json, "receipt_json": receipt_json, "targets_json": targets_text(run.targets),
        "budget_usd": None if run.budget_usd is None else str(run.budget_usd), "on_slow": run.on_slow,
        "slow": run.slow, "unverified": run.unverified, "moving": run.moving, "deadline_given": run.deadline_given,
        "checkpoint_seconds": run.checkpoint_seconds, "total_steps": run.total_steps, "taken_over": run.taken_over,
        "again_at": _instant(run.again_at), "packed_targets": None,
    }  # fmt: skip


def attempt_columns(run: Run, attempt: Attempt, request_json: str) -> dict[str, Any]:
    """What an attempt's row had, as commit c4f35f3 wrote it."""
    ref, asked_at = attempt.ref, attempt.asked_at or run.created_at
    return {
        "run_id": run.run_id, "number": attempt.number, "request_json": request_json, "asked_at": asked_at.isoformat(),
        "instance_provider": ref.provider if ref else None, "instance_region": ref.region if ref else None,
        "instance_id": ref.id if ref else None, "exit_code": attempt.exit_code, "reason": attempt.reason,
        "target_json": targets_text((attempt.target,)) if attempt.target else None,
        "deadline": _instant(attempt.deadline), "sent_at": _instant(attempt.sent_at), "tries": attempt.tries,
        "end_kind": attempt.end, "ended_at": _instant(attempt.ended_at), "step": attempt.step,
        "lost_steps": attempt.lost_steps, "cleared": attempt.cleared, "queued": attempt.queued,
        "bills_from": _instant(attempt.bills_from), "client": attempt.client,
    }  # fmt: skip


def _instant(value: Any) -> str | None:
    return None if value is None else value.isoformat()


def relabel(journal: Path, label: str) -> None:
    """Every request as if it had been made with this label."""
    with closing(sqlite3.connect(journal)) as db, db:
        for run, number, text in db.execute("SELECT run_id, number, request_json FROM attempts").fetchall():
            request = json.dumps(json.loads(text) | {"client": label}, sort_keys=True)
            db.execute("UPDATE attempts SET request_json = ? WHERE run_id = ? AND number = ?", (request, run, number))
