"""The same job on several machines: time, cost and hazard of each number, and what is said of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import NOON, a_job, a_plan, a_rental, a_throughput, a_world, an_offer, rented, small_catalog
from tests.conftest import Golden
from trainplan.planner.cli.screen import PLAIN, render
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.forecast.machines import (
    SLOWEST_START_SECONDS,
    GroupQuery,
    advice_on_machines,
    best_of_each_machine,
    groups_of,
    network_of_rental,
    numbers_up_to,
    of_any,
)
from trainplan.planner.forecast.plan import Candidate, Group, Plan, RankedOffer, Reason
from trainplan.planner.forecast.spot import spot_rate
from trainplan.planner.report.machines import machines_json, machines_page
from trainplan.planner.throughput.machines import on_machines, unknown_network
from trainplan.planner.throughput.values import Throughput
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Rental
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.layers import trained_parameters

LARGE = {"name": "vgg16", "epochs": 90, "model": {"preset": "vgg16"}, "data": {"name": "imagenet"}}


def candidates(*rentals: Rental, job: TrainingJob, speed: float = 1000.0) -> tuple[Candidate, ...]:
    world = a_world(lambda rental: a_throughput(speed * rental.device_count))
    rows = [rented(rental, ("us-east-1", "10")) for rental in rentals]
    return choose(job, rows, world, Filters(), every_placement=False).candidates


def groups(
    *rentals: Rental, job: TrainingJob, numbers: tuple[int, ...] = (1, 2, 4), speed: float = 1000.0
) -> tuple[Group, ...]:
    """Each rental in these numbers; a machine is as fast with any share of the batch."""
    ranked = [
        RankedOffer(rank, candidate, an_offer())
        for rank, candidate in enumerate(candidates(*rentals, job=job, speed=speed), start=1)
    ]

    def throughput(_: TrainingJob, rental: Rental) -> Throughput | Reason:
        return a_throughput(speed * rental.device_count)

    return groups_of(ranked, GroupQuery(Workload(job), numbers, throughput))


def a_v100(**changes: Any) -> Rental:
    return a_rental(
        **{
            "instance_type": "p3.16xlarge",
            "family": "p3",
            "device": "V100",
            "device_count": 8,
            "vcpus": 2000,
            **changes,
        }
    )


def test_one_machine_stands_first_and_is_the_candidate_itself() -> None:
    job = a_job(**LARGE, global_batch_size=128)
    first, *more = groups(a_v100(), job=job, numbers=(4, 2))
    (candidate,) = candidates(a_v100(), job=job)
    assert [group.machines for group in (first, *more)] == [1, 2, 4]
    assert first.estimate == candidate.estimate
    assert first.cost_micro_usd is not None
    assert first.cost_micro_usd[0] == candidate.cost_micro_usd
    assert first.is_worth_it is None


def test_several_take_the_time_of_the_physics_and_their_number_times_the_price() -> None:
    job = a_job(**LARGE, global_batch_size=256)
    _, two = groups(a_v100(), job=job, numbers=(2,))
    assert two.estimate is not None
    assert two.cost_micro_usd is not None
    network = network_of_rental(a_v100())
    expected = on_machines(a_throughput(8000.0), 2, 128, 4 * trained_parameters(job.net()), network)
    assert two.estimate.throughput.images_per_second == pytest.approx(expected.images_per_second)
    assert two.devices == 16
    low, high = two.cost_micro_usd[1], two.cost_micro_usd[2]
    assert low < two.cost_micro_usd[0] < high
    seconds = two.estimate.billed_seconds[0]
    side = two.estimate.side.micro_usd("us-east-1")
    assert two.cost_micro_usd[0] == pytest.approx(2 * 10_000_000 * seconds // 3600 + side, abs=2)


def test_all_wait_for_the_slowest_start_and_each_has_a_disk_and_an_address() -> None:
    one, four = groups(a_v100(), job=a_job(**LARGE, global_batch_size=256), numbers=(4,))
    assert one.estimate is not None
    assert four.estimate is not None
    more = four.estimate.time.setup - one.estimate.time.setup
    assert more.total_seconds() == SLOWEST_START_SECONDS["gpu"]
    usage, alone = four.estimate.side.usages[0], one.estimate.side.usages[0]
    assert (usage.disk_gb, usage.addresses) == (4 * alone.disk_gb, 4)
    assert usage.fetched_gb == 4 * alone.fetched_gb > 0
    assert usage.egress_gb == alone.egress_gb, "the model leaves once"


def test_what_does_not_divide_and_tpus_are_left_out_with_a_reason() -> None:
    job = a_job(**LARGE, global_batch_size=128)
    _, three = groups(a_v100(), job=job, numbers=(3,))
    assert three.estimate is None
    assert three.left_out == "a batch of 128 does not split evenly over 24 devices"
    tpu = a_rental(provider="gcp", instance_type="v2-8", family="tpu-v2", device="TPU v2", device_count=4)
    _, slice_ = groups(tpu, job=job, numbers=(2,))
    assert "slices" in slice_.left_out
    assert advice_on_machines([slice_], ()) == ""


def test_on_spot_the_hazards_of_all_add_up() -> None:
    rate = spot_rate("aws", "T4", "g4dn", 0)
    four = of_any(rate, 4)
    assert four.placement.up.mean_seconds == pytest.approx(rate.placement.up.mean_seconds / 4)
    assert four.placement.down == rate.placement.down
    spot = a_v100(market=Market.SPOT)
    one, two = groups(spot, job=a_job(**LARGE, global_batch_size=256), numbers=(2,), speed=100.0)
    assert one.estimate is not None
    assert two.estimate is not None
    assert one.estimate.spot is not None
    assert two.estimate.spot is not None
    single, double = (group.estimate.spot.rate.placement.up.mean_seconds for group in (one, two))
    assert double == pytest.approx(single / 2)


def test_a_network_is_that_of_the_vendor_or_assumed() -> None:
    assert network_of_rental(a_v100(instance_type="p3.16xlarge")).gbit_per_second == 25
    nobodys = a_v100(instance_type="none", family="none")
    assert network_of_rental(nobodys) == unknown_network(nobodys.device_count)


@pytest.mark.parametrize(("nodes", "numbers"), [(1, ()), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_numbers_up_to_what_a_job_may_use(nodes: int, numbers: tuple[int, ...]) -> None:
    assert numbers_up_to(nodes) == numbers


def test_the_first_placements_of_different_machines_keep_their_ranks(tmp_path: Path) -> None:
    with Catalog.open(small_catalog(tmp_path)) as catalog:
        ranking = a_plan(catalog, every_placement=True).ranking
    first = best_of_each_machine(ranking, 2)
    assert min(first) == 1
    assert all(ranking[rank - 1] == candidate for rank, candidate in first.items())
    machines = {(one.estimate.rental.instance_type, one.estimate.rental.market) for one in first.values()}
    assert len(machines) == 2


# --- advice ------------------------------------------------------------------------------------------------------


def test_the_advice_names_one_larger_machine_that_is_cheaper_and_faster() -> None:
    job = a_job(**LARGE, global_batch_size=256)
    both = (a_v100(), a_v100(instance_type="p9.metal", device_count=16))
    made = groups(a_v100(), job=job, numbers=(2,), speed=300.0)
    assert advice_on_machines(made, candidates(*both, job=job, speed=300.0)) == (
        "one larger machine (16 x V100, p9.metal at aws) is cheaper and faster than 2 x p3.16xlarge"
    )


def test_the_advice_says_where_the_network_takes_longer_than_is_saved() -> None:
    job = a_job(**LARGE, global_batch_size=64)
    made = groups(a_v100(), job=job, numbers=(2,), speed=1000.0)
    assert made[1].is_worth_it is False
    assert advice_on_machines(made, candidates(a_v100(), job=job)).startswith("one p3.16xlarge is faster than 2: ")


def test_the_advice_says_up_to_which_number_it_is_worth_it() -> None:
    job = a_job(**LARGE, global_batch_size=512)
    rental = a_v100(instance_type="p3dn.24xlarge", family="p3dn")
    made = groups(rental, job=job, numbers=(1, 2, 64), speed=100.0)
    assert [group.is_worth_it for group in made] == [None, True, False]
    advice = advice_on_machines(made, candidates(rental, job=job, speed=100.0))
    assert advice.startswith("2 x p3dn.24xlarge are worth it: 0.5")
    assert advice.endswith("more are not")


# --- what is shown -----------------------------------------------------------------------------------------------


def test_machines_that_cost_nothing_are_compared_by_time_alone() -> None:
    """A person's own cluster: no cost is a number of times another."""
    one, slower, faster = (
        replace(group, cost_micro_usd=(0, 0, 0)) for group in groups(a_v100(), job=a_job(**LARGE), numbers=(1, 2, 4))
    )
    assert faster.estimate is not None
    assert one.estimate is not None
    time = replace(faster.estimate.time, train=one.estimate.time.train / 2)
    faster = replace(faster, estimate=replace(faster.estimate, time=time))
    assert faster.balance < one.balance < slower.balance
    advice = advice_on_machines((one, replace(slower, left_out="", is_worth_it=False), faster), ())
    assert "times its cost" not in advice


def test_the_table(golden: Golden) -> None:
    job = a_job(**LARGE, global_batch_size=256)
    made = groups(a_v100(), job=job, numbers=(1, 2, 3, 4), speed=300.0)
    golden.check("estimate-machines.txt", render(machines_page(plan_of(made)), PLAIN) + "\n")


def test_the_json_has_a_row_for_each_number_with_the_same_keys() -> None:
    job = a_job(**LARGE, global_batch_size=256)
    rows = machines_json(plan_of(groups(a_v100(), job=job, numbers=(2, 3))))
    assert [row["machines"] for row in rows] == [1, 2, 3]
    assert {frozenset(row) for row in rows} == {frozenset(rows[0])}
    assert rows[1]["images_per_second_low"] < rows[1]["images_per_second"]
    assert rows[2]["images_per_second"] is rows[2]["cost_usd"] is None
    assert rows[2]["left_out"]
    json.dumps(rows)


def plan_of(shown_groups: tuple[Group, ...]) -> Plan:
    """A plan of these groups alone: nothing else of it is read."""
    return Plan(
        job=a_job(), made_at=NOON, ranking=(), candidates=(), prices={}, rejections={}, filtered_last=None,
        this_machine=None, advice=(), offers_seen=0, groups=shown_groups,
    )  # fmt: skip
