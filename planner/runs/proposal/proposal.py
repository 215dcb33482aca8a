"""What a launch would do, before anybody is asked: the placements it may go to, what that takes, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING, Any

from trainplan.planner.errors import NothingLeftError
from trainplan.planner.forecast.plan import MachineEstimate, Plan, RankedOffer
from trainplan.planner.forecast.price_notes import price_text
from trainplan.planner.forecast.script_work import NOT_MEASURED, assumption
from trainplan.planner.report.estimate_page import unproven_text
from trainplan.planner.runs.decision.market import chance_text
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.receipt.receipt import estimate_record
from trainplan.planner.runs.run import Run, attempt_deadline
from trainplan.planner.runs.targets import MOST_ABOVE, Target
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.money import format_usd, format_usd_per_hour, from_micro
from trainplan.pricing.offers import Market, Offer
from trainplan.providers.registry import is_here, is_simulated
from trainplan.workloads.durations import format_duration
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.providers.base import Timers

MOST_TARGETS = 200
"""Placements that a run may go to; each is asked in turn, and nobody waits for the two-hundredth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """`targets` in the plan's order, `record` the estimate as the journal keeps it, `slow_end` the slow end of its
    time (None: nothing could be estimated), `text` all of it in a line.

    `plan` is what it was made from, or `quote` where that is this machine (None: the other one is), `dearer` why its
    price has to be agreed to ("": it is about what was shown before), `late` why its deadline has to be ("": it would
    be kept). `left_out` says which placements of the plan the run may not take ("": it may take all of them).
    """

    targets: tuple[Target, ...]
    record: dict[str, Any]
    slow_end: timedelta | None
    text: str
    plan: Plan | None = None
    quote: MachineEstimate | None = None
    dearer: str = ""
    late: str = ""
    left_out: str = ""

    @property
    def offers(self) -> list[Offer]:
        """The targets' offers, in the plan's order."""
        return [target.offer for target in self.targets]


LEAST_FREE_SHARE = 0.05
"""Of this machine's processors: that other programs leave less than this for hours is not expected."""


def here(estimate: MachineEstimate, offer: Offer, text: str, deadline: timedelta | None = None) -> Proposal:
    """Return the proposal for this machine, which has no other placement. Rented ones that are too slow for the
    deadline are left out of a plan; here the person is told. The estimate is of the machine at rest: what other
    programs leave of it now counts for when the run would end."""
    time, late = estimate.time, ""
    is_known = estimate.throughput is not None and estimate.throughput.basis is not Basis.UNMEASURED
    slower = 1 / max(LEAST_FREE_SHARE, estimate.free_share) if is_known else 1.0  # a deadline is no estimate
    if time is not None and deadline is not None and time.total * slower > deadline:
        late = (
            f"it is estimated to take {format_duration(time.total * slower)}, and would be ended at its deadline of "
            f"{format_duration(deadline)}, with a checkpoint"
        )
    slow_end = time.high * slower if time else None
    record = estimate_record(estimate)
    targets = (Target(offer=offer),)
    return Proposal(targets=targets, record=record, slow_end=slow_end, text=text, quote=estimate, late=late)


def rented(plan: Plan, dearer: str = "") -> Proposal:
    """Return the proposal for the ranked placements of the plan, zone by zone, the best first. The plan has at least
    one candidate, and every placement.
    """
    targets = [target for ranked in plan.candidates for target in targets_of(ranked)][:MOST_TARGETS]
    best = plan.candidates[0]
    time, speed = best.candidate.estimate.time, best.candidate.estimate.throughput
    is_unmeasured = speed.basis is Basis.UNMEASURED
    record: dict[str, Any] = {
        "seconds": time.total.total_seconds(),
        "low_seconds": time.low.total_seconds(),
        "high_seconds": time.high.total_seconds(),
        "usd": float(best.cost_usd),
        "images_per_second": speed.images_per_second,
        "basis": speed.basis,
    }
    record = {} if is_unmeasured else record
    cost = f"{format_usd(best.cost_usd)} ({format_usd(best.cost_low_usd)} to {format_usd(best.cost_high_usd)})"
    lasting = f"{time.with_ends}, {cost}"
    if is_unmeasured:
        lasting = f"up to {time.text}, up to {format_usd(best.cost_usd)} ({NOT_MEASURED})"
    text = (
        f"{targets[0].where} at {format_usd_per_hour(targets[0].payable_usd_per_hour)} "
        f"({price_text(best.offer, plan.made_at.date())}): {lasting}{assumption(plan.job, speed)}"
    )
    if is_simulated(best.offer.provider):
        text += "; simulated: nothing is rented, and nothing bills"
    credit_usd = plan.credit_of(best)
    if credit_usd:
        text += f"; a credit pays {format_usd(credit_usd)} of it, you {format_usd(best.cost_usd - credit_usd)}"
    if best.candidate.estimate.unproven:
        text += f"; {unproven_text(best)}"
    return Proposal(targets=tuple(targets), record=record, slow_end=time.high, text=text, plan=plan, dearer=dearer)


def most_usd(proposal: Proposal, max_cost_usd: Decimal | None, *, assume_yes: bool) -> Decimal | None:
    """What the job may cost at most, as planned, at a placement that the run takes; None where a person agrees to each.

    That is --max-cost; without it --yes covers what is MOST_ABOVE above the cost that is shown.
    """
    first_usd = proposal.targets[0].usd
    if max_cost_usd is not None or not assume_yes or first_usd is None:
        return max_cost_usd
    return first_usd * (1 + MOST_ABOVE)


def within(proposal: Proposal, most: Decimal | None) -> Proposal:
    """The proposal without the placements where the job would cost more than `most` as planned (None: with all of
    them).

    A placement whose cost nobody has estimated stays. Raises NothingLeftError where the first placement costs more.
    """
    first = proposal.targets[0]
    if most is None:
        return proposal
    if first.usd is not None and first.usd > most:
        raise NothingLeftError(
            f"{first.where} costs {format_usd(first.usd)}, above the {format_usd(most)} of {Option.MAX_COST}",
            f"raise {Option.MAX_COST}, or {Option.OBJECTIVE('cost')} puts the cheapest placement first",
            field=Option.MAX_COST,
        )
    targets = tuple(target for target in proposal.targets if target.usd is None or target.usd <= most)
    too_dear = [target for target in proposal.targets if target.usd is not None and target.usd > most]
    if not too_dear:
        return proposal
    fallback = not any(target.offer.market is Market.ON_DEMAND for target in targets) and any(
        target.offer.market is Market.ON_DEMAND for target in too_dear
    )
    left_out = (
        f"left out: {len(too_dear)} of {len(proposal.targets)} placements, where it would cost more than "
        f"{format_usd(most)}"
        f"{', all on-demand ones among them: if spot has no room, the launch ends' if fallback else ''}; "
        # Rounded up: the amount that is named has to admit them.
        f"{Option.MAX_COST(_dearest(too_dear).quantize(Decimal('0.01'), ROUND_UP))} takes them all"
    )
    return replace(proposal, targets=targets, left_out=left_out)


def further_text(proposal: Proposal) -> str:
    """How many placements follow the first, and what the dearest of them costs; "" where none does."""
    others = proposal.targets[1:]
    if not others:
        return ""
    more = "1 more placement is" if len(others) == 1 else f"{len(others)} more placements are"
    text = f"if it is full, {more} tried"
    targets = [target for target in others if target.usd is not None]
    if not targets:
        return text
    dearest = max(targets, key=lambda target: target.usd or Decimal(0))
    low, high = dearest.low_usd or dearest.usd, dearest.high_usd or dearest.usd
    cost = (
        f"{format_usd(dearest.usd or Decimal(0))} ({format_usd(low or Decimal(0))} to {format_usd(high or Decimal(0))})"
    )
    return f"{text}; the most expensive, {dearest.where}, costs {cost}"


def _dearest(targets: Sequence[Target]) -> Decimal:
    return max(target.usd or Decimal(0) for target in targets)


def limits_text(run: Run, timers: Timers, now: datetime) -> list[str]:
    """Who ends the run at which time, before anything is created: one sentence, and what it leaves open."""
    own = attempt_deadline(run, run.targets[0], now)
    budget = f", or when ${run.budget_usd} are spent at the highest price that may come" if run.budget_usd else ""
    time_of = " in simulated time" if is_simulated(run.provider) else ""
    lines = [f"ends by {_clock(own, now)}{time_of}{budget}; {_without_this_command(run, timers, own, now)}"]
    if not is_here(run.provider):
        lines.append(f"  this command deletes whatever is still there by {_clock(own + TIMER_GRACE, now)}")
    if chance := chance_text(run, now):
        lines.append(f"  {chance}")
    if timers.gap:
        lines.append(f"  not covered: {timers.gap}")
    return lines


def _without_this_command(run: Run, timers: Timers, own: datetime, now: datetime) -> str:
    if is_here(run.provider):
        return "this computer ends it, even if you close this terminal"
    ends = []
    if timers.machine is not None:
        same = _clock(timers.machine, now) == _clock(own, now)
        ends.append(f"the machine stops itself {'then' if same else f'at {_clock(timers.machine, now)}'}")
    if timers.cloud is not None:
        ends.append(f"the cloud deletes it by {_clock(timers.cloud, now)}")
    if not ends:
        return "if this computer is off, nothing ends it"
    alone = "" if timers.cloud is not None else "; no timer of the provider's own stands behind that"
    return f"if this computer is off, {', and '.join(ends)}{alone}"


def targets_of(ranked: RankedOffer) -> list[Target]:
    """The zones of a ranked offer, as a run may go to them."""
    estimate, offer = ranked.candidate.estimate, ranked.offer
    fixed, attached = estimate.fixed(offer.region), estimate.side.attached_per_hour(offer.region)
    is_unmeasured = estimate.throughput.basis is Basis.UNMEASURED
    # An offer without zones is launched wherever in its region the provider chooses.
    zones: tuple[str | None, ...] = offer.zones or (None,)
    return [
        Target(
            offer=offer,
            zone=zone,
            seconds=None if is_unmeasured else estimate.time.total.total_seconds(),
            overhead_seconds=estimate.time.setup.total_seconds(),
            steady_seconds=estimate.steady.total.total_seconds(),
            disk_gb=estimate.side.usages[0].disk_gb,
            fixed_usd=from_micro(estimate.side.micro_usd(offer.region)),
            disk_usd_per_hour=attached.disk,
            address_usd_per_hour=attached.address,
            traffic_usd=fixed.between_regions,
            download_usd=fixed.transfer,
            images_per_second=None if is_unmeasured else estimate.throughput.images_per_second,
            images_per_second_low=None if is_unmeasured or estimate.kinds > 1 else estimate.throughput.low,
            low_seconds=None if is_unmeasured else estimate.time.low.total_seconds(),
            high_seconds=None if is_unmeasured else estimate.time.high.total_seconds(),
            usd=ranked.cost_usd,
            low_usd=ranked.cost_low_usd,
            high_usd=ranked.cost_high_usd,
            basis=estimate.throughput.basis,
            machines=estimate.machines,
        )
        for zone in zones
    ]


def _clock(instant: datetime, now: datetime) -> str:
    """The time on this computer's clock, with the day where that is not today."""
    local, today = instant.astimezone(), now.astimezone().date()
    return f"{local:%H:%M}" if local.date() == today else f"{local:%Y-%m-%d %H:%M}"
