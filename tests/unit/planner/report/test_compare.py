"""Two plans side by side: signs of differences, what is within the noise, what is not possible; golden pages, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import a_job, a_machine_estimate, a_plan, small_catalog
from tests.conftest import Golden
from tests.json_output import complaint
from trainplan.planner.cli.screen import PLAIN, Screen, render
from trainplan.planner.forecast.plan import Plan, Reason
from trainplan.planner.forecast.times import Interval
from trainplan.planner.report.compare import Comparison, Delta, Pair, Side, compare, comparison_json
from trainplan.planner.report.compare_page import comparison_page
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.grades import Market

KEYS = {"total_seconds", "cost_usd", "usd_per_hour", "images_per_second", "memory_gib"}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog.open(small_catalog(tmp_path_factory.mktemp("compare"))) as made:
        yield made


def compared(catalog: Catalog, first: Plan | None = None, second: Plan | None = None) -> Comparison:
    first = first or a_plan(catalog, every_placement=True, limit=0)
    second = second or a_plan(catalog, a_job(epochs=300), every_placement=True, limit=0)
    return compare(Side("a.yaml", first), Side("b.yaml", second))


def page_text(comparison: Comparison, screen: Screen = PLAIN) -> str:
    return render(comparison_page(comparison), screen)


def pages(catalog: Catalog) -> dict[str, Comparison]:
    here, nowhere = a_machine_estimate(), a_machine_estimate(time=None, cost_usd=None, fits=False, reason="too small")
    return {
        "longer": compared(catalog),
        "equal": compared(catalog, second=a_plan(catalog, every_placement=True, limit=0)),
        "too-large": compared(
            catalog,
            a_plan(catalog, every_placement=True, this_machine=here),
            a_plan(catalog, a_job(global_batch_size=2**20), every_placement=True, this_machine=nowhere),
        ),
    }


@pytest.mark.parametrize("name", ["longer", "equal", "too-large"])
def test_the_page(catalog: Catalog, golden: Golden, name: str) -> None:
    golden.check(f"compare-{name}.txt", page_text(pages(catalog)[name]) + "\n")


@pytest.mark.parametrize("name", ["longer", "equal", "too-large"])
def test_it_fits_80_columns(catalog: Catalog, name: str) -> None:
    lines = page_text(pages(catalog)[name], Screen(width=80, has_colour=False)).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("columns left out" in line for line in lines)


def test_a_difference_is_b_less_a_and_a_share_of_a(catalog: Catalog) -> None:
    there, back = compared(catalog), compared(catalog, a_plan(catalog, a_job(epochs=300)), a_plan(catalog))
    cost = there.cheapest.deltas["cost_usd"]
    assert there.cheapest.first is not None
    assert there.cheapest.second is not None
    assert cost is not None
    assert cost.absolute == there.cheapest.second.usd.expected - there.cheapest.first.usd.expected > 0
    assert cost.percent == pytest.approx(100 * (there.cheapest.second.usd.expected / there.cheapest.first.usd[0] - 1))
    less = back.same_offer.deltas["total_seconds"]
    assert less is not None
    assert less.absolute < 0
    assert -100 < (less.percent or 0) < 0
    assert "  -" in page_text(back)
    assert "  +" not in page_text(back)


def test_without_anything_to_begin_with_there_is_no_percentage(catalog: Catalog) -> None:
    free = compared(
        catalog,
        a_plan(catalog, this_machine=a_machine_estimate(cost_usd=Decimal(0), usd_per_hour=Decimal(0))),
        a_plan(catalog, this_machine=a_machine_estimate()),
    )
    assert free.this_machine.deltas["usd_per_hour"] == Delta(float(a_machine_estimate().usd_per_hour), None)


def test_the_cheapest_and_the_fastest_are_those_of_each_plan(catalog: Catalog) -> None:
    plan = a_plan(catalog, every_placement=True)
    comparison = compared(catalog, plan, plan)
    cheapest, fastest = comparison.cheapest.first, comparison.fastest.first
    assert cheapest is not None
    assert fastest is not None
    assert cheapest.seconds.expected > fastest.seconds.expected
    assert cheapest.usd.expected < fastest.usd.expected
    assert fastest.seconds.expected == min(one.estimate.time.total for one in plan.ranking).total_seconds()
    first = plan.candidates[0]
    assert cheapest.usd == tuple(map(float, (first.cost_usd, first.cost_low_usd, first.cost_high_usd)))


def test_the_same_offer_is_the_first_of_a_wherever_it_ranks_in_b(catalog: Catalog) -> None:
    by_time = a_plan(catalog, a_job(objective="time"), every_placement=True)
    by_cost = a_plan(catalog, every_placement=True)
    pair = compared(catalog, by_time, by_cost).same_offer
    assert pair.first is not None
    assert pair.second is not None
    assert pair.first.row["rank"] == 1
    assert pair.second.row["rank"] > 1
    for key in ("provider", "instance_type", "region", "market", "cost_usd"):
        assert pair.first.row[key] == pair.second.row[key]
    assert pair.is_same_machine


def test_an_offer_that_b_cannot_use_says_why(catalog: Catalog) -> None:
    comparison = pages(catalog)["too-large"]
    assert comparison.same_offer.reasons == (Reason.FRACTION_TOO_SMALL,)
    assert comparison.same_offer.second is None
    text = page_text(comparison)
    assert f"first offer of A: not possible under B: {Reason.FRACTION_TOO_SMALL.text}" in text
    assert "nothing fits B: " in text
    assert "nothing fits A" not in text
    assert "this machine cannot train B: too small" in text


def test_a_filter_of_other_placements_is_no_reason(catalog: Catalog) -> None:
    """B may use one region: of A's machine the reason there is its size, elsewhere the region."""
    before = a_plan(catalog, every_placement=True)
    region = before.ranking[0].placement.region
    after = a_plan(catalog, a_job(global_batch_size=2**20), every_placement=True, regions=frozenset({region}))
    kinds = {key.reason for key in after.rejections}
    assert {Reason.REGION, Reason.FRACTION_TOO_SMALL} <= kinds
    assert compared(catalog, before, after).same_offer.reasons == (Reason.FRACTION_TOO_SMALL,)
    spot_only = a_plan(catalog, every_placement=True, markets=frozenset({Market.SPOT}))
    on_demand = a_plan(catalog, every_placement=True, markets=frozenset({Market.ON_DEMAND}))
    assert compared(catalog, on_demand, spot_only).same_offer.reasons == (Reason.MARKET,)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [((2, 1, 3), (5, 3, 6), True), ((2, 1, 3), (5, 3.1, 6), False), ((5, 4, 6), (2, 1, 3), False)],
)
def test_intervals_that_touch_overlap(one: Any, other: Any, expected: bool) -> None:
    assert Interval(*one).overlaps(Interval(*other)) is expected


def test_the_page_says_what_is_within_the_noise(catalog: Catalog) -> None:
    a_little_more = compared(catalog, second=a_plan(catalog, a_job(epochs=a_job().epochs + 1), every_placement=True))
    assert "the 80 % intervals of the cost overlap" in page_text(a_little_more)
    far_more = compared(catalog, second=a_plan(catalog, a_job(epochs=100 * a_job().epochs), every_placement=True))
    assert "the 80 % intervals of the cost do not overlap" in page_text(far_more)
    assert "within the noise" not in page_text(far_more)


def test_one_machine_under_both_is_not_called_noise(catalog: Catalog) -> None:
    """One epoch more on the same machine takes longer for certain, however wide the intervals are."""
    second = a_plan(catalog, a_job(epochs=a_job().epochs + 1), every_placement=True)
    comparison = compared(catalog, second=second)
    assert comparison.cheapest.is_same_machine
    assert "errors in its speed cancel out, so the difference is more certain" in page_text(comparison)
    assert "within the noise" not in page_text(comparison)


def test_two_machines_whose_costs_overlap_are_within_the_noise(catalog: Catalog) -> None:
    spot = a_plan(catalog, every_placement=True, markets=frozenset({Market.SPOT}))
    comparison = compared(catalog, a_plan(catalog, every_placement=True), spot)
    assert not comparison.cheapest.is_same_machine
    assert comparison.cheapest.overlaps["cost_usd"]
    line = "cheapest offer: the 80 % intervals of the cost overlap: the difference is within the noise of the estimate"
    assert line in page_text(comparison).splitlines()


def test_equal_jobs_have_no_difference(catalog: Catalog) -> None:
    comparison = pages(catalog)["equal"]
    text = page_text(comparison)
    assert "no difference: A and B train the same, within the same limits" in text.splitlines()
    assert "overlap" not in text
    for pair in (comparison.cheapest, comparison.fastest, comparison.same_offer):
        assert {delta.absolute for delta in pair.deltas.values() if delta} == {0}


def test_what_fits_nowhere_has_no_differences(catalog: Catalog) -> None:
    nothing = a_plan(catalog, budget_usd=Decimal("0.0001"))
    comparison = compared(catalog, nothing, nothing)
    assert comparison.pairs == dict.fromkeys(comparison.pairs, Pair())
    text = page_text(comparison)
    assert "nothing fits A: over the budget" in text
    assert "nothing fits B: " in text
    assert "difference\n" not in text


@pytest.mark.parametrize("name", ["longer", "equal", "too-large"])
def test_the_json_has_the_same_keys_always(catalog: Catalog, name: str) -> None:
    comparison = pages(catalog)[name]
    said = json.loads(comparison_json(comparison))
    assert complaint(["estimate", "--compare", "b.yaml"], json.dumps(said)) == ""
    for key, pair in comparison.pairs.items():
        row = said[key]
        if pair.first is not None and pair.second is not None:
            assert set(row["difference"]) == KEYS
            assert set(row["intervals_overlap"]) == {"total_seconds", "cost_usd"}
        else:
            assert (row["difference"], row["intervals_overlap"], row["same_machine"]) == (None, None, None)
    ends = said["cheapest"]["time_intervals"]["a"]
    assert ends["low_seconds"] < said["cheapest"]["a"]["total_seconds"] < ends["high_seconds"]


def test_the_json_says_what_the_page_says(catalog: Catalog) -> None:
    said = json.loads(comparison_json(compared(catalog)))
    assert said["changed"] == [{"key": "epochs", "from": a_job().epochs, "to": 300}]
    row = said["cheapest"]
    difference = row["difference"]["cost_usd"]["absolute"]
    assert difference == pytest.approx(row["b"]["cost_usd"] - row["a"]["cost_usd"])
    empty = json.loads(comparison_json(pages(catalog)["too-large"]))
    assert (empty["b"]["candidate_count"], empty["b"]["filtered_last"]) == (0, "fraction_too_small")
    assert empty["same_offer"]["reasons"] == ["fraction_too_small"]
