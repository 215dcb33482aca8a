"""The shipped offers: complete, true to their sources, and the figures people know."""

from __future__ import annotations

import csv
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest

from tests.conftest import ROOT, Golden
from tests.unit.pricing.conftest import TODAY
from trainplan.planner.clock import SystemClock
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.devices import Architecture
from trainplan.pricing.free_places import free_place
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.offers import LifecycleState, Offer, OfferQuery
from trainplan.providers.registry import CLOUDS

OFFERS_HEAD = "| provider | offers | of them retired | without a day | prices from | to |\n|---|---|---|---|---|---|\n"
EVERYTHING = OfferQuery(include_retired=True)


def _well_known_prices() -> list[list[str]]:
    with (ROOT / "tests" / "data" / "well_known_prices.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


SMALL = (
    {
        ("aws", f"{family}.{size}"): (f"{family}.2xlarge", parts)
        for family in ("c5", "c6i", "c7i", "m5", "m6i")
        for size, parts in (("large", 4), ("xlarge", 2))
    }
    | {
        ("azure", f"Standard_D{vcpus}{series}"): (f"Standard_D8{series}", 8 // vcpus)
        for series in ("as_v5", "s_v3", "s_v5", "s_v6")
        for vcpus in (2, 4)
    }
    | {
        ("gcp", f"{family}-standard-{vcpus}"): (f"{family}-standard-8", 8 // vcpus)
        for family in ("e2", "n2")
        for vcpus in (2, 4)
    }
)
"""Small machines whose prices are derived: from which machine of their family, and how many of them cost as much."""


@pytest.fixture(scope="module")
def offers(shipped: Catalog) -> list[Offer]:
    return shipped.offers(EVERYTHING, TODAY)


def test_there_are_enough(offers: list[Offer]) -> None:
    assert len(offers) >= 4000
    assert {offer.provider for offer in offers} >= {*CLOUDS}


@pytest.mark.parametrize("row", _well_known_prices(), ids=lambda row: " ".join(row[:4]))
def test_a_well_known_price(shipped: Catalog, offers: list[Offer], row: list[str]) -> None:
    provider, region, name, market, device, usd, planning, as_of, grade, state, source = row
    sources = dict(source[:2] for summary in shipped.summary(TODAY) for source in summary.sources)
    (offer,) = [
        offer
        for offer in offers
        if (offer.provider, offer.region, offer.instance_type, offer.market) == (provider, region, name, market)
    ]
    assert (str(offer.usd_per_hour), str(offer.planning_usd_per_hour)) == (usd, planning)
    assert str(offer.price_as_of or offer.price_as_of_text) == as_of
    assert (offer.price_grade, offer.lifecycle.state, offer.price_source) == (grade, state, sources[source])
    assert f"{offer.device_count} {offer.device}" == device


def test_thirty_prices_are_well_known() -> None:
    assert len(_well_known_prices()) >= 30


@pytest.mark.parametrize(
    ("region", "name", "usd", "as_of", "grade"),
    [
        # Windows in the source: less 8 x 0.046; other sizes in the same list of 2026-06-18 say the same.
        ("eastus2", "Standard_D8as_v5", "0.344", "2026-06-18", "derived"),
        ("eastus2", "Standard_D2as_v5", "0.086", "2026-06-18", "derived"),
        ("southeastasia", "Standard_D8as_v5", "0.432", "2026-06-18", "derived"),
        ("eastus", "Standard_NC80adis_H100_v5", "13.96", "2026-06-18", "listed"),
        ("eastus", "Standard_NC96ads_A100_v4", "14.692", "2026-06-18", "listed"),
        # The ratio of c7i's sizes at shared tenancy (libcloud 3.9.1), not that of its metal size.
        ("us-west-2", "c7i.2xlarge", "0.357", "2026-07-20", "derived"),
        ("eu-west-1", "c7i.2xlarge", "0.38304", "2026-07-20", "derived"),
        ("us-east-2", "c7i.large", "0.08925", "2026-07-20", "derived"),
        # SkyPilot's catalog v9, shared tenancy, without a day.
        ("us-west-2", "p5.48xlarge", "55.04", "None", "stale"),
        ("us-west-2", "p5.4xlarge", "6.88", "None", "stale"),
        ("us-west-2", "p5en.48xlarge", "63.296", "None", "stale"),
    ],
)
def test_a_price_that_was_of_windows_or_dedicated(
    offers: list[Offer], region: str, name: str, usd: str, as_of: str, grade: str
) -> None:
    (offer,) = [o for o in offers if (o.region, o.instance_type, o.market) == (region, name, Market.ON_DEMAND)]
    assert (str(offer.usd_per_hour), str(offer.price_as_of), str(offer.price_grade)) == (usd, as_of, grade)


def test_every_offer_is_plausible(shipped: Catalog, offers: list[Offer]) -> None:
    now = SystemClock().now().date()  # what was read tomorrow is a mistake; what is read next year is none
    for offer in offers:
        is_free = free_place(offer.provider, offer.instance_type) is not None
        assert offer.usd_per_hour == 0 if is_free else 0 < offer.usd_per_hour < 500, offer
        assert offer.planning_usd_per_hour is None or offer.planning_usd_per_hour >= offer.usd_per_hour, offer
        assert offer.device in shipped.devices, offer
        assert offer.device_count >= 1, offer
        assert 0 < offer.device_fraction <= 1, offer
        assert (offer.device_memory_gib is None) == (offer.device == "cpu"), offer
        assert offer.vcpus is None or 1 <= offer.vcpus <= 512 * offer.hosts, offer
        assert offer.memory_gib is None or 2 <= offer.memory_gib <= 4096 * offer.hosts, offer
        assert all(zone.startswith(offer.region) for zone in offer.zones), offer
        assert offer.price_source, offer
        assert offer.price_as_of is None or date(2017, 1, 1) <= offer.price_as_of <= now, offer
        assert offer.price_as_of is not None or offer.price_as_of_text, offer


def test_what_is_on_its_way_out_says_what_to_rent_instead(offers: list[Offer]) -> None:
    names = {(offer.provider, offer.instance_type): offer for offer in offers}
    for offer in offers:
        cycle = offer.lifecycle
        if cycle.state is not LifecycleState.ACTIVE:
            assert cycle.successor is not None, offer
            assert names[offer.provider, cycle.successor].lifecycle.state is LifecycleState.ACTIVE, offer
        if cycle.state in (LifecycleState.RETIRED, LifecycleState.DEPRECATED):
            assert cycle.date is not None, offer
            assert (cycle.date <= TODAY) == (cycle.state is LifecycleState.RETIRED), offer


def test_arm_hosts_and_blackwell_are_told_apart(shipped: Catalog, offers: list[Offer]) -> None:
    of_clouds = [offer for offer in offers if offer.provider in CLOUDS]
    arm = {(offer.region, offer.instance_type) for offer in of_clouds if offer.cpu_architecture == "arm64"}
    blackwell = {
        (offer.region, offer.instance_type)
        for offer in of_clouds
        if shipped.devices[offer.device].architecture is Architecture.BLACKWELL
    }
    assert (len(arm), len(blackwell)) == (54, 113)


def test_a_fraction_has_the_memory_of_the_fraction(offers: list[Offer]) -> None:
    memory = {offer.instance_type: (offer.device_fraction, offer.device_memory_gib) for offer in offers}
    assert memory["Standard_NV6ads_A10_v5"] == (Fraction(1, 6), 4)
    assert memory["Standard_NV18ads_A10_v5"] == (Fraction(1, 2), 12)
    assert memory["g6f.large"] == (Fraction(1, 8), 2.8)
    assert memory["Standard_NV36ads_A10_v5"] == (Fraction(1), 24)


def test_nominal_on_demand_prices_are_not_offered(offers: list[Offer]) -> None:
    markets = {o.market for o in offers if o.instance_type in ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g")}
    assert markets == {Market.SPOT}


def test_tpu_slices_above_one_host_are_marked(offers: list[Offer]) -> None:
    above_one = {offer.instance_type for offer in offers if offer.hosts > 1}
    slices = {"tpu-v2-32", "tpu-v3-32", "tpu-v4-16", "tpu-v4-32", "tpu-v4-64", "tpu-v4-128"}
    assert above_one == slices | {f"tpu-v5litepod-{chips}" for chips in (16, 32, 64)}


def test_tpus_are_offered_where_google_has_them(shipped: Catalog) -> None:
    kinds = frozenset({"tpu-v5p-8", "tpu-v6e-1", "tpu-v6e-4", "tpu-v6e-8"})
    there = shipped.offers(OfferQuery(instance_types=kinds), TODAY)
    assert {offer.region for offer in there if offer.device == "TPU v5p"} == {"us-east5"}
    assert all(offer.zones and all(zone.startswith(offer.region) for zone in offer.zones) for offer in there)
    assert all(offer.vcpus and offer.memory_gib for offer in there)


def test_tpu_v5e_is_offered_in_the_zones_of_googles_page(shipped: Catalog) -> None:
    """Of America and Asia; the page's zones in Europe were not read."""
    kinds = frozenset({"tpu-v5litepod-1", "tpu-v5litepod-4", "tpu-v5litepod-8"})
    there = shipped.offers(OfferQuery(instance_types=kinds), TODAY)
    zones = {zone for offer in there for zone in offer.zones if not zone.startswith(("europe-", "southamerica-"))}
    assert zones == {"us-central1-a", "us-south1-a", "us-west1-c", "us-west4-a"}


def test_regions_that_azure_opens_to_chosen_customers_alone_are_in_no_plan(shipped: Catalog) -> None:
    azure = frozenset({"azure"})
    usual = {offer.region for offer in shipped.offers(OfferQuery(providers=azure), TODAY)}
    all_there = shipped.offers(OfferQuery(providers=azure, include_retired=True), TODAY)
    closed = {offer.region for offer in all_there} - usual
    assert closed == {
        "australiacentral2", "brazilsoutheast", "francesouth", "germanynorth", "jioindiacentral", "jioindiawest",
        "koreasouth", "norwaywest", "southafricawest", "swedensouth", "switzerlandwest", "uaecentral",
    }  # fmt: skip
    marked = {offer.region for offer in all_there if offer.availability.offered is False}
    assert marked == closed


def test_googles_parts_add_up(offers: list[Offer]) -> None:
    parts = [offer for offer in offers if offer.host_usd_per_hour is not None]
    assert len(parts) == 154
    for offer in parts:
        assert offer.host_usd_per_hour is not None
        assert offer.device_usd_per_hour is not None
        assert abs(offer.host_usd_per_hour + offer.device_usd_per_hour - offer.usd_per_hour) <= Decimal("0.000002")


def test_azure_spot_prices_are_stale(offers: list[Offer]) -> None:
    grades = {o.price_grade for o in offers if o.provider == "azure" and o.market is Market.SPOT and not o.price_as_of}
    assert grades == {PriceGrade.STALE}


@pytest.fixture
def collected() -> list[dict[str, str]]:
    """Every fortieth offer as it was collected from the sources that its row names, and one at least of each
    accelerator, of each state and of each kind of spot price."""
    with (ROOT / "tests" / "data" / "offer_figures.csv").open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def test_the_prices_are_those_of_their_sources(offers: list[Offer], collected: list[dict[str, str]]) -> None:
    prices = {(o.provider, o.region, o.instance_type, str(o.market)): o.usd_per_hour for o in offers}
    expected = {
        (row["provider"], row["region"], row["instance_type"], market): Decimal(row[f"{market}_usd_h"])
        for row in collected
        for market in ("on_demand", "spot")
        if row[f"{market}_usd_h"]
    }
    assert len(expected) > 150
    assert {key: prices.get(key) for key in expected} == expected


def test_small_machines_cost_their_part_of_the_machine_they_are_derived_from(offers: list[Offer]) -> None:
    prices = {(o.provider, o.region, o.instance_type, str(o.market)): o.usd_per_hour for o in offers}
    checked = 0
    for (provider, region, instance_type, market), usd in prices.items():
        if (provider, instance_type) in SMALL:
            whole, parts = SMALL[provider, instance_type]
            in_full = prices[provider, region, whole, market]
            assert abs(usd * parts - in_full) < Decimal("0.000004")  # stored to a millionth
            checked += 1
    assert checked > 500


def test_small_machines_are_derived_by_their_size_and_say_so(offers: list[Offer]) -> None:
    """A new account may have 5 vCPUs at once at AWS, and 10 in a region of Azure's."""
    small = [offer for offer in offers if (offer.provider, offer.instance_type) in SMALL]
    assert {(offer.provider, offer.instance_type) for offer in small} == set(SMALL)
    assert {offer.price_grade for offer in small} == {PriceGrade.DERIVED}
    assert {offer.vcpus for offer in small} == {2, 4}
    assert {(offer.family, offer.memory_gib) for offer in small if offer.vcpus == 2} == {
        ("c5", 4), ("c6i", 4), ("c7i", 4), ("m5", 8), ("m6i", 8),
        ("e2", 8), ("n2", 8), ("Das_v5", 8), ("Ds_v3", 8), ("Ds_v5", 8), ("Ds_v6", 8),
    }  # fmt: skip


def test_the_states_are_those_of_their_sources(offers: list[Offer], collected: list[dict[str, str]]) -> None:
    states = {(o.provider, o.instance_type): str(o.lifecycle.state) for o in offers}
    for row in collected:
        assert states[row["provider"], row["instance_type"]] == row["status"].split()[0].rstrip(";"), row
    assert {row["status"].split()[0].rstrip(";") for row in collected} >= {"active", "legacy", "deprecated", "retired"}


def test_the_documentation_counts_the_offers_of_the_shipped_tables(shipped: Catalog, golden: Golden) -> None:
    """provider, offers, of them retired, without a day, the oldest price (with a remark), the newest"""
    page = ROOT / "docs" / "prices.md"
    before, head, rest = page.read_text(encoding="utf-8").partition(OFFERS_HEAD)
    table, gap, after = rest.partition("\n\n")
    remarks = {
        cells[0].strip(): cells[4].strip()[10:] for cells in (line.strip("|").split("|") for line in table.splitlines())
    }
    rows = [
        f"| {one.provider} | {one.offers:,} | {one.retired_offers:,} | {one.undated_prices:,} | "
        f"{one.oldest_price}{remarks.get(one.provider, '')} | {one.newest_price} |"
        for one in shipped.summary(TODAY)
    ]
    golden.check(page, before + head + "\n".join(rows) + gap + after)
