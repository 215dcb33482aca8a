"""Rows of the journal's tables as runs and attempts, and back."""

from __future__ import annotations

import zlib
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.requests import targets_from_text, targets_text
from planner.run import Attempt, Outcome, Phase, Run
from pricing.offers import Market
from providers.base import EndKind, InstanceRef, RunId
from workloads.job import OnSlow

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

NO_ROW = (IndexError, KeyError, ValueError, ArithmeticError, TypeError, AttributeError, RecursionError)
"""What a row that cannot be read raises."""


class RunSummary(NamedTuple):
    """What a list of past runs shows of one; `receipt` is {} where there is none, or it cannot be read."""

    run_id: RunId
    job_name: str
    provider: str
    created_at: datetime
    phase: Phase
    outcome: Outcome | None
    receipt: Mapping[str, Any] = MappingProxyType({})


def save_attempt(db: sqlite3.Connection, run_id: RunId, attempt: Attempt) -> None:
    ref = attempt.ref
    db.execute(
        "UPDATE attempts SET instance_provider = ?, instance_region = ?, instance_id = ?, exit_code = ?, reason = ?,"
        " target_json = coalesce(target_json, ?), deadline = ?, sent_at = ?, tries = ?, end_kind = ?, ended_at = ?,"
        " step = ?, lost_steps = ?, cleared = ?, queued = ?, bills_from = ?, client = coalesce(client, ?)"
        " WHERE run_id = ? AND number = ?",
        (
            ref.provider if ref else None, ref.region if ref else None, ref.id if ref else None,
            attempt.exit_code, attempt.reason, targets_text((attempt.target,)) if attempt.target else None,
            instant_text(attempt.deadline), instant_text(attempt.sent_at), attempt.tries, attempt.end,
            instant_text(attempt.ended_at), attempt.step, attempt.lost_steps, attempt.cleared, attempt.queued,
            instant_text(attempt.bills_from), attempt.client, run_id, attempt.number,
        ),
    )  # fmt: skip


def run_of(row: sqlite3.Row, attempts: Sequence[sqlite3.Row]) -> Run:
    """A run of its row and those of its attempts, in their order. Raises one of NO_ROW."""
    return Run(
        run_id=RunId(row["run_id"]),
        job_name=row["job_name"],
        job_digest=row["job_digest"],
        provider=row["provider"],
        phase=Phase(row["phase"]),
        created_at=aware(row["created_at"]),
        deadline=aware(row["deadline"]),
        model_folder=row["model_folder"],
        targets=targets_from_text(_targets_text(row)),
        budget_usd=Decimal(row["budget_usd"]) if row["budget_usd"] else None,
        on_slow=OnSlow(row["on_slow"]),
        moving=Market(row["moving"]) if row["moving"] else None,
        deadline_given=bool(row["deadline_given"]),
        checkpoint_seconds=row["checkpoint_seconds"],
        total_steps=row["total_steps"],
        attempts=tuple(attempt_of(attempt) for attempt in attempts),
        outcome=Outcome(row["outcome"]) if row["outcome"] else None,
        message=row["message"],
        stop_asked=_when(row["stop_asked"]),
        slow=OnSlow(row["slow"]) if row["slow"] else None,
        unverified=row["unverified"],
        taken_over=bool(row["taken_over"]),
        again_at=_when(row["again_at"]),
    )


def attempt_of(row: sqlite3.Row) -> Attempt:
    ref = None
    if row["instance_id"] is not None:
        ref = InstanceRef(provider=row["instance_provider"], region=row["instance_region"], id=row["instance_id"])
    target = targets_from_text(row["target_json"]) if row["target_json"] else (None,)
    return Attempt(
        number=row["number"],
        ref=ref,
        target=target[0],
        asked_at=aware(row["asked_at"]),
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
        client=row["client"],
    )


def _targets_text(row: sqlite3.Row) -> str:
    """Raises ValueError where packed targets cannot be read."""
    packed = row["packed_targets"]
    try:
        return str(row["targets_json"]) if packed is None else zlib.decompress(packed).decode()
    except zlib.error as error:
        raise ValueError(f"packed targets: {error}") from None


def text_of(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def instant_text(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _when(text: str | None) -> datetime | None:
    return aware(text) if text else None


def aware(text: str) -> datetime:
    """Raises ValueError for an instant without its time zone: nothing could be compared with it."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return instant
