"""A run at the person's own rate: what it is counted with, what bounds it, and what the receipt says of both prices."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from planner.runs.live_prices import Watchful
from planner.runs.progress import Story
from planner.runs.receipt import Ending, Receipt, receipt_from, receipt_record, receipt_text, write_receipt
from planner.runs.run import Outcome, Phase, Run, attempt_deadline
from planner.runs.targets import Target, agreed
from pricing.offers import Market
from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.fake_cloud import FakeCloud

HOUR = timedelta(hours=1)
RATE = "aws g4dn, on demand: 50 % off (our contract)"


def ours(hours: str | None = None, **changes: Any) -> Target:
    """A place at $2 an hour, of which the person pays one."""
    own = {"own_rate": RATE, "own_usd_per_hour": Decimal(1), "own_hours": None if hours is None else Decimal(hours)}
    return a_target("2", **({"provider": "aws", "planning_usd_per_hour": Decimal(1)} | own | changes))


def went(*hours: float, target: Target) -> Run:
    """Attempts one after the other, each for so many hours."""
    attempts = [
        an_attempt(number, target, asked_at=NOON, ended_at=NOON + lasting * HOUR, cleared=True)
        for number, lasting in enumerate(hours, start=1)
    ]
    return a_run(Phase.DONE, provider="aws", made=tuple(attempts), target=target, outcome=Outcome.SUCCEEDED)


def a_receipt(run: Run) -> Receipt:
    return write_receipt(run, Story(), {}, Ending(asked_at=NOON, ended_at=NOON + 9 * HOUR, model_folder=None))


def test_a_run_costs_the_own_rate_and_the_receipt_says_the_list_price_too() -> None:
    receipt = a_receipt(went(3, target=ours(fixed_usd=Decimal("0.25"))))
    assert (receipt.actual_usd, receipt.list_usd, receipt.own_rate) == (3.25, 6.25, RATE)
    (line,) = [line for line in receipt_text(receipt).splitlines() if "list price" in line]
    assert line.split() == f"list price $6.25 own rate: {RATE}".split()
    record = receipt_record(receipt.to_json())
    assert record is not None
    assert receipt_from(record) == receipt


def test_a_receipt_without_an_own_rate_says_nothing_of_one() -> None:
    receipt = a_receipt(went(3, target=a_target("2", provider="aws")))
    assert (receipt.actual_usd, receipt.list_usd, receipt.own_rate) == (6.0, None, None)
    assert "list price" not in receipt_text(receipt)


@pytest.mark.parametrize(
    ("hours", "usd"),
    [
        ((2,), "2"),
        ((4,), "5"),
        ((2, 2), "5"),
        ((3, 1), "5"),
        ((4, 1), "7"),
    ],
)
def test_hours_beyond_those_that_are_left_cost_the_list_price_over_all_attempts(
    hours: tuple[float, ...], usd: str
) -> None:
    run = went(*hours, target=ours("3"))
    assert run.cost_usd(NOON + 9 * HOUR) == Decimal(usd)
    assert sum(place["actual_usd"] for place in a_receipt(run).places) == float(usd)


def test_a_budget_lasts_as_long_as_the_own_rate_allows() -> None:
    """With hours left that may run out on the way, as long as the list price does."""
    for target, lasting in ((ours(), 4 * HOUR), (ours("3"), 2 * HOUR), (a_target("2", provider="aws"), 2 * HOUR)):
        run = a_run(provider="aws", target=target, budget_usd=Decimal(4), deadline=NOON + 100 * HOUR)
        assert attempt_deadline(run, target, NOON) == NOON + lasting


def test_spot_at_an_own_rate_is_bounded_by_on_demand() -> None:
    spot = ours(market=Market.SPOT, on_demand_usd_per_hour=Decimal(5))
    assert spot.ceiling_usd_per_hour == 5


def test_a_live_list_price_is_no_reason_to_pass_a_place_over_that_has_an_own_rate() -> None:
    target = ours(region="us-east-1", instance_type="g4dn.xlarge")
    assert agreed(target.offer) == 1
    clock = FakeClock()
    cloud = FakeCloud(clock, live=lambda _: {"": "7"})
    asked = []

    def request(run: Run, number: int, place: Target) -> Any:
        asked.append(place.offer)

    Watchful(lambda _: cloud, clock.now).over(request)(a_run(target=target), 1, target)
    assert [offer.payable_usd_per_hour for offer in asked] == [1]
