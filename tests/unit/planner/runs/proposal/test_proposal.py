"""What a launch would do: the placements in the plan's order, the estimate as it is kept, and the three times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import (
    a_machine_estimate,
    a_plan,
    a_run,
    a_run_time,
    a_target,
    a_throughput,
    an_offer,
    small_catalog,
)
from tests.doubles.clock import NOON
from trainplan.planner.errors import NothingLeftError
from trainplan.planner.forecast.plan import Plan
from trainplan.planner.runs.proposal.proposal import (
    MOST_TARGETS,
    further_text,
    here,
    limits_text,
    most_usd,
    rented,
    within,
)
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.money import format_usd
from trainplan.pricing.offers import Market
from trainplan.providers.base import Timers

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    path: Path = small_catalog(tmp_path_factory.mktemp("proposal"))
    with Catalog.open(path) as opened:
        yield opened


@pytest.fixture
def plan(catalog: Catalog) -> Plan:
    return a_plan(catalog, every_placement=True)


# --- rented ------------------------------------------------------------------------------------------------------


def test_the_placements_are_the_plans_in_its_order_zone_by_zone(plan: Plan) -> None:
    expected = [
        (ranked.offer.region, ranked.offer.instance_type, ranked.offer.market, zone)
        for ranked in plan.candidates
        for zone in (ranked.offer.zones or (None,))
    ]
    targets = rented(plan).targets
    got = [(known.offer.region, known.offer.instance_type, known.offer.market, known.zone) for known in targets]
    assert got == expected[:MOST_TARGETS]
    assert {"us-east-1a", "us-east-1b", None} <= {target.zone for target in targets}
    assert {target.offer.market for target in targets} == {Market.SPOT, Market.ON_DEMAND}


def test_each_placement_knows_what_the_plan_expects_of_it(plan: Plan) -> None:
    best, target = plan.candidates[0], rented(plan).targets[0]
    estimate = best.candidate.estimate
    assert target.offer == best.offer
    assert target.seconds == estimate.time.total.total_seconds()
    assert target.overhead_seconds == estimate.time.setup.total_seconds() > 0
    assert (target.images_per_second, target.images_per_second_low) == (
        estimate.throughput.images_per_second,
        estimate.throughput.low,
    )
    assert Decimal(0) < target.fixed_usd < best.cost_usd


def test_a_placement_has_the_side_costs_of_its_region(catalog: Catalog) -> None:
    """A run's receipt and its budgets count what stands here: traffic with the bucket where it is in another region."""
    placements = {known.offer.region: known for known in rented(a_plan(catalog, every_placement=True)).targets}
    apart = {
        known.offer.region: known
        for known in rented(a_plan(catalog, every_placement=True, buckets={"aws": "us-east-1"})).targets
        if known.offer.provider == "aws"
    }
    assert apart["us-east-1"].fixed_usd == placements["us-east-1"].fixed_usd
    further = apart["eu-west-1"].fixed_usd - placements["eu-west-1"].fixed_usd
    assert further > 0
    assert apart["eu-west-1"].usd == (placements["eu-west-1"].usd or 0) + further


def test_what_is_kept_of_the_estimate_is_that_of_the_first_placement(plan: Plan) -> None:
    proposal, best = rented(plan), plan.candidates[0]
    time = best.candidate.estimate.time
    assert proposal.record["seconds"] == time.total.total_seconds()
    assert proposal.record["usd"] == float(best.cost_usd)
    assert proposal.record["low_seconds"] < proposal.record["seconds"] < proposal.record["high_seconds"]
    assert proposal.slow_end == time.high
    assert proposal.text.startswith(f"{proposal.targets[0].where} at $")


# --- what a placement may cost
# ------------------------------------------------------------------------------------------


def test_each_placement_has_the_cost_of_the_job_there_with_its_interval(plan: Plan) -> None:
    by_offer = {ranked.offer: ranked for ranked in plan.candidates}
    for target in rented(plan).targets:
        there = by_offer[target.offer]
        assert (target.usd, target.low_usd, target.high_usd) == (
            there.cost_usd, there.cost_low_usd, there.cost_high_usd
        )  # fmt: skip
        assert (target.low_seconds or 0) < (target.seconds or 0) < (target.high_seconds or 0)
        assert target.basis == there.candidate.estimate.throughput.basis


def test_yes_covers_placements_up_to_a_tenth_above_the_cost_that_was_shown(plan: Plan) -> None:
    proposal = rented(plan)
    shown = proposal.targets[0].usd
    assert shown is not None
    most = most_usd(proposal, None, assume_yes=True)
    assert most == shown * Decimal("1.1")
    kept = within(proposal, most)
    assert all(target.usd is not None and target.usd <= most for target in kept.targets)
    gone = [target for target in proposal.targets if target not in kept.targets]
    assert gone, "the plan has dearer placements"
    assert kept.left_out.startswith(
        f"left out: {len(gone)} of {len(proposal.targets)} placements, where it would cost more"
    )
    # What it names takes all of them.
    named = Decimal(kept.left_out.partition("--max-cost ")[2].split()[0])
    assert within(proposal, named) == proposal


def test_max_cost_says_otherwise_with_a_yes_and_without(plan: Plan) -> None:
    proposal = rented(plan)
    costs = sorted(target.usd or Decimal(0) for target in proposal.targets)
    for assume_yes in (True, False):
        most = most_usd(proposal, costs[-2], assume_yes=assume_yes)
        assert {target.usd for target in within(proposal, most).targets} == set(costs) - {costs[-1]}


def test_a_person_who_is_asked_may_take_every_placement_that_the_question_names(plan: Plan) -> None:
    proposal = rented(plan)
    assert within(proposal, most_usd(proposal, None, assume_yes=False)) == proposal
    dearest = max(proposal.targets, key=lambda target: target.usd or Decimal(0))
    text = further_text(proposal)
    assert text.startswith(f"if it is full, {len(proposal.targets) - 1} more placements are tried; the most expensive")
    assert f"{dearest.where}, costs {format_usd(dearest.usd or Decimal(0))} (" in text


def test_a_first_placement_above_max_cost_is_an_error_that_names_both(plan: Plan) -> None:
    with pytest.raises(NothingLeftError, match=r"above the \$0\.0100 of --max-cost"):
        within(rented(plan), Decimal("0.01"))


def test_spot_that_loses_its_fallback_is_told_so(plan: Plan) -> None:
    spot = a_target("0.1", market=Market.SPOT, usd=Decimal("0.10"))
    demand = a_target("0.4", usd=Decimal("0.401"))
    proposal = replace(rented(plan), targets=(spot, demand))
    kept = within(proposal, Decimal("0.11"))
    assert kept.targets == (spot,)
    assert kept.left_out == (
        "left out: 1 of 2 placements, where it would cost more than $0.11, all on-demand ones among them: if spot has "
        "no room, the launch ends; --max-cost 0.41 takes them all"
    )


def test_this_machine_has_no_place_to_be_left_out() -> None:
    proposal = here(a_machine_estimate(), an_offer(), "this machine")
    assert within(proposal, most_usd(proposal, None, assume_yes=True)) == proposal
    assert further_text(proposal) == ""


# --- this machine ------------------------------------------------------------------------------------------------


def test_this_machine_is_the_only_placement_there_is() -> None:
    proposal = here(a_machine_estimate(time=a_run_time(600)), an_offer(), "this machine")
    assert [target.offer for target in proposal.targets] == [an_offer()]
    assert proposal.slow_end == timedelta(seconds=70 + 2 * 530)
    assert proposal.record["seconds"] == 600.0


def test_without_an_estimate_there_is_nothing_to_keep() -> None:
    proposal = here(a_machine_estimate(time=None), an_offer(), "this machine", timedelta(seconds=1))
    assert proposal.late == ""
    assert (proposal.slow_end, proposal.record) == (None, {})


# --- the three times ---------------------------------------------------------------------------------------------


def at(seconds: float) -> str:
    return f"{(NOON + timedelta(seconds=seconds)).astimezone():%H:%M}"


RENTED = a_run(provider="aws", target=a_target(provider="aws"))


def test_who_ends_it_at_which_time_is_one_sentence() -> None:
    timers = Timers(machine=NOON + HOUR, cloud=NOON + HOUR + timedelta(minutes=10))
    assert limits_text(RENTED, timers, NOON) == [
        f"ends by {at(3600)}; if this computer is off, the machine stops itself then, and the cloud deletes it by "
        f"{at(4200)}",
        f"  this command deletes whatever is still there by {at(4500)}",
    ]


def test_another_day_and_another_minute_are_said() -> None:
    timers = Timers(machine=NOON + timedelta(days=2), cloud=None)
    first, *_ = limits_text(RENTED, timers, NOON)
    day = (NOON + timedelta(days=2)).astimezone()
    assert f"the machine stops itself at {day:%Y-%m-%d %H:%M}" in first


def test_what_no_timer_covers_is_said() -> None:
    timers = Timers(machine=NOON + HOUR, cloud=None, gap="the first minute")
    first, _, gap = limits_text(RENTED, timers, NOON)
    assert first.endswith("the machine stops itself then; no timer of the provider's own stands behind that")
    assert gap == "  not covered: the first minute"
    first, _ = limits_text(RENTED, Timers(machine=None, cloud=None), NOON)
    assert first.endswith("; if this computer is off, nothing ends it")


def test_a_run_on_this_computer_is_ended_by_it() -> None:
    (only,) = limits_text(a_run(), Timers(machine=NOON + HOUR, cloud=None), NOON)
    assert only == f"ends by {at(3600)}; this computer ends it, even if you close this terminal"


def test_a_budget_ends_it_when_it_is_spent_at_the_highest_price() -> None:
    """$2 at no more than $8 an hour."""
    spot = replace(a_target("1", market=Market.SPOT, on_demand_usd_per_hour=Decimal(8)), zone="a")
    first, *_ = limits_text(a_run(targets=(spot,), budget_usd=Decimal(2)), Timers(machine=None, cloud=None), NOON)
    assert first.startswith(f"ends by {at(900)}, or when $2 are spent at the highest price that may come; ")


def test_what_other_programs_leave_counts_for_when_a_run_here_would_end() -> None:
    quiet, busy = (a_machine_estimate(time=a_run_time(600), free_share=share) for share in (1.0, 0.25))
    ends = [here(one, an_offer(), "this machine").slow_end for one in (quiet, busy)]
    assert None not in ends
    assert ends[1] == 4 * ends[0]  # type: ignore[operator]
    assert here(quiet, an_offer(), "this machine", timedelta(minutes=30)).late == ""
    assert "it is estimated to take 4" in here(busy, an_offer(), "this machine", timedelta(minutes=30)).late
    script = replace(busy, throughput=a_throughput(1.0, Basis.UNMEASURED))
    assert here(script, an_offer(), "this machine", timedelta(seconds=612)).slow_end == ends[0]


@pytest.mark.parametrize(
    ("deadline", "late"),
    [
        (None, ""),
        (timedelta(hours=9), ""),
        (
            timedelta(seconds=10),
            "it is estimated to take 10m 00s, and would be ended at its deadline of 10s, with a checkpoint",
        ),
    ],
)
def test_a_deadline_that_this_machine_would_not_keep_is_told(deadline: timedelta | None, late: str) -> None:
    assert here(a_machine_estimate(time=a_run_time(600)), an_offer(), "this machine", deadline).late == late
