"""What the catalog's offers are asked for as, and that they cost and count what a machine does."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import pytest

from tests.builders import TODAY
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Offer, OfferQuery
from trainplan.providers.gcp.kinds import TPU_API, counted_elsewhere, instance_type_of, kind_of, needs


@cache
def every_offer() -> tuple[Offer, ...]:
    with Catalog.open() as catalog:
        return tuple(catalog.offers(OfferQuery(providers=frozenset({"gcp"}), include_retired=True), TODAY))


@cache
def on_compute_engine() -> tuple[Offer, ...]:
    return tuple(offer for offer in every_offer() if not offer.instance_type.startswith(TPU_API))


def an_offer(instance_type: str, market: Market = Market.ON_DEMAND) -> Offer:
    return next(o for o in every_offer() if (o.instance_type, o.market) == (instance_type, market))


@pytest.mark.parametrize(
    ("instance_type", "machine_type", "accelerator", "count", "disk_type"),
    [
        ("n1-standard-4+1xT4", "n1-standard-4", "nvidia-tesla-t4", 1, "pd-balanced"),
        ("n1-standard-96+8xV100", "n1-standard-96", "nvidia-tesla-v100", 8, "pd-balanced"),
        ("g2-standard-24", "g2-standard-24", None, 0, "pd-balanced"),
        ("a2-ultragpu-4g", "a2-ultragpu-4g", None, 0, "pd-balanced"),
        ("a3-highgpu-8g", "a3-highgpu-8g", None, 0, "pd-balanced"),
        ("a3-ultragpu-8g", "a3-ultragpu-8g", None, 0, "hyperdisk-balanced"),
        ("tpu-v5p-8", "ct5p-hightpu-4t", None, 0, "pd-balanced"),
        ("tpu-v6e-1", "ct6e-standard-1t", None, 0, "hyperdisk-balanced"),
        ("tpu-v6e-8", "ct6e-standard-8t", None, 0, "hyperdisk-balanced"),
        ("n2-standard-8", "n2-standard-8", None, 0, "pd-balanced"),
    ],
)
def test_an_offer_is_asked_for_as_google_spells_it(
    instance_type: str, machine_type: str, accelerator: str | None, count: int, disk_type: str
) -> None:
    market = Market.SPOT if instance_type.startswith("a3-highgpu-1") else Market.ON_DEMAND
    kind = kind_of(an_offer(instance_type, market))
    assert (kind.machine_type, kind.accelerator, kind.count) == (machine_type, accelerator, count)
    assert kind.disk_type == disk_type


def test_every_offer_is_found_again_by_its_machine() -> None:
    for offer in on_compute_engine():
        kind = kind_of(offer)
        attached = [] if kind.accelerator is None else [(kind.accelerator, kind.count)]
        assert instance_type_of(kind.machine_type, attached) == offer.instance_type


def test_a_gpu_that_came_with_its_machine_is_not_in_the_name() -> None:
    assert instance_type_of("g2-standard-4", [("nvidia-l4", 1)]) == "g2-standard-4"


def test_an_attached_gpu_costs_what_host_and_device_do() -> None:
    attached = [offer for offer in on_compute_engine() if "+" in offer.instance_type]
    on_demand = [offer for offer in attached if offer.market is Market.ON_DEMAND]
    assert len(on_demand) > 50
    for offer in on_demand:
        assert offer.host_usd_per_hour
        assert offer.device_usd_per_hour
        assert offer.usd_per_hour == offer.host_usd_per_hour + offer.device_usd_per_hour


def test_a_host_costs_what_it_does_alone() -> None:
    """The same N1 without a GPU, in the same region."""
    alone = {
        (offer.instance_type, offer.region): offer.usd_per_hour
        for offer in on_compute_engine()
        if offer.device == "cpu" and offer.market is Market.ON_DEMAND
    }
    attached = [offer for offer in on_compute_engine() if "+" in offer.instance_type and offer.host_usd_per_hour]
    known = [offer for offer in attached if (offer.instance_type.partition("+")[0], offer.region) in alone]
    assert len(known) > 20
    for offer in known:
        assert offer.host_usd_per_hour == alone[offer.instance_type.partition("+")[0], offer.region]


def test_spot_counts_the_host_too() -> None:
    """The devices alone would be cheaper."""
    for offer in on_compute_engine():
        if "+" in offer.instance_type and offer.market is Market.SPOT:
            unit = Decimal(offer.note.partition("GPU spot unit ")[2].split()[0])
            assert offer.usd_per_hour > unit * offer.device_count


def test_devices_of_an_attached_gpu_are_those_of_its_name() -> None:
    for offer in on_compute_engine():
        kind = kind_of(offer)
        if kind.accelerator is not None:
            assert offer.device_count == kind.count


@pytest.mark.parametrize(
    ("instance_type", "chips", "hosts"),
    [
        # v2 to v5p are named by cores, two a chip; v5e and v6e by chips.
        ("tpu-v2-8", 4, 1),
        ("tpu-v3-8", 4, 1),
        ("tpu-v4-8", 4, 1),
        ("tpu-v5litepod-4", 4, 1),
        ("tpu-v5p-8", 4, 1),
        ("tpu-v6e-1", 1, 1),
        ("tpu-v6e-4", 4, 1),
        ("tpu-v6e-8", 8, 1),
        ("tpu-v3-32", 16, 4),
    ],
)
def test_a_slice_counts_its_chips_and_is_priced_whole(instance_type: str, chips: int, hosts: int) -> None:
    offer = an_offer(instance_type)
    assert (offer.device_count, offer.hosts) == (chips, hosts)
    assert offer.usd_per_hour / chips < 6, "the price of a chip"
    assert offer.usd_per_hour / chips > 1


@pytest.mark.parametrize("name", ["a2-highgpu-2g", "a2-ultragpu-4g", "a3-highgpu-8g", "a2-megagpu-16g"])
def test_machines_that_bring_gpus_count_them(name: str) -> None:
    assert an_offer(name).device_count == int(name.rpartition("-")[2].removesuffix("g"))


@pytest.mark.parametrize(("name", "count"), [("g2-standard-8", 1), ("g2-standard-24", 2), ("g2-standard-96", 8)])
def test_g2_has_as_many_gpus_as_its_size_brings(name: str, count: int) -> None:
    assert an_offer(name).device_count == count


def test_what_a_machine_counts_in() -> None:
    assert needs(an_offer("n1-standard-16+2xT4")) == {"NVIDIA_T4_GPUS": 2, "CPUS": 16}
    assert needs(an_offer("a2-highgpu-4g")) == {"NVIDIA_A100_GPUS": 4, "A2_CPUS": 48}
    assert needs(an_offer("n2-standard-8")) == {"N2_CPUS": 8}
    assert needs(an_offer("tpu-v6e-4")) == {}


def test_what_only_cloud_quotas_counts() -> None:
    assert counted_elsewhere(an_offer("tpu-v6e-4"))
    assert counted_elsewhere(an_offer("a3-highgpu-8g"))
    assert not counted_elsewhere(an_offer("a3-highgpu-8g", Market.SPOT))
    assert not counted_elsewhere(an_offer("n2-standard-8"))
