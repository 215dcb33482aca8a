"""Which market a run under a deadline asks next, and how the engine follows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import a_run, a_target, an_attempt, an_instance
from tests.doubles.clock import NOON
from trainplan.planner.runs.decision.market import SpotUp, Trained, chance_text, decide_market
from trainplan.planner.runs.decision.next_action import AskToStop, Interrupt, Launch, Look, Move, Wait, next_action
from trainplan.planner.runs.decision.spot_policy import Action
from trainplan.planner.runs.directory.signs import Sign
from trainplan.planner.runs.run import Phase, Run
from trainplan.planner.runs.targets import Target, no_capacity
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind, InstanceState

HOUR = 3600.0
SPOT = a_target(
    "0.3", market=Market.SPOT, on_demand_usd_per_hour=Decimal(1), zone="a", seconds=10 * HOUR, overhead_seconds=300.0
)
ON_DEMAND = a_target("1.0", market=Market.ON_DEMAND, zone="a", seconds=10 * HOUR, overhead_seconds=300.0)


def under_deadline(hours: float, phase: Phase = Phase.PLANNED, **changes: Any) -> Run:
    """Ten hours of work in a thousand steps, and so many hours for it."""
    run = a_run(phase, deadline=NOON + timedelta(hours=hours), **changes)
    return replace(
        run, targets=(SPOT, ON_DEMAND), deadline_given=True, total_steps=1000, checkpoint_seconds=600.0,
    )  # fmt: skip


def training_on(target: Target, hours: float) -> Run:
    return under_deadline(hours, Phase.RUNNING, attempts=1, target=target)


def action_of(run: Run, look: Look, after: timedelta = timedelta()) -> object:
    return next_action(run, look, NOON + after)


REFUSED = no_capacity(SPOT, NOON, "none left")


@pytest.mark.parametrize("up", [True, False])
def test_an_answer_about_spot_that_came_after_the_instant_of_the_look_is_no_error(up: bool) -> None:
    """The instant of a look is read before the provider is asked: on a clock that moves, the answer is later."""
    run = training_on(ON_DEMAND, 20)
    hint = SpotUp(up=up, since=NOON + timedelta(milliseconds=187))
    look = Look(instance=an_instance(InstanceState.RUNNING), trained=Trained(step=50, checkpoint_step=50), spot_up=hint)
    at_the_look = replace(look, spot_up=SpotUp(up=up, since=NOON))
    assert action_of(run, look) == action_of(run, at_the_look)


def test_a_run_without_a_deadline_of_its_own_follows_the_plan() -> None:
    run = replace(under_deadline(20), deadline_given=False)
    assert decide_market(run, Trained(), (), NOON) is None
    assert action_of(run, Look()) == Launch(1, SPOT)


@pytest.mark.parametrize("only", [SPOT, ON_DEMAND])
def test_without_a_choice_of_markets_there_is_nothing_to_decide(only: Target) -> None:
    assert decide_market(replace(under_deadline(20), targets=(only,)), Trained(), (), NOON) is None


def test_with_time_to_spare_it_asks_for_spot_and_waits_for_it_where_there_is_none() -> None:
    run = under_deadline(20)
    assert action_of(run, Look()) == Launch(1, SPOT)
    waiting = action_of(run, Look(refusals=(REFUSED,)))
    assert isinstance(waiting, Wait)
    assert waiting.until is not None
    assert waiting.until <= NOON + timedelta(minutes=1)


def test_spot_that_was_refused_is_asked_for_again_after_five_minutes_though_others_pass_it_over_longer() -> None:
    run = under_deadline(20)
    assert isinstance(action_of(run, Look(refusals=(REFUSED,)), timedelta(minutes=4)), Wait)
    assert action_of(run, Look(refusals=(REFUSED,)), timedelta(minutes=6)) == Launch(1, SPOT)


def test_without_time_to_spare_it_goes_on_demand_at_once() -> None:
    assert action_of(under_deadline(10.2), Look()) == Launch(1, ON_DEMAND)
    assert action_of(under_deadline(11.2), Look(refusals=(REFUSED,))) == Launch(1, ON_DEMAND)


def test_on_spot_it_leaves_for_on_demand_when_that_could_just_still_finish() -> None:
    run, running = training_on(SPOT, 12), an_instance(InstanceState.RUNNING)
    sign = Sign(NOON + timedelta(hours=2), trains=True)
    nothing_done = Look(instance=running, sign=sign, trained=Trained(step=40, checkpoint_step=30))
    assert action_of(run, nothing_done) == Wait()
    late = action_of(run, nothing_done, timedelta(hours=2, minutes=16))
    assert isinstance(late, Move)
    assert late.market is Market.ON_DEMAND
    moving = replace(run, moving=Market.ON_DEMAND)
    assert action_of(moving, nothing_done, timedelta(hours=2)) == AskToStop()
    stopped = an_instance(InstanceState.ENDED, end=EndKind.STOPPED, reason="stopped")
    assert action_of(moving, replace(nothing_done, instance=stopped)) == Interrupt(
        EndKind.STOPPED, "going on on demand"
    )


@pytest.mark.parametrize(
    ("spot_up", "hours", "moves"), [(True, 20, True), (None, 20, False), (False, 20, False), (True, 10.2, False)]
)
def test_on_demand_it_goes_back_to_spot_where_it_is_known_to_be_had_and_time_allows(
    spot_up: bool | None, hours: float, moves: bool
) -> None:
    hint = None if spot_up is None else SpotUp(up=spot_up, since=NOON)
    look = Look(instance=an_instance(InstanceState.RUNNING), trained=Trained(step=50, checkpoint_step=50), spot_up=hint)
    action = action_of(training_on(ON_DEMAND, hours), look, timedelta(minutes=30))
    assert isinstance(action, Move) is moves


def test_what_a_checkpoint_keeps_is_no_work_left() -> None:
    """Twelve hours for ten of work are plenty once half of it is done."""
    run = under_deadline(6)
    tight = decide_market(run, Trained(), (), NOON)
    half = decide_market(run, Trained(step=500, checkpoint_step=500), (), NOON)
    assert tight is not None
    assert half is not None
    assert (tight.action, half.action) == (Action.USE_ON_DEMAND, Action.USE_SPOT)


def test_what_runs_or_has_run_on_spot_is_what_was_seen_of_it() -> None:
    taken = an_attempt(1, SPOT, ended_at=NOON + timedelta(hours=1), end=EndKind.RECLAIMED, cleared=True)
    run = replace(under_deadline(20, Phase.INTERRUPTED), attempts=(taken,))
    decision = decide_market(run, Trained(step=100, checkpoint_step=100), (), NOON + timedelta(hours=1))
    assert decision is not None
    assert decision.action is Action.USE_SPOT


def test_how_likely_the_deadline_holds_is_told_before_the_launch() -> None:
    assert "still holds with" in chance_text(under_deadline(12), NOON)
    assert chance_text(replace(under_deadline(12), deadline_given=False), NOON) == ""
    assert chance_text(under_deadline(5), NOON).endswith("0%")
