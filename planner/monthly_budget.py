"""The cap on what clouds may cost in a month: what has been spent, and what live runs may still spend. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from planner.errors import RefusedError
from pricing.money import format_usd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planner.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthlyBudget:
    """`spent_usd`: receipts of this calendar month (UTC), a run counted whole in the month in which it ended.

    `may_spend_usd`: what runs that are not done have cost and may still cost, each up to its deadline or its budget at
    the highest price that can come to be payable.
    """

    limit_usd: Decimal
    spent_usd: Decimal
    may_spend_usd: Decimal

    @property
    def text(self) -> str:
        """One line: what is spent, what may be, and the limit."""
        return (
            f"this month: {format_usd(self.spent_usd)} spent, live runs may come to {format_usd(self.may_spend_usd)}, "
            f"of {format_usd(self.limit_usd)} (budget_usd_per_month)"
        )

    def check(self, most_usd: Decimal) -> None:
        """Raises RefusedError where a launch that may cost `most_usd` could pass the limit."""
        together = self.spent_usd + self.may_spend_usd + most_usd
        if together <= self.limit_usd:
            return
        raise RefusedError(
            f"this launch may cost up to {format_usd(most_usd)}, and with that the month up to {format_usd(together)}; "
            f"{self.text}",
            "launch it with a lower --budget or a shorter --deadline, or raise budget_usd_per_month in settings.toml",
        )


def monthly_budget(limit_usd: Decimal, spent: Iterable[Decimal], live: Iterable[Run], now: datetime) -> MonthlyBudget:
    """The budget as it stands at `now`."""
    return MonthlyBudget(
        limit_usd=limit_usd,
        spent_usd=sum(spent, Decimal(0)),
        may_spend_usd=sum((most_usd(run, now) for run in live), Decimal(0)),
    )


def most_usd(run: Run, now: datetime) -> Decimal:
    """The most that a run may come to: what it has cost, and every hour to its deadline at its dearest place, or what
    is left of its budget; and disk, address and transfer as they were estimated."""
    places = [*run.targets, *(attempt.target for attempt in run.attempts if attempt.target is not None)]
    dearest = max((place.ceiling_usd_per_hour for place in places), default=Decimal(0))
    fixed_usd = max((place.fixed_usd for place in places), default=Decimal(0))
    hours = Decimal(max(timedelta(0), run.deadline - now) / timedelta(hours=1))
    left_usd = run.left_usd(now)
    more = dearest * hours if left_usd is None else min(dearest * hours, max(left_usd, Decimal(0)))
    return run.cost_usd(now) + more + fixed_usd


def month_began(now: datetime) -> datetime:
    """The first instant of the calendar month of `now`, in the zone of `now`."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
