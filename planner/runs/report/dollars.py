"""What a run had cost at each instant of its life. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Attempt, Run

POINTS = 60
"""Equal parts of the run's life, beside the instants at which a machine begins or ends to bill."""


def dollars_over_time(run: Run, until: datetime) -> list[dict[str, Any]]:
    """`at` and `usd`, from the first request to `until`; empty before there was one.

    The last figure is `run.total_usd(until)`; none is lower than the one before it.
    """
    asked = [attempt.asked_at for attempt in run.attempts if attempt.asked_at is not None]
    if not asked:
        return []
    first, last = min(asked), max(until, min(asked))
    part = (last - first) / POINTS
    instants = {first + number * part for number in range(POINTS)} if part > timedelta(0) else {first}
    for attempt in run.attempts:
        ends = (attempt.ended_at, attempt.gone_at, attempt.disk_gone_at, attempt.address_gone_at)
        marks = (attempt.asked_at, attempt.bills_from, *ends)
        instants |= {mark for mark in marks if mark is not None and first <= mark <= last}
    points = [{"at": at.isoformat(), "usd": _usd(run_at(run, at), at)} for at in sorted(instants - {last})]
    return [*points, {"at": last.isoformat(), "usd": _usd(run, last)}]


def run_at(run: Run, at: datetime) -> Run:
    """The run as it was at an instant: attempts that had been asked for, without the ends that came later."""
    attempts = tuple(_attempt_at(one, at) for one in run.attempts if one.asked_at is not None and one.asked_at <= at)
    # The model's way home is paid for at the very end.
    return replace(run, attempts=attempts, outcome=None)


def _attempt_at(attempt: Attempt, at: datetime) -> Attempt:
    has_ended = attempt.ended_at is not None and attempt.ended_at <= at
    is_gone = attempt.gone_at is not None and attempt.gone_at <= at
    return replace(
        attempt,
        disk_gone_at=_if_by(attempt.disk_gone_at, at),
        address_gone_at=_if_by(attempt.address_gone_at, at),
        ended_at=attempt.ended_at if has_ended else None,
        gone_at=attempt.gone_at if is_gone else None,
        # A create that was refused never had anything; what had a machine is cleared once that has ended.
        cleared=attempt.cleared and (has_ended or not attempt.had_instance),
    )


def _if_by(end: datetime | None, at: datetime) -> datetime | None:
    return end if end is not None and end <= at else None


def _usd(run: Run, at: datetime) -> float:
    return round(float(run.total_usd(at)), 6)
