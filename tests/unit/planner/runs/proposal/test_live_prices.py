"""Live prices: what is looked up, how a plan is ranked after it, what is asked again, and what a run passes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import a_job, a_plan, a_run, a_target, small_catalog
from tests.doubles.clock import NOON, FakeClock
from tests.doubles.desk import Desk
from tests.doubles.fake_cloud import FakeCloud
from tests.doubles.fake_machine import done_at_once, ended_at_once
from tests.doubles.fake_provider import FakeProvider
from trainplan.planner.errors import NothingLeftError
from trainplan.planner.forecast.plan import Plan
from trainplan.planner.runs.proposal.live_prices import FRESH, Watchful, dearer, refined
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.planner.runs.targets import DearerError, agreed, refusal_of
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Offer, PriceGrade
from trainplan.providers.base import EndKind, Provider
from trainplan.providers.errors import CapacityError, TransientError
from trainplan.workloads.job import Objective

Prices = dict[str, str]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    path: Path = small_catalog(tmp_path_factory.mktemp("refining"))
    with Catalog.open(path) as opened:
        yield opened


@pytest.fixture
def plan(catalog: Catalog) -> Plan:
    """T4s at AWS and Google; g4dn.xlarge is $0.526 on demand and $0.2104 spot in us-east-1."""
    where = frozenset({"us-east-1", "us-central1"})
    return a_plan(catalog, every_placement=True, devices=frozenset({"T4"}), regions=where)


def live(**prices: Prices) -> Callable[[Offer], Prices | None]:
    """Prices by market, of g4dn.xlarge in us-east-1; nothing is known of the others."""

    def of(offer: Offer) -> Prices | None:
        ours = (offer.instance_type, offer.region) == ("g4dn.xlarge", "us-east-1")
        return prices.get(offer.market) if ours else None

    return of


def provider_of(cloud: FakeCloud) -> Callable[[str], Provider]:
    """AWS tells live prices, the others do not."""
    other = FakeProvider(FakeClock(), name="gcp")
    return lambda name: cloud if name == "aws" else other


def a_cloud(**prices: Prices) -> FakeCloud:
    return FakeCloud(FakeClock(), live=live(**prices))


def first(plan: Plan) -> tuple[str, str, tuple[str, ...], Decimal]:
    offer = plan.candidates[0].offer
    return offer.instance_type, offer.market, offer.zones, offer.usd_per_hour


SPOT = Decimal("0.2104")


# --- the plan ----------------------------------------------------------------------------------------------------


def test_the_first_offers_are_ranked_again_at_their_live_prices(plan: Plan) -> None:
    assert first(plan) == ("g4dn.xlarge", "spot", ("us-east-1a", "us-east-1b"), SPOT)
    cloud = a_cloud(spot={"us-east-1a": "0.30", "us-east-1b": "0.19", "us-east-1f": "0.25"})
    again = refined(plan, provider_of(cloud), lambda _: None)
    assert first(again) == ("g4dn.xlarge", "spot", ("us-east-1b",), Decimal("0.19"))
    best = again.candidates[0]
    assert (best.offer.price_grade, best.candidate.placement.planning_micro_usd_per_hour) == (
        PriceGrade.OBSERVED,
        190_000,
    )
    assert best.cost_usd < plan.candidates[0].cost_usd
    costs = [ranked.candidate.cost_micro_usd for ranked in again.candidates]
    assert costs == sorted(costs)
    assert [ranked.rank for ranked in again.candidates] == list(range(1, len(costs) + 1))
    assert len(costs) == len(plan.candidates) + 2
    assert again.ranking is plan.ranking


def test_a_live_price_that_cannot_be_true_is_told_and_not_used(plan: Plan) -> None:
    said: list[str] = []
    again = refined(plan, provider_of(a_cloud(spot={"us-east-1a": "0.0001"})), said.append)
    best = again.candidates[0].offer
    assert (best.instance_type, best.market, best.zones, best.usd_per_hour) == (
        "g4dn.xlarge", "spot", ("us-east-1a",), SPOT,
    )  # fmt: skip
    assert said == [
        "g4dn.xlarge in us-east-1: the live price $0.0001/h is 2,104.0 times below the last known price and is not used"
    ]


def test_one_that_has_become_dear_makes_room_for_the_next(plan: Plan) -> None:
    again = refined(plan, provider_of(a_cloud(spot={"": "0.9"})), lambda _: None)
    assert first(again)[:2] != ("g4dn.xlarge", "spot")


def test_one_that_is_not_to_be_had_is_left_out(plan: Plan) -> None:
    again = refined(plan, provider_of(a_cloud(spot={})), lambda _: None)
    assert len(again.candidates) == len(plan.candidates) - 1
    assert first(again)[1] != "spot"


def test_ten_rows_are_asked_about_in_one_call(plan: Plan) -> None:
    cloud = a_cloud()
    assert refined(plan, provider_of(cloud), lambda _: None).candidates[0].offer == plan.candidates[0].offer
    assert cloud.count("refine") == 1
    aws = [ranked for ranked in plan.candidates if ranked.offer.provider == "aws"]
    assert int(cloud.calls[0][1]) <= len(aws)


def test_each_machine_type_of_a_device_is_looked_up(plan: Plan) -> None:
    """g4dn.2xlarge has the same T4 and a higher price in the catalog."""
    prices = {"g4dn.xlarge": "0.20", "g4dn.2xlarge": "0.12"}
    best = plan.candidates[0]
    larger = replace(best.offer, instance_type="g4dn.2xlarge", usd_per_hour=SPOT * 2)
    both = plan._replace(candidates=(best, best._replace(rank=2, offer=larger)))

    def of(offer: Offer) -> Prices:
        return {"us-east-1a": prices[offer.instance_type]}

    again = refined(both, provider_of(FakeCloud(FakeClock(), live=of)), lambda _: None)
    assert first(again) == ("g4dn.2xlarge", "spot", ("us-east-1a",), Decimal("0.12"))


def test_another_round_looks_at_a_first_that_was_not_looked_at(catalog: Catalog) -> None:
    """The best row is of another provider, which tells nothing: what becomes first then is looked at too."""
    plan = a_plan(catalog, every_placement=True, providers=frozenset({"gcp"}))
    assert refined(plan, provider_of(a_cloud()), lambda _: None) == plan


def test_without_an_answer_the_catalogs_prices_stand(plan: Plan) -> None:
    cloud = a_cloud(spot={"": "0.9"})
    told: list[str] = []
    cloud.down["refine"] = TransientError("no answer")
    assert refined(plan, provider_of(cloud), told.append).candidates == plan.candidates
    assert told == ["aws has no live prices (no answer): those of the catalog stand"]


def test_a_budget_holds_at_live_prices(catalog: Catalog) -> None:
    job = a_job(constraints={"budget_usd": "0.06"})
    plan = a_plan(catalog, job, every_placement=True, budget_usd=Decimal("0.06"), markets=frozenset({"spot"}))
    cloud = FakeCloud(FakeClock(), live=lambda _: {"": "90"})
    with pytest.raises(NothingLeftError, match="within the budget at live prices"):
        refined(plan, provider_of(cloud), lambda _: None)


@pytest.mark.parametrize("objective", list(Objective))
def test_the_order_is_that_of_the_jobs_objective(catalog: Catalog, objective: Objective) -> None:
    plan = a_plan(catalog, a_job(objective=objective), every_placement=True)
    again = refined(plan, provider_of(FakeCloud(FakeClock(), live=lambda o: {"": str(agreed(o))})), lambda _: None)
    assert [r.offer.instance_type for r in again.candidates] == [r.offer.instance_type for r in plan.candidates]


# --- what has to be agreed to ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spot", "text"),
    [
        ("0.2104", ""),
        ("0.05", ""),
        ("0.2314", ""),
        ("0.2315", "g4dn.xlarge (spot) in us-east-1 costs $0.232/h now, 10% above the $0.210/h that was shown"),
        ("0.30", "g4dn.xlarge (spot) in us-east-1 costs $0.300/h now, 43% above the $0.210/h that was shown"),
    ],
)
def test_more_than_a_tenth_above_what_was_shown_is_told(catalog: Catalog, spot: str, text: str) -> None:
    plan = a_plan(catalog, every_placement=True, devices=frozenset({"T4"}), regions=frozenset({"us-east-1"}))
    again = refined(plan, provider_of(a_cloud(spot={"": spot})), lambda _: None)
    assert first(again)[1] == "spot"
    assert dearer(plan, again) == text


def test_a_whole_that_has_become_dearer_is_told_too(plan: Plan) -> None:
    """Another machine at its own price, which the person was not going to rent."""
    again = refined(plan, provider_of(a_cloud(spot={})), lambda _: None)
    told = dearer(plan, again)
    assert told.startswith("the cheapest costs $")
    assert told.endswith(" that was shown")


# --- later attempts ----------------------------------------------------------------------------------------------


TARGET = a_target("0.2104", provider="aws", region="us-east-1", instance_type="g4dn.xlarge", market=Market.SPOT,
                  planning_usd_per_hour=SPOT, zone="us-east-1a")  # fmt: skip


def watchful(cloud: FakeCloud, *offers: Offer) -> Watchful:
    return Watchful(provider_of(cloud), cloud.clock.now, offers)


def requested(watching: Watchful, desk: Desk) -> Offer:
    return watching.over(desk.request())(a_run(), 1, TARGET).offer


def test_a_placement_is_looked_at_before_it_is_asked(desk: Desk) -> None:
    got = requested(watchful(a_cloud(spot={"us-east-1a": "0.22", "us-east-1b": "0.9"})), desk)
    assert (got.usd_per_hour, got.price_grade) == (Decimal("0.22"), PriceGrade.OBSERVED)


@pytest.mark.parametrize(
    ("prices", "kind", "text"),
    [
        ({"us-east-1a": "0.3"}, DearerError, "it costs $0.300/h now, 43% above the $0.210/h that was agreed to"),
        ({"us-east-1b": "0.1"}, CapacityError, "in us-east-1a is not to be had any more"),
        ({}, CapacityError, "in us-east-1a is not to be had any more"),
    ],
)
def test_a_placement_that_is_dearer_or_gone_is_refused(
    desk: Desk, prices: Prices, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        requested(watchful(a_cloud(spot=prices)), desk)
    assert str(caught.value).endswith(text)


def test_a_price_that_nobody_tells_is_no_reason_to_wait(desk: Desk) -> None:
    cloud = a_cloud(spot={"": "9"})
    cloud.down["refine"] = TransientError("no answer")
    assert requested(watchful(cloud), desk) == TARGET.offer
    assert requested(Watchful(lambda _: FakeProvider(FakeClock()), cloud.clock.now), desk) == TARGET.offer


def test_what_was_just_looked_at_is_not_again(desk: Desk) -> None:
    cloud = a_cloud(spot={"us-east-1a": "9"})
    seen = replace(TARGET.offer, price_grade=PriceGrade.OBSERVED, price_as_of=cloud.clock.now().date())
    watching = watchful(cloud, seen)
    assert (requested(watching, desk), watching.is_stale()) == (TARGET.offer, False)
    cloud.clock.advance(FRESH.total_seconds())
    assert watching.is_stale()
    with pytest.raises(DearerError):
        requested(watching, desk)


def test_what_was_observed_on_an_earlier_day_is_looked_up(desk: Desk) -> None:
    """A list that was read in the last 30 days counts as observed, and its spot price may be another one by now."""
    cloud = a_cloud(spot={"us-east-1a": "9"})
    yesterday = cloud.clock.now().date() - timedelta(days=1)
    with pytest.raises(DearerError):
        requested(watchful(cloud, replace(TARGET.offer, price_grade=PriceGrade.OBSERVED, price_as_of=yesterday)), desk)


def test_a_price_is_refused_only_to_those_who_have_agreed_to_less() -> None:
    refusal = refusal_of(DearerError("dearer", usd_per_hour=Decimal("0.30")), TARGET, NOON)
    assert refusal.until - refusal.at == timedelta(minutes=15)
    assert refusal.covers(TARGET)
    offer = replace(TARGET.offer, usd_per_hour=Decimal("0.28"), planning_usd_per_hour=Decimal("0.28"))
    assert not refusal.covers(replace(TARGET, offer=offer))
    assert not refusal.covers(replace(TARGET, zone="us-east-1b"))


def test_a_run_that_is_taken_away_goes_where_it_costs_what_was_agreed(desk: Desk) -> None:
    """The first placement is gone after the first attempt, the second has become dear, the third has not."""
    cloud = FakeCloud(desk.clock, [ended_at_once(EndKind.RECLAIMED), done_at_once], tidy=True)
    desk.provider = cloud
    placements = [replace(TARGET, zone=f"us-east-1{letter}") for letter in "abc"]
    cloud.live = live(spot={"us-east-1a": "0.21", "us-east-1b": "0.50", "us-east-1c": "0.20"})
    run = desk.planned(targets=placements)
    run, _ = desk.runner().follow(run, Watchful(lambda _: cloud, desk.clock.now).over(desk.request()))
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.SUCCEEDED)
    assert [request.zone for request in cloud.received] == ["us-east-1a", "us-east-1c"]
    assert [attempt.usd_per_hour for attempt in run.attempts] == [Decimal("0.21"), Decimal("0.20")]
    assert any("it costs $0.500/h now" in event.text for event in desk.events if hasattr(event, "text"))


def test_a_run_whose_placements_have_all_become_dear_ends_and_says_so(desk: Desk) -> None:
    cloud = FakeCloud(desk.clock, live=lambda _: {"us-east-1a": "5"})
    desk.provider = cloud
    run = desk.planned(targets=[TARGET])
    run, _ = desk.runner().follow(run, Watchful(lambda _: cloud, desk.clock.now).over(desk.request()))
    assert (run.outcome, cloud.received) == (Outcome.NO_CAPACITY, [])
    assert "it costs $5.000/h now" in (run.message or "")
