"""Which market a run under a deadline asks: the situation that trainplan.planner.runs.decision.spot_policy decides on,
from a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.planner.runs.decision.spot_policy import (
    TUNED,
    Decision,
    Outages,
    Running,
    Situation,
    SpotRecord,
    chance_to_hold,
    decide,
)
from trainplan.planner.runs.targets import Refusal, Target, open_targets
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run

REFUSED_AT_TIMES = Outages(fraction=0.2, mean_seconds=1800.0)
"""An assumption to say something by: nobody publishes how often on demand is refused."""
STEP_SECONDS = 60.0
"""A run is looked at at least so often while it is followed."""
STOP_SECONDS = 120.0
"""A last checkpoint and the end of a machine that is left for another: added to the start of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """How far training is: `checkpoint_step` is kept whatever happens, `step` has been reached on what runs."""

    step: int = 0
    checkpoint_step: int = 0


NOTHING_YET = Trained()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotUp:
    """What a provider hints of spot, and since when it has done so."""

    up: bool
    since: datetime


def has_choice(run: Run) -> bool:
    """Whether the run has a deadline of its own and placements in both markets, so that the policy decides between
    them."""
    both = all(_first(run, market) is not None for market in Market)
    return run.deadline_given and both and bool(run.total_steps)


def decide_market(
    run: Run, trained: Trained, refusals: tuple[Refusal, ...], now: datetime, spot_up: SpotUp | None = None
) -> Decision | None:
    """What the policy says now; None where the run has no deadline of its own, or no choice between markets.

    `spot_up` is what the provider says of spot, where it says anything; a refusal is known in any case.
    """
    situation = _situation(run, trained, refusals, now, spot_up)
    return None if situation is None else decide(situation, TUNED)


def chance_text(run: Run, now: datetime) -> str:
    """How likely the deadline holds should on demand be refused at times; "" where there is no choice of markets."""
    situation = _situation(run, NOTHING_YET, (), now, None)
    if situation is None:
        return ""
    chance = chance_to_hold(situation, REFUSED_AT_TIMES)
    return (
        f"should on demand be refused {REFUSED_AT_TIMES.fraction:.0%} of the time, "
        f"{REFUSED_AT_TIMES.mean_seconds / 60:.0f} min on average (assumed), the deadline still holds with {chance:.0%}"
    )


def _situation(
    run: Run, trained: Trained, refusals: tuple[Refusal, ...], now: datetime, spot_up: SpotUp | None
) -> Situation | None:
    spot, on_demand = _first(run, Market.SPOT), _first(run, Market.ON_DEMAND)
    if spot is None or on_demand is None or not run.total_steps or not has_choice(run):
        return None
    # At the speed of on demand, which must be able to take over whatever has been trained on what.
    work = max(0.0, (on_demand.seconds or 0.0) - on_demand.overhead_seconds)
    running = _running(run)
    restart = on_demand.overhead_seconds + STOP_SECONDS
    unsaved = max(0, trained.step - trained.checkpoint_step) if running is not Running.NOTHING else 0
    return Situation(
        work_seconds=work * max(0.0, 1 - trained.checkpoint_step / run.total_steps),
        unsaved_seconds=work * unsaved / run.total_steps,
        time_seconds=(run.deadline - now).total_seconds(),
        restart_seconds=restart,
        step_seconds=STEP_SECONDS,
        checkpoint_every_seconds=run.checkpoint_seconds,
        running=running,
        running_seconds=_since(run, now) if running is not Running.NOTHING else 0.0,
        # A refusal is an answer to a create, what a provider hints is not: the refusal counts first.
        spot_up=False if _refused(run, Market.SPOT, refusals, now) else spot_up.up if spot_up else None,
        on_demand_refused=_refused(run, Market.ON_DEMAND, refusals, now),
        price_ratio=float(spot.offer.payable_usd_per_hour / on_demand.offer.payable_usd_per_hour),
        spot=_spot_record(run, refusals, now, spot_up),
    )


def _first(run: Run, market: Market) -> Target | None:
    """The best target in a market that has a price and an estimate."""
    return next(
        (
            target
            for target in run.targets
            if target.offer.market is market and target.seconds is not None and target.offer.usd_per_hour
        ),
        None,
    )


def _running(run: Run) -> Running:
    attempt = run.attempt
    if attempt is None or attempt.cleared or attempt.ended_at is not None or attempt.target is None:
        return Running.NOTHING
    return Running.SPOT if attempt.target.offer.market is Market.SPOT else Running.ON_DEMAND


def _since(run: Run, now: datetime) -> float:
    asked_at = run.attempts[-1].asked_at
    return max(0.0, (now - asked_at).total_seconds()) if asked_at else 0.0


def _refused(run: Run, market: Market, refusals: tuple[Refusal, ...], now: datetime) -> bool:
    placements = [target for target in run.targets if target.offer.market is market]
    return not open_targets(placements, refusals, now)


def _spot_record(run: Run, refusals: tuple[Refusal, ...], now: datetime, spot_up: SpotUp | None) -> SpotRecord:
    """Spells of spot that this run has had. Spot that is refused everywhere is down since the first of the refusals."""
    # Machines that the run had: a refused create does not say how long spot stays available.
    had = [
        attempt
        for attempt in run.attempts
        if attempt.had_instance and attempt.target and attempt.target.offer.market is Market.SPOT
    ]
    lasting = [(attempt.ended_at or now) - attempt.asked_at for attempt in had if attempt.asked_at]
    instants = [refusal.at for refusal in refusals if refusal.until > now and refusal.market in (None, Market.SPOT)]
    if _running(run) is Running.SPOT:
        state = _since(run, now)
    elif spot_up is not None:
        # The question is older than its answer: `now` was read before the market was asked.
        state = max(0.0, (now - spot_up.since).total_seconds())
    else:
        state = max(0.0, (now - min(instants)).total_seconds()) if instants else 0.0
    return SpotRecord(
        state_seconds=state,
        up_seconds=max(0.0, sum(lasting, timedelta()).total_seconds()),
        ups_ended=sum(attempt.end is EndKind.RECLAIMED for attempt in had),
    )
