"""Holds launches to the month's budget, several commands at once too."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from planner.clock import SystemClock
from planner.locks import RunLocks
from planner.monthly_budget import MonthlyBudget, month_began, monthly_budget, most_usd
from planner.settings import CLOUDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from planner.clock import Clock
    from planner.journal import Journal
    from planner.run import Run
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
        spent = self._journal.spent_usd_since(month_began(now), CLOUDS)
        live = [run for run in self._journal.live() if run.live and run.provider in CLOUDS]
        return monthly_budget(self._limit_usd, spent, live, now)

    @contextmanager
    def launching(self, run: Run) -> Iterator[None]:
        """The block writes down a launch of `run`: entered if the budget has room for all that it may still cost.

        Raises RefusedError where it has not, ThisMachineError where another launch does not let go of the lock.
        """
        if self._limit_usd is None or run.provider not in CLOUDS:
            yield
            return
        with self._locks.deciding("monthly-budget"):
            budget, now = self.budget(), self._clock.now()
            assert budget is not None
            budget.check(most_usd(run, now) - run.cost_usd(now))
            yield


def spending(journal: Journal, settings: Settings, clock: Clock | None = None) -> Spending:
    """What stands against the limit of these settings."""
    locks = RunLocks(settings.home / "locks")
    return Spending(journal, settings.budget_usd_per_month, clock or SystemClock(), locks)
