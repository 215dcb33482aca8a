"""What a run pays beside its machine depends on the region, and on where its bucket is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import BILLING, DEVICES, TODAY, a_job, a_rental, a_throughput, rented
from trainplan.planner.forecast.choose import Filters, World, choose
from trainplan.planner.forecast.estimate import Workload, bucket_bytes, estimate
from trainplan.planner.forecast.plan import Estimate
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.cost import ProviderRates
from trainplan.pricing.money import to_micro
from trainplan.pricing.offers import Market, PriceGrade, Rental
from trainplan.pricing.side_rates import (
    BETWEEN_REGIONS,
    EVERYWHERE,
    GB,
    GB_MONTH,
    HOUR,
    INTERNET,
    WITHIN_A_REGION,
    SideRate,
    SideRates,
)

GIGABYTES = 10**9
IMAGES = {"url": "s3://mine/images", "images": 50_000, "size_bytes": 20 * GIGABYTES}
NET = {"preset": "vgg16", "image_size": 64, "classes": 10}
MODEL = Decimal("0.160")
"""40 million values of 4 bytes, in GB; a checkpoint is twice that."""


@pytest.fixture(scope="module")
def shipped() -> Iterator[Catalog]:
    with Catalog.open() as catalog:
        yield catalog


def rates_of(**usd: str) -> ProviderRates:
    """A provider whose traffic costs a dollar a GB from `near`, two from `far`; nothing else costs anything, but for
    what `usd` says of `disk` in each region."""
    rows = [
        row(BETWEEN_REGIONS, "near", "1", to=EVERYWHERE),
        row(BETWEEN_REGIONS, "far", "2", to=EVERYWHERE),
        row(WITHIN_A_REGION, EVERYWHERE, "0"),
        row(INTERNET, EVERYWHERE, "0"),
        row("address", EVERYWHERE, "0", HOUR),
        *(row("disk", region, rate, GB_MONTH) for region, rate in {"near": "0", "far": "0", **usd}.items()),
    ]
    return ProviderRates("aws", BILLING, "disk", "address", SideRates(rows, {}), "a list")


def row(kind: str, region: str, usd: str, per: str = GB, to: str = "") -> SideRate:
    return SideRate(kind, (region,), (to,) if to else (), Decimal(usd), per, TODAY, PriceGrade.LISTED, "a list")


def estimated(rates: ProviderRates, bucket: str = "", rental: Rental | None = None, **job: Any) -> Estimate:
    work = Workload(a_job(model=NET, data=IMAGES, **job))
    return estimate(work, rental or a_rental(), a_throughput(1000.0), rates, bucket=bucket)


def test_a_disk_costs_what_it_costs_in_its_region(shipped: Catalog) -> None:
    """gp3 in Frankfurt, which is 19 % above Northern Virginia, and in Sao Paulo, which is 90 % above it."""
    made = estimated(shipped.rates["aws"])
    disks = {region: made.fixed(region).disk for region in ("us-east-1", "eu-central-1", "sa-east-1")}
    assert disks["eu-central-1"] / disks["us-east-1"] == pytest.approx(Decimal("1.19"))
    assert disks["sa-east-1"] / disks["us-east-1"] == pytest.approx(Decimal("1.9"))
    for region in disks:
        assert made.side.micro_usd(region) == to_micro(made.fixed(region).total)
        assert made.cost_micro_usd(10**6, region) == 10**6 * made.billed_seconds[0] // 3600 + made.side.micro_usd(
            region
        )


def test_the_model_leaves_from_the_bucket(shipped: Catalog) -> None:
    """From Virginia at 0.09, wherever it was trained; from Sao Paulo at 0.15."""
    made = estimated(shipped.rates["aws"], bucket="us-east-1", checkpoint_every="100h")
    assert made.side.usages[0].egress_gb == MODEL
    assert made.fixed("sa-east-1").transfer == made.fixed("eu-west-1").transfer == MODEL * Decimal("0.09")
    assert estimated(shipped.rates["aws"]).fixed("sa-east-1").transfer == MODEL * Decimal("0.15")


def test_traffic_between_bucket_and_machine_by_hand() -> None:
    """20 GB of data come; ten checkpoints of 1,095 s of work, one in 100 s, go, and the model. A ninth of the images is
    tested after each of the 20 epochs, at 3,000 a second."""
    made = estimated(rates_of(), bucket="near", epochs=20, checkpoint_every="100s")
    usage = made.side.usages[0]
    assert made.plain.train + made.plain.after == timedelta(seconds=998.4 + 20 * 5_556 / 3_000 + 60)
    assert usage.fetched_gb == 20
    assert usage.stored_gb == pytest.approx(10 * 2 * MODEL + MODEL, abs=Decimal("0.01"))
    assert made.fixed("near").between_regions == 0
    assert made.fixed("far").between_regions == usage.fetched_gb * 1 + usage.stored_gb * 2
    low, expected, high = (made.side.usages[which].stored_gb for which in (1, 0, 2))
    assert low < expected < high


@pytest.mark.parametrize("every_placement", [True, False])
def test_the_best_placement_is_the_cheapest_in_all_and_not_by_the_hour(every_placement: bool) -> None:
    """A cent an hour is less than the traffic with a bucket that is elsewhere."""
    job = a_job(model=NET, data=IMAGES)
    world = World(DEVICES, {"aws": rates_of()}, lambda *_: a_throughput(1000.0), {"aws": "near"})
    rows = [rented(a_rental(), ("far", "0.50"), ("near", "0.51"))]
    (best, *_) = choose(job, rows, world, Filters(), every_placement=every_placement).candidates
    assert best.placement.region == "near"


def test_without_a_bucket_that_is_known_nothing_crosses() -> None:
    made = estimated(rates_of())
    assert [made.fixed(region).between_regions for region in ("near", "far")] == [0, 0]


def test_each_interruption_fetches_data_and_checkpoint_again() -> None:
    steady = estimated(rates_of(), bucket="near", epochs=2000)
    spot = estimated(rates_of(), "near", a_rental(market=Market.SPOT, family="p3"), epochs=2000)
    assert spot.spot is not None
    again = Decimal(spot.spot.expected.interruptions)
    assert again > 1
    assert steady.side.usages[0].fetched_gb == 20
    checkpoint = 2 * MODEL
    assert spot.side.usages[0].fetched_gb == pytest.approx(20 * (1 + again) + checkpoint * again, rel=Decimal("0.001"))
    assert spot.side.steady == steady.side.usages[0]
    assert spot.side.usages[0].stored_gb == steady.side.usages[0].stored_gb


def test_checkpoints_are_sent_no_faster_than_a_connection_sends_them() -> None:
    """One a second would be 240 MB a second; 100 MB a second go over one connection."""
    made = estimated(rates_of(), bucket="near", epochs=20, checkpoint_every="1s")
    seconds = Decimal((made.plain.train + made.plain.after).total_seconds())
    assert made.side.usages[0].stored_gb <= seconds / 10 + 1


def test_regions_with_the_same_rates_are_worked_out_once(shipped: Catalog) -> None:
    classes = estimated(shipped.rates["aws"], bucket="us-east-1").side.classes
    numbers = {region: classes[region] for region in ("us-west-2", "us-east-1", "ap-northeast-3", "ap-northeast-1")}
    assert numbers["ap-northeast-3"] == numbers["ap-northeast-1"]
    assert len(set(numbers.values())) == len(classes.members) == 3


@pytest.mark.parametrize(
    ("data", "gigabytes"),
    [
        ({"name": "cifar10"}, 0),
        ({"name": "synthetic"}, 0),
        ({"name": "imagenet"}, 150),
        ({"path": "images", "images": 10, "size_bytes": 3 * GIGABYTES}, 3),
        ({"path": "images", "images": 10}, 0),
        ({"url": "gs://mine/images", "images": 10, "size_bytes": 3 * GIGABYTES}, 3),
        ({"url": "https://example.org/images.tar", "images": 10, "size_bytes": 3 * GIGABYTES}, 0),
    ],
)
def test_what_comes_from_a_bucket(data: dict[str, Any], gigabytes: int) -> None:
    job = a_job(data=data) if "name" in data else a_job(data=data, model=NET)
    assert bucket_bytes(job) == gigabytes * GIGABYTES


def test_a_world_knows_the_bucket_of_each_provider() -> None:
    world = World(DEVICES, {"aws": rates_of()}, lambda *_: a_throughput(), {"aws": "near", "gcp": "far"})
    made = world.estimate(Workload(a_job()), a_rental())
    assert isinstance(made, Estimate)
    assert made.side.classes.bucket == "near"
