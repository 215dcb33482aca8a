"""The rule that holds back prices that cannot be true, and what becomes of a held price."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest

from trainplan.pricing.grades import Market
from trainplan.pricing.offers import ACTIVE
from trainplan.pricing.plausible import Dated, Medians, reason_to_hold
from trainplan.pricing.tables import InstanceType

LIST_DATE = date(2026, 7, 20)
LATER = date(2026, 11, 18)
KNOWN_PRICE = Dated(Decimal(1), LIST_DATE)
G5 = InstanceType(
    provider="aws", name="g5.xlarge", family="g5", cpu_architecture="x86_64", device="A10G", device_count=1,
    device_fraction=Fraction(1), device_memory_gib=24.0, vcpus=4, memory_gib=16.0, hosts=1, lifecycle=ACTIVE,
)  # fmt: skip


@pytest.mark.parametrize(
    ("usd", "reason"),
    [
        ("5", ""),
        ("5.01", "5.0 times above the last known price"),
        ("0.2", ""),
        ("0.19", "5.3 times below the last known price"),
        ("0.0001", "10,000.0 times below the last known price"),
    ],
)
def test_a_price_may_move_fivefold_and_no_further(usd: str, reason: str) -> None:
    assert reason_to_hold(Dated(Decimal(usd), LATER), KNOWN_PRICE, None) == reason


@pytest.mark.parametrize(("usd", "is_held"), [("0.1", False), ("0.099", True)])
def test_a_price_below_a_tenth_of_its_familys_median_is_held(usd: str, *, is_held: bool) -> None:
    reason = reason_to_hold(Dated(Decimal(usd), LATER), None, Decimal(1))
    assert reason == ("below a tenth of its family's median (1.0000 $/h for this machine)" if is_held else "")


@pytest.mark.parametrize(
    ("price", "reason"),
    [
        (Dated(Decimal("0.9"), date(2026, 7, 19)), "dated 2026-07-19, before the last known price of 2026-07-20"),
        (Dated(Decimal("0.9"), LIST_DATE), ""),
        (Dated(Decimal("0.9"), None), "without a date, where the last known price is of 2026-07-20"),
        (
            Dated(Decimal("0.9"), LATER, since=date(2019, 1, 1)),
            "said to hold since 2019-01-01, but another price was listed on 2026-07-20",
        ),
        (Dated(Decimal("0.9"), LATER, since=date(2026, 7, 1)), ""),
    ],
)
def test_a_changed_price_is_not_older_than_the_one_it_replaces(price: Dated, reason: str) -> None:
    assert reason_to_hold(price, KNOWN_PRICE, None) == reason


@pytest.mark.parametrize("usd", ["1", "1.009", "0.991"])
def test_an_unchanged_price_is_never_doubted(usd: str) -> None:
    """Lists round differently, and most of Azure's prices have held since long before they were read."""
    price = Dated(Decimal(usd), date(2020, 1, 1), since=date(2019, 1, 1))
    assert reason_to_hold(price, KNOWN_PRICE, Decimal(100)) == ""


def test_a_first_price_of_a_machine_is_held_against_its_family_alone() -> None:
    assert reason_to_hold(Dated(Decimal("0.0001"), None), None, None) == ""


def test_sizes_of_a_family_are_compared_by_accelerator() -> None:
    eight = replace(G5, name="g5.48xlarge", device_count=8)
    medians = Medians.of([(G5, Market.ON_DEMAND, Decimal(1)), *[(eight, Market.ON_DEMAND, Decimal(16))] * 2])
    assert medians.usd_per_hour(G5, Market.ON_DEMAND) == 2
    assert medians.usd_per_hour(eight, Market.ON_DEMAND) == 16
    assert medians.usd_per_hour(G5, Market.SPOT) is None


def test_two_prices_are_no_family() -> None:
    assert Medians.of([(G5, Market.SPOT, Decimal(1))] * 2).usd_per_hour(G5, Market.SPOT) is None


def test_machines_without_an_accelerator_are_compared_by_vcpu() -> None:
    cpu = replace(G5, name="c7i.large", family="c7i", device="cpu", vcpus=2)
    medians = Medians.of([(cpu, Market.ON_DEMAND, Decimal("0.09"))] * 3)
    assert medians.usd_per_hour(replace(cpu, vcpus=8), Market.ON_DEMAND) == Decimal("0.36")
