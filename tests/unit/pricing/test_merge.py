"""What was read, over what was known: what is replaced, what stays, what is new."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from trainplan.pricing.grades import Market
from trainplan.pricing.merge import KnownPrices, Merged, News, merge
from trainplan.pricing.offers import ACTIVE, BY_LIFECYCLE, Availability
from trainplan.pricing.refresh import price_sources
from trainplan.pricing.sources.aws import ADVISOR_ID, LIST_ID, SPOT_ID, Advice
from trainplan.pricing.sources.aws_account import HISTORY_ID
from trainplan.pricing.sources.gcp_copy import COPY_ID
from trainplan.pricing.sources.reading import Count, Offered, Parsed, PriceFound, PricePart, TypeSeen
from trainplan.pricing.tables import DatedPrice, InstanceType, OfferRow, SpotHistory

BEFORE, TODAY = date(2026, 7, 20), date(2026, 11, 21)
SOURCES = price_sources()
OD, SPOT = Market.ON_DEMAND, Market.SPOT


def kind(name: str, **changes: Any) -> InstanceType:
    base = InstanceType(
        provider="aws", name=name, family=name.split(".")[0], cpu_architecture="x86_64", device="T4", device_count=1,
        device_fraction=Fraction(1), device_memory_gib=16.0, vcpus=4, memory_gib=16.0, hosts=1, lifecycle=ACTIVE,
    )  # fmt: skip
    return replace(base, **changes)


TYPES = {
    ("aws", one.name): one for one in (kind("g4dn.xlarge"), kind("g4dn.2xlarge"), kind("g5.xlarge", device="A10G"))
}


def price(usd: str, source: str = LIST_ID, on: date = BEFORE) -> DatedPrice:
    return DatedPrice(usd_per_hour=Decimal(usd), as_of=on, as_of_text="", source=SOURCES[source])


def row(
    name: str, region: str = "us-east-1", on_demand: str = "1", spot: DatedPrice | None = None, **more: Any
) -> OfferRow:
    return OfferRow(
        type=TYPES["aws", name], region=region, zones=(), on_demand=price(on_demand), spot=spot,
        interruption_bucket=None, host_usd_per_hour=None, device_usd_per_hour=None, note="",
    )  # fmt: skip


def price_found(name: str, usd: str, region: str = "us-east-1", market: Market = OD, **more: Any) -> PriceFound:
    dated = {"as_of": TODAY, **more}
    return PriceFound(region, name, market, Decimal(usd), dated.pop("source", LIST_ID), **dated)


def part(*prices: PriceFound, region: str = "us-east-1", market: Market = OD, **more: Any) -> PricePart:
    parsed = Parsed(prices=list(prices), types=more.pop("types", []))
    return PricePart(name=region, markets=frozenset({market}), regions=frozenset({region}), parsed=parsed, **more)


def merged(offers: list[OfferRow], *parts: PricePart, **news: Any) -> Merged:
    known = KnownPrices(provider="aws", offers=offers, types=TYPES, sources=SOURCES)
    return merge(known, News(parts=parts, on=TODAY, **news))


def rows_of(result: Merged) -> dict[tuple[str, str, str, str], tuple[str, date | None]]:
    """(region, type, market, zones) to price and day."""
    table = {}
    for one in result.offers:
        for market, it in ((OD, one.on_demand), (SPOT, one.spot)):
            if it is not None:
                zones = " ".join(one.zones)
                table[one.region, one.type.name, market.value, zones] = (str(it.usd_per_hour.normalize()), it.as_of)
    return table


def test_a_part_replaces_its_markets_and_regions_only() -> None:
    stale = price("0.4", HISTORY_ID)
    offers = [row("g4dn.xlarge", spot=stale), row("g4dn.xlarge", "eu-west-1", "2")]
    assert rows_of(merged(offers, part(price_found("g4dn.xlarge", "0.9")))) == {
        ("us-east-1", "g4dn.xlarge", "on_demand", ""): ("0.9", TODAY),
        ("us-east-1", "g4dn.xlarge", "spot", ""): ("0.4", BEFORE),
        ("eu-west-1", "g4dn.xlarge", "on_demand", ""): ("2", BEFORE),
    }


def test_a_part_that_failed_leaves_the_last_good_one() -> None:
    offers = [row("g4dn.xlarge")]
    assert rows_of(merged(offers, part(error="answers 503"))) == {
        ("us-east-1", "g4dn.xlarge", "on_demand", ""): ("1", BEFORE)
    }


def test_gone_is_what_the_list_has_elsewhere() -> None:
    """g5 is in no list at all: it may have another name by now, and stays as it was."""
    offers = [row("g4dn.xlarge"), row("g4dn.xlarge", "eu-west-1"), row("g5.xlarge")]
    one = PricePart(
        name="all",
        markets=frozenset({OD}),
        regions=None,
        parsed=Parsed(prices=[price_found("g4dn.xlarge", "3", "eu-west-1")]),
    )
    result = merged(offers, one)
    assert rows_of(result) == {
        ("eu-west-1", "g4dn.xlarge", "on_demand", ""): ("3", TODAY),
        ("us-east-1", "g5.xlarge", "on_demand", ""): ("1", BEFORE),
    }
    assert result.kept_count == 1


def test_zones_have_prices_of_their_own_beside_on_demand() -> None:
    week = SpotHistory(Decimal("0.3"), Decimal("0.2"), Decimal("0.4"))
    zones = [
        price_found("g4dn.xlarge", usd, market=SPOT, source=HISTORY_ID, zones=(zone,), history=week)
        for zone, usd in (("us-east-1a", "0.2"), ("us-east-1b", "0.4"))
    ]
    result = merged([row("g4dn.xlarge", spot=price("0.1", ADVISOR_ID))], part(*zones, market=SPOT))
    assert rows_of(result) == {
        ("us-east-1", "g4dn.xlarge", "on_demand", ""): ("1", BEFORE),
        ("us-east-1", "g4dn.xlarge", "spot", "us-east-1a"): ("0.2", TODAY),
        ("us-east-1", "g4dn.xlarge", "spot", "us-east-1b"): ("0.4", TODAY),
    }
    assert [one.history for one in result.offers] == [None, week, week]


def test_a_spot_price_of_nothing_is_none() -> None:
    """What a stub of the API answers for every type."""
    zone = price_found("g4dn.xlarge", "0.00001", market=SPOT, source=HISTORY_ID, zones=("us-east-1a",))
    result = merged([row("g4dn.xlarge")], part(zone, market=SPOT))
    assert list(rows_of(result)) == [("us-east-1", "g4dn.xlarge", "on_demand", "")]
    assert result.skipped["a spot price of next to nothing"] == 1


ADVICE = Advice({("us-east-1", "g4dn.xlarge"): (3, 60), ("us-east-1", "p9.xlarge"): (0, 10)}, 0, TODAY)


def test_advice_is_an_estimate_where_no_price_counts() -> None:
    result = merged(
        [row("g4dn.xlarge", spot=price("0.3", HISTORY_ID))], part(price_found("g4dn.xlarge", "0.9")), advice=ADVICE
    )
    (one,) = result.offers
    assert one.spot is not None
    assert (one.spot.usd_per_hour, one.spot.source.id, one.interruption_bucket) == (Decimal("0.36"), ADVISOR_ID, 3)


def test_advice_beside_an_observed_price_is_how_often_it_is_interrupted() -> None:
    zone = price_found("g4dn.xlarge", "0.3", market=SPOT, source=HISTORY_ID, zones=("us-east-1a",))
    result = merged([row("g4dn.xlarge")], part(zone, market=SPOT), advice=ADVICE)
    (spot,) = [one for one in result.offers if one.spot]
    assert spot.spot is not None
    assert (spot.spot.source.id, spot.interruption_bucket, spot.zones) == (HISTORY_ID, 3, ("us-east-1a",))


def test_offerings_say_where_it_is() -> None:
    zones = ("us-east-1b", "us-east-1c")
    offered = Offered(frozenset({"us-east-1"}), {("us-east-1", "g4dn.xlarge"): zones}, TODAY)
    offers = [row("g4dn.xlarge"), row("g5.xlarge"), row("g4dn.xlarge", "eu-west-1")]
    there = {
        (one.region, one.type.name): (one.availability, one.zones) for one in merged(offers, offered=offered).offers
    }
    assert there == {
        ("us-east-1", "g4dn.xlarge"): (Availability(True, TODAY), zones),
        ("us-east-1", "g5.xlarge"): (Availability(False, TODAY), ()),
        ("eu-west-1", "g4dn.xlarge"): (BY_LIFECYCLE, ()),
    }


@pytest.mark.parametrize(
    ("type_seen", "is_known"),
    [
        (TypeSeen("g4dn.12xlarge", 48, 192.0, 4), True),
        (TypeSeen("g4dn.metal", 96, 384.0, 8), False),
        (TypeSeen("g9.xlarge", 4, 16.0, 1), False),
        (TypeSeen("g4dn.4xlarge", 16, 64.0, 0), False),
    ],
)
def test_another_size_of_a_known_family_is_new(type_seen: TypeSeen, *, is_known: bool) -> None:
    result = merged(
        [row("g4dn.xlarge")], part(price_found("g4dn.xlarge", "1"), price_found(type_seen.name, "4"), types=[type_seen])
    )
    new = [one.type for one in result.offers if one.type.name == type_seen.name]
    assert bool(new) is is_known
    if new:
        assert (new[0].device, new[0].device_count, new[0].vcpus, new[0].memory_gib) == ("T4", 4, 48, 192.0)
    assert result.unknown_types == (() if is_known or not type_seen.device_count else (type_seen.name,))


# --- prices that cannot be true ------------------------------------------------------------------------------------


def test_an_absurd_row_is_held_and_the_known_price_stays() -> None:
    offers = [row("g4dn.xlarge"), row("g4dn.2xlarge", on_demand="1.5")]
    result = merged(offers, part(price_found("g4dn.xlarge", "0.0001"), price_found("g4dn.2xlarge", "1.4")))
    assert rows_of(result) == {
        ("us-east-1", "g4dn.xlarge", "on_demand", ""): ("1", BEFORE),
        ("us-east-1", "g4dn.2xlarge", "on_demand", ""): ("1.4", TODAY),
    }
    (held,) = result.held_prices
    assert (held.name, held.usd_per_hour, held.known_usd_per_hour) == (
        "aws/us-east-1/g4dn.xlarge/on_demand", Decimal("0.0001"), Decimal(1),
    )  # fmt: skip


def test_an_absurd_row_of_a_new_placement_is_held_against_its_family() -> None:
    offers = [row("g4dn.xlarge", region) for region in ("us-east-1", "eu-west-1", "eu-north-1")]
    result = merged(offers, part(price_found("g4dn.xlarge", "0.09", "sa-east-1"), region="sa-east-1"))
    assert ("sa-east-1", "g4dn.xlarge", "on_demand", "") not in rows_of(result)
    assert [held.key.region for held in result.held_prices] == ["sa-east-1"]


def test_an_absurd_zone_is_held_alone() -> None:
    zones = [
        price_found("g4dn.xlarge", usd, market=SPOT, source=HISTORY_ID, zones=(zone,))
        for zone, usd in (("us-east-1a", "0.0001"), ("us-east-1b", "0.4"))
    ]
    result = merged([row("g4dn.xlarge", spot=price("0.3", HISTORY_ID))], part(*zones, market=SPOT))
    assert [held.name for held in result.held_prices] == ["aws/us-east-1/g4dn.xlarge/spot/us-east-1a"]
    assert ("us-east-1", "g4dn.xlarge", "spot", "us-east-1b") in rows_of(result)
    assert not [key for key, (usd, _) in rows_of(result).items() if usd == "0.0001"]


def test_a_row_has_its_lists_date_and_never_the_day_of_reading() -> None:
    listed = date(2026, 11, 18)
    result = merged([row("g4dn.xlarge")], part(price_found("g4dn.xlarge", "0.9", as_of=listed)))
    assert rows_of(result) == {("us-east-1", "g4dn.xlarge", "on_demand", ""): ("0.9", listed)}


def test_a_row_without_a_date_stays_without_one() -> None:
    result = merged([], part(price_found("g5.xlarge", "0.9", as_of=None)))
    (one,) = result.offers
    assert one.on_demand is not None
    assert (one.on_demand.as_of, one.on_demand.as_of_text) == (None, "the list has no date")


def test_an_older_list_with_the_same_price_leaves_the_later_date() -> None:
    result = merged([row("g4dn.xlarge")], part(price_found("g4dn.xlarge", "1", as_of=date(2026, 1, 1))))
    assert rows_of(result) == {("us-east-1", "g4dn.xlarge", "on_demand", ""): ("1", BEFORE)}
    assert result.held_prices == ()


def test_a_price_of_zones_beats_one_of_their_region_as_long_as_it_counts() -> None:
    region = price_found("g4dn.xlarge", "0.3", market=SPOT, source=SPOT_ID)
    zones = (price_found("g4dn.xlarge", usd, market=SPOT, source=HISTORY_ID, zones=(zone,)) for zone, usd in _ZONES)
    feed = part(region, market=SPOT, keeps_missing=True)
    both = rows_of(merged([row("g4dn.xlarge")], feed, part(*zones, market=SPOT)))
    expected = {("us-east-1", "g4dn.xlarge", "spot", zone): (usd, TODAY) for zone, usd in _ZONES}
    assert {key: one for key, one in both.items() if key[2] == "spot"} == expected
    for age, stays in ((30, True), (31, False)):
        read = TODAY - timedelta(days=age)
        known = [
            row("g4dn.xlarge"),
            replace(row("g4dn.xlarge"), on_demand=None, zones=("us-east-1a",), spot=price("0.25", HISTORY_ID, read)),
        ]
        result = merged(known, feed)
        spot = {key[3]: one for key, one in rows_of(result).items() if key[2] == "spot"}
        assert spot == ({"us-east-1a": ("0.25", read)} if stays else {"": ("0.3", TODAY)})
        assert result.skipped[Count.BETTER_KNOWN] == stays


_ZONES = (("us-east-1a", "0.25"), ("us-east-1b", "0.28"))


def test_a_copy_replaces_what_is_older_than_it_and_not_the_vendors_own_list_of_the_day() -> None:
    copy = price_found("g4dn.xlarge", "0.9", source=COPY_ID, as_of=date(2026, 11, 10))
    for read, stays in ((date(2026, 11, 10), True), (date(2026, 11, 9), False)):
        known = [replace(row("g4dn.xlarge"), on_demand=price("1", LIST_ID, read))]
        result = merged(known, part(copy, keeps_missing=True))
        ((usd, day),) = rows_of(result).values()
        assert (usd, day) == (("1", read) if stays else ("0.9", date(2026, 11, 10)))
        assert result.skipped[Count.BETTER_KNOWN] == stays


def test_what_a_list_that_is_not_the_vendors_own_lacks_stays() -> None:
    known = [
        row("g4dn.xlarge", spot=price("0.4", HISTORY_ID)),
        row("g4dn.xlarge", "us-west-2", spot=price("0.5", HISTORY_ID)),
    ]
    feed = PricePart(
        name="spot", markets=frozenset({SPOT}), regions=frozenset({"us-east-1", "us-west-2"}), keeps_missing=True,
        parsed=Parsed(prices=[price_found("g4dn.xlarge", "0.3", market=SPOT, source=SPOT_ID)]),
    )  # fmt: skip
    spot = {key[0]: one for key, one in rows_of(merged(known, feed)).items() if key[2] == "spot"}
    assert spot == {"us-east-1": ("0.3", TODAY), "us-west-2": ("0.5", BEFORE)}
