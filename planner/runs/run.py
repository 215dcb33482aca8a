"""One run as data: its phases, the moves between them, its attempts and what they cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from planner.runs.targets import Target, affordable, billed_seconds, cost_of, payable_usd
from pricing.offers import Market
from providers.base import EndKind, InstanceRef, RunId
from workloads.job import OnSlow


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
    """Taken away, and nobody was there to launch it again."""
    NO_CAPACITY = "no_capacity"
    REFUSED = "refused"
    """Credentials, permission or quota."""
    FAILED = "failed"

    @property
    def resumable(self) -> bool:
        """Whether the same job can continue from the checkpoint of a run that ended so."""
        return self is not Outcome.SUCCEEDED


# Every move a run may make; DONE is left only when the person launches the same job again.
MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.PLANNED: frozenset({Phase.LAUNCHING, Phase.TEARING_DOWN}),
    Phase.LAUNCHING: frozenset({Phase.BOOTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.BOOTING: frozenset({Phase.RUNNING, Phase.COLLECTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.RUNNING: frozenset({Phase.COLLECTING, Phase.TEARING_DOWN, Phase.INTERRUPTED}),
    Phase.COLLECTING: frozenset({Phase.TEARING_DOWN}),
    Phase.TEARING_DOWN: frozenset({Phase.DONE}),
    Phase.INTERRUPTED: frozenset({Phase.LAUNCHING, Phase.TEARING_DOWN}),
    Phase.DONE: frozenset({Phase.LAUNCHING}),
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
class Attempt:
    """One instance of a run, or the try to get one. It may bill from `asked_at` to `ended_at`.

    `queued`: the provider says that nothing is charged for it so far; `bills_from` is since when something is, where
    that is known to be later than `asked_at`.
    `sent_at` is when its create was sent the last time: a listing shows it some time after that.
    `tries` counts how often it was sent without a clear answer; `cleared` tells that the provider has said that
    nothing of it is left. `step` is the newest complete checkpoint when it ended, `lost_steps` what had been trained
    beyond it, `deadline` its own timer's. `client` is the label that it was made with, None where it had none.
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
    step: int | None = None
    lost_steps: int | None = None
    cleared: bool = False
    queued: bool = False
    bills_from: datetime | None = None
    client: str | None = None

    @property
    def usd_per_hour(self) -> Decimal:
        """What an hour costs the person; zero for an attempt of an earlier version that recorded no target."""
        return self.target.payable_usd_per_hour if self.target else Decimal(0)

    @property
    def had_instance(self) -> bool:
        """Whether there was an instance; one that nobody saw is known by how it ended."""
        return (self.ref is not None or self.end is not None) and self.end is not EndKind.NO_CAPACITY

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
        began_at = self.billing_began_at
        if began_at is None or self.target is None:
            return timedelta(0)
        return self.target.machines * max(timedelta(0), (self.ended_at or now) - began_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`attempts` in order, the last is the live one. `targets` is where it may go, in the plan's order.

    `model_folder` is where the model goes on the person's computer (empty: a measuring run, which leaves none),
    `stop_asked` when the person asked the run to end, `slow` what was decided about a run that is slower than its
    estimate, `moving` to which market a run is being taken that still trains, `unverified` what may still be there
    after a teardown that the provider did not confirm. `deadline_given`: the deadline is the person's own.
    `checkpoint_seconds` lie between two checkpoints, `total_steps` are those of the whole job (None: not known).
    `taken_over`: a person has said that this home acts on it, whichever client launched it.
    `again_at` is when the run was launched again after it had ended (None: never).
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
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None
    message: str | None = None
    stop_asked: datetime | None = None
    slow: OnSlow | None = None
    moving: Market | None = None
    deadline_given: bool = False
    checkpoint_seconds: float = 0.0
    total_steps: int | None = None
    unverified: str | None = None
    taken_over: bool = False
    again_at: datetime | None = None

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

    def total_usd(self, now: datetime) -> Decimal:
        """Compute until now, and disk, address and transfer as they were estimated for where the run went."""
        return self.cost_usd(now) + self._fixed_usd

    def list_usd(self, now: datetime) -> Decimal:
        """The same at list prices, without own rates."""
        return sum((attempt.list_usd(now) for attempt in self.attempts), self._fixed_usd)

    @property
    def own_rates(self) -> tuple[str, ...]:
        """The own rates that its machines were paid at, in words."""
        offers = [attempt.target.offer for attempt in self.attempts if attempt.had_instance and attempt.target]
        return tuple(dict.fromkeys(offer.own_rate for offer in offers if offer.own_usd_per_hour is not None))

    @property
    def _fixed_usd(self) -> Decimal:
        attempts = (attempt for attempt in self.attempts if attempt.had_instance and not attempt.queued)
        return max((attempt.target.fixed_usd for attempt in attempts if attempt.target), default=Decimal(0))

    def left_usd(self, now: datetime) -> Decimal | None:
        """What is left of the budget; None without one."""
        return None if self.budget_usd is None else self.budget_usd - self.cost_usd(now)

    def moved(self, phase: Phase) -> Run:
        """The run in its next phase. Raises MoveError for a move that is not in MOVES."""
        if phase not in MOVES[self.phase]:
            raise MoveError(f"run {self.run_id} cannot go from {self.phase} to {phase}")
        return replace(self, phase=phase)

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
