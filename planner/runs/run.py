"""One run as data: its phases, the moves between them, its attempts and what they cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from trainplan.planner.runs.targets import Target, affordable, billed_seconds, cost_of, payable_usd
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind, InstanceRef, RunId
from trainplan.workloads.job import OnSlow

NEGLIGIBLE = Decimal("0.01")
"""A cost of which no more than this share may not have been billed counts as known."""
_HOUR = timedelta(hours=1)


def _hours(lasting: timedelta) -> Decimal:
    return Decimal(lasting / _HOUR)


class Phase(StrEnum):
    """The phases of a run (planner/runs/__init__.py tells when each begins)."""

    PLANNED = "planned"
    LAUNCHING = "launching"
    BOOTING = "booting"
    RUNNING = "running"
    COLLECTING = "collecting"
    TEARING_DOWN = "tearing_down"
    INTERRUPTED = "interrupted"
    DONE = "done"


class Outcome(StrEnum):
    """How a run ended. All but SUCCEEDED keep their checkpoint: the same job can go on from it."""

    SUCCEEDED = "succeeded"
    STOPPED = "stopped"
    DEADLINE = "deadline"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    """Taken away, and nobody was there to launch it again, taken away again and again, or its provider did not answer.
    No fault of the job."""
    NO_CAPACITY = "no_capacity"
    REFUSED = "refused"
    """Credentials, permission or quota."""
    FAILED = "failed"

    @property
    def resumable(self) -> bool:
        """Whether the same job can continue from the checkpoint of a run that ended so."""
        return self is not Outcome.SUCCEEDED


# Every move a run may make; DONE is left only when the person launches the same job again, or has what it left brought
# home.
MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.PLANNED: frozenset({Phase.LAUNCHING, Phase.TEARING_DOWN}),
    Phase.LAUNCHING: frozenset({Phase.BOOTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.BOOTING: frozenset({Phase.RUNNING, Phase.COLLECTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.RUNNING: frozenset({Phase.COLLECTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.COLLECTING: frozenset({Phase.TEARING_DOWN}),
    Phase.TEARING_DOWN: frozenset({Phase.DONE}),
    Phase.INTERRUPTED: frozenset({Phase.LAUNCHING, Phase.COLLECTING, Phase.TEARING_DOWN}),
    Phase.DONE: frozenset({Phase.LAUNCHING, Phase.COLLECTING}),
}

# What an ended instance means for the run. DONE still has to be collected; None: the run goes on elsewhere.
OUTCOMES: dict[EndKind, Outcome | None] = {
    EndKind.DONE: Outcome.SUCCEEDED,
    EndKind.STOPPED: Outcome.STOPPED,
    EndKind.DEADLINE: Outcome.DEADLINE,
    EndKind.BAD_JOB: Outcome.FAILED,
    EndKind.FAILED: Outcome.FAILED,
    EndKind.OUT_OF_MEMORY: Outcome.FAILED,
    EndKind.REFUSED: Outcome.REFUSED,
    EndKind.KILLED: None,
    EndKind.LOST: None,
    EndKind.RECLAIMED: None,
    EndKind.DEVICE_LOST: None,
    EndKind.NO_CAPACITY: None,
}

# Nothing was taken from whoever never had anything.
INTERRUPTIONS = frozenset(end for end, outcome in OUTCOMES.items() if outcome is None) - {EndKind.NO_CAPACITY}


class MoveError(ValueError):
    """A move that no run may make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast an attempt was measured to train. `half_width` is that of the 80 % interval of the rate, as a share of
    it; `leaves`: by that, the rest of the run is cheaper elsewhere."""

    images_per_second: float
    half_width: float
    leaves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One instance of a run, or the try to get one. It may bill from `asked_at` to `ended_at`, its disk and its address
    to `gone_at`, when their absence was confirmed.

    `ended_after` and `gone_after` are the earliest that these can have been, where nobody tells the instant itself;
    `gone_at` is the latest then, and `ended_at` the likeliest, with `ended_before` as the latest where that is later.
    None: as told. `disk_gone_at` and `address_gone_at` are when these were gone at the latest, where the provider
    deletes them with their machine and nobody has found them after its end; None: `gone_at`.

    `queued`: the provider says that nothing is charged for it so far; `bills_from` is since when something is, where
    that is known to be later than `asked_at`. `bills_by` is when something was charged at the latest, where nobody saw
    it begin (None: from `asked_at` or `bills_from` on).
    `deleted_by` is when its deletion had begun at the latest, after which nothing is charged (None: nobody saw it).
    `sent_at` is when its create was sent the last time: a listing shows it some time after that.
    `tries` counts how often it was sent without a clear answer; `cleared` tells that the provider has said that
    nothing of it is left. `step` is the newest complete checkpoint when it ended (0: there is none; None: its store
    has not answered), `lost_steps` what had been trained beyond it, `deadline` its own timer's. `client` is the label
    that it was made with, None where it had none.
    `found`: no answer told of an instance, and one was there all the same.
    `speed` is what a run that `measures_first` was measured at (None: it was not, or not yet).
    `results_at_home`: what it left as its output has been brought home.
    """

    number: int
    ref: InstanceRef | None = None
    target: Target | None = None
    asked_at: datetime | None = None
    sent_at: datetime | None = None
    deadline: datetime | None = None
    tries: int = 0
    exit_code: int | None = None
    end: EndKind | None = None
    reason: str | None = None
    ended_at: datetime | None = None
    ended_after: datetime | None = None
    ended_before: datetime | None = None
    gone_at: datetime | None = None
    gone_after: datetime | None = None
    disk_gone_at: datetime | None = None
    address_gone_at: datetime | None = None
    step: int | None = None
    lost_steps: int | None = None
    cleared: bool = False
    queued: bool = False
    bills_from: datetime | None = None
    bills_by: datetime | None = None
    deleted_by: datetime | None = None
    client: str | None = None
    found: bool = False
    speed: Speed | None = None
    results_at_home: bool = False

    @property
    def usd_per_hour(self) -> Decimal:
        """What an hour costs the person; zero for an attempt of an earlier version that recorded no target."""
        return self.target.payable_usd_per_hour if self.target else Decimal(0)

    @property
    def leaves(self) -> bool:
        """Whether the run goes on elsewhere, where the rest of it is cheaper by what was measured here."""
        return self.speed is not None and self.speed.leaves

    @property
    def had_instance(self) -> bool:
        """Whether there was an instance; one that nobody saw is known by how it ended."""
        return (self.ref is not None or self.end is not None or self.found) and self.end is not EndKind.NO_CAPACITY

    @property
    def billing_began_at(self) -> datetime | None:
        """Since when it is charged for; None for a refused create, and while it waits for room."""
        if self.asked_at is None or self.queued or (self.cleared and not self.had_instance):
            return None
        return max(self.asked_at, self.bills_from or self.asked_at)

    def cost_usd(self, now: datetime, used_seconds: int = 0) -> Decimal:
        """What it has cost until now, under its offer's billing; a refused create costs nothing, nor does waiting.

        `used_seconds` of the hours that were left of its own rate had been used before it.
        """
        lasting = self._charged(now)
        return payable_usd(self.target.offer, lasting, used_seconds) if self.target and lasting else Decimal(0)

    def list_usd(self, now: datetime) -> Decimal:
        """The same at the price of its offer's source, without an own rate."""
        lasting = self._charged(now)
        return cost_of(self.target.offer.usd_per_hour, self.target.offer, lasting) if self.target else Decimal(0)

    def own_seconds(self, now: datetime) -> int:
        """The seconds charged at an own rate of which hours are left, as far as they lasted."""
        if self.target is None or self.target.offer.own_hours is None:
            return 0
        return billed_seconds(self.target.offer, self._charged(now))

    def _charged(self, now: datetime) -> timedelta:
        """Return how long the attempt was charged until now, the times of all its machines added up."""
        return timedelta(0) if self.target is None else self.target.machines * self._until(self.ended_at or now)

    def attached_usd(self, now: datetime) -> tuple[Decimal, Decimal]:
        """Its disk and its address until now: they may outlive their machine until somebody confirms their end."""
        if self.target is None or not self.had_instance:
            return Decimal(0), Decimal(0)
        gone_at = self.gone_at or (self.ended_at if self.cleared else None) or now
        disk, address = (
            Decimal(billed_seconds(self.target.offer, self._until(at or gone_at))) / 3600
            for at in (self.disk_gone_at, self.address_gone_at)
        )
        return self.target.disk_usd_per_hour * disk, self.target.address_usd_per_hour * address

    @property
    def at_latest(self) -> Attempt:
        """The same, ended as late as it can have: what a receipt says is what it cost at most."""
        return self if self.ended_before is None else replace(self, ended_at=self.ended_before, ended_before=None)

    @property
    def uncertain_usd(self) -> BilledUsd:
        """How much of what is counted may not have been billed, since nobody tells when its machine, its disk or its
        address ended."""
        compute = disk = address = Decimal(0)
        # What ended before it began to bill was not billed at all.
        if self.target is not None and self.had_instance:
            if self.ended_at is not None and self.ended_after is not None:
                compute = self.usd_per_hour * _hours(self._until(self.ended_at) - self._until(self.ended_after))
            if self.bills_by is not None:
                compute += self.usd_per_hour * _hours(self._until(self.bills_by))
            disk = self.target.disk_usd_per_hour * self._uncertain_hours(self.disk_gone_at)
            address = self.target.address_usd_per_hour * self._uncertain_hours(self.address_gone_at)
        return BilledUsd(compute, disk, address, Decimal(0))

    def _uncertain_hours(self, gone_at: datetime | None) -> Decimal:
        """Of a disk or an address that was gone then at the latest (None: when its absence was confirmed)."""
        if self.gone_at is None or self.gone_after is None:
            return Decimal(0)
        after = self.gone_after if gone_at is None else min(gone_at, self.ended_after or self.ended_at or gone_at)
        return _hours(self._until(gone_at or self.gone_at) - self._until(after))

    def _until(self, end: datetime) -> timedelta:
        began_at = self.billing_began_at
        return timedelta(0) if began_at is None else max(timedelta(0), end - began_at)


class BilledUsd(NamedTuple):
    """What a run was billed, in USD by kind of resource. `transfer` is as it was estimated, once what it pays for was
    sent; the rest is counted by time."""

    compute: Decimal
    disk: Decimal
    address: Decimal
    transfer: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`attempts` in order, the last is the live one. `targets` is where it may go, in the plan's order.

    `model_folder` is where the model goes on the person's computer (empty: a measuring run, which leaves none),
    `stop_asked` when the person asked the run to end, `slow` what was decided about a run that is slower than its
    estimate, `moving` to which market a run is being taken that still trains, `unverified` what may still be there
    after a teardown that the provider did not confirm. `deadline_given`: the deadline is the person's own.
    `checkpoint_seconds` lie between two checkpoints, `total_steps` are those of the whole job (None: not known).
    `max_steps` ends the training of a measuring run (None: it trains to the end); `until_steady`: a pilot, which
    ends sooner where its rate is known well enough; `try_settings`: one that tries micro-batches and XLA.
    `measures_first`: a run that trains to the end, and whose first minutes on a device are its pilot there: it stays
    only where nothing else is cheaper by what was measured.
    `taken_over`: a person has said that this home acts on it, whichever client launched it.
    `again_at` is when the run was launched again after it had ended (None: never).
    `launched_at` is when it was launched by this computer's clock, where that of its provider is another (None: the
    same): a simulated cloud lives ahead of us. It dates the run in lists; all else is in the provider's time.
    `has_results_settled`: the store has answered whether a complete output is there, and what was there has been
    brought home or was refused. `results_given_up`: a person does not want the store waited for any more.
    """

    run_id: RunId
    job_name: str
    job_digest: str
    provider: str
    phase: Phase
    created_at: datetime
    deadline: datetime
    model_folder: str
    targets: tuple[Target, ...] = ()
    budget_usd: Decimal | None = None
    on_slow: OnSlow = OnSlow.ASK
    project: str = ""
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None
    message: str | None = None
    stop_asked: datetime | None = None
    slow: OnSlow | None = None
    moving: Market | None = None
    deadline_given: bool = False
    checkpoint_seconds: float = 0.0
    total_steps: int | None = None
    max_steps: int | None = None
    until_steady: bool = False
    try_settings: bool = False
    measures_first: bool = False
    unverified: str | None = None
    taken_over: bool = False
    again_at: datetime | None = None
    launched_at: datetime | None = None
    has_results_settled: bool = False
    results_given_up: bool = False

    @property
    def dated_at(self) -> datetime:
        """When it was launched, for whoever reads a list of runs."""
        return self.launched_at or self.created_at

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt; None before there is one."""
        return self.attempts[-1] if self.attempts else None

    @property
    def client(self) -> str | None:
        """The client that launched it last; None where nothing was launched, or nobody wrote down by whom."""
        return self.attempts[-1].client if self.attempts else None

    @property
    def live(self) -> bool:
        """Whether the run is not done: something may still have to be launched, collected or deleted."""
        return self.phase is not Phase.DONE

    @property
    def usd_per_hour(self) -> Decimal:
        """What the newest attempt costs, before the first one what the first target would."""
        if self.attempts:
            return self.attempts[-1].usd_per_hour
        return self.targets[0].payable_usd_per_hour if self.targets else Decimal(0)

    @property
    def bills(self) -> bool:
        """Whether something may be there that costs money."""
        attempt = self.attempt
        return self.live and attempt is not None and not attempt.cleared

    @property
    def bills_usd_per_hour(self) -> Decimal:
        """What is charged for its machine at this moment, as far as is known."""
        is_over = not self.bills or (self.attempts[-1].ended_at is not None)
        return Decimal(0) if is_over else self.usd_per_hour

    def attempt_usds(self, now: datetime) -> dict[int, Decimal]:
        """Compute of each attempt until now, by its number: hours of an own rate that one has used are gone for the
        next."""
        used_seconds: dict[str, int] = {}
        usds = {}
        for attempt in self.attempts:
            rate = attempt.target.offer.own_rate if attempt.target else ""
            usds[attempt.number] = attempt.cost_usd(now, used_seconds.get(rate, 0))
            used_seconds[rate] = used_seconds.get(rate, 0) + attempt.own_seconds(now)
        return usds

    def cost_usd(self, now: datetime) -> Decimal:
        """Compute of all attempts until now."""
        return sum(self.attempt_usds(now).values(), Decimal(0))

    def billed_usd(self, now: datetime) -> BilledUsd:
        """Compute until now, disk and address until they are known to be gone, and what was transferred."""
        attached = [attempt.attached_usd(now) for attempt in self.attempts]
        return BilledUsd(
            compute=self.cost_usd(now),
            disk=sum((disk for disk, _ in attached), Decimal(0)),
            address=sum((address for _, address in attached), Decimal(0)),
            transfer=self._transfer_usd,
        )

    def total_usd(self, now: datetime) -> Decimal:
        """The sum of what is billed until now."""
        return sum(self.billed_usd(now), Decimal(0))

    def is_at_most(self, now: datetime) -> bool:
        """Whether more than a hundredth of what is counted may not have been billed: nobody told when it ended."""
        return sum(self.uncertain_usd, Decimal(0)) > self.total_usd(now) * NEGLIGIBLE

    def list_usd(self, now: datetime) -> Decimal:
        """The same at list prices, without own rates."""
        _, *beside = self.billed_usd(now)
        return sum((attempt.list_usd(now) for attempt in self.attempts), sum(beside, Decimal(0)))

    @property
    def at_latest(self) -> Run:
        """The same, with each machine ended as late as it can have."""
        return replace(self, attempts=tuple(attempt.at_latest for attempt in self.attempts))

    @property
    def uncertain_usd(self) -> BilledUsd:
        """How much of each part may not have been billed, since nobody tells when it ended."""
        parts = zip(*(attempt.uncertain_usd for attempt in self.attempts), strict=True)
        return BilledUsd(*(sum(part, Decimal(0)) for part in parts)) if self.attempts else BilledUsd(*[Decimal(0)] * 4)

    @property
    def nothing_bills_since(self) -> datetime | None:
        """Since when all of its attempts are confirmed to be gone; None while one may be there."""
        if not all(attempt.cleared for attempt in self.attempts):
            return None
        return max((at for attempt in self.attempts if (at := attempt.gone_at or attempt.ended_at)), default=None)

    @property
    def own_rates(self) -> tuple[str, ...]:
        """The own rates that its machines were paid at, in words."""
        offers = [attempt.target.offer for attempt in self.attempts if attempt.had_instance and attempt.target]
        return tuple(dict.fromkeys(offer.own_rate for offer in offers if offer.own_usd_per_hour is not None))

    @property
    def _transfer_usd(self) -> Decimal:
        """Traffic with a bucket in another region from when there is a machine; the way home of each output that is at
        home, whatever the outcome."""
        attempts = [attempt for attempt in self.attempts if attempt.had_instance and not attempt.queued]
        targets = [attempt.target for attempt in attempts if attempt.target]
        traffic_usd = max((target.traffic_usd for target in targets), default=Decimal(0))
        home = [attempt.target.download_usd for attempt in attempts if attempt.target and attempt.results_at_home]
        if not home and self.outcome is Outcome.SUCCEEDED:
            home = [target.download_usd for target in targets[-1:]]
        return traffic_usd + (sum(home, Decimal(0)) if self.model_folder else Decimal(0))

    def left_usd(self, now: datetime) -> Decimal | None:
        """What is left of the budget; None without one."""
        return None if self.budget_usd is None else self.budget_usd - self.cost_usd(now)

    def moved(self, phase: Phase) -> Run:
        """The run in its next phase. Raises MoveError for a move that is not in MOVES."""
        if phase not in MOVES[self.phase]:
            raise MoveError(f"run {self.run_id} cannot go from {self.phase} to {phase}")
        return replace(self, phase=phase)

    @property
    def may_have_checkpoint(self) -> bool:
        """False only where the last machine is known to have trained no step: it saved no checkpoint."""
        ran = [attempt for attempt in self.attempts if attempt.had_instance]
        return not ran or ran[-1].step != 0

    def with_attempt(self, attempt: Attempt) -> Run:
        """The run with this attempt in the place of the one of its number, or behind the others."""
        attempts = tuple(
            earlier_attempt for earlier_attempt in self.attempts if earlier_attempt.number != attempt.number
        )
        return replace(self, attempts=(*attempts, attempt))


def attempt_deadline(run: Run, target: Target, now: datetime) -> datetime:
    """When an instance started now at a target ends itself: the run's deadline, or when its budget is spent at the
    highest price that can come to be payable there, whichever is sooner."""
    remaining = run.left_usd(now)
    if remaining is None:
        return run.deadline
    return min(run.deadline, now + affordable(target, remaining))
