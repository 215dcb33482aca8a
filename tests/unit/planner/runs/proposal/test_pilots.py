"""The bounds of a pilot: nothing that its engine lets happen costs more than the cap."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_run, a_target
from tests.doubles.clock import NOON
from tests.unit.planner.runs.builders_of_pilots import placement_at
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.pilot import pilot_of
from trainplan.planner.runs.proposal.pilots import LEAST_LONGER, bounded, limit_within, most_usd
from trainplan.planner.runs.run import attempt_deadline
from trainplan.planner.runs.targets import MOST_ABOVE, Target, cost_of
from trainplan.pricing.grades import Market
from trainplan.pricing.money import Billing

money = st.decimals("0.01", "20", places=2)


@st.composite
def targets(draw: st.DrawFn) -> Target:
    return a_target(
        str(draw(money)),
        market=draw(st.sampled_from(Market)),
        on_demand_usd_per_hour=draw(money),
        billing=Billing(
            increment_seconds=draw(st.sampled_from((1, 60, 3600))), minimum_seconds=draw(st.sampled_from((0, 60, 600)))
        ),
    )


@given(targets(), st.floats(30, 3000), money)
def test_the_most_is_within_what_is_left(target: Target, seconds: float, left_usd: Decimal) -> None:
    limit = limit_within(placement_at(target, seconds), left_usd)
    if limit is None:
        least = timedelta(seconds=LEAST_LONGER * seconds)
        slack = timedelta(seconds=2 + target.offer.billing.increment_seconds)
        assert most_usd(target, least + slack) > left_usd
    else:
        assert most_usd(target, limit) <= left_usd
        assert limit >= timedelta(seconds=LEAST_LONGER * seconds)


@given(targets(), st.floats(30, 3000), money)
def test_the_engine_ends_it_at_its_limit_at_the_highest_price(target: Target, seconds: float, cap_usd: Decimal) -> None:
    """Deadline and budget of the run are what the engine reads; the most counts the machine's timers beyond them."""
    placement = placement_at(target, seconds)
    limit = limit_within(placement, cap_usd)
    if limit is None:
        return
    run = pilot_of(a_run(targets=(target,), created_at=NOON), placement, limit)
    (bound,) = run.targets
    until = attempt_deadline(run, bound, NOON)
    assert until <= NOON + limit
    lasting = until - NOON + TIMER_GRACE
    dearest = cost_of(target.ceiling_usd_per_hour * (1 + MOST_ABOVE), target.offer, lasting)
    assert dearest + bound.fixed_usd <= cap_usd + Decimal("1e-9")


@given(targets())
def test_its_budget_lasts_to_its_limit(target: Target) -> None:
    limit = timedelta(minutes=20)
    bound, budget_usd = bounded(target, limit)
    run = a_run(targets=(bound,), created_at=NOON, deadline=NOON + limit, budget_usd=budget_usd)
    assert attempt_deadline(run, bound, NOON) >= NOON + limit - timedelta(seconds=1)


def test_a_pilot_is_a_run_that_measures() -> None:
    placement = placement_at(a_target("0.5"), 500.0)
    run = pilot_of(a_run(created_at=NOON, targets=placement.targets), placement, timedelta(minutes=20))
    assert (run.model_folder, run.max_steps, run.until_steady) == ("", 100, True)
    assert run.deadline == NOON + timedelta(minutes=20)


def test_a_machine_that_costs_nothing_has_no_budget() -> None:
    placement = placement_at(a_target("0"), 50.0)
    limit = limit_within(placement, Decimal("0.01"))
    assert limit == timedelta(minutes=10)
    assert pilot_of(a_run(targets=placement.targets, created_at=NOON), placement, limit).budget_usd is None


@pytest.mark.parametrize("cap", ["0.01", "0.20"])
def test_a_cap_below_the_minimum_has_no_pilot(cap: str) -> None:
    assert limit_within(placement_at(a_target("1.00"), 565.0), Decimal(cap)) is None
