"""What this machine offers."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from tests.rows import each_row
from trainplan.pricing.catalog import find_device
from trainplan.pricing.devices import UnknownDeviceError
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.hardware import Gpu, HostHardware, canonical_device
from trainplan.providers.local.offers import OwnPrice, gpu_indices, offers

PRICE = OwnPrice(usd_per_hour=Decimal("0.12"), as_of=date(2026, 11, 21))


def device_of(spelling: str) -> str | None:
    try:
        return find_device(spelling).name
    except UnknownDeviceError:
        return None


def machine(*names: str) -> HostHardware:
    gpus = tuple(Gpu(index=index, name=name, memory_gib=15.0) for index, name in enumerate(names))
    return HostHardware(system="linux", architecture="x86_64", cpu_name="Test CPU", vcpus=8, memory_gib=32.0, gpus=gpus)


def test_the_processor_is_always_offered() -> None:
    (offer,) = offers(machine(), PRICE, device_of)
    assert (offer.provider, offer.region, offer.instance_type) == ("local", "this-machine", "this machine")
    assert (offer.device, offer.device_count, offer.vcpus, offer.memory_gib) == ("cpu", 1, 8, 32.0)
    assert (offer.usd_per_hour, offer.planning_usd_per_hour) == (Decimal("0.12"), Decimal("0.12"))
    assert (offer.market, offer.price_grade, offer.price_as_of) == (Market.ON_DEMAND, PriceGrade.OBSERVED, PRICE.as_of)


@pytest.mark.parametrize(
    ("names", "sets"),
    [
        (["Tesla T4"], [("T4", 1)]),
        (["Tesla T4"] * 4, [("T4", 1), ("T4", 2), ("T4", 4)]),
        (["Tesla T4"] * 3, [("T4", 1), ("T4", 2), ("T4", 3)]),
        (["Tesla T4", "NVIDIA L4"], [("T4", 1), ("L4", 1)]),
        (["NVIDIA Unheard-Of 9000"], [("Unheard-Of 9000", 1)]),
    ],
)
def test_gpus_are_offered_in_sets_of_one_kind(names: list[str], sets: list[tuple[str, int]]) -> None:
    made = offers(machine(*names), PRICE, device_of)[1:]
    assert [(offer.device, offer.device_count) for offer in made] == sets
    assert {offer.device_memory_gib for offer in made} == {15.0}


@each_row(
    ("spelling", "device"),
    [
        ("Tesla K80", "K80"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("Tesla V100-PCIE-16GB", "V100-PCIe"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("NVIDIA RTX A6000", "RTX A6000"),
    ],
)
def test_names_of_nvidia_smi_lead_to_devices(spelling: str, device: str) -> None:
    assert canonical_device(spelling, device_of) == device


def test_gpu_indices() -> None:
    mixed = machine("Tesla T4", "NVIDIA L4", "Tesla T4")
    assert gpu_indices(mixed, "cpu", 1, device_of) == ()
    assert gpu_indices(mixed, "T4", 2, device_of) == (0, 2)
    assert gpu_indices(mixed, "T4", 3, device_of) is None
    assert gpu_indices(mixed, "H100", 1, device_of) is None


@pytest.mark.parametrize(
    ("query", "is_offered"),
    [
        (OfferQuery(), True),
        (OfferQuery(providers=frozenset({"local"})), True),
        (OfferQuery(providers=frozenset({"aws"})), False),
        (OfferQuery(devices=frozenset({"T4"})), False),
        (OfferQuery(markets=frozenset({"spot"})), False),
        (OfferQuery(instance_types=frozenset({"this machine"})), True),
    ],
)
def test_queries(query: OfferQuery, is_offered: bool) -> None:
    assert query.wants(offers(machine(), PRICE, device_of)[0]) is is_offered
