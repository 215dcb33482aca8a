"""A run at the person's own rate: what it is counted with, what bounds it, and what the receipt says of both prices."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_run, a_target, an_attempt
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.desk import Desk
from tests.doubles.fake_cloud import FakeCloud
from trainplan.planner.runs.directory.progress import Story
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.money.own_use import credit_paid_usd
from trainplan.planner.runs.proposal.live_prices import Watchful
from trainplan.planner.runs.receipt.receipt import (
    Ending,
    Receipt,
    receipt_from,
    receipt_record,
    write_receipt,
)
from trainplan.planner.runs.receipt.receipt_text import receipt_text
from trainplan.planner.runs.run import Outcome, Phase, Run, attempt_deadline
from trainplan.planner.runs.targets import Target, agreed
from trainplan.planner.settings import Settings
from trainplan.pricing.offers import Market
from trainplan.providers.base import RunId

HOUR = timedelta(hours=1)
CREDIT = {"provider": "aws", "as_of": NOON.date()}
RATE = "aws g4dn, on demand: 50 % off (our contract)"


def ours(hours: str | None = None, **changes: Any) -> Target:
    """A placement at $2 an hour, of which the person pays one."""
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
    receipt = a_receipt(went(3, target=ours(download_usd=Decimal("0.25"))))
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
    assert sum(placement["actual_usd"] for placement in a_receipt(run).placements) == float(usd)


def with_credit(home: Path, usd: str) -> Settings:
    return Settings(home=home, prices={"credit": [CREDIT | {"usd_left": usd}]})


def test_a_credit_pays_what_the_own_rate_costs_after_what_earlier_runs_have_used(tmp_path: Path) -> None:
    run, now = went(3, target=ours()), NOON + 9 * HOUR
    earlier = replace(went(2, target=ours()), run_id=RunId("261121-0000abcd"))
    assert credit_paid_usd(with_credit(tmp_path, "300"), [run, earlier], run, now) == 3
    assert credit_paid_usd(with_credit(tmp_path, "4"), [run, earlier], run, now) == 2
    assert credit_paid_usd(Settings(home=tmp_path), [run], run, now) is None
    elsewhere = replace(run, provider="gcp")
    assert credit_paid_usd(with_credit(tmp_path, "300"), [elsewhere], elsewhere, now) is None


def test_the_receipt_says_list_price_own_rate_and_credit() -> None:
    ending = Ending(asked_at=NOON, ended_at=NOON + 9 * HOUR, model_folder=None, credit_usd=Decimal("2.5"))
    receipt = write_receipt(went(3, target=ours()), Story(), {}, ending)
    assert (receipt.list_usd, receipt.actual_usd, receipt.credit_usd) == (6.0, 3.0, 2.5)
    lines = [" ".join(line.split()) for line in receipt_text(receipt).splitlines()]
    assert lines[4:6] == [f"list price $6.00 own rate: {RATE}", "credit $2.50 you pay $0.50"]


def test_a_launch_writes_what_credits_pay_into_the_receipt_and_the_next_one_gets_what_is_left(desk: Desk) -> None:
    desk.provider.name = "aws"
    first_at = desk.clock.now()
    desk.settings = replace(desk.settings, prices={"credit": [CREDIT | {"usd_left": "0.05"}]})
    _, first = desk.launch(provider="aws", usd_per_hour=Decimal(6))
    assert desk.clock.now() > first_at
    assert first.credit_usd == pytest.approx(min(first.actual_usd, 0.05))
    _, second = desk.launch(a_job(epochs=3), provider="aws", usd_per_hour=Decimal(6))
    assert second.credit_usd == pytest.approx(min(second.actual_usd, 0.05 - first.credit_usd))  # type: ignore[operator]
    assert second.credit_usd < second.actual_usd  # type: ignore[operator]


def test_a_credit_that_cannot_be_read_costs_the_receipt_a_line(desk: Desk) -> None:
    desk.provider.name = "aws"
    desk.settings = replace(desk.settings, prices={"credit": 7})
    _, receipt = desk.launch(provider="aws")
    assert receipt.credit_usd is None
    assert any("lacks what credits pay" in event.text for event in desk.events_of(Message))


def test_a_budget_lasts_as_long_as_the_own_rate_allows() -> None:
    """With hours left that may run out on the way, as long as the list price does."""
    for target, lasting in ((ours(), 4 * HOUR), (ours("3"), 2 * HOUR), (a_target("2", provider="aws"), 2 * HOUR)):
        run = a_run(provider="aws", target=target, budget_usd=Decimal(4), deadline=NOON + 100 * HOUR)
        assert attempt_deadline(run, target, NOON) == NOON + lasting


def test_spot_at_an_own_rate_is_bounded_by_on_demand() -> None:
    spot = ours(market=Market.SPOT, on_demand_usd_per_hour=Decimal(5))
    assert spot.ceiling_usd_per_hour == 5


def test_a_live_list_price_is_no_reason_to_pass_a_placement_over_that_has_an_own_rate() -> None:
    target = ours(region="us-east-1", instance_type="g4dn.xlarge")
    assert agreed(target.offer) == 1
    clock = FakeClock()
    cloud = FakeCloud(clock, live=lambda _: {"": "7"})
    asked = []

    def request(run: Run, number: int, placement: Target) -> Any:
        asked.append(placement.offer)

    Watchful(lambda _: cloud, clock.now).over(request)(a_run(target=target), 1, target)
    assert [offer.payable_usd_per_hour for offer in asked] == [1]
