"""Where a run may go, what a refusal covers and for how long, and how long a budget pays for a placement."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import BILLING, a_target, an_offer
from tests.doubles.clock import NOON
from trainplan.planner.runs.journal.records import refusal_from_record, refusal_record
from trainplan.planner.runs.targets import (
    CAPACITY_MEMORY,
    LOST_MEMORY,
    QUOTA_MEMORY,
    Refusal,
    Target,
    affordable,
    cost_of,
    no_capacity,
    open_targets,
    opens_again,
    recommended_first,
    refusal_of,
)
from trainplan.pricing.offers import Market
from trainplan.providers.errors import CapacityError, ProviderError, QuotaError, ThrottledError, TransientError

PLACEMENT: dict[str, Any] = {
    "provider": "aws", "region": "r1", "zone": "r1a", "instance_type": "g4.x", "family": "g4", "market": Market.SPOT,
}  # fmt: skip


def a_placement(**changes: Any) -> Target:
    return a_target("1", **(PLACEMENT | changes))


@pytest.mark.parametrize(
    ("changes", "by_capacity", "by_quota"),
    [
        ({}, True, True),
        ({"zone": "r1b"}, False, True),
        ({"zone": None}, False, True),
        ({"region": "r2", "zone": "r2a"}, False, False),
        ({"region": "r2"}, False, False),
        ({"instance_type": "g4.2x"}, False, True),
        ({"instance_type": "p3.x", "family": "p3"}, False, False),
        ({"market": Market.ON_DEMAND}, False, False),
        ({"provider": "gcp"}, False, False),
    ],
)
def test_a_lack_covers_the_placement_and_a_quota_the_family_in_the_region_and_market(
    changes: dict[str, Any], by_capacity: bool, by_quota: bool
) -> None:
    lack = refusal_of(CapacityError("no room"), a_placement(), NOON)
    limit = refusal_of(QuotaError("too many", quota="vCPUs"), a_placement(), NOON)
    assert lack.covers(a_placement(**changes)) is by_capacity
    assert limit.covers(a_placement(**changes)) is by_quota


def test_a_quota_over_all_regions_covers_the_family_in_each() -> None:
    limit = refusal_of(QuotaError("too many", quota="all GPUs", everywhere=True), a_placement(), NOON)
    assert limit.covers(a_placement(region="elsewhere", zone="elsewhere-a"))
    assert not limit.covers(a_placement(provider="elsewhere"))
    assert not limit.covers(a_placement(family="another"))
    assert refusal_from_record(refusal_record(limit)) == limit


def test_without_a_family_a_quota_covers_the_type_in_every_zone() -> None:
    limit = refusal_of(QuotaError("too many", quota="T4s"), a_placement(family=""), NOON)
    assert limit.covers(a_placement(family="", zone="r1b"))
    assert not limit.covers(a_placement(family="", instance_type="g4.2x"))


@pytest.mark.parametrize(
    ("error", "memory", "quota"),
    [
        (CapacityError("why"), CAPACITY_MEMORY, None),
        (QuotaError("why", quota="vCPUs"), QUOTA_MEMORY, "vCPUs"),
        (ThrottledError("why"), LOST_MEMORY, None),
        (TransientError("why"), LOST_MEMORY, None),
    ],
)
def test_each_refusal_is_remembered_for_its_time_and_says_why(
    error: ProviderError, memory: timedelta, quota: str | None
) -> None:
    refusal = refusal_of(error, a_placement(), NOON)
    assert (refusal.at, refusal.until, refusal.why, refusal.quota) == (NOON, NOON + memory, "why", quota)
    placements = [a_placement(), a_placement(region="r2", zone="r2a")]
    assert open_targets(placements, [refusal], NOON) == placements[1:]
    assert open_targets(placements, [refusal], refusal.until - timedelta(seconds=1)) == placements[1:]
    assert open_targets(placements, [refusal], refusal.until) == placements


def test_where_a_placement_names_no_zone_the_refusal_covers_the_region() -> None:
    """A provider that chooses the zone itself."""
    lack = no_capacity(a_placement(zone=None), NOON, "no room")
    assert lack.covers(a_placement(zone=None))
    assert lack.covers(a_placement(zone="r1b"))


# --- when a placement opens again ------------------------------------------------------------------------------------


def lasting(target: Target, minutes: int) -> Refusal:
    return no_capacity(target, NOON, "no room", timedelta(minutes=minutes))


def test_the_first_placement_that_opens_again_is_the_one_to_wait_for() -> None:
    first, second, third = (a_placement(zone=zone) for zone in ("a", "b", "c"))
    refusals = [lasting(first, 10), lasting(second, 5), lasting(second, 7), lasting(first, 1)]
    assert opens_again([first, second], refusals, NOON) == NOON + timedelta(minutes=7)
    assert opens_again([first], refusals, NOON) == NOON + timedelta(minutes=10)
    assert opens_again([third], refusals, NOON) is None
    assert opens_again([], refusals, NOON) is None
    assert opens_again([first, second], refusals, NOON + timedelta(minutes=10)) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), max_size=10), st.integers(0, 40))
def test_a_placement_is_open_when_it_is_said_to_open_and_not_before(
    intervals: list[tuple[int, int]], minute: int
) -> None:
    placements = [a_placement(zone=f"z{number}") for number in range(4)]
    refusals = [lasting(placements[zone % 4], minutes) for zone, minutes in intervals]
    now = NOON + timedelta(minutes=minute)
    opens = opens_again(placements, refusals, now)
    free = open_targets(placements, refusals, now)
    if opens is None:
        assert free == placements
        return
    assert opens > now
    assert len(open_targets(placements, refusals, opens)) > len(free)
    assert open_targets(placements, refusals, opens - timedelta(microseconds=1)) == free


def test_the_zones_that_a_provider_recommends_come_first_for_what_it_refused() -> None:
    """Among the same machines: no dearer one is let in front of what the plan prefers."""
    first, second, third = (a_placement(zone=zone) for zone in ("a", "b", "c"))
    other_type, other_region = a_placement(zone="c", instance_type="p3"), a_placement(zone="c", region="r2")
    on_demand = a_placement(zone="c", market=Market.ON_DEMAND)
    plan = [first, other_type, on_demand, second, other_region, third]
    assert recommended_first(plan, ("c",), first) == [third, first, other_type, on_demand, second, other_region]
    assert recommended_first(plan, ("c", "b"), first) == [second, third, first, other_type, on_demand, other_region]
    assert recommended_first(plan, ("elsewhere",), first) == plan
    assert recommended_first(plan, (), first) == plan


# --- money -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("market", "on_demand", "ceiling"),
    [
        (Market.ON_DEMAND, None, "1"),
        (Market.ON_DEMAND, "9", "1"),
        (Market.SPOT, "3", "3"),
        (Market.SPOT, None, "1"),
        (Market.SPOT, "0.5", "1"),
    ],
)
def test_the_highest_price_that_may_come_is_that_of_on_demand(
    market: Market, on_demand: str | None, ceiling: str
) -> None:
    price = Decimal(on_demand) if on_demand else None
    assert a_placement(market=market, on_demand_usd_per_hour=price).ceiling_usd_per_hour == Decimal(ceiling)


@pytest.mark.parametrize(
    ("usd_per_hour", "fixed", "budget", "lasting"),
    [
        ("2", "0", "10", timedelta(hours=5)),
        ("2", "1", "10", timedelta(hours=4.5)),
        ("3600", "0", "1", timedelta(seconds=1)),
        ("2", "0", "1440", timedelta(days=30)),
        ("2", "0", "1439", timedelta(hours=719.5)),
        ("0.00000000001", "0", "1000000000", timedelta(days=30)),
        ("0", "0", "1", timedelta(days=30)),
        ("2", "0", "0", timedelta(0)),
        ("2", "0", "-1", timedelta(0)),
        ("2", "3", "3", timedelta(0)),
    ],
)
def test_how_long_the_rest_of_a_budget_pays_for_a_placement(
    usd_per_hour: str, fixed: str, budget: str, lasting: timedelta
) -> None:
    placement = a_target(usd_per_hour, fixed_usd=Decimal(fixed))
    assert affordable(placement, Decimal(budget)) == lasting


@given(
    st.decimals("0.001", "200", places=3),
    st.decimals("0", "5", places=2),
    st.decimals("0.01", "1000", places=2),
)
def test_what_is_affordable_never_costs_more_than_what_is_left(rate: Decimal, fixed: Decimal, budget: Decimal) -> None:
    placement = a_target(str(rate), fixed_usd=fixed)
    lasting = affordable(placement, budget)
    if lasting > timedelta(0):
        hours = Decimal(lasting.total_seconds()) / 3600
        assert hours * rate + fixed <= budget + Decimal("0.00001") * rate + Decimal("0.000001")


def test_an_instance_costs_by_its_own_billing_and_never_less_than_nothing() -> None:
    offer = an_offer(billing=BILLING)
    assert cost_of(Decimal(3600), offer, timedelta(seconds=90)) == 90
    assert cost_of(Decimal(3600), offer, timedelta(seconds=5)) == 60
    assert cost_of(Decimal(3600), an_offer(), timedelta(seconds=-5)) == 0


def test_a_placement_is_named_by_zone_and_market() -> None:
    assert a_placement().where == "aws g4.x (spot) in r1a"
    assert a_placement(zone=None).where == "aws g4.x (spot) in r1"
    assert a_placement(provider="local").where == "this machine"
