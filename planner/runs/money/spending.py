"""Holds launches to the month's budget, several commands at once too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.clock import Clock, SystemClock
from trainplan.planner.errors import RefusedError
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.pricing.money import format_usd
from trainplan.providers.registry import clouds
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.journal.rows import Spent
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings


class Spending:
    """What runs of this home's journal on clouds have cost this month and may still cost, against the limit.

    This machine and the simulated cloud send no bill and do not count.
    """

    def __init__(
        self,
        journal: Journal,
        limit_usd: Decimal | None,
        clock: Clock,
        locks: RunLocks,
        of_projects_usd: Mapping[str, Decimal] | None = None,
    ) -> None:
        """`limit_usd` is for all runs together, `of_projects_usd` for those of each project that is named."""
        self._journal = journal
        self._limit_usd = limit_usd
        self._clock = clock
        self._locks = locks
        self._of_projects_usd = dict(of_projects_usd or {})

    def budgets(self, project: str | None = None) -> list[MonthlyBudget]:
        """How the month's budgets stand that are set: that of all runs, and those of the projects (or of one)."""
        if self._limit_usd is None and not self._of_projects_usd:
            return []
        now = self._clock.now()
        # The first sum has only runs that are done, the second only runs that are not: no run counts twice.
        spent = self._journal.spent_usd_since(month_began(now), clouds())
        live = [run for run in self._journal.live() if run.live and run.provider in clouds()]
        return self._standing(project, spent, live, now)

    def _standing(
        self, project: str | None, spent: Sequence[Spent], live: Sequence[Run], now: datetime
    ) -> list[MonthlyBudget]:
        limits = [] if self._limit_usd is None else [("", self._limit_usd)]
        limits += [(name, usd) for name, usd in self._of_projects_usd.items() if project in (None, name)]
        return [
            monthly_budget(
                limit_usd,
                [usd for other, usd, _ in spent if name in ("", other)],
                [run for run in live if name in ("", run.project)],
                now,
                name,
            )
            for name, limit_usd in limits
        ]

    def month(self, live: Sequence[Run]) -> Month:
        """What this calendar month (UTC) has cost so far and these live runs may still cost, beside the budgets."""
        now = self._clock.now()
        costs = sorted(self._journal.spent_usd_since(month_began(now), clouds()), key=lambda cost: cost.at)
        billed = [run for run in live if run.provider in clouds()]
        may_spend_usd = sum((most_usd(run, now) for run in billed), Decimal(0))
        return Month(now, costs, may_spend_usd, self._standing(None, costs, billed, now))

    @contextmanager
    def launching(self, run: Run) -> Iterator[None]:
        """The block writes down a launch of `run`: entered if the budgets have room for all that it may still cost.

        Raises RefusedError where it has not, ThisMachineError where another launch does not let go of the lock.
        """
        has_limit = self._limit_usd is not None or run.project in self._of_projects_usd
        if not has_limit or run.provider not in clouds():
            yield
            return
        # Two launches at once would each compute the budget without the other: all launches of this home take turns.
        with self._locks.deciding("monthly-budget"):
            now = self._clock.now()
            for budget in self.budgets(run.project):
                # The receipt of an ended run that is launched again has counted what its earlier attempts cost.
                budget.check(most_usd(run, now) - run.cost_usd(now))
            yield


def spending(journal: Journal, settings: Settings, clock: Clock | None = None) -> Spending:
    """What stands against the limit of these settings."""
    locks = RunLocks(settings.home / "locks")
    limits = settings.budget_usd_per_month, settings.project_budgets_usd_per_month
    return Spending(journal, limits[0], clock or SystemClock(), locks, limits[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthlyBudget:
    """`spent_usd`: receipts of this calendar month (UTC), a run counted whole in the month in which it ended.

    `may_spend_usd`: what runs that are not done have cost and may still cost, each up to its deadline or its budget at
    the highest price that can come to be payable. Of the runs of `project`; "": of all.
    """

    limit_usd: Decimal
    spent_usd: Decimal
    may_spend_usd: Decimal
    project: str = ""

    @property
    def text(self) -> str:
        """Return one line: what is spent, what may be spent, and the limit."""
        return (
            f"this month{f', project {self.project}' if self.project else ''}: {format_usd(self.spent_usd)} spent, "
            f"live runs may come to {format_usd(self.may_spend_usd)}, of {format_usd(self.limit_usd)} ({self._setting})"
        )

    @property
    def _setting(self) -> str:
        return "project_budgets_usd_per_month" if self.project else "budget_usd_per_month"

    def check(self, most_usd: Decimal) -> None:
        """Raises RefusedError where a launch that may cost `most_usd` could pass the limit."""
        together = self.spent_usd + self.may_spend_usd + most_usd
        if together <= self.limit_usd:
            return
        raise RefusedError(
            f"this launch may cost up to {format_usd(most_usd)}, and with that the month up to {format_usd(together)}; "
            f"{self.text}",
            f"launch it with a lower {Option.BUDGET} or a shorter {Option.DEADLINE}, or raise {self._setting} in "
            "settings.toml",
        )


class Month(NamedTuple):
    """`costs` by time: runs that ended this month. `may_spend_usd` as in MonthlyBudget, of all runs that are live."""

    now: datetime
    costs: Sequence[Spent]
    may_spend_usd: Decimal
    budgets: Sequence[MonthlyBudget]


def monthly_budget(
    limit_usd: Decimal, spent_usds: Iterable[Decimal], live: Iterable[Run], now: datetime, project: str = ""
) -> MonthlyBudget:
    """The budget as it stands at `now`."""
    return MonthlyBudget(
        limit_usd=limit_usd,
        spent_usd=sum(spent_usds, Decimal(0)),
        may_spend_usd=sum((most_usd(run, now) for run in live), Decimal(0)),
        project=project,
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
