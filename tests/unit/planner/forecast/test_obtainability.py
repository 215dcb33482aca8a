"""Placements that may refuse: create requests, waiting, cost and rank."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_plan, a_rental, a_world, rented, small_catalog
from tests.doubles.clock import NOON
from trainplan.planner.cli.screen import PLAIN, render
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.obtainability import PAUSES, Obtainabilities, elsewhere_micro, expected_search
from trainplan.planner.forecast.plan import Choice, Reason
from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.report.estimate_json import estimate_json
from trainplan.planner.report.estimate_page import estimate_page
from trainplan.planner.report.explain import explain
from trainplan.planner.runs.decision.search import pause_after
from trainplan.planner.settings import Settings
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.money import from_micro
from trainplan.pricing.obtainability import (
    CHANCES,
    UNKNOWN,
    Evidence,
    MachinePlacement,
    Note,
    Obtainability,
    ObtainabilityGrade,
)
from trainplan.pricing.offers import Market, Placement
from trainplan.pricing.planning import PlannedAs
from trainplan.workloads.job import Objective

GOOD, UNCERTAIN, POOR = (ObtainabilityGrade(name) for name in ("good", "uncertain", "poor"))
THREE_PLACEMENTS = (("us-east-1", "1"), ("eu-west-1", "1.2"), ("us-west-2", "3"))


def obtainability(grade: ObtainabilityGrade) -> Obtainability:
    return Obtainability(grade=grade, ground="as a test says", as_of=date(2026, 11, 20), source="a test")


def scored(region: str, grade: ObtainabilityGrade = POOR, market: str = "on_demand") -> Obtainabilities:
    placement = MachinePlacement("aws", region, a_rental().instance_type, market)
    return Obtainabilities(NOON, scores={placement: obtainability(grade)})


def choose_offer(
    obtainability: Obtainabilities, *prices: tuple[str, str], every_placement: bool = True, **options: Any
) -> Choice:
    job = options.pop("job", a_job())
    rental = options.pop("rental", a_rental())
    world = a_world()._replace(obtainability=obtainability)
    rows = [rented(rental, *(prices or THREE_PLACEMENTS))]
    return choose(job, rows, world, Filters(**options), every_placement=every_placement)


# --- what a search takes -----------------------------------------------------------------------------------------


def test_the_pauses_are_those_of_a_launch() -> None:
    assert tuple(pause_after(passes) for passes in range(1, len(PAUSES) + 1)) == PAUSES


@pytest.mark.parametrize("grade", [UNCERTAIN, POOR])
def test_a_search_is_what_many_runs_meet_on_average(grade: ObtainabilityGrade) -> None:
    search, draw = expected_search(obtainability(grade), None), random.Random(7)
    assert search is not None
    requests, waits, refused, runs = 0, [], 0, 20_000
    for _ in range(runs):
        wait = timedelta(0)
        for number in range(len(PAUSES) + 1):
            requests += 1
            if draw.random() < CHANCES[grade]:
                break
            if number == len(PAUSES):
                refused += 1
            else:
                wait += PAUSES[number]
        waits.append(wait)
    assert search.requests == pytest.approx(requests / runs, rel=0.02)
    assert search.waiting / timedelta(minutes=1) == pytest.approx(
        sum(waits, timedelta(0)) / timedelta(minutes=1) / runs, rel=0.03
    )
    assert search.refused == pytest.approx(refused / runs, rel=0.05)
    assert search.waiting_high == sorted(waits)[int(0.9 * runs)]


@pytest.mark.parametrize("obtainability", [UNKNOWN, obtainability(GOOD)])
def test_good_and_unknown_count_as_obtained_at_once(obtainability: Obtainability) -> None:
    assert expected_search(obtainability, 1) is None


def test_elsewhere_is_the_median_of_the_other_regions() -> None:
    placements = [
        Placement(micro, region, index) for index, (region, micro) in enumerate([("a", 1), ("b", 5), ("c", 9)])
    ]
    assert elsewhere_micro(placements, "a") == 7
    assert elsewhere_micro([*placements, Placement(6, "d", 4)], "a") == 6
    assert elsewhere_micro(placements[:1], "a") is None


# --- what is known of a placement ------------------------------------------------------------------------------------


def test_a_vendors_score_counts_before_own_evidence_and_that_before_a_note() -> None:
    rental = a_rental()
    placement = MachinePlacement("aws", "us-east-1", rental.instance_type, "on_demand")
    notes = [Note("aws", "us-east-1", rental.device, "on_demand", obtainability(POOR))]
    evidence = [Evidence(placement, NOON, was_obtained=True)]
    assert Obtainabilities(NOON, notes).of(rental, "us-east-1").grade is POOR
    assert Obtainabilities(NOON, notes, evidence).of(rental, "us-east-1").grade is GOOD
    every = Obtainabilities(NOON, notes, evidence, {placement: obtainability(UNCERTAIN)})
    assert every.of(rental, "us-east-1").grade is UNCERTAIN
    assert every.of(rental, "eu-west-1") is UNKNOWN
    assert Obtainabilities(NOON, notes, evidence, {placement: UNKNOWN}).of(rental, "us-east-1").grade is GOOD


def test_machines_of_which_nothing_is_known_are_not_concerned() -> None:
    assert scored("us-east-1").concerns(a_rental())
    assert not scored("us-east-1").concerns(a_rental(instance_type="another"))
    assert not scored("us-east-1", market="spot").concerns(a_rental())
    assert not Obtainabilities().concerns(a_rental())


# --- time, cost and rank -----------------------------------------------------------------------------------------


def test_a_placement_that_refuses_is_later_and_dearer_and_ranks_lower() -> None:
    before, after = choose_offer(Obtainabilities()), choose_offer(scored("us-east-1"))
    assert [one.placement.region for one in before.candidates] == ["us-east-1", "eu-west-1", "us-west-2"]
    assert [one.placement.region for one in after.candidates] == ["eu-west-1", "us-east-1", "us-west-2"]
    plain, poor = before.candidates[0], after.candidates[1]
    search = poor.estimate.search
    assert search is not None
    assert poor.estimate.time.total == plain.estimate.time.total + search.waiting
    assert poor.estimate.time.low == plain.estimate.time.low
    assert poor.estimate.time.high == plain.estimate.time.high + timedelta(minutes=45)
    hours = Decimal(plain.estimate.billed_seconds[0]) / 3600
    # The median of the two other placements is 2.10: 61 % of runs pay that.
    added = Decimal("1.1") * Decimal(str(0.85**3)) * hours
    assert from_micro(poor.cost_micro_usd - plain.cost_micro_usd) == pytest.approx(added, abs=Decimal("0.00001"))
    assert after.candidates[0] == before.candidates[1]


def test_the_ends_of_the_cost_are_those_of_a_run_that_is_obtained_and_of_one_that_is_not() -> None:
    plain, poor = choose_offer(Obtainabilities()).candidates[0], choose_offer(scored("us-east-1")).candidates[1]
    low, high = ([one.estimate.cost_micro_usd(1_000_000, "us-east-1", end) for one in (plain, poor)] for end in (1, 2))
    assert low[0] == low[1]
    assert high[1] - high[0] == 1_100_000 * plain.estimate.billed_seconds[2] // 3600


def test_without_another_region_the_cost_stays_and_the_run_waits() -> None:
    only = (("us-east-1", "1"),)
    (before,), (after,) = (choose_offer(given, *only).candidates for given in (Obtainabilities(), scored("us-east-1")))
    assert after.cost_micro_usd == before.cost_micro_usd
    assert after.estimate.time.total > before.estimate.time.total
    elsewhere = choose_offer(scored("us-east-1"), *THREE_PLACEMENTS, regions=frozenset({"us-east-1"})).candidates
    assert [one.cost_micro_usd for one in elsewhere] == [before.cost_micro_usd]


def test_a_good_placement_is_said_to_be_and_changes_nothing() -> None:
    before, after = (choose_offer(given).candidates[0] for given in (Obtainabilities(), scored("us-east-1", GOOD)))
    assert after.estimate.obtainability.grade is GOOD
    assert (after.cost_micro_usd, after.estimate.time) == (before.cost_micro_usd, before.estimate.time)


def test_the_best_placement_of_a_machine_is_one_that_can_be_had() -> None:
    (best,) = choose_offer(scored("us-east-1"), every_placement=False).candidates
    assert best.placement.region == "eu-west-1"


def test_by_time_a_placement_at_the_same_speed_that_can_be_had_goes_first() -> None:
    job = a_job(objective=Objective.TIME)
    order = [one.placement.region for one in choose_offer(scored("us-east-1"), job=job).candidates]
    assert order == ["eu-west-1", "us-west-2", "us-east-1"]


def test_a_placement_whose_wait_passes_the_deadline_is_rejected() -> None:
    total = choose_offer(Obtainabilities()).candidates[0].estimate.time.total
    choice = choose_offer(scored("us-east-1"), deadline=total + timedelta(minutes=10))
    assert [one.placement.region for one in choice.candidates] == ["eu-west-1", "us-west-2"]
    assert {key.reason: count for key, count in choice.rejections.items()} == {Reason.OVER_DEADLINE: 1}
    nothing = choose_offer(scored("us-east-1"), ("us-east-1", "1"), deadline=total + timedelta(minutes=10))
    assert nothing.filtered_last is Reason.OVER_DEADLINE


def test_a_placement_that_is_over_the_budget_with_going_elsewhere_is_rejected() -> None:
    cost = from_micro(choose_offer(Obtainabilities()).candidates[0].cost_micro_usd)
    choice = choose_offer(scored("us-east-1"), budget_usd=cost)
    assert choice.candidates == ()
    assert choice.filtered_last is Reason.OVER_BUDGET


def test_on_spot_the_wait_is_added_to_that_of_interruptions() -> None:
    rental = a_rental(market=Market.SPOT, interruption_bucket=1)
    before = choose_offer(Obtainabilities(), rental=rental).candidates[0]
    after = choose_offer(scored("us-east-1", market="spot"), rental=rental).candidates[1]
    assert after.estimate.search is not None
    assert after.estimate.time.total == before.estimate.time.total + after.estimate.search.waiting
    assert after.estimate.billed_seconds == before.estimate.billed_seconds


# --- what is shown -----------------------------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(small_catalog(tmp_path)) as opened:
        yield opened


def refusing(catalog: Catalog, grade: ObtainabilityGrade) -> tuple[Obtainabilities, int]:
    """The first placement of a machine with dearer ones has this grade, and the rank that it has then."""
    rows = a_plan(catalog, every_placement=True).candidates
    placements = [MachinePlacement(*(getattr(row.offer, name) for name in MachinePlacement._fields)) for row in rows]
    machines = [placement._replace(region="") for placement in placements]
    index = next(index for index, machine in enumerate(machines) if machines.count(machine) > 1)
    candidate, placement = rows[index].candidate, placements[index]
    given = Obtainabilities(NOON, scores={placement: obtainability(grade)})
    ranked = a_plan(catalog, every_placement=True, obtainability=given).candidates
    return given, next(row.rank for row in ranked if row.candidate.placement.row_id == candidate.placement.row_id)


def test_the_word_stands_in_the_table_only_where_it_changes_the_estimate(catalog: Catalog) -> None:
    for grade, is_shown in ((POOR, True), (UNCERTAIN, True), (GOOD, False)):
        given, _ = refusing(catalog, grade)
        text = render(estimate_page(a_plan(catalog, every_placement=True, obtainability=given)), PLAIN)
        assert (f", {grade}  " in text) is is_shown
        assert ("it may not be obtained" in text) is is_shown


def test_the_explanation_adds_up(catalog: Catalog) -> None:
    given, rank = refusing(catalog, POOR)
    plan = a_plan(catalog, every_placement=True, obtainability=given)
    ranked = plan.candidates[rank - 1]
    text = explain(plan, ranked)
    assert "poor, 2026-11-20: as a test says\n  source: a test\n" in text
    assert "2.6 create requests and 34m 26s (2,066 s) of waiting are expected (not billed)" in text
    assert ranked.elsewhere_usd > 0
    parts = float(ranked.fixed.total + ranked.compute_usd + ranked.elsewhere_usd)
    assert parts == pytest.approx(float(ranked.cost_usd), abs=2e-6)
    assert f"  elsewhere ${ranked.elsewhere_usd:.4f}: 61% of the difference to " in text


def test_the_json_has_all_of_it_and_null_for_what_nobody_says(catalog: Catalog) -> None:
    import json

    given, rank = refusing(catalog, POOR)
    rows = json.loads(estimate_json(a_plan(catalog, every_placement=True, limit=0, obtainability=given)))["candidates"]
    entries = {row["rank"]: row["obtainability"] for row in rows}
    assert entries.pop(rank) == {
        "grade": "poor", "ground": "as a test says", "as_of": "2026-11-20", "source": "a test",
        "requests": pytest.approx(2.5725), "waiting_seconds": pytest.approx(2065.5),
        "refused": pytest.approx(0.614125),
    }  # fmt: skip
    assert set(entries.values()) == {None}


# --- with the shipped catalog ------------------------------------------------------------------------------------

H100 = MachinePlacement("gcp", "europe-north1", "a3-highgpu-1g", "spot")


def h100_on_spot(tmp_path: Path, *evidence: Evidence) -> list[tuple[str, ObtainabilityGrade, PlannedAs]]:
    """Region, grade and ground of the price of each placement of one H100 on spot, in the order of the plan."""
    query = PlanQuery(providers=("gcp",), devices=("H100",), markets=("spot",), every_placement=True, evidence=evidence)
    plan = make_plan(a_job(), query, Settings(home=tmp_path), NOON)
    return [
        (row.offer.region, row.candidate.estimate.obtainability.grade, row.offer.planned_as)
        for row in plan.candidates
        if row.offer.instance_type == H100.instance_type
    ]


def test_h100_in_europe_north1_is_not_the_first_placement(tmp_path: Path) -> None:
    rows = h100_on_spot(tmp_path)
    regions = [region for region, *_ in rows]
    assert rows[regions.index("europe-north1")][1:] == (POOR, PlannedAs.OUTLIER)
    assert regions.index("europe-north1") >= len(rows) // 4


def test_a_machine_that_was_had_there_brings_it_back(tmp_path: Path) -> None:
    rows = h100_on_spot(tmp_path, Evidence(H100, NOON, was_obtained=True))
    assert rows[0] == ("europe-north1", GOOD, PlannedAs.DRIFTED)


def test_own_refusals_move_the_first_placement_down(tmp_path: Path) -> None:
    first, *_ = h100_on_spot(tmp_path)
    refusals = [Evidence(H100._replace(region=first[0]), NOON, was_obtained=False)] * 3
    rows = h100_on_spot(tmp_path, *refusals)
    assert rows[0][0] != first[0]
    assert (first[0], POOR) in [row[:2] for row in rows]
