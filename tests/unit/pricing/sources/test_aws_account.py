"""Prices, spot history and offerings as an AWS account gets them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from trainplan.pricing.sources.aws_account import (
    HISTORY_ID,
    AwsClients,
    parse_history,
    parse_offered,
    parse_products,
    read_history,
    read_offered,
    read_prices,
)
from trainplan.pricing.sources.reading import Count

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def product(name: object = "g4dn.xlarge", usd: object = "0.5260000000", **changes: Any) -> str:
    dimensions = changes.get("dimensions") or {
        "A.B.C": {"unit": changes.get("unit", "Hrs"), "pricePerUnit": changes.get("prices", {"USD": usd})}
    }
    attributes = {"instanceType": name, "regionCode": changes.get("region", "us-east-1"), "vcpu": "4"}
    terms = {"OnDemand": {"A.B": {"priceDimensions": dimensions}}} if changes.get("terms", True) else {}
    return json.dumps({"product": {"attributes": attributes}, "terms": terms})


def test_products() -> None:
    parsed = parse_products([product(), product(), product("p5.48xlarge", "55.04")], "us-east-1")
    assert [(one.instance_type, one.usd_per_hour) for one in parsed.prices] == [
        ("g4dn.xlarge", Decimal("0.526")),
        ("p5.48xlarge", Decimal("55.04")),
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", Count.INCOMPLETE),
        (7, Count.INCOMPLETE),
        ("[]", Count.INCOMPLETE),
        (product(None), Count.INCOMPLETE),
        (product(region="us-west-2-lax-1"), Count.OTHER_PLACEMENT),
        (product(terms=False), Count.NO_PRICE),
        (product(dimensions={"a": {}, "b": {}}), Count.TIERS),
        (product(unit="Quantity"), Count.OTHER_UNIT),
        (product(prices={"CNY": "3.1"}), Count.OTHER_CURRENCY),
        (product(prices={}), Count.NO_PRICE),
        (product(usd="0.0000000000"), Count.NO_PRICE),
    ],
)
def test_a_product_that_is_no_price(text: object, why: Count) -> None:
    parsed = parse_products([text], "us-east-1")
    assert (parsed.prices, dict(parsed.skipped)) == ([], {why: 1})


def change(days: float, usd: str, zone: str = "us-east-1a", **changes: Any) -> dict[str, Any]:
    """A spot price that holds since so many days."""
    return {
        "AvailabilityZone": zone,
        "InstanceType": "g4dn.xlarge",
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": usd,
        "Timestamp": NOW - timedelta(days=days),
    } | changes


def test_the_week_of_a_zone() -> None:
    """0.20 held when the week began and three days of it, then 0.30 for three, then 0.25 for one."""
    parsed = parse_history([change(1, "0.25"), change(20, "0.20"), change(4, "0.30")], "us-east-1", NOW)
    (found,) = parsed.prices
    assert (found.usd_per_hour, found.zones, found.source) == (Decimal("0.25"), ("us-east-1a",), HISTORY_ID)
    assert found.history == (Decimal("0.25"), Decimal("0.20"), Decimal("0.30"))


def test_each_zone_has_its_own_price() -> None:
    parsed = parse_history([change(1, "0.2"), change(1, "0.6", zone="us-east-1d")], "us-east-1", NOW)
    assert {one.zones: one.usd_per_hour for one in parsed.prices} == {
        ("us-east-1a",): Decimal("0.2"),
        ("us-east-1d",): Decimal("0.6"),
    }


def test_a_mean_lies_between_what_it_is_of() -> None:
    parsed = parse_history([change(20, "0.3333333"), change(0, "0.3333333")], "us-east-1", NOW)
    (found,) = parsed.prices
    assert found.history is not None
    assert found.history.low_usd_per_hour <= found.history.mean_usd_per_hour <= found.history.high_usd_per_hour


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (change(1, "0.2", ProductDescription="Windows"), Count.OTHER_PRODUCT),
        (change(1, "0.2", zone="eu-west-1a"), Count.OTHER_PLACEMENT),
        (change(1, "free"), Count.NO_PRICE),
        (change(-1, "0.2"), Count.NOT_NOW),
        (change(1, "0.2", Timestamp="2026-11-20"), Count.INCOMPLETE),
        (change(1, "0.2", Timestamp=datetime(2026, 11, 20)), Count.INCOMPLETE),  # noqa: DTZ001  what must be refused
        (7, Count.OTHER_PRODUCT),
    ],
)
def test_history_that_is_left_out(entry: object, why: Count) -> None:
    parsed = parse_history([entry], "us-east-1", NOW)
    assert (parsed.prices, dict(parsed.skipped)) == ([], {why: 1})


def test_offered() -> None:
    pages = [
        {"InstanceTypeOfferings": [{"InstanceType": "g5.xlarge", "Location": f"us-east-1{zone}"} for zone in "ca"]},
        {"InstanceTypeOfferings": [{"InstanceType": 7}, {"Location": "us-east-1a"}, "x"]},
        None,
    ]
    assert parse_offered(pages) == {"g5.xlarge": ("us-east-1a", "us-east-1c")}


class RefusedError(Exception):
    """What the vendor's library raises."""


class Client:
    """Answers in two pages; in `closed` regions it refuses."""

    closed = ("eu-central-2",)

    def __init__(self, region: str) -> None:
        self.region = region

    def get_paginator(self, name: str) -> Client:
        self.name = name
        return self

    def paginate(self, **parameters: Any) -> Iterable[dict[str, Any]]:
        if self.region in self.closed or parameters.get("Filters", [{}])[-1].get("Value") in self.closed:
            raise RefusedError("not enabled")
        if self.name == "get_products":
            assert {entry["Field"] for entry in parameters["Filters"]} >= {"tenancy", "capacitystatus", "regionCode"}
            return [{"PriceList": [product("g5.xlarge", "1.006")]}, {"PriceList": [product()]}]
        if self.name == "describe_spot_price_history":
            assert parameters["EndTime"] - parameters["StartTime"] == timedelta(days=7)
            return [{"SpotPriceHistory": [change(3, "0.2")]}, {"SpotPriceHistory": [change(1, "0.3")]}]
        return [{"InstanceTypeOfferings": [{"InstanceType": "g5.xlarge", "Location": f"{self.region}a"}]}]


ACCOUNT = AwsClients(lambda service, region: Client(region), (RefusedError,))


def test_pages_are_followed_and_a_region_that_refuses_fails_alone() -> None:
    regions = {"us-east-1", "eu-central-2"}
    refused, read = read_prices(ACCOUNT, regions)
    assert ("not enabled" in refused.error, len(read.parsed.prices)) == (True, 2)
    refused, read = read_history(ACCOUNT, regions, NOW)
    assert ("not enabled" in refused.error, read.parsed.prices[0].usd_per_hour) == (True, Decimal("0.3"))
    offered = read_offered(ACCOUNT, regions, NOW)
    assert offered.regions == {"us-east-1"}
    assert offered.zones == {("us-east-1", "g5.xlarge"): ("us-east-1a",)}


class LostError(RefusedError):
    """Nobody answers."""


def test_once_nobody_answers_the_rest_is_not_tried() -> None:
    asked: list[str] = []

    def nobody(service: str, region: str) -> Any:
        asked.append(service)
        raise LostError("could not connect")

    account = AwsClients(nobody, (RefusedError,), (LostError,))
    regions = {"us-east-1", "us-east-2", "us-west-2"}
    for parts in (read_prices(account, regions), read_history(account, regions, NOW)):
        assert ["could not connect" in part.error for part in parts] == [True] * 3
    assert read_offered(account, regions, NOW).regions == frozenset()
    assert asked == ["pricing", "ec2", "ec2"]
