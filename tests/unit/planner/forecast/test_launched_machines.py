"""The estimate of a launch is of as many machines as the launch takes: on a cluster the job's `nodes`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import NOON, a_job, a_rental, a_throughput, a_world, an_offer, rented
from tests.contract.slurm import SlurmHarness
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.forecast.machines import GroupQuery, groups_of
from trainplan.planner.forecast.plan import Candidate, Choice, Plan, RankedOffer, Reason
from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.report.explain import explain
from trainplan.planner.runs.proposal.proposal import rented as proposal_of
from trainplan.planner.runs.run import Attempt
from trainplan.planner.runs.targets import Target, affordable
from trainplan.planner.settings import Settings
from trainplan.pricing.offer_source import AddedOffers, GivenOffers
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.base import EndKind
from trainplan.providers.registry import rates_told_by
from trainplan.workloads.job import TrainingJob

NODE = a_rental(provider="slurm", instance_type="gpu:v100:2", family="slurm", device="V100", device_count=2, vcpus=2000)


def chosen(job: TrainingJob, **filters: Any) -> Choice:
    world = a_world(lambda rental: a_throughput(300.0 * rental.device_count))
    return choose(job, [rented(NODE, ("two", "1"))], world, Filters(**filters), every_placement=True)


def first_of(job: TrainingJob, **filters: Any) -> Candidate:
    (candidate,) = chosen(job, **filters).candidates
    return candidate


def plan_on(tmp_path: Path, job: TrainingJob, **settings: Any) -> Plan:
    harness = SlurmHarness(tmp_path)
    harness.settings = replace(harness.settings, **settings)
    offers = harness.provider().offers(OfferQuery())
    query = PlanQuery(
        providers=("slurm",),
        every_placement=True,
        offer_source=lambda catalog: AddedOffers(GivenOffers(offers, [rates_told_by("slurm")], catalog), catalog),
    )
    return make_plan(job, query, Settings(home=tmp_path / "home"), NOON)


def test_row_launch_line_and_receipt_of_two_nodes_are_those_of_two(tmp_path: Path) -> None:
    """They were those of one node, and the two that train stood in a table below alone."""
    plan = plan_on(tmp_path, a_job(nodes=2))
    one, two = plan.groups
    assert (one.machines, two.machines) == (1, 2)
    assert one.estimate is not None
    assert two.estimate is not None
    assert one.estimate.throughput != two.estimate.throughput
    (row,) = plan.candidates
    assert row.candidate.estimate == two.estimate
    proposal = proposal_of(plan)
    assert proposal.record["images_per_second"] == two.estimate.throughput.images_per_second
    assert proposal.record["seconds"] == two.estimate.time.total.total_seconds()
    assert proposal.targets[0].images_per_second_low == two.estimate.throughput.low
    assert "slurm 2 x node:1 (on_demand) in two at" in proposal.text


def test_one_node_and_other_providers_are_estimated_as_one_machine() -> None:
    assert first_of(a_job()).estimate.machines == 1
    cloud = choose(a_job(nodes=2), [rented(a_rental())], a_world(), Filters(), every_placement=True).candidates[0]
    assert (cloud.estimate.machines, cloud.estimate.alone) == (1, None)


def test_each_node_costs_what_one_does(tmp_path: Path) -> None:
    one, two = first_of(a_job()), first_of(a_job(nodes=2))
    seconds = two.estimate.billed_seconds[0]
    compute = two.cost_micro_usd - two.estimate.side.micro_usd("two")
    assert compute == pytest.approx(2 * 1_000_000 * seconds / 3600, abs=2)
    assert two.cost_micro_usd == two.estimate.cost_micro_usd(1_000_000, "two")
    assert one.estimate.machines == 1
    plan = plan_on(tmp_path, a_job(nodes=2), usd_per_device_hour=Decimal(3))
    (row,), (_, group) = plan.candidates, plan.groups
    assert group.cost_micro_usd is not None
    assert row.candidate.cost_micro_usd == group.cost_micro_usd[0]
    assert row.cost_usd == pytest.approx(
        Decimal(6) * row.candidate.estimate.billed_seconds[0] / 3600, abs=Decimal("0.00001")
    )


def test_the_table_of_numbers_has_one_machine_as_it_is_alone() -> None:
    job = a_job(nodes=2)
    query = GroupQuery(Workload(job), (1, 2, 4), lambda _, rental: a_throughput(300.0 * rental.device_count))
    ranked = RankedOffer(1, first_of(job), an_offer())
    one, two, four = groups_of([ranked], query)
    assert one.estimate == first_of(a_job()).estimate
    assert two.estimate == ranked.candidate.estimate
    assert four.estimate is not None
    assert four.estimate.machines == 4
    assert four.estimate.alone == one.estimate


def test_deadline_and_budget_hold_for_all_nodes_together() -> None:
    """Four are faster than one and cost more: they keep to what one does not, and the other way round."""
    alone, together = first_of(a_job()), first_of(a_job(nodes=4))
    between = timedelta(seconds=1) + together.estimate.time.total
    assert together.estimate.time.total < between < alone.estimate.time.total
    assert first_of(a_job(nodes=4), deadline=between) == together
    assert {key.reason for key in chosen(a_job(), deadline=between).rejections} == {Reason.OVER_DEADLINE}
    assert alone.cost_micro_usd < together.cost_micro_usd
    budget_usd = Decimal(together.cost_micro_usd - 1) / 1_000_000
    assert first_of(a_job(), budget_usd=budget_usd) == alone
    assert {key.reason for key in chosen(a_job(nodes=4), budget_usd=budget_usd).rejections} == {Reason.OVER_BUDGET}


def test_explain_tells_what_one_node_does_and_what_all_do(tmp_path: Path) -> None:
    plan = plan_on(tmp_path, a_job(nodes=2), usd_per_device_hour=Decimal(3))
    (row,) = plan.candidates
    text = explain(plan, row)
    together = row.candidate.estimate.throughput
    assert text.startswith("row 1: slurm two 2 x node:1")
    assert f"2 machines together: {together.images_per_second:,.1f} images/s" in text
    assert f"{row.candidate.estimate.billed_seconds[0]:,} s at 2 x $3.000/h" in text


def test_a_run_on_two_nodes_is_charged_for_both() -> None:
    offer = an_offer(provider="slurm", usd_per_hour=Decimal(3), planning_usd_per_hour=Decimal(3))
    target = Target(offer=offer, machines=2)
    ended_at = NOON + timedelta(hours=2)
    attempt = Attempt(number=1, target=target, asked_at=NOON, ended_at=ended_at, end=EndKind.DONE)
    assert (target.ceiling_usd_per_hour, attempt.usd_per_hour) == (6, 6)
    assert attempt.cost_usd(ended_at) == attempt.list_usd(ended_at) == 12
    assert affordable(target, Decimal(12)) == timedelta(hours=2)


def test_a_batch_that_does_not_split_over_all_nodes_is_refused_before_the_launch() -> None:
    choice = chosen(a_job(nodes=3, global_batch_size=128))
    assert {key.reason for key in choice.rejections} == {Reason.BATCH_NOT_DIVISIBLE}
    assert choice.filtered_last is Reason.BATCH_NOT_DIVISIBLE


def test_a_batch_too_large_for_one_node_fits_several_and_one_is_left_out_of_the_numbers() -> None:
    small = replace(NODE, device_memory_gib=4.0)
    world = a_world(lambda rental: a_throughput(300.0 * rental.device_count))
    jobs = [a_job(global_batch_size=8192, nodes=nodes) for nodes in (1, 8)]
    alone, together = (choose(job, [rented(small)], world, Filters(), every_placement=True) for job in jobs)
    assert alone.filtered_last is Reason.OUT_OF_MEMORY
    (candidate,) = together.candidates
    assert candidate.estimate.memory is not None
    assert candidate.estimate.memory.images == 512
    query = GroupQuery(Workload(jobs[1]), (8,), world.throughput)
    one, eight = groups_of([RankedOffer(1, candidate, an_offer())], query)
    assert one.left_out == "a share of 4096 images does not fit the memory of a device"
    assert eight.estimate == candidate.estimate
