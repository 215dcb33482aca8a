"""What the compiled catalog answers."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tests.unit.pricing.conftest import TODAY, Opened, TextDir, on_demand, spot
from trainplan.pricing.catalog import SHIPPED_CATALOG, Catalog, CatalogError
from trainplan.pricing.compile import TEXT_DIR, compile_catalog, text_sha256
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.money import from_micro
from trainplan.pricing.offers import LifecycleState, OfferQuery

EVERYTHING = OfferQuery(include_retired=True)
SPOT = OfferQuery(markets=frozenset({"spot"}))


def test_placements_come_cheapest_first_and_ties_by_region(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("g4dn.xlarge")
    for region, usd in (("us-west-2", "0.5"), ("us-east-1", "0.5"), ("sa-east-1", "0.9"), ("us-east-2", "0.4")):
        text_dir.add_offer(region, "g4dn.xlarge", **on_demand(usd))
    ((rental, placements),) = opened(text_dir.compile()).rentals(OfferQuery(), TODAY)
    assert (rental.instance_type, rental.device, rental.market) == ("g4dn.xlarge", "T4", Market.ON_DEMAND)
    assert [placement.region for placement in placements] == ["us-east-2", "us-east-1", "us-west-2", "sa-east-1"]
    assert [placement.planning_micro_usd_per_hour for placement in placements] == [400_000, 500_000, 500_000, 900_000]
    assert placements[0] == list(placements)[0]  # noqa: RUF015 - the first is known without reading the others
    assert len(placements) == 4


def test_a_falsely_cheap_stale_spot_price_does_not_come_first(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("0.526"), **spot("0.210"))
    text_dir.add_offer("us-west-2", "g4dn.xlarge", **on_demand("0.526"), **spot("0.263"))
    text_dir.add_offer("us-east-2", "g4dn.xlarge", **on_demand("0.526"), **spot("0.001", as_of="2024-01-01"))
    catalog = opened(text_dir.compile())
    ((_, placements),) = catalog.rentals(SPOT, TODAY)
    # It is planned at the share of the two that have a price of their own, not at a two hundredth of them.
    assert [placement.region for placement in placements] == ["us-east-1", "us-east-2", "us-west-2"]
    planted = catalog.offers([placements[1].row_id], TODAY)[0]
    # 0.75 quantile of 0.210/0.526 and 0.263/0.526, of the on-demand price, and the drift since these were read
    assert planted.planning_usd_per_hour == Decimal("0.259290")
    assert planted.usd_per_hour == Decimal("0.001")
    assert planted.price_grade is PriceGrade.STALE


@pytest.mark.parametrize(
    "price",
    [
        spot("0.001", as_of="2024-08-22"),
        spot("0.001", as_of="", text="undated"),
        spot("0.001", as_of="", text="~2023"),
    ],
    ids=["observed years ago", "undated", "of some year"],
)
def test_a_price_that_is_no_ground_counts_as_other_machines_shares(
    text_dir: TextDir, opened: Opened, price: dict[str, str]
) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_type("g5.xlarge", device="A10G")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("0.526"), **price)
    text_dir.add_offer("eu-west-1", "g5.xlarge", **on_demand("1"), **spot("0.3"))
    offers = {offer.instance_type: offer for offer in opened(text_dir.compile()).offers(SPOT, TODAY)}
    assert offers["g4dn.xlarge"].usd_per_hour == Decimal("0.001")
    planned = offers["g4dn.xlarge"].planning_usd_per_hour
    assert planned is not None
    assert Decimal("0.526") * Decimal("0.3") <= planned < Decimal("0.526") * Decimal("0.34")


def test_where_nobody_s_share_is_known_a_price_without_a_day_counts_as_on_demand(
    text_dir: TextDir, opened: Opened
) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("0.526"), **spot("0.001", as_of="", text="undated"))
    (offer,) = opened(text_dir.compile()).offers(SPOT, TODAY)
    assert offer.planning_usd_per_hour == Decimal("0.526")


@pytest.mark.parametrize(("source", "grade"), [("market", PriceGrade.OBSERVED), ("list", PriceGrade.LISTED)])
def test_a_spot_price_goes_stale_on_its_day(text_dir: TextDir, opened: Opened, source: str, grade: PriceGrade) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("1"), **spot("0.3", as_of="2026-11-01", source=source))
    catalog = opened(text_dir.compile())
    last_day = date(2026, 11, 1) + timedelta(days=30)
    on_the_last, on_the_next = (catalog.offers(SPOT, last_day + timedelta(days=n))[0] for n in (0, 1))
    assert (on_the_last.price_grade, on_the_last.planning_usd_per_hour) == (grade, Decimal("0.3"))
    assert (on_the_next.price_grade, on_the_next.planning_usd_per_hour) == (PriceGrade.STALE, Decimal("0.317763")), (
        "1910 ppm a day"
    )


def test_an_untrusted_spot_price_is_held_against_on_demand_elsewhere(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("0.7"))
    text_dir.add_offer("us-east-2", "g4dn.xlarge", **on_demand("0.6"))
    text_dir.add_offer("us-west-2", "g4dn.xlarge", **spot("0.1", as_of="", text="undated"))
    (offer,) = opened(text_dir.compile()).offers(SPOT, TODAY)
    assert offer.planning_usd_per_hour == Decimal("0.6")
    assert offer.on_demand_usd_per_hour is None


def test_a_price_that_nothing_backs_is_reported_and_not_ranked(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("a3-highgpu-1g", provider="gcp", device="H100")
    text_dir.add_offer("us-central1", "a3-highgpu-1g", provider="gcp", **spot("0.1", as_of="2024-01-01", source="list"))
    catalog = opened(text_dir.compile())
    ((_, placements),) = catalog.rentals(OfferQuery(), TODAY)
    assert (list(placements), len(placements), placements.unrankable) == ([], 0, 1)
    (offer,) = catalog.offers(OfferQuery(), TODAY)
    assert offer.planning_usd_per_hour is None


def test_placements_offers_and_quotes_say_the_same(shipped: Catalog) -> None:
    quotes = shipped.quotes(EVERYTHING, TODAY)
    assert len(quotes) == len(shipped.offers(EVERYTHING, TODAY))
    for rental, placements in shipped.rentals(EVERYTHING, TODAY):
        offers = shipped.offers([placement.row_id for placement in placements], TODAY)
        assert len(offers) == len(placements)
        for placement, offer in zip(placements, offers, strict=True):
            quote = quotes[placement.row_id]
            assert offer.rental == rental
            assert placement.region == offer.region
            assert from_micro(placement.planning_micro_usd_per_hour) == offer.planning_usd_per_hour
            assert from_micro(quote.micro_usd_per_hour) == offer.usd_per_hour
            assert quote.stamp == (
                offer.zones, offer.price_grade, offer.price_as_of, "", offer.planned_as, offer.price_spread,
                    offer.price_source,
            )  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        OfferQuery(providers=frozenset({"gcp"})),
        OfferQuery(devices=frozenset({"T4", "V100"}), include_retired=True),
        OfferQuery(markets=frozenset({"spot"}), regions=frozenset({"us-east-1", "us-central1"})),
        OfferQuery(instance_types=frozenset({"p3.2xlarge", "g4dn.xlarge"}), include_retired=True),
        OfferQuery(providers=frozenset()),
    ],
)
def test_a_query_is_a_filter(shipped: Catalog, query: OfferQuery) -> None:
    def wanted(values: frozenset[str] | None, value: str) -> bool:
        return values is None or value in values

    expected = [
        offer
        for offer in shipped.offers(EVERYTHING, TODAY)
        if wanted(query.providers, offer.provider)
        and wanted(query.regions, offer.region)
        and wanted(query.devices, offer.device)
        and wanted(query.instance_types, offer.instance_type)
        and wanted(query.markets, offer.market)
        and (query.include_retired or offer.lifecycle.state is not LifecycleState.RETIRED)
        and (query.include_retired or offer.availability.offered is not False)
    ]
    assert shipped.offers(query, TODAY) == expected
    rentals = shipped.rentals(query, TODAY)
    for _, placements in rentals:
        assert len(placements) == len(list(placements))
        assert list(placements)[:1] == ([placements[0]] if placements else [])
    assert sum(len(placements) + placements.unrankable for _, placements in rentals) == len(expected)


def test_retired_offers_are_left_out_and_counted(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_type("p2.xlarge", device="K80", state="retired", state_date="2025-03-30", successor="g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("0.526"))
    text_dir.add_offer("us-east-1", "p2.xlarge", **on_demand("0.9"), **spot("0.3"))
    catalog = opened(text_dir.compile())
    assert [row.rental.instance_type for row in catalog.rentals(OfferQuery(), TODAY)] == ["g4dn.xlarge"]
    assert catalog.retired_count(OfferQuery(), TODAY) == 2
    assert catalog.retired_count(OfferQuery(markets=frozenset({"spot"})), TODAY) == 1
    assert catalog.retired_count(EVERYTHING, TODAY) == 0
    assert len(catalog.offers(EVERYTHING, TODAY)) == 3


def test_what_is_deprecated_is_retired_once_its_day_has_come(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("n1+T4", state="deprecated", state_date="2027-08-01", successor="g2-standard-4")
    text_dir.add_offer("us-east-1", "n1+T4", **on_demand("0.54"))
    catalog = opened(text_dir.compile())
    ((before, _),) = catalog.rentals(OfferQuery(), date(2027, 7, 31))
    assert before.lifecycle.state is LifecycleState.DEPRECATED
    assert catalog.rentals(OfferQuery(), date(2027, 8, 1)) == []
    ((after, _),) = catalog.rentals(EVERYTHING, date(2027, 8, 1))
    assert after.lifecycle.state is LifecycleState.RETIRED
    assert after.lifecycle.successor == "g2-standard-4"


def test_an_offer_keeps_what_its_source_says(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("n1+T4", provider="gcp", device_fraction="1/3", device_memory_gib="8", cpu_architecture="arm64")
    text_dir.add_offer(
        "us-central1",
        "n1+T4",
        provider="gcp",
        zones="us-central1-a us-central1-b",
        host_usd_per_hour="0.19",
        device_usd_per_hour="0.35",
        note="rose in autumn",
        **on_demand("0.54", as_of="2026-07-01"),
        on_demand_as_of_text="2026-07",
        **spot("0.26", source="list"),
        spot_interruption_bucket="3",
    )
    catalog = opened(text_dir.compile())
    listed, cheap = catalog.offers(EVERYTHING, TODAY)
    assert listed.zones == ("us-central1-a", "us-central1-b")
    assert (listed.host_usd_per_hour, listed.device_usd_per_hour) == (Decimal("0.19"), Decimal("0.35"))
    assert (listed.price_as_of, listed.price_as_of_text) == (date(2026, 7, 1), "2026-07")
    assert (listed.price_source, listed.note) == ("the vendor's list", "rose in autumn")
    assert (listed.device_fraction, listed.device_memory_gib) == (Fraction(1, 3), 8)
    assert (listed.cpu_architecture, listed.billing.minimum_seconds) == ("arm64", 60)
    assert listed.interruption_bucket is None
    assert (cheap.interruption_bucket, cheap.host_usd_per_hour) == (3, None)
    assert cheap.on_demand_usd_per_hour == Decimal("0.54")


def test_placements_that_differ_in_how_often_they_are_interrupted_are_rentals_of_their_own(
    text_dir: TextDir, opened: Opened
) -> None:
    text_dir.add_type("g4dn.xlarge")
    for region, usd, bucket in (("us-east-1", "0.1", "4"), ("us-east-2", "0.2", "0"), ("us-west-1", "0.3", "4")):
        row = spot(usd, source="list") | {"spot_interruption_bucket": bucket}
        text_dir.add_offer(region, "g4dn.xlarge", **on_demand("0.5"), **row)
    text_dir.add_offer("us-west-2", "g4dn.xlarge", **on_demand("0.5"), **spot("0.4", source="list"))
    catalog = opened(text_dir.compile())
    found = {
        (row.rental.market.value, row.rental.interruption_bucket): [placement.region for placement in row.placements]
        for row in catalog.rentals(EVERYTHING, TODAY)
    }
    assert found == {
        ("on_demand", None): ["us-east-1", "us-east-2", "us-west-1", "us-west-2"],
        ("spot", None): ["us-west-2"],
        ("spot", 0): ["us-east-2"],
        ("spot", 4): ["us-east-1", "us-west-1"],
    }
    buckets = {
        (offer.market.value, offer.region): offer.interruption_bucket for offer in catalog.offers(EVERYTHING, TODAY)
    }
    assert (buckets["spot", "us-west-1"], buckets["spot", "us-west-2"]) == (4, None)
    assert all(buckets["on_demand", region] is None for region in found["on_demand", None])


def test_the_summary_says_from_when_and_from_where(text_dir: TextDir, opened: Opened) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("0.5", as_of="2026-10-01"), **spot("0.2"))
    text_dir.add_offer("us-west-2", "g4dn.xlarge", **spot("0.2", as_of="", text="undated"))
    (summary,) = opened(text_dir.compile()).summary(TODAY)
    assert (summary.provider, summary.offers, summary.retired_offers, summary.undated_prices) == ("aws", 3, 0, 1)
    assert (summary.oldest_price, summary.newest_price) == (date(2026, 10, 1), date(2026, 11, 1))
    assert summary.sources == (("list", "the vendor's list", 1), ("market", "the market", 2))
    assert dict(summary.grades) == {("on_demand", "listed"): 1, ("spot", "observed"): 1, ("spot", "stale"): 1}
    assert (summary.old_prices, summary.by_lifecycle, summary.not_offered) == (2, 3, 0)


def test_unknown_rows_are_left_out(shipped: Catalog) -> None:
    assert shipped.offers([], TODAY) == []
    assert len(shipped.offers([0, 10**9], TODAY)) == 1


def test_nothing_that_reads_text_is_imported_to_read_the_catalog() -> None:
    reading = "{'csv', 'tomllib', 'trainplan.pricing.tables'}"
    code = f"import sys, trainplan.pricing.catalog; print(sorted({reading} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert loaded.stdout.strip() == "[]"


def test_the_compiled_file_is_of_this_text() -> None:
    with Catalog.open() as catalog:
        assert catalog.text_sha256 == text_sha256(TEXT_DIR), "run `python -m trainplan.pricing.compile`"


def test_the_same_text_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    compile_catalog(TEXT_DIR, first)
    compile_catalog(TEXT_DIR, second)
    assert first.read_bytes() == second.read_bytes()


def test_a_compilation_that_fails_leaves_the_old_file(text_dir: TextDir) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("0.526"))
    target = text_dir.compile()
    before = target.read_bytes()
    text_dir.add_offer("us-east-1", "nowhere.xlarge", **on_demand("0.5"))
    with pytest.raises(ValueError, match=r"aws\.csv:3"):
        text_dir.compile()
    assert target.read_bytes() == before
    assert [path.name for path in text_dir.path.glob("catalog*")] == ["catalog.sqlite"]


def test_a_missing_file_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="no price catalog") as caught:
        Catalog.open(tmp_path / "none.sqlite")
    assert "trainplan.pricing.compile" in caught.value.hint


@pytest.mark.parametrize("content", [b"<html>502 Bad Gateway</html>" * 100, b""])
def test_a_file_that_is_no_catalog_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(content)
    with pytest.raises(CatalogError):
        Catalog.open(path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CatalogError, match="format 99"):
        Catalog.open(path)


def test_a_truncated_file_is_an_error_and_no_traceback(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(SHIPPED_CATALOG.read_bytes()[:20_000])
    with pytest.raises(CatalogError, match="cannot be read"):
        opened(path).offers(EVERYTHING, TODAY)
