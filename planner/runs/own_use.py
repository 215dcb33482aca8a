"""What runs of this home have used of the person's own prices: machine hours of rates that are limited to some."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from planner.errors import StateError, ThisMachineError
from planner.runs.journal.reader import readable_runs
from pricing.own_rates import CurrentRates, current_rates

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from planner.runs.run import Attempt, Run
    from planner.settings import Settings
    from pricing.own_rates import OwnRate

UNREADABLE = "own rates: the journal cannot be read, so that the hours of this home's runs are not taken off"


def own_rates_now(settings: Settings, now: datetime) -> CurrentRates | None:
    """The person's own rates that hold now, less the hours that this home's runs have used; None without any.

    The journal is read only where a rate has hours. Raises BadInputError for a rate that cannot be.
    """
    rates = settings.own_rates
    if not rates:
        return None
    runs, lines = _runs(settings) if any(rate.hours_left is not None for rate in rates) else ((), ())
    current = current_rates(
        rates, now.astimezone(UTC).date(), settings.accounts, lambda rate: hours_used(rate, runs, now)
    )
    return current._replace(lines=(*current.lines, *lines))


def hours_used(rate: OwnRate, runs: Iterable[Run], now: datetime) -> Decimal:
    """The hours since the beginning of the rate's `as_of` (UTC) for which machines that it is for were charged."""
    since = _begin(rate.as_of) if rate.as_of is not None else datetime.min.replace(tzinfo=UTC)
    seconds = sum(_seconds(attempt, since, now) for run in runs for attempt in run.attempts if _is_for(rate, attempt))
    return Decimal(str(round(seconds, 3))) / 3600


def _is_for(rate: OwnRate, attempt: Attempt) -> bool:
    offer = attempt.target.offer if attempt.target is not None else None
    return offer is not None and rate.region in ("", offer.region) and rate.holds_for(offer.rental)


def _seconds(attempt: Attempt, since: datetime, now: datetime) -> float:
    began_at = attempt.billing_began_at
    if began_at is None:
        return 0.0
    return max(timedelta(0), (attempt.ended_at or now) - max(began_at, since)).total_seconds()


def _begin(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _runs(settings: Settings) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """All runs of this home, and a line where they cannot be read."""
    try:
        runs = readable_runs(settings.journal)
        if runs is not None:
            return tuple(runs.values()), ()
    except (StateError, ThisMachineError):
        pass
    return (), (UNREADABLE,)
