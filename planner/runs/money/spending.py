"""Holds launches to the month's budget, several commands at once too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from planner.clock import Clock, SystemClock
from planner.errors import RefusedError
from planner.runs.journal.locks import RunLocks
from pricing.money import format_usd
from providers.registry import clouds

if TYPE_CHECKING:
    from planner.runs.journal.journal import Journal
    from planner.runs.run import Run
    from planner.settings import Settings


class Spending:
    """What runs of this home's journal on clouds have cost this month and may still cost, against the limit.

    This machine and the simulated cloud send no bill and do not count.
    """

    def __init__(self, journal: Journal, limit_usd: Decimal | None, clock: Clock, locks: RunLocks) -> None:
        self._journal = journal
        self._limit_usd = limit_usd
        self._clock = clock
        self._locks = locks

    def budget(self) -> MonthlyBudget | None:
        """How the month's budget stands; None where no limit is set."""
        if self._limit_usd is None:
            return None
        now = self._clock.now()
        # The first sum has only runs that are done, the second only runs that are not: no run counts twice.
        spent_usds = self._journal.spent_usd_since(month_began(now), clouds())
        live = [run for run in self._journal.live() if run.live and run.provider in clouds()]
        return monthly_budget(self._limit_usd, spent_usds, live, now)

    @contextmanager
    def launching(self, run: Run) -> Iterator[None]:
        """The block writes down a launch of `run`: entered if the budget has room for all that it may still cost.

        Raises RefusedError where it has not, ThisMachineError where another launch does not let go of the lock.
        """
        if self._limit_usd is None or run.provider not in clouds():
            yield
            return
        # Two launches at once would each compute the budget without the other: all launches of this home take turns.
        with self._locks.deciding("monthly-budget"):
            budget, now = self.budget(), self._clock.now()
            assert budget is not None
            # The receipt of an ended run that is launched again has counted what its earlier attempts cost.
            budget.check(most_usd(run, now) - run.cost_usd(now))
            yield


def spending(journal: Journal, settings: Settings, clock: Clock | None = None) -> Spending:
    """What stands against the limit of these settings."""
    locks = RunLocks(settings.home / "locks")
    return Spending(journal, settings.budget_usd_per_month, clock or SystemClock(), locks)


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
        """Return one line: what is spent, what may be spent, and the limit."""
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


def monthly_budget(
    limit_usd: Decimal, spent_usds: Iterable[Decimal], live: Iterable[Run], now: datetime
) -> MonthlyBudget:
    """The budget as it stands at `now`."""
    return MonthlyBudget(
        limit_usd=limit_usd,
        spent_usd=sum(spent_usds, Decimal(0)),
        may_spend_usd=sum((most_usd(run, now) for run in live), Decimal(0)),
    )


def most_usd(run: Run, now: datetime) -> Decimal:
    """The most that a run may come to: what it has cost, and every hour to its deadline at its dearest placement, or
    what is left of its budget; and disk, address and transfer as they were estimated."""
    placements = [*run.targets, *(attempt.target for attempt in run.attempts if attempt.target is not None)]
    # The run may still go to any of its placements, and spot may come to cost as much as on demand.
    dearest = max((placement.ceiling_usd_per_hour for placement in placements), default=Decimal(0))
    fixed_usd = max((placement.fixed_usd for placement in placements), default=Decimal(0))
    hours = Decimal(max(timedelta(0), run.deadline - now) / timedelta(hours=1))
    left_usd = run.left_usd(now)
    more = dearest * hours if left_usd is None else min(dearest * hours, max(left_usd, Decimal(0)))
    return run.cost_usd(now) + more + fixed_usd


def month_began(now: datetime) -> datetime:
    """The first instant of the calendar month of `now`, in the zone of `now`."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
