"""From a rate to time and cost, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import a_job, a_rental, a_throughput, an_offer, some_rates
from trainplan.planner.forecast.allowances import BOOT_SECONDS, END_SECONDS, PULL_SECONDS, START_SECONDS, allowances
from trainplan.planner.forecast.estimate import (
    BOOT_DISK_GB,
    NEVER_SECONDS,
    Workload,
    device_kind,
    estimate,
    rented_time,
    run_usage,
    trained_images,
)
from trainplan.planner.forecast.plan import Candidate, RankedOffer
from trainplan.planner.forecast.whole_run import whole_run_half_width
from trainplan.pricing.money import Billing, to_micro
from trainplan.pricing.offers import Market, Placement
from trainplan.providers.cloud.images import table
from trainplan.workloads.memory import footprint

FOLDER = {"path": "images", "images": 1000}
HERE = "us-east-1"
NET = {"preset": "vgg16", "image_size": 64, "classes": 10}


@pytest.mark.parametrize(
    ("changes", "images"),
    [
        # 50,000 in 390 whole batches of 128, twice; the 80 that are left over take their turn later.
        ({}, 2 * 390 * 128),
        ({"global_batch_size": 50_000}, 2 * 50_000),
        ({"global_batch_size": 50_001}, 2 * 50_001),
        ({"data": FOLDER, "model": NET, "epochs": 3, "global_batch_size": 100}, 3_000),
    ],
)
def test_whole_batches_are_trained(changes: dict[str, Any], images: int) -> None:
    assert trained_images(a_job(**changes)) == images


def test_how_many_images_there_are_must_be_known() -> None:
    with pytest.raises(ValueError, match=r"set data\.images"):
        Workload(a_job(data={"path": "images"}, model=NET))


@pytest.mark.parametrize(
    ("device", "kind"), [("cpu", "cpu"), ("T4", "gpu"), ("TPU v2", "tpu"), ("tpu v5e", "tpu"), ("A100-40GB", "gpu")]
)
def test_kinds_of_devices(device: str, kind: str) -> None:
    assert device_kind(device) == kind


@pytest.mark.parametrize("kind", ["cpu", "gpu", "tpu"])
def test_the_time_of_a_rented_machine_by_hand(kind: str) -> None:
    """99,840 images at 1,000 a second (500 to 2,000); 170,498,071 bytes at 100 MB/s; 10,000 tested at 3,000, once
    between the epochs and once at the end. The interval is that of whole runs."""
    time = rented_time(Workload(a_job()), allowances("aws", kind), a_throughput(1000.0))
    boot = {"cpu": 60 + 60, "gpu": 150 + 270, "tpu": 450 + 90}[kind]
    assert boot == BOOT_SECONDS[kind].expected + PULL_SECONDS[kind].expected
    assert time.setup.total_seconds() == pytest.approx(boot + START_SECONDS.expected + 1.70498)
    train, factor = 99.84 + 10 / 3, math.exp(math.hypot(math.log(2), whole_run_half_width()))
    assert factor > 2
    assert time.train.total_seconds() == pytest.approx(train)
    assert time.train_low.total_seconds() == pytest.approx(train / factor)
    assert time.train_high.total_seconds() == pytest.approx(train * factor)
    assert time.after.total_seconds() == pytest.approx(END_SECONDS.expected + 10 / 3)
    assert time.total == time.setup + time.train + time.after
    boots = {"cpu": (20.0, 30.0), "gpu": (30.0, 30.0), "tpu": (150.0, 150.0)}[kind]
    images = {"cpu": (20.0, 30.0), "gpu": (90.0, 90.0), "tpu": (30.0, 45.0)}[kind]
    # Start (10 to 60 s), end and data: what is assumed may be two thirds, or half as much again.
    others = (35.0, 15.0), (20.0, 30.0), (1.70498 / 3, 1.70498 / 2)
    less, more = zip(boots, images, *others, strict=True)
    low, high = math.hypot(train - train / factor, *less), math.hypot(train * factor - train, *more)
    assert time.low.total_seconds() == pytest.approx(time.total.total_seconds() - low)
    assert time.high.total_seconds() == pytest.approx(time.total.total_seconds() + high)


def test_a_folder_is_not_downloaded_and_not_tested() -> None:
    job = a_job(data=FOLDER, model=NET)
    time = rented_time(Workload(job), allowances("aws", "gpu"), a_throughput())
    assert time.setup == timedelta(seconds=150 + 270 + 45)
    assert time.after == timedelta(seconds=END_SECONDS.expected)


def test_what_takes_longer_than_anything_is_still_a_time() -> None:
    job = a_job(data={"path": "images", "images": 10**12}, model=NET, epochs=10**6)
    time = rented_time(Workload(job), allowances("aws", "gpu"), a_throughput(0.001))
    assert time.train == time.train_high == timedelta(seconds=NEVER_SECONDS)
    assert time.high > timedelta(days=300_000)


def test_what_a_run_uses_by_hand() -> None:
    """VGG16 for CIFAR-10: 33,638,218 values of 4 bytes, one model out, two checkpoints of two such on the disk."""
    usage = run_usage(a_job(), "gpu")
    assert usage.egress_gb == Decimal("0.135")
    assert usage.disk_gb == Decimal("100.9")  # 100 + 2 x 0.1705 + 4 x 0.13455
    assert usage.addresses == 1
    assert run_usage(a_job(data=FOLDER, model=NET), "gpu").disk_gb < Decimal("100.9")


def test_a_disk_that_comes_with_the_machine_grows_by_one_that_is_made_for_large_data() -> None:
    """ImageNet has 150 GB as they are fetched: 2.1 times as much are 294 GiB."""
    imagenet = a_job(data={"name": "imagenet"})
    assert [run_usage(a_job(), device).disk_gb for device in ("TPU v3", "tpu")] == [Decimal("100.0"), Decimal("100.9")]
    assert run_usage(imagenet, "TPU v5e").disk_gb == Decimal("394.0")
    assert run_usage(imagenet, "TPU v6e").disk_gb == run_usage(imagenet, "gpu").disk_gb == Decimal("402.2")


def test_the_disk_is_the_least_that_launches_make() -> None:
    least: dict[str, list[int]] = {"cpu": [], "gpu": [], "tpu": []}
    for host in (row for row in table().hosts if row.least_disk_gib):
        for architecture in host.architectures:
            least.get(architecture, least["gpu"]).append(host.least_disk_gib)
    assert {kind: min(sizes) for kind, sizes in least.items()} == BOOT_DISK_GB


def test_the_cost_by_hand() -> None:
    """A dollar an hour, disk a ten-thousandth of a dollar per GB and hour, address a cent, ten cents a GB out."""
    made = estimate(Workload(a_job()), a_rental(), a_throughput(1000.0), some_rates("aws"))
    # 150 + 270 + 45 + 1.705 setup, 99.84 + 3.333 training, 60 + 3.333 after: 633.211 s, the begun one is paid.
    factor = math.exp(math.hypot(math.log(2), whole_run_half_width()))
    # Boot 30 s less or more, image 90, start 35 and 15, end 20 and 30, data a third and half of 1.705.
    less = math.hypot(103.1733 * (1 - 1 / factor), 30, 90, 35, 20, 0.5683)
    more = math.hypot(103.1733 * (factor - 1), 30, 90, 15, 30, 0.8525)
    ends = [math.ceil(633.2117 - less), math.ceil(633.2117 + more)]
    assert made.billed_seconds == (634, *ends)
    fixed = made.fixed(HERE)
    assert fixed.disk == Decimal("100.9") * Decimal("0.0001") * 634 / 3600
    assert fixed.address == Decimal("0.01") * 634 / 3600
    assert fixed.transfer == Decimal("0.135") * Decimal("0.1")
    assert fixed.compute == fixed.between_regions == 0
    assert made.side.micro_usd(HERE) == 1777 + 1761 + 13500
    costs = [made.cost_micro_usd(1_000_000, HERE, which) for which in range(3)]
    billed = [1_000_000 * seconds // 3600 for seconds in (634, *ends)]
    assert costs == [compute + made.side.micro_usd(HERE, which) for which, compute in enumerate(billed)]
    assert made.side.micro_usd(HERE, 1) < made.side.micro_usd(HERE) < made.side.micro_usd(HERE, 2)


def test_no_rental_is_shorter_than_its_minimum() -> None:
    billing = replace(a_rental().billing, minimum_seconds=3600)
    made = estimate(Workload(a_job()), a_rental(billing=billing), a_throughput(), some_rates("aws"))
    assert made.billed_seconds == (3600, 3600, 3600)
    # The rates of the side costs have their own billing.
    assert made.fixed(HERE).address == Decimal("0.01") * 634 / 3600


def test_the_parts_of_a_row_add_up_to_its_cost() -> None:
    made = estimate(Workload(a_job()), a_rental(), a_throughput(), some_rates("aws"))
    placement = Placement(526_000, "us-east-1", 0)
    row = RankedOffer(1, Candidate(made, placement, made.cost_micro_usd(526_000, "us-east-1")), an_offer())
    parts = row.compute_usd + row.fixed.disk + row.fixed.address + row.fixed.transfer
    assert abs(row.cost_usd - parts) <= Decimal("0.000001")
    assert row.compute_usd == Decimal("0.092634")  # 0.526 x 634 / 3600
    assert row.cost_low_usd < row.cost_usd < row.cost_high_usd


def test_on_demand_waits_for_its_checkpoints() -> None:
    """998,400 images at ten a second, ten tests of 10,000 at 30 a second, and 393 s after them: 172 checkpoints in 10
    minutes each; each takes 2.7 s."""
    work = Workload(a_job(epochs=20))
    made = estimate(work, a_rental(), a_throughput(10.0), some_rates("aws"))
    assert made.plain.train.total_seconds() == pytest.approx(99_840 + 100_000 / 30)
    assert work.checkpoints.seconds == pytest.approx(2.691, rel=0.001)
    assert (made.time.train - made.plain.train).total_seconds() == pytest.approx(172 * work.checkpoints.seconds)
    assert made.time == made.steady
    assert made.billed_seconds[0] == math.ceil(made.time.total.total_seconds())


def test_a_placement_that_is_interrupted_more_often_costs_more() -> None:
    work = Workload(a_job(epochs=20))
    rates = some_rates("aws")
    rare, often, unknown = (
        estimate(work, a_rental(market=Market.SPOT, interruption_bucket=bucket), a_throughput(10.0), rates)
        for bucket in (0, 4, None)
    )
    assert rare.billed_seconds[0] < often.billed_seconds[0] == unknown.billed_seconds[0]
    assert rare.time.total < often.time.total
    assert "under 5 %" in rare.spot.rate.source
    assert "no Spot Advisor figure" in unknown.spot.rate.source


def test_what_is_worked_out_once_is_not_mistaken_for_another_rental() -> None:
    """One workload asked in turn says what a fresh one does: speed, kind, market, bucket, billing, rates."""
    slow = Billing(increment_seconds=3600, minimum_seconds=0)
    rentals = [
        a_rental(),
        a_rental(device="cpu", device_count=1),
        a_rental(device="TPU v2"),
        a_rental(market=Market.SPOT),
        a_rental(market=Market.SPOT, interruption_bucket=0),
        a_rental(market=Market.SPOT, provider="gcp"),
        a_rental(billing=slow),
    ]
    work = Workload(a_job(epochs=20))
    for speed in (10.0, 20.0):
        for rental in [*rentals, *reversed(rentals)]:
            asked = (rental, a_throughput(speed), some_rates(rental.provider))
            assert estimate(work, *asked) == estimate(Workload(a_job(epochs=20)), *asked)


def test_what_is_paid_beside_the_machine_is_its_parts() -> None:
    for market in Market:
        made = estimate(Workload(a_job()), a_rental(market=market), a_throughput(10.0), some_rates("aws"))
        assert made.side.micro_usd(HERE) == to_micro(made.fixed(HERE).total)
        assert made.fixed(HERE).compute == 0


def test_a_share_of_the_batch_takes_what_the_memory_arithmetic_says_once() -> None:
    job = a_job(precision="amp_fp16", optimizer={"name": "adam"})
    work = Workload(job)
    need = footprint(job.net(), 32, "amp_fp16", "adam", framework=job.framework)
    assert work.device_bytes(32) == (need.allocated, need.least)
    assert work.device_bytes(32) == work.device_bytes(32)
    assert work.device_bytes(64) > work.device_bytes(32)


def test_a_host_that_feeds_slower_than_its_device_computes_holds_the_run_up() -> None:
    """ImageNet's JPEG files on four vCPUs: whatever the device could train, the host decodes some hundreds a second."""
    work = Workload(a_job(data={"name": "imagenet"}, epochs=1, global_batch_size=256))
    few, many = a_rental(vcpus=4), a_rental(vcpus=96)
    slow = estimate(work, few, a_throughput(5_000.0), some_rates("aws"))
    assert slow.input_bound
    assert slow.feed is not None
    assert slow.throughput.images_per_second == pytest.approx(slow.feed.images_per_second)
    # As wide as what a vCPU is worth, not as what the device computes (2,500 to 10,000).
    assert (slow.throughput.low, slow.throughput.high) == (slow.feed.low, slow.feed.high)
    assert slow.feed.high / slow.feed.low == pytest.approx(0.65 / 0.40)
    assert slow.computed.images_per_second == 5_000.0
    fast = estimate(work, many, a_throughput(5_000.0), some_rates("aws"))
    assert not fast.input_bound
    assert fast.throughput.images_per_second == 5_000.0
    assert fast.time.total < slow.time.total


def test_a_host_whose_processors_are_not_known_holds_nothing_up() -> None:
    work = Workload(a_job(data={"name": "imagenet"}, epochs=1, global_batch_size=256))
    estimated = estimate(work, a_rental(vcpus=None), a_throughput(5_000.0), some_rates("aws"))
    assert (estimated.feed, estimated.input_bound, estimated.throughput) == (None, False, a_throughput(5_000.0))


@pytest.mark.parametrize("market", Market)
def test_the_way_to_ready_costs_nothing_of_a_tpu_that_is_billed_from_there(market: Market) -> None:
    """The same slice, rented of two APIs."""
    work, tpu = Workload(a_job()), a_rental(provider="gcp", device="TPU v3", device_count=4, market=market)
    both = [
        estimate(work, replace(tpu, family=family), a_throughput(), some_rates("gcp")) for family in ("tpu-v3", "other")
    ]
    free, paid = both
    assert free.time == paid.time
    assert [free.side.micro_usd(HERE, which) for which in range(3)] == [
        paid.side.micro_usd(HERE, which) for which in range(3)
    ]
    here, there = free.billed_seconds, paid.billed_seconds
    assert there[0] - here[0] == BOOT_SECONDS["tpu"].expected
    # How long it takes until it is there is no part of the interval of its bill.
    assert there[0] - there[1] > here[0] - here[1]
    assert there[2] - there[0] > here[2] - here[0]
