"""What nearly fits: which limit to relax where deadline or budget leave nothing."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from tests.builders import a_job, a_rental, a_throughput, a_world, rented
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.nearest import nearest_misses
from trainplan.planner.forecast.plan import Candidate
from trainplan.planner.throughput.values import Throughput
from trainplan.pricing.offers import Rental
from trainplan.workloads.durations import parse_duration

FAST, SLOW = "p3.2xlarge", "g4dn.xlarge"


def speed(rental: Rental) -> Throughput:
    return a_throughput(4000.0 if rental.instance_type == FAST else 100.0)


def relaxed() -> tuple[Candidate, ...]:
    """A fast machine for 40 dollars an hour and a slow one for one."""
    rows = [
        rented(a_rental(instance_type=FAST), ("us-east-1", "40")),
        rented(a_rental(instance_type=SLOW), ("us-west-2", "1")),
    ]
    return choose(a_job(epochs=20), rows, a_world(speed), Filters(), every_placement=True).candidates


def test_each_limit_is_told_with_what_it_would_let_in() -> None:
    by_name = {one.estimate.rental.instance_type: one for one in relaxed()}
    fast, slow = by_name[FAST], by_name[SLOW]
    between = (fast.estimate.time.total + slow.estimate.time.total) / 2
    filters = Filters(deadline=between, budget_usd=Decimal(slow.cost_micro_usd) / 1_000_000 + Decimal("0.01"))
    budget, deadline = nearest_misses(relaxed(), filters)
    assert f"would admit the cheapest offer that meets the deadline: {FAST} (on demand) at aws in us-east-1" in budget
    assert f"would admit an offer within the budget: {SLOW} (on demand) at aws in us-west-2" in deadline
    given = Decimal(budget.split()[1])
    assert 0 <= given - Decimal(fast.cost_micro_usd) / 1_000_000 < Decimal("0.01")
    assert timedelta(0) <= parse_duration(deadline.split()[1]) - slow.estimate.time.total < timedelta(minutes=1)


def test_the_offer_that_a_deadline_admits_is_called_the_fastest_by_nobody() -> None:
    """Of the offers that one minute more lets in the cheapest is named: a faster one may be dearer."""

    def nearly_the_same(rental: Rental) -> Throughput:
        return a_throughput(4000.0 if rental.instance_type == FAST else 3990.0)

    rows = [
        rented(a_rental(instance_type=FAST), ("us-east-1", "40")),
        rented(a_rental(instance_type=SLOW), ("us-west-2", "1")),
    ]
    near = choose(a_job(epochs=20), rows, a_world(nearly_the_same), Filters(), every_placement=True).candidates
    times = {one.estimate.rental.instance_type: one.estimate.time.total for one in near}
    assert times[FAST] < times[SLOW] < times[FAST] + timedelta(minutes=1)
    (line,) = nearest_misses(near, Filters(deadline=timedelta(minutes=1)))
    assert f"would admit an offer: {SLOW} (on demand)" in line


def test_where_one_limit_is_not_enough_both_are_told() -> None:
    filters = Filters(deadline=timedelta(minutes=1), budget_usd=Decimal("0.001"))
    (line,) = nearest_misses(relaxed(), filters)
    assert line.startswith("--deadline ")
    assert " --budget " in line
    assert f"would admit the cheapest offer: {SLOW}" in line


def test_without_limits_or_candidates_there_is_nothing_to_relax() -> None:
    assert nearest_misses(relaxed(), Filters()) == ()
    assert nearest_misses((), Filters(budget_usd=Decimal(1))) == ()
