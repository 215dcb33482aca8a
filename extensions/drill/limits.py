"""How long each part of a drill may take, and what that comes to in dollars."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_UP, Decimal

from trainplan.planner.errors import NothingLeftError
from trainplan.planner.runs.targets import Target, cost_of
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.money import format_usd
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.wording import Option

# docs/drill.md promises these two as the most.
MOST_MINUTES = 45
MOST_USD = Decimal("0.15")
SIM_MOST_USD = Decimal("0.50")
"""The simulated cloud has no small machines, and bills nothing."""
EXTRAS_USD_PER_HOUR = Decimal("0.03")
"""Disk and public address beside a machine, at the dearest of the three clouds and with 100 GiB of disk."""
CLOUD_TIMER_AHEAD = timedelta(minutes=10)
LEAST_AHEAD = timedelta(minutes=3)
"""From the create of machine C to its deadline: where the cloud's timer comes long after the deadline."""
LATE = timedelta(minutes=5)
"""How much later than its time a timer of the cloud may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`first` is the deadline of A, `timer` from B's create to its own timer, `after_timer` from there to B's deadline:
    no timer of the cloud comes sooner. `whole` is the drill, `poll_seconds` lie between two looks."""

    max_usd: Decimal
    whole: timedelta = timedelta(minutes=MOST_MINUTES)
    first: timedelta = timedelta(minutes=20)
    timer: timedelta = timedelta(minutes=12)
    after_timer: timedelta = timedelta(minutes=3)
    cloud_timer: timedelta = CLOUD_TIMER_AHEAD + timedelta(minutes=3)
    end: timedelta = timedelta(minutes=4)
    poll_seconds: float = 10.0

    @property
    def second(self) -> timedelta:
        """How long the second machine of a drill may exist: until its own timer, and until the cloud's after that."""
        return self.timer + self.after_timer

    @property
    def third(self) -> timedelta:
        """How long the third part waits: until C is over even where its timer is late."""
        return self.cloud_timer + LATE

    def usd_first(self, target: Target) -> Decimal:
        """What the run of A and B costs at most."""
        return _cost(target, self.first) + self.usd_second(target)

    def usd_second(self, target: Target) -> Decimal:
        """What B costs at most."""
        return _cost(target, self.second)

    def usd_third(self, target: Target) -> Decimal:
        """What the run of C costs at most."""
        return _cost(target, self.third)

    def usd(self, target: Target) -> Decimal:
        """What the whole drill costs at most on such a machine."""
        return self.usd_first(target) + self.usd_third(target)


def limits_for(device: str, max_usd: Decimal) -> Limits:
    """Those of a processor; a machine with an accelerator takes minutes longer to its first step."""
    if device == CPU_DEVICE:
        return Limits(max_usd=max_usd)
    return Limits(max_usd=max_usd, first=timedelta(minutes=22), timer=timedelta(minutes=15))


def within(targets: tuple[Target, ...], limits: Limits) -> tuple[Target, ...]:
    """The targets on which the whole drill stays below its limit. Raises NothingLeftError where none does."""
    affordable = tuple(target for target in targets if limits.usd(target) <= limits.max_usd)
    if not affordable:
        least = min(limits.usd(target) for target in targets).quantize(Decimal("0.01"), ROUND_UP)
        raise NothingLeftError(
            f"a drill on the cheapest machine costs up to {format_usd(least)}, above the limit of "
            f"{format_usd(limits.max_usd)}",
            f"{Option.MAX_COST_USD(least)} allows it",
        )
    return affordable


def _cost(target: Target, lasting: timedelta) -> Decimal:
    # The dearest that can come to be payable: the limit is said to be the most that a drill costs.
    rate = max(target.ceiling_usd_per_hour, target.offer.planning_usd_per_hour or Decimal(0))
    return cost_of(rate + EXTRAS_USD_PER_HOUR, target.offer, lasting)


NAME = "trainplan-drill"
"""The name of the job, by which a later drill finds what an earlier one has left."""
# Machine A has 20 minutes in all (limits.py): its checkpoint must not be what the drill waits for.
CHECKPOINT_EVERY = "30s"


def job(deadline: timedelta, budget_usd: Decimal) -> TrainingJob:
    """The job under these limits; its digest is the same under any."""
    return TrainingJob.model_validate(
        {
            "name": NAME,
            "model": {"layers": [32, "M", 64, "M", 64, "M"], "image_size": 64, "dense": [16]},
            "data": {"name": "synthetic"},  # nothing is fetched, and an epoch takes minutes on a small machine
            "epochs": 1_000_000,
            "global_batch_size": 32,
            "precision": "fp32",
            "checkpoint_every": CHECKPOINT_EVERY,
            "on_slow": "continue",
            "constraints": {"deadline": f"{deadline.total_seconds():.0f}s", "budget_usd": str(budget_usd)},
        }
    )
