"""A run as the journal's row: its id, one JSON document, and the placements that it may go to. The only mapping."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.errors import OutdatedError
from trainplan.planner.runs.journal.records import targets_from_text, targets_text
from trainplan.planner.runs.run import MOVES, Attempt, Outcome, Phase, Run

if TYPE_CHECKING:
    import sqlite3

    from pydantic import TypeAdapter

    from trainplan.planner.runs.targets import Target
    from trainplan.providers.base import RunId

NO_ROW = (IndexError, KeyError, ValueError, ArithmeticError, TypeError, AttributeError, RecursionError)
"""What a row that cannot be read raises."""
SET_BESIDE = ("stop_asked", "taken_over", "again_at", "results_given_up")
"""Fields that commands set beside the one that follows the run: who saves a run leaves them as they are recorded."""
SET_ONCE = ("asked_at", "target", "client")
"""Fields of an attempt that are those of its request, and never change."""


class RunSummary(NamedTuple):
    """What a list of past runs shows of one, launched at `created_at` by this computer's clock; `receipt` is {} where
    there is none, or it cannot be read."""

    run_id: RunId
    job_name: str
    provider: str
    created_at: datetime
    phase: Phase
    outcome: Outcome | None
    receipt: Mapping[str, Any] = MappingProxyType({})
    project: str = ""


class Spent(NamedTuple):
    """What a run came to: its project ("": none), dollars, and when its receipt was written."""

    project: str
    usd: Decimal
    at: datetime


class LoggedEvent(NamedTuple):
    """What the journal notes of a run: the phase that it reached, or what a command did (`asking`, `stop asked`)."""

    at: datetime
    kind: str
    detail: str


def logged_event(row: sqlite3.Row) -> LoggedEvent | None:
    """None where its instant cannot be read."""
    try:
        return LoggedEvent(aware(row["at"]), str(row["kind"]), str(row["detail"]))
    except NO_ROW:
        return None


def run_record(run: Run) -> dict[str, Any]:
    """Every field of a run but its targets, as JSON values."""
    return dict(json.loads(_runs().dump_json(run, exclude={"targets"})))


def save_run(db: sqlite3.Connection, run: Run) -> None:
    """The recorded run as it is now, inside a transaction; see `merged_record` for what is left as it is recorded.

    Raises OutdatedError where the recorded run has ended, and this is neither the same end, nor a success in place of
    another end, nor a new life of it: whoever saves it acts on what it read before.
    """
    row = db.execute("SELECT run_json, targets FROM runs WHERE run_id = ?", (run.run_id,)).fetchone()
    if row is None:
        return  # the event that follows is refused then
    try:
        stored = json.loads(row["run_json"])
        _refuse_outdated(run, stored)
        record = merged_record(run_record(run), stored)
    except NO_ROW:  # nobody can read what was recorded: it is written anew
        record = merged_record(run_record(run), {})
    targets = row["targets"] if _holds(row["targets"], run.targets) else targets_text(run.targets)
    db.execute("UPDATE runs SET run_json = ?, targets = ? WHERE run_id = ?", (text_of(record), targets, run.run_id))


def _refuse_outdated(run: Run, stored: Mapping[str, Any]) -> None:
    if stored.get("phase") != Phase.DONE:
        return
    outcome = stored.get("outcome")
    is_new_life = run.phase in MOVES[Phase.DONE] and outcome != Outcome.SUCCEEDED
    is_end = run.phase is Phase.DONE and (run.outcome is Outcome.SUCCEEDED or run.outcome == outcome)
    if not is_new_life and not is_end:
        raise OutdatedError(
            f"run {run.run_id} has been ended by another command meanwhile: {outcome}",
            f"plan report {run.run_id} shows how",
        )


def merged_record(record: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """A run's record upon the one that is kept of it. Raises one of NO_ROW where that one makes no sense.

    Kept are what other commands set (SET_BESIDE), what an attempt was first asked for (SET_ONCE), attempts that this
    record does not know of, and fields of a newer version of the product. What is None is left out.
    """
    attempts = {attempt["number"]: attempt for attempt in stored.get("attempts", ())}
    for attempt in record["attempts"]:
        before = attempts.get(attempt["number"], {})
        first = {name: before[name] for name in SET_ONCE if name in before}
        attempts[attempt["number"]] = {
            name: value for name, value in {**before, **attempt, **first}.items() if value is not None
        }
    beside = {name: stored.get(name) for name in SET_BESIDE} if stored else {}
    entries = {**record, **beside, "attempts": [attempts[number] for number in sorted(attempts)]}
    return {name: value for name, value in {**stored, **entries}.items() if value is not None}


def text_of(value: Mapping[str, Any]) -> str:
    """JSON without spaces: ten thousand of them are kept."""
    return json.dumps(value, separators=(",", ":"))


def run_of(row: sqlite3.Row) -> Run:
    """A run of its row. Raises one of NO_ROW."""
    from pydantic import ValidationError

    try:
        run = _runs().validate_json(row["run_json"])
        run = replace(run, run_id=row["run_id"], targets=targets_from_text(_unpacked(row["targets"])))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the record"
        raise ValueError(f"{where} of run {row['run_id']}: {first['msg']}") from None
    parts: tuple[Run | Attempt, ...] = (run, *run.attempts)
    for part in parts:
        _check_zones(part)
    return run


def aware(text: str) -> datetime:
    """Raises ValueError for an instant without its time zone: nothing could be compared with it."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return instant


def _check_zones(part: Run | Attempt) -> None:
    """Raises ValueError for an instant without its time zone."""
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, datetime) and value.tzinfo is None:
            raise ValueError(f"{field.name} {value.isoformat()} has no time zone")


def _holds(value: str | bytes, targets: tuple[Target, ...]) -> bool:
    """Whether these are the recorded targets; then these stay with what a newer version may have put into them."""
    try:
        return targets_from_text(_unpacked(value)) == targets
    except NO_ROW:
        return False


def _unpacked(targets: str | bytes) -> str:
    """Raises ValueError where packed targets cannot be read."""
    try:
        return targets if isinstance(targets, str) else zlib.decompress(targets).decode()
    except (zlib.error, TypeError) as error:
        raise ValueError(f"packed targets: {error}") from None


@cache
def _runs() -> TypeAdapter[Run]:
    from pydantic import TypeAdapter

    return TypeAdapter(Run)
