"""The record of runs, attempts, refusals and events: on disk before each call that creates or destroys."""

from __future__ import annotations

import json
import sqlite3
from contextlib import ExitStack, contextmanager
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from planner.errors import BadInputError, ThisMachineError
from planner.journal_schema import SCHEMA_VERSION, migrate
from planner.requests import refusal_from_record, refusal_record, targets_from_text, targets_text
from planner.run import Attempt, Outcome, Phase, Run
from pricing.offers import Market
from providers.base import EndKind, InstanceRef, RunId
from workloads.job import OnSlow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from planner.targets import Refusal

# Fifty processes may be writing, each for a few milliseconds.
_BUSY_MILLISECONDS = 60_000


class Journal:
    """The journal file. Every write is one transaction that is on disk when the call returns.

    Raises ThisMachineError where the file cannot be read or written, or is from a newer version.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open the journal, made on first use."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as on_failure:
                db = sqlite3.connect(path, timeout=_BUSY_MILLISECONDS / 1000, isolation_level=None)
                on_failure.callback(db.close)
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA foreign_keys = ON")
                db.execute("PRAGMA synchronous = FULL")
                migrate(db, path)
                on_failure.pop_all()
        except (sqlite3.Error, OSError) as error:
            raise _unusable(path, error) from None
        return cls(db, path)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_run(self, run: Run, job_json: str, estimate: dict[str, Any], now: datetime) -> None:
        """A new run, before anything is created for it."""
        with self._write() as db:
            db.execute(
                "INSERT INTO runs (run_id, job_name, job_digest, job_json, provider, phase, created_at, deadline,"
                " usd_per_hour, model_folder, estimate_json, targets_json, budget_usd, on_slow,"
                " deadline_given, checkpoint_seconds, total_steps)"
                " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    run.run_id, run.job_name, run.job_digest, job_json, run.provider, run.phase,
                    run.created_at.isoformat(), run.deadline.isoformat(), str(run.usd_per_hour), run.model_folder,
                    json.dumps(estimate), targets_text(run.targets), _text(run.budget_usd), run.on_slow,
                    run.deadline_given, run.checkpoint_seconds, run.total_steps,
                ),
            )  # fmt: skip
            _log(db, run.run_id, now, "planned", "")

    def save(self, run: Run, now: datetime, detail: str = "") -> None:
        """The run and its attempts as they are now; the move is kept as an event.

        `stop_asked` is never written here: another command may have set it meanwhile (see ask_to_stop and go_on).
        """
        with self._write() as db:
            db.execute(
                "UPDATE runs SET phase = ?, outcome = ?, message = ?, deadline = ?, model_folder = ?, provider = ?,"
                " budget_usd = ?, on_slow = ?, slow = ?, moving = ?, unverified = ?, targets_json = ?,"
                " deadline_given = ? WHERE run_id = ?",
                (
                    run.phase, run.outcome, run.message, run.deadline.isoformat(), run.model_folder, run.provider,
                    _text(run.budget_usd), run.on_slow, run.slow, run.moving, run.unverified, targets_text(run.targets),
                    run.deadline_given, run.run_id,
                ),
            )  # fmt: skip
            for attempt in run.attempts:
                _save_attempt(db, run.run_id, attempt)
            _log(db, run.run_id, now, run.phase, detail)

    def add_attempt(self, run: Run, request: dict[str, Any], now: datetime) -> None:
        """The run with its new attempt, and the exact request, in one write before it is sent.

        Asking again for the same number changes nothing of the request.
        """
        attempt = run.attempts[-1]
        with self._write() as db:
            db.execute(
                "INSERT OR IGNORE INTO attempts (run_id, number, request_json, asked_at) VALUES (?,?,?,?)",
                (run.run_id, attempt.number, json.dumps(request, sort_keys=True), now.isoformat()),
            )
            db.execute(
                "UPDATE runs SET phase = ?, outcome = NULL, message = NULL, unverified = NULL, deadline = ?,"
                " model_folder = ?, provider = ?, budget_usd = ?, on_slow = ?, slow = ?, moving = ?, targets_json = ?,"
                " deadline_given = ?"
                " WHERE run_id = ?",
                (
                    run.phase, run.deadline.isoformat(), run.model_folder, run.provider, _text(run.budget_usd),
                    run.on_slow, run.slow, run.moving, targets_text(run.targets), run.deadline_given, run.run_id,
                ),
            )  # fmt: skip
            _save_attempt(db, run.run_id, attempt)
            _log(db, run.run_id, now, "asking", f"attempt {attempt.number}")

    def go_on(self, run_id: RunId, now: datetime) -> None:
        """An ended run is wanted again: what was asked of its former life is over."""
        with self._write() as db:
            db.execute("UPDATE runs SET stop_asked = NULL, slow = NULL WHERE run_id = ?", (run_id,))
            _log(db, run_id, now, "goes on", "")

    def refuse(self, refusal: Refusal, now: datetime) -> None:
        """Remember a place that said no; what is over is forgotten."""
        with self._write() as db:
            db.execute("DELETE FROM refusals WHERE until <= ?", (now.isoformat(),))
            db.execute(
                "INSERT INTO refusals (until, refusal_json) VALUES (?,?)",
                (refusal.until.isoformat(), json.dumps(refusal_record(refusal))),
            )

    def refusals(self, now: datetime) -> tuple[Refusal, ...]:
        """The places that said no, to whichever run, and are still passed over."""
        rows = self._rows("SELECT refusal_json FROM refusals WHERE until > ? ORDER BY id", now.isoformat())
        return tuple(refusal_from_record(json.loads(row["refusal_json"])) for row in rows)

    def ask_to_stop(self, run_id: RunId, now: datetime) -> None:
        """Note that the person wants the run to end; whoever follows it acts on it."""
        with self._write() as db:
            db.execute(
                "UPDATE runs SET stop_asked = ? WHERE run_id = ? AND stop_asked IS NULL", (now.isoformat(), run_id)
            )
            _log(db, run_id, now, "stop asked", "")

    def save_receipt(self, run_id: RunId, receipt: dict[str, Any], now: datetime) -> None:
        with self._write() as db:
            db.execute("UPDATE runs SET receipt_json = ? WHERE run_id = ?", (json.dumps(receipt), run_id))
            _log(db, run_id, now, "receipt", "")

    def run(self, name: str) -> Run:
        """The run of that id, or of the one id that starts with `name`. Raises BadInputError for none or several."""
        rows = self._rows("SELECT run_id FROM runs WHERE substr(run_id, 1, ?) = ? ORDER BY run_id", len(name), name)
        if not rows or not name:
            raise BadInputError(f"there is no run {name!r}", "plan history lists them")
        if len(rows) > 1 and rows[0]["run_id"] != name:
            raise BadInputError(f"{name!r} is the beginning of {len(rows)} runs", "give more of the id")
        return self._run(RunId(rows[0]["run_id"]))

    def runs(self) -> Sequence[Run]:
        """Every run, newest first."""
        rows = self._rows("SELECT run_id FROM runs ORDER BY created_at DESC, rowid DESC")
        return [self._run(RunId(row["run_id"])) for row in rows]

    def live(self) -> Sequence[Run]:
        """The runs that are not done, and those that nobody came to write the last receipt of; oldest first."""
        rows = self._rows(
            "SELECT run_id FROM runs WHERE phase <> ? OR receipt_json IS NULL OR"
            " json_extract(receipt_json, '$.attempts') < (SELECT count(*) FROM attempts a WHERE a.run_id = runs.run_id)"
            " ORDER BY created_at, rowid",
            Phase.DONE,
        )
        return [self._run(RunId(row["run_id"])) for row in rows]

    def newest_of(self, job_digest: str, provider: str) -> Run | None:
        """The newest run of a job with this digest at this provider; measuring runs have no model and are none."""
        rows = self._rows(
            "SELECT run_id FROM runs WHERE job_digest = ? AND provider = ? AND model_folder <> ''"
            " ORDER BY created_at DESC, rowid DESC LIMIT 1",
            job_digest,
            provider,
        )
        return self._run(RunId(rows[0]["run_id"])) if rows else None

    def job_json(self, run_id: RunId) -> str:
        return str(self._rows("SELECT job_json FROM runs WHERE run_id = ?", run_id)[0]["job_json"])

    def request(self, run_id: RunId, number: int) -> dict[str, Any]:
        """The request of an attempt as it was recorded before it was sent."""
        rows = self._rows("SELECT request_json FROM attempts WHERE run_id = ? AND number = ?", run_id, number)
        return dict(json.loads(rows[0]["request_json"]))

    def asked_at(self, run_id: RunId) -> datetime:
        """When the newest attempt was asked for: from then on it may bill."""
        rows = self._rows("SELECT asked_at FROM attempts WHERE run_id = ? ORDER BY number DESC LIMIT 1", run_id)
        return datetime.fromisoformat(rows[0]["asked_at"])

    def estimate(self, run_id: RunId) -> dict[str, Any]:
        """What was estimated when the run was launched."""
        return dict(json.loads(self._rows("SELECT estimate_json FROM runs WHERE run_id = ?", run_id)[0][0]))

    def receipt(self, run_id: RunId) -> dict[str, Any] | None:
        text = self._rows("SELECT receipt_json FROM runs WHERE run_id = ?", run_id)[0][0]
        return dict(json.loads(text)) if text else None

    def owes_receipt(self, run: Run) -> bool:
        """Whether a run that is done has no receipt of its last attempt."""
        receipt = self.receipt(run.run_id)
        return receipt is None or receipt["attempts"] < len(run.attempts)

    def _run(self, run_id: RunId) -> Run:
        try:
            return self._read_run(run_id)
        except (IndexError, KeyError, ValueError, ArithmeticError) as error:  # a column or a value that cannot be
            raise _unusable(self._path, error) from None

    def _read_run(self, run_id: RunId) -> Run:
        row = self._rows("SELECT * FROM runs WHERE run_id = ?", run_id)[0]
        attempts = self._rows("SELECT * FROM attempts WHERE run_id = ? ORDER BY number", run_id)
        return Run(
            run_id=run_id,
            job_name=row["job_name"],
            job_digest=row["job_digest"],
            provider=row["provider"],
            phase=Phase(row["phase"]),
            created_at=datetime.fromisoformat(row["created_at"]),
            deadline=datetime.fromisoformat(row["deadline"]),
            model_folder=row["model_folder"],
            targets=targets_from_text(row["targets_json"]),
            budget_usd=Decimal(row["budget_usd"]) if row["budget_usd"] else None,
            on_slow=OnSlow(row["on_slow"]),
            moving=Market(row["moving"]) if row["moving"] else None,
            deadline_given=bool(row["deadline_given"]),
            checkpoint_seconds=row["checkpoint_seconds"],
            total_steps=row["total_steps"],
            attempts=tuple(_attempt(attempt) for attempt in attempts),
            outcome=Outcome(row["outcome"]) if row["outcome"] else None,
            message=row["message"],
            stop_asked=_when(row["stop_asked"]),
            slow=OnSlow(row["slow"]) if row["slow"] else None,
            unverified=row["unverified"],
        )

    def _rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from None

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:  # a full disk has rolled it back already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from None


def readable_runs(path: Path) -> dict[str, Run] | None:
    """Every run by its id, read without writing, so that a full disk or a read-only one does not matter.

    Empty where there is no journal yet; None where there is one that nobody can read.
    """
    if not path.exists():
        return {}
    try:
        with sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_MILLISECONDS / 1000) as db:
            db.row_factory = sqlite3.Row
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version < SCHEMA_VERSION:
            Journal.open(path).close()
        with Journal(db, path) as journal:
            return {run.run_id: run for run in journal.runs()}
    except (sqlite3.Error, ThisMachineError, ValueError):
        return None


def _save_attempt(db: sqlite3.Connection, run_id: RunId, attempt: Attempt) -> None:
    ref = attempt.ref
    db.execute(
        "UPDATE attempts SET instance_provider = ?, instance_region = ?, instance_id = ?, exit_code = ?, reason = ?,"
        " target_json = coalesce(target_json, ?), deadline = ?, sent_at = ?, tries = ?, end_kind = ?, ended_at = ?,"
        " step = ?, lost_steps = ?, cleared = ?, queued = ?, bills_from = ? WHERE run_id = ? AND number = ?",
        (
            ref.provider if ref else None, ref.region if ref else None, ref.id if ref else None,
            attempt.exit_code, attempt.reason, targets_text((attempt.target,)) if attempt.target else None,
            _instant(attempt.deadline), _instant(attempt.sent_at), attempt.tries, attempt.end,
            _instant(attempt.ended_at), attempt.step, attempt.lost_steps, attempt.cleared, attempt.queued,
            _instant(attempt.bills_from), run_id, attempt.number,
        ),
    )  # fmt: skip


def _attempt(row: sqlite3.Row) -> Attempt:
    ref = None
    if row["instance_id"] is not None:
        ref = InstanceRef(provider=row["instance_provider"], region=row["instance_region"], id=row["instance_id"])
    target = targets_from_text(row["target_json"]) if row["target_json"] else (None,)
    return Attempt(
        number=row["number"],
        ref=ref,
        target=target[0],
        asked_at=datetime.fromisoformat(row["asked_at"]),
        sent_at=_when(row["sent_at"]),
        deadline=_when(row["deadline"]),
        tries=row["tries"],
        exit_code=row["exit_code"],
        end=EndKind(row["end_kind"]) if row["end_kind"] else None,
        reason=row["reason"],
        ended_at=_when(row["ended_at"]),
        step=row["step"],
        lost_steps=row["lost_steps"],
        cleared=bool(row["cleared"]),
        queued=bool(row["queued"]),
        bills_from=_when(row["bills_from"]),
    )


def _text(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _log(db: sqlite3.Connection, run_id: RunId, now: datetime, kind: str, detail: str) -> None:
    db.execute(
        "INSERT INTO events (run_id, at, kind, detail) VALUES (?,?,?,?)", (run_id, now.isoformat(), str(kind), detail)
    )


def _unusable(path: Path, error: Exception) -> ThisMachineError:
    return ThisMachineError(
        f"the journal {path} cannot be used: {error}",
        "nothing was launched; free disk space or mend its permissions, or set PLAN_HOME to another folder",
    )
