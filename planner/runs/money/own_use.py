"""What runs of this home have used of the person's own prices: hours of rates, and money of credits."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.planner.errors import StateError, ThisMachineError
from trainplan.planner.runs.journal.reader import readable_runs
from trainplan.pricing.credits import Bill, current_credits, payments
from trainplan.pricing.own_prices import OwnPrices
from trainplan.pricing.own_rates import OwnRate, current_rates

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Attempt, Run
    from trainplan.planner.settings import Settings

UNREADABLE = "own prices: the journal cannot be read, so that what this home's runs have used is not taken off"


def own_prices_now(settings: Settings, now: datetime) -> OwnPrices | None:
    """The person's own rates and credits that hold now, less what this home's runs have used; None without any.

    The journal is read only where something can be used up. Raises BadInputError for an entry that cannot be.
    """
    rates, credits_of_person = settings.own_rates, settings.own_credits
    if not rates and not credits_of_person:
        return None
    is_limited = bool(credits_of_person) or any(rate.hours_left is not None for rate in rates)
    runs, lines = _runs(settings) if is_limited else ((), ())
    today = now.astimezone(UTC).date()
    own = current_rates(rates, today, settings.accounts, lambda rate: hours_used(rate, runs, now))
    credit = current_credits(credits_of_person, today, settings.accounts, bills_of(runs, now))
    return OwnPrices(
        rates=own.rates,
        credits=credit.credits,
        lines=(*own.lines, *credit.lines, *lines),
        other_accounts=(*own.other_accounts, *credit.other_accounts),
    )


def bills_of(runs: Iterable[Run], now: datetime) -> list[Bill]:
    """What each run has cost until now at the person's own rates, from when its first machine began."""
    return [
        Bill(run.run_id, run.provider, began_at, run.total_usd(now))
        for run in runs
        if (began_at := _began_at(run)) is not None
    ]


def _began_at(run: Run) -> datetime | None:
    return min((at for attempt in run.attempts if (at := attempt.billing_began_at) is not None), default=None)


def credit_paid_usd(settings: Settings, runs: Iterable[Run], run: Run, now: datetime) -> Decimal | None:
    """What credits pay of a run, after the other runs of this home; None without a credit for it.

    Raises BadInputError for a credit that cannot be.
    """
    credits_of_person = [
        credit
        for credit in settings.own_credits
        if credit.provider == run.provider and credit.account in ("", settings.accounts.get(credit.provider, ""))
    ]
    if not credits_of_person:
        return None
    others = [other for other in runs if other.run_id != run.run_id]
    return payments(credits_of_person, bills_of([*others, run], now)).paid_usd.get(run.run_id, Decimal(0))


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
    """Return all runs of this home, and a line where they cannot be read."""
    try:
        runs = readable_runs(settings.journal)
        if runs is not None:
            return tuple(runs.values()), ()
    except (StateError, ThisMachineError):
        pass
    return (), (UNREADABLE,)
