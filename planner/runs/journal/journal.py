"""The record of runs, attempts, refusals and events: on disk before each call that creates or destroys."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trainplan.planner.errors import BadInputError, StateError, ThisMachineError, UnknownRunError
from trainplan.planner.runs.journal.records import refusal_from_record, refusal_record, targets_text
from trainplan.planner.runs.journal.rows import (
    NO_ROW,
    LoggedEvent,
    RunSummary,
    Spent,
    aware,
    logged_event,
    merged_record,
    run_of,
    run_record,
    save_run,
    text_of,
)
from trainplan.planner.runs.journal.schema import LAUNCHED, LIVE, make_tables, pack_run
from trainplan.planner.runs.receipt.receipt import receipt_record
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.providers.base import RunId
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.planner.runs.targets import Refusal

# Fifty processes may be writing, each for a few milliseconds.
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises for a damaged file; the second where its own message quotes damaged text."""
BUSY_MILLISECONDS = 60_000
REFUSALS_KEPT = timedelta(days=7)
"""After a refusal is over: by then it weighs nothing in an estimate (trainplan.pricing.obtainability.HALF_LIFE)."""

_RUN_ID = re.compile(r"[0-9]{6}-[0-9a-f]{8}")
AT_MOST, _ASKED_AGAIN = "at most", "receipt asked again"
_NOTHING_SHOWN = "[null,null,null,null,null,null,null]"


class Journal:
    """The journal file. Every write is one transaction that is on disk when the call returns.

    Raises ThisMachineError where the file cannot be read or written, or is from a newer version.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path

    @classmethod
    def open(cls, path: Path, busy_seconds: float = BUSY_MILLISECONDS / 1000) -> Journal:
        """Open the journal, made on first use. Raises StateError for one that another version wrote.

        Where another process writes, it is waited for `busy_seconds` (StateError then).
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lost = _lost_runs(path)
            with ExitStack() as on_failure:
                # No isolation level: Python would begin transactions of its own beside those of `_write`.
                db = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)
                on_failure.callback(db.close)
                db.row_factory = sqlite3.Row
                # A create is sent right after a commit: the record has to survive a power cut too.
                db.execute("PRAGMA synchronous = FULL")
                make_tables(db, path, lost)
                db.execute("PRAGMA foreign_keys = ON")
                on_failure.pop_all()
        except (*UNREADABLE, OSError) as error:
            raise _unusable(path, error) from None
        return cls(db, path)

    def close(self) -> None:
        """Close the database. A closed journal cannot be used again."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_run(self, run: Run, job_json: str, estimate: dict[str, Any], now: datetime) -> None:
        """A new run, before anything is created for it."""
        with _before_anything_is_made(), self._write() as db:
            db.execute(
                "INSERT INTO runs (run_id, run_json, targets, job_json, estimate_json) VALUES (?,?,?,?,?)",
                (run.run_id, text_of(merged_record(run_record(run), {})), targets_text(run.targets), job_json,
                 json.dumps(estimate)),
            )  # fmt: skip
            _log(db, run.run_id, now, "planned", "")

    def save(self, run: Run, now: datetime, detail: str = "") -> None:
        """The run and its attempts as they are now; the move is kept as an event.

        What other commands may have set meanwhile is never written here (see ask_to_stop, go_on and take_over).
        """
        with self._write() as db:
            save_run(db, run)
            _log(db, run.run_id, now, run.phase, detail)

    def add_attempt(self, run: Run, request: dict[str, Any], now: datetime) -> None:
        """The run with its new attempt, and the exact request, in one write before it is sent.

        Asking again for the same number changes nothing of the request.
        """
        attempt = run.attempts[-1]
        with self._write() as db:
            db.execute(
                "INSERT OR IGNORE INTO attempts (run_id, number, client, request_json) VALUES (?,?,?,?)",
                (run.run_id, attempt.number, attempt.client, json.dumps(request, sort_keys=True)),
            )
            save_run(db, replace(run, outcome=None, message=None, unverified=None))
            _log(db, run.run_id, now, "asking", f"attempt {attempt.number}")

    def go_on(self, run_id: RunId, now: datetime) -> None:
        """An ended run is wanted again: what was asked of its former life is over."""
        with self._write() as db:
            _set(db, run_id, stop_asked=None, slow=None, results_given_up=None, again_at=now.isoformat())
            _log(db, run_id, now, "goes on", "")

    def refuse(self, refusal: Refusal, now: datetime) -> None:
        """Remember a placement that said no. What has been over for a while is forgotten: until then estimates weigh it
        (trainplan.planner.runs.journal.evidence)."""
        with self._write() as db:
            db.execute("DELETE FROM refusals WHERE until <= ?", ((now - REFUSALS_KEPT).isoformat(),))
            db.execute(
                "INSERT INTO refusals (until, refusal_json) VALUES (?,?)",
                (refusal.until.isoformat(), json.dumps(refusal_record(refusal))),
            )

    def refusals(self, now: datetime) -> tuple[Refusal, ...]:
        """The placements that said no, to whichever run, and are still passed over."""
        rows = self._rows("SELECT refusal_json FROM refusals WHERE until > ? ORDER BY id", now.isoformat())
        return tuple(refusal_from_record(json.loads(row["refusal_json"])) for row in rows)

    def ask_to_stop(self, run_id: RunId, now: datetime) -> None:
        """Note that the person wants the run to end; whoever follows it acts on it."""
        with self._write() as db:
            db.execute(
                "UPDATE runs SET run_json = json_set(run_json, '$.stop_asked', ?)"
                " WHERE run_id = ? AND json_extract(run_json, '$.stop_asked') IS NULL",
                (now.isoformat(), run_id),
            )
            _log(db, run_id, now, "stop asked", "")

    def told_to_stop(self, run_id: RunId, attempt: int, now: datetime) -> None:
        """Note that the machine of an attempt was told to stop, or is still waited for; the first note counts."""
        with self._write() as db:
            _log(db, run_id, now, "told to stop", f"attempt {attempt}")

    def told_to_stop_at(self, run_id: RunId, attempt: int) -> datetime | None:
        """When the machine of an attempt was first told to stop; None: nobody has."""
        query = "SELECT at FROM events WHERE run_id = ? AND kind = 'told to stop' AND detail = ? ORDER BY id LIMIT 1"
        rows = self._rows(query, run_id, f"attempt {attempt}")
        return aware(rows[0]["at"]) if rows else None

    def give_up_results(self, run_id: RunId, now: datetime) -> None:
        """Note that a person does not want the run's store waited for any more."""
        with self._write() as db:
            _set(db, run_id, results_given_up=True)
            _log(db, run_id, now, "results given up", "")

    def want_results(self, run_id: RunId, now: datetime) -> None:
        """Note that what an ended run left in its store is wanted, whatever was said of it before."""
        with self._write() as db:
            _set(db, run_id, results_given_up=None)
            _log(db, run_id, now, "results wanted", "")

    def take_over(self, run_id: RunId, now: datetime) -> None:
        """Note that a person wants this home to act on a run that another client launched."""
        with self._write() as db:
            _set(db, run_id, taken_over=True)
            _log(db, run_id, now, "taken over", "")

    def notify(self, run_id: RunId, notice: str, now: datetime) -> bool:
        """Whether a notice of a run is to be sent: the first who asks may, until the run is launched again."""
        since = "(SELECT coalesce(max(id), 0) FROM events WHERE run_id = ? AND kind = 'goes on')"
        query = f"SELECT 1 FROM events WHERE run_id = ? AND kind = 'notified' AND detail = ? AND id > {since}"
        with self._write() as db:
            if db.execute(query, (run_id, notice, run_id)).fetchone():
                return False
            _log(db, run_id, now, "notified", notice)
        return True

    def newest_event(self, run_id: RunId) -> int:
        """The number of the newest event of the run: another one means that somebody acts on it. 0 for none."""
        return int(self._rows("SELECT coalesce(max(id), 0) FROM events WHERE run_id = ?", run_id)[0][0])

    def events(self, run_id: RunId) -> list[LoggedEvent]:
        """What happened to a run, oldest first; an event whose instant cannot be read is left out."""
        rows = self._rows("SELECT at, kind, detail FROM events WHERE run_id = ? ORDER BY id", run_id)
        return [event for row in rows if (event := logged_event(row)) is not None]

    def newest_events(self, count: int) -> list[tuple[RunId, LoggedEvent]]:
        """What happened last to any run, newest first."""
        rows = self._rows("SELECT run_id, at, kind, detail FROM events ORDER BY id DESC LIMIT ?", count)
        return [(RunId(row["run_id"]), event) for row in rows if (event := logged_event(row)) is not None]

    def has_ended_since(self, run_id: RunId, version: int) -> bool:
        """Whether the run has come to an end after the journal had this version."""
        query = "SELECT 1 FROM events WHERE run_id = ? AND kind = ? AND id > ? LIMIT 1"
        return bool(self._rows(query, run_id, Phase.DONE, version))

    def version(self) -> int:
        """A number that every write raises: that of the newest event of all runs."""
        return int(self._rows("SELECT coalesce(max(id), 0) FROM events")[0][0])

    def save_receipt(self, run_id: RunId, receipt: dict[str, Any], now: datetime) -> None:
        """The receipt of a run; one that is done is packed with it, so that ten thousand runs stay quick to read."""
        with self._write() as db:
            db.execute("UPDATE runs SET receipt_json = ? WHERE run_id = ?", (json.dumps(receipt), run_id))
            if db.execute("SELECT phase FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0] == Phase.DONE:
                pack_run(db, run_id)
            _log(db, run_id, now, "receipt", AT_MOST if receipt.get("at_most") else "")

    def correct_receipt(self, run: Run, receipt: dict[str, Any], now: datetime) -> None:
        """An ended run and its receipt with the ends that its providers' records tell by now. It counts in the month
        of its first receipt, and is not asked about again."""
        with self._write() as db:
            save_run(db, run)
            db.execute("UPDATE runs SET receipt_json = ? WHERE run_id = ?", (json.dumps(receipt), run.run_id))
            pack_run(db, run.run_id)
            _log(db, run.run_id, now, _ASKED_AGAIN, "")

    def unsure(self) -> Sequence[tuple[Run, datetime]]:
        """Ended runs with an "at most" in their receipt whose providers' records have not been asked again, each with
        when the receipt was written; those that cannot be read are left out."""
        rows = self._rows(
            "SELECT run_id, max(at) AS at FROM events WHERE kind = 'receipt' AND detail = ?"
            " AND run_id NOT IN (SELECT run_id FROM events WHERE kind = ?) GROUP BY run_id",
            AT_MOST,
            _ASKED_AGAIN,
        )
        written_at = {row["run_id"]: row["at"] for row in rows}
        runs = self._each(rows, lambda _: None)
        return [(run, aware(written_at[run.run_id])) for run in runs if run.phase is Phase.DONE]

    def save_billed(self, run_id: RunId, billed: dict[str, Any], now: datetime) -> None:
        """What the vendor has billed, beside the receipt that is there. The run counts in the month of that receipt."""
        with self._write() as db:
            row = db.execute("SELECT receipt_json FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if row is not None and row[0] is not None:
                receipt = json.dumps({**json.loads(row[0]), **billed})
                db.execute("UPDATE runs SET receipt_json = ? WHERE run_id = ?", (receipt, run_id))
                _log(db, run_id, now, "billed", "")

    def run(self, name: str) -> Run:
        """The run of that id, or of the one id that starts with `name`; capitals and blanks around it do not matter.
        Raises BadInputError for none or several."""
        query = "SELECT run_id FROM runs WHERE substr(run_id, 1, ?) = ? ORDER BY run_id"
        typed, name = name, name.strip().lower()
        # Ids are ASCII; a word of the command line that is not UTF-8 is nothing that SQLite can look for.
        rows = self._rows(query, len(name), name) if name.isascii() else []
        if not rows or not name:
            raise UnknownRunError(f"there is no run {typed!r}", f"{Command('history')} lists them")
        # A whole id that others begin with comes first in the order, and is meant.
        if len(rows) > 1 and rows[0]["run_id"] != name:
            raise BadInputError(f"{name!r} is the beginning of {len(rows)} runs", "give more of the id")
        return self._run(RunId(rows[0]["run_id"]))

    def runs(self, unreadable: Callable[[str], None] | None = None) -> Sequence[Run]:
        """Every run, newest first. A row that cannot be read is told to `unreadable` and left out.

        Raises ThisMachineError for such a row where nobody is told.
        """
        rows = self._rows("SELECT run_id FROM runs ORDER BY created_at DESC, rowid DESC")
        return list(self._each(rows, unreadable))

    def live(self, unreadable: Callable[[str], None] | None = None) -> Sequence[Run]:
        """The runs that are not done, and those that nobody came to write the last receipt of; oldest first.

        `unreadable` as in `runs`.
        """
        rows = self._rows(f"SELECT run_id FROM runs WHERE {LIVE} ORDER BY created_at, rowid")
        return list(self._each(rows, unreadable))

    def _each(self, rows: list[sqlite3.Row], unreadable: Callable[[str], None] | None) -> Iterator[Run]:
        for row in rows:
            try:
                yield self._run(RunId(row["run_id"]))
            except ThisMachineError as error:
                if unreadable is None:
                    raise
                unreadable(f"run {row['run_id']} is left out: {error.message}")

    def has(self, run_id: RunId) -> bool:
        """Whether there is a run of exactly this id."""
        return bool(self._rows("SELECT 1 FROM runs WHERE run_id = ?", run_id))

    def providers(self) -> frozenset[str]:
        """Where runs were launched, the done ones too."""
        return frozenset(row["provider"] for row in self._rows("SELECT DISTINCT provider FROM runs") if row["provider"])

    def spent_usd_since(self, at: datetime, providers: Sequence[str]) -> list[Spent]:
        """What each done run at these providers came to whose receipt was written since then, in no order."""
        rows = self._rows(
            "SELECT receipt_json, (SELECT max(at) FROM events WHERE events.run_id = runs.run_id AND kind = 'receipt')"
            " AS written FROM runs WHERE phase = ? AND receipt_json IS NOT NULL AND written >= ?"
            f" AND provider IN ({', '.join('?' * len(providers))})",
            Phase.DONE, at.isoformat(), *providers,
        )  # fmt: skip
        receipts = ((aware(row["written"]), json.loads(row["receipt_json"])) for row in rows)
        return [Spent(str(one.get("project", "")), Decimal(str(one["actual_usd"])), when) for when, one in receipts]

    def unverified(self) -> Sequence[Run]:
        """The runs that are not done and whose teardown could not be verified."""
        # IS NOT, since a document that cannot be read has no phase: such a run is told, not hidden (ADR 23).
        rows = self._rows("SELECT run_id FROM runs WHERE unverified IS NOT NULL AND phase IS NOT ?", Phase.DONE)
        return [self._run(RunId(row["run_id"])) for row in rows]

    def launched(self) -> int:
        """How many runs there are, but for measuring ones."""
        (row,) = self._rows(f"SELECT count(*) AS number FROM runs WHERE {LAUNCHED}")
        return int(row["number"])

    def summaries(self, unreadable: Callable[[str], None], limit: int | None = None) -> list[RunSummary]:
        """Every run but measuring ones, with its receipt, newest first, at most `limit` of them; what cannot be read is
        told and left out."""
        rows = self._rows(
            "SELECT run_id, CASE WHEN json_valid(run_json) THEN json_extract(run_json, '$.job_name', '$.provider',"
            " '$.created_at', '$.phase', '$.outcome', '$.project', '$.launched_at') END AS shown, receipt_json"
            f" FROM runs WHERE {LAUNCHED} ORDER BY created_at DESC, rowid DESC LIMIT ?",
            -1 if limit is None else limit,
        )
        return [summary for row in rows if (summary := self._summary(row, unreadable)) is not None]

    def _summary(self, row: sqlite3.Row, unreadable: Callable[[str], None]) -> RunSummary | None:
        run_id = RunId(row["run_id"])
        try:
            name, provider, created_at, phase, outcome, project, launched_at = json.loads(
                row["shown"] or _NOTHING_SHOWN
            )
            if not (isinstance(name, str) and isinstance(provider, str)):
                raise ValueError(f"run {run_id} has no job_name or no provider")
            run = RunSummary(
                run_id, name, provider, aware(launched_at or created_at), Phase(phase),
                Outcome(outcome) if outcome else None, project=project if isinstance(project, str) else "",
            )  # fmt: skip
        except NO_ROW as error:
            unreadable(f"run {run_id} is left out: {_unusable(self._path, error).message}")
            return None
        try:
            return run._replace(receipt=self._parsed_receipt(run_id, row["receipt_json"]) or {})
        except ThisMachineError as error:
            unreadable(error.message)
            return run

    def live_of(self, job_digest: str) -> Sequence[Run]:
        """The runs of a job with this digest that are not done, at any provider, newest first; no measuring runs."""
        rows = self._rows(
            "SELECT run_id FROM runs WHERE job_digest = ? AND phase <> ? AND model_folder <> ''"
            " ORDER BY created_at DESC, rowid DESC",
            job_digest,
            Phase.DONE,
        )
        return [self._run(RunId(row["run_id"])) for row in rows]

    def with_model_in(self, model_folder: str) -> Sequence[Run]:
        """The runs whose model goes to this folder, done or not; one that cannot be read is left out."""
        rows = self._rows("SELECT run_id FROM runs WHERE model_folder = ?", model_folder)
        return list(self._each(rows, lambda _: None))

    def ended_of(self, job_digest: str) -> Run | None:
        """The newest run of a job with this digest, where that is done, at any provider; no measuring run."""
        rows = self._rows(
            "SELECT run_id, phase FROM runs WHERE job_digest = ? AND model_folder <> ''"
            " ORDER BY created_at DESC, rowid DESC LIMIT 1",
            job_digest,
        )
        return self._run(RunId(rows[0]["run_id"])) if rows and rows[0]["phase"] == Phase.DONE else None

    def succeeded_of(self, job_digest: str) -> Iterator[Run]:
        """The runs of a job with this digest that have succeeded, newest first; no measuring run."""
        rows = self._rows(
            "SELECT run_id FROM runs WHERE job_digest = ? AND model_folder <> '' AND phase = ?"
            " ORDER BY created_at DESC, rowid DESC",
            job_digest,
            Phase.DONE,
        )
        runs = (self._run(RunId(row["run_id"])) for row in rows)
        return (run for run in runs if run.outcome is Outcome.SUCCEEDED)

    def newest_of(self, job_digest: str, provider: str) -> Run | None:
        """The newest run of a job with this digest at this provider; measuring runs have no model and are none."""
        rows = self._rows(
            "SELECT run_id FROM runs WHERE job_digest = ? AND provider = ? AND model_folder <> ''"
            " ORDER BY created_at DESC, rowid DESC LIMIT 1",
            job_digest,
            provider,
        )
        return self._run(RunId(rows[0]["run_id"])) if rows else None

    def newest_beside(self, job_name: str, job_digest: str, provider: str) -> Run | None:
        """The newest run at this provider of a job of this name that trains something else than the digest says; of
        the last runs there, since the name stands in their documents alone."""
        rows = self._rows(
            "SELECT run_id FROM runs WHERE job_digest <> ? AND provider = ? AND model_folder <> ''"
            " ORDER BY created_at DESC, rowid DESC LIMIT 20",
            job_digest,
            provider,
        )
        runs = self._each(rows, lambda _: None)
        return next((run for run in runs if run.job_name == job_name), None)

    def job_json(self, run_id: RunId) -> str:
        """The job of a run as it was launched. Raises ThisMachineError."""
        return str(self._rows("SELECT job_json FROM runs WHERE run_id = ?", run_id)[0]["job_json"])

    def request(self, run_id: RunId, number: int) -> dict[str, Any]:
        """The request of an attempt as it was recorded before it was sent."""
        rows = self._rows("SELECT request_json FROM attempts WHERE run_id = ? AND number = ?", run_id, number)
        return dict(json.loads(rows[0]["request_json"]))

    def estimate(self, run_id: RunId) -> dict[str, Any]:
        """What was estimated when the run was launched; {} where that cannot be read."""
        text = self._rows("SELECT estimate_json FROM runs WHERE run_id = ?", run_id)[0][0]
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return {}

    def receipt(self, run_id: RunId) -> dict[str, Any] | None:
        """None where none was written. Raises ThisMachineError where it cannot be read."""
        return self._parsed_receipt(run_id, self._rows("SELECT receipt_json FROM runs WHERE run_id = ?", run_id)[0][0])

    def _parsed_receipt(self, run_id: RunId, text: str | None) -> dict[str, Any] | None:
        if not text:
            return None
        try:
            receipt = receipt_record(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            receipt = None
        if receipt is None:
            raise ThisMachineError(
                f"the receipt of run {run_id} in {self._path} cannot be read", "what the run left is not touched"
            )
        return receipt

    def owes_receipt(self, run: Run) -> bool:
        """Whether a run that is done has no receipt of its last attempt; one that cannot be read is not owed again."""
        try:
            receipt = self.receipt(run.run_id)
        except ThisMachineError:
            return False
        return receipt is None or receipt.get("attempts", len(run.attempts)) < len(run.attempts)

    def _run(self, run_id: RunId) -> Run:
        try:
            return run_of(self._rows("SELECT run_id, run_json, targets FROM runs WHERE run_id = ?", run_id)[0])
        except NO_ROW as error:  # a value that cannot be
            raise _unusable(self._path, error) from None

    def _rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        try:
            return self._db.execute(statement, values).fetchall()
        except UNREADABLE as error:
            raise _unusable(self._path, error) from None

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        try:
            # The write lock before the first read: what is read and written back cannot change in between.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:  # a full disk has rolled it back already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except UNREADABLE as error:
            raise _unusable(self._path, error) from None


def _lost_runs(path: Path) -> Sequence[str]:
    """The runs of which this home has locks, where its journal is not there or empty: it was removed, or a file system
    lost its content."""
    if path.exists() and path.stat().st_size:
        return ()
    return sorted(lock.stem for lock in (path.parent / "locks").glob("*.lock") if _RUN_ID.fullmatch(lock.stem))


@contextmanager
def _before_anything_is_made() -> Iterator[None]:
    """A journal that fails now keeps a launch from beginning; later it may not be said that nothing was launched."""
    try:
        yield
    except StateError as error:
        raise StateError(error.message, f"nothing was launched; {error.hint}") from None


def _set(db: sqlite3.Connection, run_id: RunId, **changes: object) -> None:
    """Set fields of a recorded run, whatever whoever follows it knows of them; None takes a field away."""
    db.execute("UPDATE runs SET run_json = json_patch(run_json, ?) WHERE run_id = ?", (json.dumps(changes), run_id))


def _log(db: sqlite3.Connection, run_id: RunId, now: datetime, kind: str, detail: str) -> None:
    db.execute(
        "INSERT INTO events (run_id, at, kind, detail) VALUES (?,?,?,?)", (run_id, now.isoformat(), str(kind), detail)
    )


def _unusable(path: Path, error: Exception) -> StateError:
    is_locked = isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
    what_to_do = (
        "another program has held it for a minute: close what has it open (a database browser, a suspended plan)"
        if is_locked
        else "free disk space or mend its permissions, or set PLAN_HOME to another folder"
    )
    return StateError(
        f"the journal {path} cannot be used: {error}",
        f"{what_to_do}; plan stop RUN and {Command('cleanup', Option.ALL)} end machines without it",
    )
