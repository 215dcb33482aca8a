"""Prices of Windows and of dedicated tenancy are found in a list; healthy lists pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pricing.conftest import TextDir, on_demand
from trainplan.pricing.compile import TEXT_DIR, compile_catalog
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.list_checks import (
    DEDICATED_FACTORS,
    WINDOWS_USD_PER_VCPU_HOUR,
    CheckName,
    Failure,
    ListedPrice,
    failures,
    failures_against,
    is_windows_difference,
    listed_prices,
)
from trainplan.pricing.offers import ACTIVE
from trainplan.pricing.tables import InstanceType, read_tables

WINDOWS = Decimal(str(WINDOWS_USD_PER_VCPU_HOUR))


@cache
def shipped_prices() -> tuple[ListedPrice, ...]:
    return tuple(listed_prices(read_tables(TEXT_DIR).offers))


def names(found: Iterable[Failure]) -> set[str]:
    return {one.price.name for one in found}


def windows(price: ListedPrice) -> ListedPrice:
    return price._replace(usd_per_hour=price.usd_per_hour + WINDOWS * (price.type.vcpus or 0))


def times(factor: str) -> Callable[[ListedPrice], ListedPrice]:
    return lambda price: price._replace(usd_per_hour=price.usd_per_hour * Decimal(factor))


def planted(
    of: Callable[[ListedPrice], bool], change: Callable[[ListedPrice], ListedPrice]
) -> tuple[list[ListedPrice], set[str]]:
    """The shipped on-demand prices, those that fit changed, and the names of these."""
    listed = [price for price in shipped_prices() if price.market is Market.ON_DEMAND]
    return [change(price) if of(price) else price for price in listed], {price.name for price in listed if of(price)}


# --- the shipped tables ------------------------------------------------------------------------------------------


def test_no_price_of_the_shipped_tables_fails() -> None:
    """Red on 2026-11-26: 84 prices of Das_v5 and 3 of NC in eastus were those of Windows, 30 of c7i and 3 of p5 in
    us-west-2 were computed from dedicated ones, and 12 spot prices were shares of these."""
    assert failures(shipped_prices()) == []


DAS_V5_WERE_WINDOWS = frozenset(
    {
        "australiasoutheast", "austriaeast", "brazilsouth", "brazilsoutheast", "canadacentral", "canadaeast",
        "centralindia", "eastasia", "eastus2", "francesouth", "indonesiacentral", "japanwest", "jioindiacentral",
        "koreacentral", "koreasouth", "malaysiawest", "northeurope", "norwayeast", "polandcentral", "qatarcentral",
        "southafricanorth", "southafricawest", "southeastasia", "southindia", "swedensouth", "switzerlandwest",
        "ukwest", "westus",
    }
)  # fmt: skip
C7I_WERE_DEDICATED = frozenset(
    {
        "ap-northeast-2", "ap-southeast-1", "ca-central-1", "eu-central-1", "eu-north-1", "eu-west-1", "sa-east-1",
        "us-east-2", "us-west-1", "us-west-2",
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("of", "change", "check"),
    [
        pytest.param(
            lambda p: p.type.family == "Das_v5" and p.region in DAS_V5_WERE_WINDOWS, windows, CheckName.WINDOWS,
            id="the price of Cloud Services in half of the regions",
        ),
        pytest.param(
            lambda p: p.region == "eastus" and p.type.name in ("Standard_NC48ads_A100_v4", "Standard_NC96ads_A100_v4"),
            windows, CheckName.WINDOWS, id="two of three sizes in one region",
        ),
        pytest.param(
            lambda p: p.region == "eastus" and p.type.name == "Standard_NC80adis_H100_v5", windows, CheckName.WINDOWS,
            id="the only size of a family in one region",
        ),
        pytest.param(
            lambda p: p.type.family == "c7i" and p.region in C7I_WERE_DEDICATED, times("0.909090909"),
            CheckName.DEDICATED, id="a ratio taken to a dedicated price",
        ),
        pytest.param(
            lambda p: p.region == "us-west-2" and p.type.family in ("p5", "p5en"), times("1.1"), CheckName.DEDICATED,
            id="two families at once in one region",
        ),
        pytest.param(
            lambda p: p.region == "us-east-2" and p.type.family == "g6", times("1.065"), CheckName.DEDICATED,
            id="a family of many sizes whose prices are not in proportion",
        ),
    ],
)  # fmt: skip
def test_the_wrong_prices_that_were_shipped_are_found_and_no_others(
    of: Callable[[ListedPrice], bool], change: Callable[[ListedPrice], ListedPrice], check: CheckName
) -> None:
    listed, wrong = planted(of, change)
    found = failures(listed)
    assert names(found) == wrong != set()
    assert {one.check for one in found} == {check}
    assert all("$" in one.reason for one in found)


def test_metal_and_flex_sizes_are_not_judged_and_set_no_ratio() -> None:
    """Metal: its price in us-east-1 was the dedicated one in the list that c7i's ratios were once taken from. Flex: 5 %
    below its family; as a family of its own it made right prices of three regions fail."""
    kind = next(p.type for p in shipped_prices() if p.type.name == "c7i.2xlarge")
    metal = replace(kind, name="c7i.metal-24xl", vcpus=96, memory_gib=192.0)
    rows = [ListedPrice(metal, "us-east-1", Market.ON_DEMAND, Decimal("4.7124"), None)]
    assert failures([*shipped_prices(), *rows]) == []
    assert any("-flex." in price.type.name for price in shipped_prices())


def test_a_share_of_a_price_that_fails_is_not_used_and_an_observed_price_is() -> None:
    listed, _ = planted(lambda p: p.type.name == "c7i.2xlarge" and p.region == "us-west-2", windows)
    (kind,) = {p.type for p in listed if p.type.name == "c7i.2xlarge"}
    spot = ListedPrice(kind, "us-west-2", Market.SPOT, Decimal("0.1"), None, PriceGrade.ESTIMATED)
    assert "aws/us-west-2/c7i.2xlarge/spot" in names(failures([*listed, spot]))
    assert "aws/us-west-2/c7i.2xlarge/spot" not in names(
        failures([*listed, spot._replace(obtained=PriceGrade.OBSERVED)])
    )


# --- small lists -------------------------------------------------------------------------------------------------

VCPU = InstanceType(
    provider="aws", name="", family="", cpu_architecture="x86_64", device="cpu", device_count=1,
    device_fraction=Fraction(1), device_memory_gib=None, vcpus=2, memory_gib=8.0, hosts=1, lifecycle=ACTIVE,
)  # fmt: skip
T4 = replace(VCPU, name="gpu.large", family="gpu", device="T4", device_memory_gib=16.0)


def sized(kind: InstanceType, family: str, vcpus: int) -> InstanceType:
    return replace(kind, name=f"{family}.{vcpus}", family=family, vcpus=vcpus, memory_gib=4.0 * vcpus)


def price(kind: InstanceType, usd: object, region: str = "r0", market: Market = Market.ON_DEMAND) -> ListedPrice:
    return ListedPrice(kind, region, market, Decimal(str(usd)), None)


@pytest.mark.parametrize(
    ("usd", "wrong"),
    [
        ((0.10, 0.20, 0.40), []),
        ((0.10, 0.205, 0.40), []),
        ((0.10, 0.20, 0.45), [8]),
        ((0.10, 0.30, 0.40), [4]),
        ((0.10, 0.20, 0.768), [8]),
        ((0.192, 0.384, 0.40), [2, 4]),  # two sizes of Windows against one: Windows makes nothing cheaper
        ((0.10, 0.22, 0.44), [4, 8]),  # dedicated tenancy, too
        ((0.10, 0.25, 0.62), [2, 4, 8]),  # no two agree
    ],
)
def test_sizes_of_a_family_cost_the_same_a_vcpu(usd: tuple[float, ...], wrong: list[int]) -> None:
    rows = [price(sized(VCPU, "m", vcpus), one) for vcpus, one in zip((2, 4, 8), usd, strict=True)]
    assert [one.price.type.vcpus for one in failures(rows)] == wrong


def test_prices_of_different_dates_may_differ_but_not_by_windows() -> None:
    from datetime import date

    old, new = date(2026, 1, 1), date(2026, 10, 1)
    small = price(sized(VCPU, "m", 2), "0.10")._replace(as_of=old)
    raised = price(sized(VCPU, "m", 4), "0.25")._replace(as_of=new)
    assert failures([small, raised]) == []
    assert names(failures([small, raised._replace(usd_per_hour=Decimal("0.384"))])) == {"aws/r0/m.4/on_demand"}


def test_a_machine_with_a_gpu_costs_no_less_than_its_vcpus_without_one() -> None:
    vcpus = price(sized(VCPU, "m", 8), "0.40")
    assert failures([vcpus, price(sized(T4, "gpu", 8), "0.41")]) == []
    (one,) = failures([vcpus, price(sized(T4, "gpu", 8), "0.39")])
    assert (one.check, one.price.type.family) == (CheckName.DEVICE, "gpu")
    arm = replace(sized(T4, "gpu", 8), cpu_architecture="arm64")
    assert failures([vcpus, price(arm, "0.39")]) == []


def test_spot_is_not_dearer_than_on_demand() -> None:
    kind = sized(VCPU, "m", 8)
    assert failures([price(kind, "0.4"), price(kind, "0.4", market=Market.SPOT)]) == []
    (one,) = failures([price(kind, "0.4"), price(kind, "0.41", market=Market.SPOT)])
    assert (one.check, one.price.market) == (CheckName.SPOT, Market.SPOT)


@pytest.mark.parametrize(("usd", "fails"), [("0.19", True), ("0.21", False), ("0.79", False), ("0.81", True)])
def test_a_regions_factor_lies_within_what_vendors_have(usd: str, *, fails: bool) -> None:
    kind = sized(VCPU, "m", 8)
    rows = [price(kind, "0.4", f"r{number}") for number in range(4)] + [price(kind, usd, "far")]
    assert [one.check for one in failures(rows)] == [CheckName.RANGE] * fails


@pytest.mark.parametrize(("usd", "is_windows"), [(0.368, True), (0.3715, True), (0.373, False), (0.184, False)])
def test_the_difference_of_windows(usd: float, *, is_windows: bool) -> None:
    assert is_windows_difference(usd, 8) is is_windows


def test_a_new_price_is_held_against_the_known_ones() -> None:
    kind = sized(VCPU, "m", 8)
    known = [price(kind, "0.4")]
    assert failures_against([price(kind, "0.44")], known) == []
    (one,) = failures_against([price(kind, "0.768")], known)
    assert one.check is CheckName.WINDOWS
    assert one.reason == "$0.768/h is the known price, $0.4, and 8 x 0.046 for Windows"


def test_a_spot_price_is_held_against_the_on_demand_price_that_stays_in_use() -> None:
    kind = sized(VCPU, "m", 8)
    known = [price(kind, "0.4", f"r{number}") for number in range(5)]
    found = failures_against([price(kind, "0.9", "r0"), price(kind, "0.5", "r0", market=Market.SPOT)], known)
    assert [one.check for one in found] == [CheckName.RANGE, CheckName.SPOT]


# --- lists of any kind -------------------------------------------------------------------------------------------

FAMILIES = ("m", "c", "r", "x", "gpu")
REGIONS = ("r0", "r1", "r2", "r3")


@st.composite
def healthy(draw: st.DrawFn) -> list[ListedPrice]:
    """Five families in four regions: each has its level, each region its factor, as vendors price."""
    levels = [draw(st.integers(30_000, 60_000)) for _ in FAMILIES]
    factors = [draw(st.integers(1000, 1500)) for _ in REGIONS]
    rows = []
    for family, level in zip(FAMILIES, levels, strict=True):
        kind = T4 if family == "gpu" else VCPU
        for region, factor in zip(REGIONS, factors, strict=True):
            for vcpus in (2, 8):
                usd = Decimal(level * factor * vcpus) / 1_000_000_000 * (3 if family == "gpu" else 1)
                rows.append(price(sized(kind, family, vcpus), usd.quantize(Decimal("0.000001")), region))
    return rows


@settings(max_examples=60, deadline=None)
@given(rows=healthy(), change=st.sampled_from(["", "windows", *map(str, DEDICATED_FACTORS["aws"])]), data=st.data())
def test_what_is_planted_into_a_healthy_list_is_found_and_nothing_else(
    rows: list[ListedPrice], change: str, data: st.DataObject
) -> None:
    family, region = data.draw(st.sampled_from(FAMILIES)), data.draw(st.sampled_from(REGIONS))
    sizes = data.draw(st.sampled_from([(2, 8), (8,), (2,)]))
    wrong = {one.name for one in rows if (one.type.family, one.region) == (family, region) and one.type.vcpus in sizes}
    changed = windows if change == "windows" else times(change or "1")
    found = failures([changed(one) if one.name in wrong else one for one in rows])
    assert names(found) == (wrong if change else set())
    expected = CheckName.WINDOWS if change == "windows" else CheckName.DEDICATED
    assert {one.check for one in found} <= {expected}


# --- what becomes of a price that fails --------------------------------------------------------------------------


def test_a_price_of_the_text_that_fails_is_left_out_and_named(text_dir: TextDir) -> None:
    for vcpus in (2, 4, 8):
        text_dir.add_type(f"m.{vcpus}", device="cpu", device_memory_gib="", vcpus=str(vcpus), memory_gib=str(4 * vcpus))
    for vcpus, usd in ((2, "0.1"), (4, "0.2"), (8, "0.768")):
        text_dir.add_offer("r0", f"m.{vcpus}", **on_demand(usd))
    text_dir.compile()
    said: list[str] = []
    assert compile_catalog(text_dir.path, text_dir.path / "again.sqlite", say=said.append) == 2
    assert said == [
        "left out: aws.csv:4: aws/r0/m.8/on_demand: $0.768/h is $0.4 and 8 x 0.046 for Windows "
        "(other sizes of the family there say so)"
    ]
