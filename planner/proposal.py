"""What a launch would do, before anybody is asked: the places it may go to, what that takes, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from planner.market import chance_text
from planner.next_action import TIMER_GRACE
from planner.plan import Plan
from planner.price_notes import price_text
from planner.receipt import estimate_record
from planner.run import attempt_deadline
from planner.targets import Target
from pricing.money import format_usd, format_usd_per_hour, from_micro
from workloads.durations import format_duration

if TYPE_CHECKING:
    from planner.plan import MachineEstimate, RankedOffer
    from planner.run import Run
    from pricing.offers import Offer
    from providers.base import Timers

MOST_TARGETS = 200
"""Places that a run may go to; each is asked in turn, and nobody waits for the two-hundredth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """`targets` in the plan's order, `record` the estimate as the journal keeps it, `slow_end` the slow end of its
    time (None: nothing could be estimated), `text` all of it in a line.

    `plan` is what it was made from (None: this machine), `dearer` why its price has to be agreed to ("": it is about
    what was shown before).
    """

    targets: tuple[Target, ...]
    record: dict[str, Any]
    slow_end: timedelta | None
    text: str
    plan: Plan | None = None
    dearer: str = ""

    @property
    def offers(self) -> list[Offer]:
        return [target.offer for target in self.targets]


def here(estimate: MachineEstimate, offer: Offer, text: str) -> Proposal:
    """On this machine, which has no other place."""
    slow_end = estimate.time.high if estimate.time else None
    return Proposal(targets=(Target(offer=offer),), record=estimate_record(estimate), slow_end=slow_end, text=text)


def rented(plan: Plan, dearer: str = "") -> Proposal:
    """On what the plan ranks, zone by zone, the best first. The plan has at least one candidate, and every place."""
    targets = [target for ranked in plan.candidates for target in _targets(ranked)][:MOST_TARGETS]
    best = plan.candidates[0]
    time, speed = best.candidate.estimate.time, best.candidate.estimate.throughput
    record = {
        "seconds": time.total.total_seconds(),
        "low_seconds": time.low.total_seconds(),
        "high_seconds": time.high.total_seconds(),
        "usd": float(best.cost_usd),
        "images_per_second": speed.images_per_second,
        "basis": speed.basis,
    }
    cost = f"{format_usd(best.cost_usd)} ({format_usd(best.cost_low_usd)} to {format_usd(best.cost_high_usd)})"
    text = (
        f"{targets[0].where} at {format_usd_per_hour(best.offer.usd_per_hour)} "
        f"({price_text(best.offer, plan.made_at.date())}): "
        f"{format_duration(time.total)} ({format_duration(time.low)} to {format_duration(time.high)}), {cost}"
    )
    return Proposal(targets=tuple(targets), record=record, slow_end=time.high, text=text, plan=plan, dearer=dearer)


def limits_text(run: Run, timers: Timers, now: datetime) -> list[str]:
    """When the run ends at the latest, and who sees to it: the three times, before anything is created."""
    own = attempt_deadline(run, run.targets[0], now)
    budget = f", or when ${run.budget_usd} are spent at the highest price that may come" if run.budget_usd else ""
    lines = [f"ends by {_clock(own)} at the latest{budget}"]
    if timers.machine is not None:
        lines.append(
            f"  this command ends it by {_clock(own + TIMER_GRACE)}, the machine itself at {_clock(timers.machine)}"
        )
    if timers.cloud is not None:
        lines.append(f"  the cloud's own timer ends it at {_clock(timers.cloud)}")
    else:
        lines.append("  no timer of the provider's own stands behind these")
    if chance := chance_text(run, now):
        lines.append(f"  {chance}")
    if timers.gap:
        lines.append(f"  not covered: {timers.gap}")
    return lines


def _targets(ranked: RankedOffer) -> list[Target]:
    estimate, offer = ranked.candidate.estimate, ranked.offer
    zones: tuple[str | None, ...] = offer.zones or (None,)
    return [
        Target(
            offer=offer,
            zone=zone,
            seconds=estimate.time.total.total_seconds(),
            overhead_seconds=estimate.time.setup.total_seconds(),
            fixed_usd=from_micro(estimate.fixed_micro_usd[0]),
            images_per_second=estimate.throughput.images_per_second,
            images_per_second_low=estimate.throughput.low,
        )
        for zone in zones
    ]


def _clock(instant: datetime) -> str:
    return f"{instant.astimezone():%Y-%m-%d %H:%M}"
