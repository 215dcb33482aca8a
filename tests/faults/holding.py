"""What must hold whatever happened, by the double's ledger: nothing forgotten, never two at once, all recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from tests.faults.commands import Command, Computer
from tests.faults.health import destroyed, useless_machines
from tests.faults.random_cloud import RandomCloud
from trainplan.planner.home.client import own_client
from trainplan.planner.runs.cleanup.cleanup import Fate, look
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Outcome
from trainplan.planner.runs.targets import Target
from trainplan.pricing.offers import Market
from trainplan.providers.sim.ledger import most_at_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.faults.harness import Lived
    from trainplan.planner.runs.run import Run

MOST_CALLS = 400
"""A command that has made so many calls is killed by the person."""
SLACK = timedelta(minutes=4)
"""Boot, and what the calls of a create may take."""
JUST_NOW = timedelta(minutes=2)
"""What has ended since may still be listed."""
_DISK_AND_TRANSFER = Decimal("0.05")
_PAUSE = timedelta(minutes=2)
_MOST_PAUSES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a launch was promised to keep to, and where it may go; `compares`: it may leave a machine for a cheaper."""

    lasting: timedelta
    budget_usd: Decimal | None
    targets: tuple[Target, ...]
    compares: bool = False


@dataclass
class Holding:
    """The cloud, the computer, and the launches that were typed there, by run. Its methods raise AssertionError."""

    cloud: RandomCloud
    computer: Computer
    launched: dict[str, Limits] = field(default_factory=dict)
    wished_at: dict[str, datetime] = field(default_factory=dict)
    """When somebody first typed that a run is to stop."""

    def cleanup_finds_all_and_only_ours(self) -> None:
        """By label alone: everything that lists must show by now, whoever made it, and nothing else."""
        cloud = self.cloud
        cloud.mend()
        cloud.pass_time(cloud.now() + cloud.listing_lag)
        provider = self.computer.asks(Command(None))
        found = look(provider, dict, {own_client(self.computer.settings).id}, cloud.now)
        assert not found.unanswered, f"nothing is wrong any more, and there is no answer: {found.unanswered}"
        names = {cloud.name_of(known.resource) for known in found.resources}
        rows = [row for row in cloud.ledger() if row.run is not None]
        # What another computer made may have parts that it did not label.
        must = {row.id for row in rows if row.remaining and (row.ours or row.usd_per_hour)}
        since = cloud.now() - JUST_NOW
        may = {row.id for row in rows if row.remaining or row.ended_at is None or row.ended_at > since}
        assert must <= names <= may, f"cleanup finds {sorted(names)}, there are {sorted(must)}"
        for known in found.resources:
            theirs = (known.resource.client or "").startswith("another")
            expired = known.resource.deadline is not None and cloud.now() > known.resource.deadline
            spared = known.fate in (Fate.FOREIGN, Fate.NEWBORN) or (expired and known.fate is Fate.EXPIRED)
            assert not theirs or spared, f"cleanup would end {known}"

    def nobody_comes_back(self) -> None:
        """After every deadline nothing of ours is left that bills."""
        last = max((known.lasting for known in self.launched.values()), default=timedelta(0))
        self.cloud.pass_time(self.cloud.now() + last + self.cloud.timer_grace + SLACK)
        left = [row.id for row in self._ours() if row.remaining and row.usd_per_hour and self.cloud.timed(row)]
        assert not left, f"nobody came back, and there is still {left}"

    def somebody_comes_back(self) -> None:
        """`plan status` brings every run to its end and its receipt, and nothing of any is left."""
        last = max((known.lasting for known in self.launched.values()), default=timedelta(0)) + timedelta(hours=1)
        until = self.cloud.now() + last
        while self.cloud.now() < until:
            began, before = self.cloud.now(), self.cloud.ledger()
            self.computer.status(Command(10 * MOST_CALLS))
            useless = useless_machines(before, began, self.cloud.ledger())
            assert not useless, f"kept: {', '.join(useless)}"
            if self._all_settled():
                break
            self.cloud.pass_time(self.cloud.now() + max(_PAUSE, last / _MOST_PAUSES))
        runs = self.computer.recorded()
        open_runs = [f"{run.run_id} {run.phase} {run.unverified}" for run in runs if run.live or run.outcome is None]
        assert not open_runs, f"still live: {open_runs}"
        assert self._all_settled(), "a run has no receipt"
        for run in runs:
            self._has_its_receipt(run)
        left = [row.id for row in self._ours() if row.remaining]
        assert not left, f"left: {left}"
        strangers = {row.run for row in self._ours()} - {run.run_id for run in runs}
        assert not strangers, f"not in the journal: {strangers}"

    def machines_kept_their_limits(self) -> None:
        """Never two at once; by their deadline; within their budget."""
        recorded: Mapping[str, Run] = {run.run_id: run for run in self.computer.recorded()}
        for name, limits in self.launched.items():
            machines = [row for row in self._ours() if row.run == name and row.machine]
            if not machines:
                continue
            at_once = most_at_once((row.created_at, row.ended_at) for row in machines)
            assert at_once <= 1, f"{at_once} machines of {name} at once"
            for row in machines:
                self._ended_in_time(row, recorded[name])
            if limits.budget_usd is not None:
                self._within_budget(machines, limits, limits.budget_usd)

    def nothing_healthy_was_destroyed(self) -> None:
        """But for what nobody ever had an answer about: where it shows up after its run has gone on elsewhere, it is
        ended. And a run may leave spot for on demand, or a machine for a cheaper one, by stopping what trains."""
        recorded = {str(run.run_id): run for run in self.computer.recorded()}
        for name, limits in self.launched.items():
            known = (
                {attempt.ref.id for attempt in recorded[name].attempts if attempt.ref} if name in recorded else set()
            )
            rows = [row for row in self._ours() if row.run == name and row.machine and row.id in known]
            if limits.compares or Market.SPOT in {target.offer.market for target in limits.targets}:
                rows = [row for row in rows if row.work is None or row.work.stop_asked_at is None]
            found = destroyed(rows, self.wished_at.get(name))
            assert not found, f"destroyed: {', '.join(found)}"

    def _all_settled(self) -> bool:
        with Journal.open(self.computer.settings.journal) as journal:
            return not journal.live()

    def _has_its_receipt(self, run: Run) -> None:
        with Journal.open(self.computer.settings.journal) as journal:
            receipt = journal.receipt(run.run_id)
        assert receipt is not None, f"{run.run_id} has no receipt"
        told = receipt["outcome"], receipt["attempts"]
        assert told == (run.outcome, len(run.attempts)), f"{run.run_id}: {run.outcome}, and its receipt says {told}"
        ended_early = "last rung of the sweep" in (run.message or "")
        if (run.outcome is Outcome.SUCCEEDED or ended_early) and run.max_steps is None:
            model = self.computer.model_of(run.run_id) / "model.keras"
            assert model.is_file(), f"{run.run_id} has {run.outcome}, and its model is not at home"

    def _ended_in_time(self, row: Lived, run: Run) -> None:
        """By its deadline and the timers' grace, whatever became of the client."""
        limit = run.deadline + self.cloud.timer_grace + SLACK
        assert row.ended_at is not None, f"{row.id} is still there"
        assert row.ended_at <= limit, f"{row.id} lived until {row.ended_at}, its run until {run.deadline}"

    def _within_budget(self, machines: list[Lived], limits: Limits, budget_usd: Decimal) -> None:
        """What all machines of a run cost together, at the price of on demand for the time that timers may take."""
        placements = [self._target(row, limits) for row in machines]
        spent = sum((_usd(row, placement) for row, placement in zip(machines, placements, strict=True)), Decimal(0))
        dearest = max(placement.ceiling_usd_per_hour for placement in placements)
        most = budget_usd + dearest * _hours(self.cloud.timer_grace + SLACK) + _DISK_AND_TRANSFER
        assert spent <= most, f"${spent} were spent of a budget of ${budget_usd}"

    def _target(self, row: Lived, limits: Limits) -> Target:
        region = self.cloud.region_of(row)
        return next(target for target in limits.targets if target.offer.region == region)

    def _ours(self) -> list[Lived]:
        return [row for row in self.cloud.ledger() if row.ours]


def _usd(row: Lived, placement: Target) -> Decimal:
    assert row.ended_at is not None
    return placement.offer.usd_per_hour * _hours(row.ended_at - row.created_at)


def _hours(span: timedelta) -> Decimal:
    return Decimal(span.total_seconds()) / 3600
