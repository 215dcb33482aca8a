"""Whether a run stays on its machine or goes to a cheaper one, once it is measured how fast it trains there. Pure.

The rule is that of the plan: the lowest cost, at the measured speed where one is known, else at the predicted one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.pilots import LEFT_FACTOR
from trainplan.planner.runs.decision.market import STOP_SECONDS, has_choice
from trainplan.planner.runs.run import Speed
from trainplan.planner.runs.targets import Target, affordable, open_targets, payable_usd
from trainplan.pricing.money import format_usd

if TYPE_CHECKING:
    from collections.abc import Hashable

    from trainplan.planner.runs.run import Run
    from trainplan.planner.runs.targets import Refusal
    from trainplan.pricing.offers import Offer


class Priced(NamedTuple):
    """What the rest of a run costs at a placement, the move there included."""

    usd: Decimal
    placement: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the rest of a run costs where it is, and at the other placements that can take it, the cheapest first."""

    speed: Speed
    here_usd: Decimal
    elsewhere: tuple[Priced, ...] = ()

    @property
    def cheaper(self) -> tuple[Target, ...]:
        """The placements that are cheaper by more than two runs of one configuration lie apart."""
        factor = Decimal(str(LEFT_FACTOR))
        return tuple(placement for usd, placement in self.elsewhere if usd * factor < self.here_usd)

    def without(self, offer: Offer) -> Comparison:
        """The same without the placements of an offer."""
        return replace(self, elsewhere=tuple(priced for priced in self.elsewhere if priced.placement.offer != offer))


class _Rest(NamedTuple):
    """`share` of the steps is left, of which the newest attempt trains at `ratio` of the predicted speed."""

    run: Run
    share: float
    ratio: float
    now: datetime


def is_to_compare(run: Run) -> bool:
    """Whether the speed of the newest attempt is to be measured, and has not been on such devices in this run."""
    attempt = run.attempt
    if not run.measures_first or not run.total_steps or attempt is None or not _is_estimated(attempt.target):
        return False
    return _ratio(run, attempt.target) is None


def compare(run: Run, speed: Speed, step: int, refusals: tuple[Refusal, ...], now: datetime) -> Comparison | None:
    """The rest of the run here and elsewhere, at the speed that was measured at its newest attempt, after `step` steps.
    None where nobody can tell.

    Leaving costs the last checkpoint, and the boot of another machine. A placement where the deadline or the budget
    would end the run is none. Devices of the same kind are taken to be as far from their estimate there as here.
    """
    here = run.attempts[-1].target
    if here is None or not here.images_per_second or not here.seconds or not run.total_steps:
        return None
    rest = _Rest(run, max(0.0, 1 - step / run.total_steps), speed.images_per_second / here.images_per_second, now)
    here_usd = _usd_per_hour(here) * _hours(_train_seconds(here, rest)) + here.download_usd
    priced = [Priced(_usd_there(target, here, rest), target) for target in _elsewhere(rest, refusals)]
    by_cost = sorted(priced, key=lambda one: one.usd)
    return Comparison(speed=speed, here_usd=here_usd, elsewhere=tuple(by_cost))


def comparison_text(comparison: Comparison) -> str:
    """What was measured, and what the rest of the run costs here and at the next cheapest placement."""
    speed = comparison.speed
    measured = f"measured {speed.images_per_second:,.0f} images/s ± {speed.half_width:.1%}"
    here = f"the rest costs {format_usd(comparison.here_usd)} here"
    if not comparison.elsewhere:
        return f"{measured}: {here}; it stays: no other placement can take it"
    usd, placement = comparison.elsewhere[0]
    elsewhere = f"{format_usd(usd)} at {placement.where}"
    if comparison.cheaper:
        return f"{measured}: {here}, {elsewhere}: it leaves for there, with a checkpoint"
    return f"{measured}: {here}; it stays: the next cheapest costs {elsewhere}, with the move"


def _elsewhere(rest: _Rest, refusals: tuple[Refusal, ...]) -> list[Target]:
    """The placements with other devices that can take the rest of the run."""
    run, here = rest.run, rest.run.attempts[-1].target
    assert here is not None
    placements = [target for target in run.targets if _is_estimated(target) and _devices(target) != _devices(here)]
    if has_choice(run):  # which market is asked, the policy between them decides
        placements = [target for target in placements if target.offer.market is here.offer.market]
    return [target for target in open_targets(placements, refusals, rest.now) if _can_finish(target, rest)]


def _can_finish(target: Target, rest: _Rest) -> bool:
    lasting = timedelta(seconds=STOP_SECONDS + _seconds_there(target, rest))
    left_usd = rest.run.left_usd(rest.now)
    is_paid_for = left_usd is None or lasting <= affordable(target, left_usd)
    return is_paid_for and rest.now + lasting <= rest.run.deadline


def _usd_there(target: Target, here: Target, rest: _Rest) -> Decimal:
    seconds = _seconds_there(target, rest)
    machines_usd = target.machines * payable_usd(target.offer, timedelta(seconds=seconds))
    beside_usd = (target.disk_usd_per_hour + target.address_usd_per_hour) * _hours(seconds)
    leaving_usd = _usd_per_hour(here) * _hours(STOP_SECONDS)
    return machines_usd + beside_usd + target.traffic_usd + target.download_usd + leaving_usd


def _seconds_there(target: Target, rest: _Rest) -> float:
    return target.overhead_seconds + _train_seconds(target, rest)


def _train_seconds(target: Target, rest: _Rest) -> float:
    here = rest.run.attempts[-1].target
    assert here is not None
    known = rest.ratio if _devices(target) == _devices(here) else _ratio(rest.run, target)
    return max(0.0, (target.seconds or 0.0) - target.overhead_seconds) * rest.share / (known or 1.0)


def _ratio(run: Run, target: Target | None) -> float | None:
    """How fast such devices were measured to be in this run, as a share of their estimate; None where they were not."""
    for attempt in reversed(run.attempts):
        there = attempt.target
        if there is None or attempt.speed is None or not there.images_per_second:
            continue
        if target is not None and _devices(there) == _devices(target):
            return attempt.speed.images_per_second / there.images_per_second
    return None


def _devices(target: Target) -> Hashable:
    offer = target.offer
    return offer.device, offer.device_count, offer.device_fraction, target.machines


def _is_estimated(target: Target | None) -> bool:
    return target is not None and bool(target.seconds) and bool(target.images_per_second)


def _usd_per_hour(target: Target) -> Decimal:
    return target.payable_usd_per_hour + target.disk_usd_per_hour + target.address_usd_per_hour


def _hours(seconds: float) -> Decimal:
    return Decimal(str(seconds)) / 3600
