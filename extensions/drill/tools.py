"""What a drill acts with: the project's own runner, journal and provider, in the provider's time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.extensions.drill.limits import Limits, job
from trainplan.extensions.drill.sheet import BrokenOffError, FailedError, Sheet, SkippedError
from trainplan.planner.clock import Clock
from trainplan.planner.errors import PlanError, UnknownRunError
from trainplan.planner.home.client import Client
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.records import request_from_record
from trainplan.planner.runs.proposal.live_prices import Watchful
from trainplan.planner.runs.run import Phase, Run
from trainplan.planner.runs.runner import Runner, request_for
from trainplan.planner.runs.targets import Target
from trainplan.planner.settings import Settings
from trainplan.providers.base import LaunchRequest, Provider, RunId, RunStore
from trainplan.providers.errors import ProviderError
from trainplan.providers.values import OwnEnds

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.create import MakeRequest

END_PATIENCE = timedelta(minutes=12)
"""How long a drill sees to the end of one of its runs before it says that something may be left."""
TRAINS_ON = timedelta(hours=1)
"""How long after its deadline the trainer of a machine would go on whose timers are watched one at a time."""
OWN_TIMER_AFTER = timedelta(minutes=25)
"""How long after its deadline a machine ends itself that the cloud is to end: later than any timer of a cloud may come
(5 minutes after the deadline, and trainplan.extensions.drill.limits.LATE), and soon, should the drill have died before
that was set.
"""


@dataclass(kw_only=True)
class Tools:
    """The journal, provider, clock and limits that every step of a drill uses.

    `began` is the time at which the drill began, `runs` the ids of its runs. `say` prints one line for the person.
    `email` is whom the drill's alarm would warn; "": no alarm is tried, and no bill.
    """

    runner: Runner
    journal: Journal
    provider: Provider
    clock: Clock
    settings: Settings
    client: Client
    limits: Limits
    targets: tuple[Target, ...]
    sheet: Sheet
    say: Callable[[str], None]
    began: datetime
    runs: list[RunId] = field(default_factory=list)
    email: str = ""

    def now(self) -> datetime:
        """The provider's time."""
        return self.clock.now()

    def pause(self) -> None:
        """Wait for the time between two looks."""
        self.clock.sleep(self.limits.poll_seconds)

    def run(self, run_id: RunId) -> Run:
        """Return the run as the journal has it."""
        return self.journal.run(run_id)

    def recorded(self) -> list[Run]:
        """The drill's runs as the journal has them; one that was interrupted before it was written down is none."""
        runs = {run.run_id: run for run in self.journal.runs()}
        return [runs[run_id] for run_id in self.runs if run_id in runs]

    def store(self, run_id: RunId) -> RunStore:
        """The run directory of a run."""
        return self.provider.store(run_id)

    def request(self, run: Run) -> LaunchRequest:
        """The request of the newest attempt, as it was sent."""
        return request_from_record(self.journal.request(run.run_id, run.attempts[-1].number), self.provider)

    def usd(self) -> Decimal:
        """What the runs have cost until now, as far as is known here."""
        return sum((run.cost_usd(self.now()) for run in self.recorded()), Decimal(0))

    def check_room(self, lasting: timedelta, usd: Decimal) -> None:
        """Raises SkippedError where so much time, or so much money, is not left of the drill's limits."""
        if self.now() + lasting + self.limits.end > self.began + self.limits.whole:
            raise SkippedError("too little time is left")
        if self.usd() + usd > self.limits.max_usd:
            raise SkippedError("too little of the cost limit is left")

    def draft(self, deadline: timedelta, budget_usd: Decimal) -> Run:
        """A run of the drill's job, not recorded."""
        draft = self.runner.draft(job(deadline, budget_usd), self.targets, None, None)
        return replace(draft, model_folder=str(self.settings.home / "drills" / draft.run_id))

    def record(self, run: Run, deadline: timedelta, budget_usd: Decimal) -> Run:
        """The run in the journal, before anything is made for it."""
        self.runs.append(run.run_id)
        return self.runner.record(run, job(deadline, budget_usd), {})

    def requests(self, ends: Callable[[LaunchRequest], OwnEnds | None]) -> MakeRequest:
        """Makes requests at about the prices that were agreed to; `ends` says what inside a machine ends it when."""
        keys = RunKeys(self.settings.home)
        make = request_for(
            job(timedelta(minutes=1), Decimal(1)), self.clock, client=self.client.id, key=keys.key
        )  # its limits are those of the run

        def request_of(run: Run, number: int, target: Target) -> LaunchRequest:
            request = make(run, number, target)
            return replace(request, own_ends=ends(request))

        offers = [target.offer for target in self.targets]
        return Watchful(lambda _: self.provider, self.now, offers).over(request_of)

    def launched(self, run: Run, make: MakeRequest) -> Run:
        """The run with a machine that boots. Raises PlanError, FailedError, SkippedError, BrokenOffError."""
        try:
            the_run, _ = self.runner.follow(run, make, until_launched=True)
        except Detached as left:
            if left.run.phase in (Phase.BOOTING, Phase.RUNNING):
                return left.run
            raise BrokenOffError("the drill was interrupted") from None
        raise FailedError(the_run.message or f"the launch ended: {the_run.outcome}")

    def settled(self, run: Run) -> Run:
        """The run where it stands, and what has ended of it cleared away."""
        return self.runner.settle(run)

    def end(self, run_id: RunId) -> str:
        """End a run in whatever phase it is. Return why its end is not confirmed after END_PATIENCE; "" if it is."""
        until, why = self.now() + END_PATIENCE, ""
        while True:
            try:
                run = self.settled(self.run(run_id))
                if run.phase is Phase.DONE:
                    return ""
                for owned in self.provider.list_owned(run_id):
                    self.provider.delete(owned)
            except UnknownRunError:  # interrupted before it was written down: nothing was made for it
                return ""
            except (PlanError, ProviderError) as error:
                why = error.message
            if self.now() > until:
                return why or f"run {run_id} has not ended"
            self.pause()


def own_timer_only(after: timedelta) -> Callable[[LaunchRequest], OwnEnds]:
    """Own ends of a machine whose timer ends it `after` before its deadline, while its trainer would go on."""
    return lambda request: OwnEnds(trainer=request.deadline + TRAINS_ON, timer=request.deadline - after)


def cloud_timer_only(request: LaunchRequest) -> OwnEnds:
    """Return own ends so late that the cloud's timer ends the machine before them."""
    return OwnEnds(trainer=request.deadline + TRAINS_ON, timer=request.deadline + OWN_TIMER_AFTER)
