"""Azure Retail Prices: pages, and the meters that look like machines on demand and are not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.doubles.price_lists import NoHttp, retail, retail_page
from tests.rows import each_row
from trainplan.pricing.grades import Market
from trainplan.pricing.sources.azure import FLOOR_ID, LIST_ID, Endpoints, parse_page, read
from trainplan.pricing.sources.reading import Count, SourceError

TODAY = date(2026, 11, 21)
NAME = "Standard_NC4as_T4_v3"


class Pages(NoHttp):
    """Answers one page after the other."""

    def __init__(self, *pages: bytes) -> None:
        self.pages = list(pages)
        self.requests: list[str] = []

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        self.requests.append(url)
        return self.pages.pop(0)


def read_one(*pages: bytes) -> Any:
    (part,) = read(Pages(*pages), Endpoints(), [NAME], ["eastus"], TODAY)
    return part


def test_pages_are_followed_to_the_end() -> None:
    following = "https://prices.azure.com:443/api/retail/prices?$skip=100"
    westus = retail(NAME, 0.752, armRegionName="westus")
    http = Pages(retail_page([retail(NAME, 0.526)], following), retail_page([westus]))
    (part,) = read(http, Endpoints(), [NAME], ["eastus", "westus"], TODAY)
    assert {one.region: one.usd_per_hour for one in part.parsed.prices} == {
        "eastus": Decimal("0.526"),
        "westus": Decimal("0.752"),
    }
    assert f"armSkuName%20eq%20%27{NAME}%27" in http.requests[0]
    assert http.requests[1] == following


def test_a_full_page_without_the_address_of_the_next_is_not_the_last() -> None:
    """So it was on 2023-03-10 (question 1188465 of Microsoft Q&A)."""
    full = retail_page([retail(NAME, 0.526, armRegionName=f"region-{number}") for number in range(100)])
    http = Pages(full, retail_page([retail(NAME, 0.6)]))
    (part,) = read(http, Endpoints(), [NAME], ["eastus", "region-7"], TODAY)
    assert sorted(one.region for one in part.parsed.prices) == ["eastus", "region-7"]
    assert http.requests[1] == f"{http.requests[0]}&$skip=100"


def test_a_machine_type_is_a_part_and_fails_alone() -> None:
    class Names(NoHttp):
        def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
            return retail_page([retail(NAME, 0.5)]) if NAME in url else b"<html>"

    parts = {part.name: part for part in read(Names(), Endpoints(), [NAME, "Standard_NC6"], ["eastus"], TODAY)}
    assert (parts[NAME].error, "web page" in parts["Standard_NC6"].error) == ("", True)
    assert parts[NAME].covers("eastus", NAME, Market.SPOT)
    assert not parts[NAME].covers("eastus", "Standard_NC6", Market.SPOT)


@pytest.mark.parametrize(
    "following",
    [
        "http://prices.azure.com/api",
        "https://elsewhere.example/",
        "https://prices.azure.com:99999/",
        "file:///etc/passwd",
    ],
)
def test_the_next_page_is_never_somewhere_else(following: str) -> None:
    assert "somewhere else" in read_one(retail_page([retail(NAME, 0.526)], following)).error


def test_spot_is_told_by_its_meter() -> None:
    spot = retail(NAME, 0.2, skuName="NC4as T4 v3 Spot", meterName="NC4as T4 v3 Spot")
    part = read_one(retail_page([retail(NAME, 0.526), spot]))
    assert {one.market: (one.usd_per_hour, one.source) for one in part.parsed.prices} == {
        Market.ON_DEMAND: (Decimal("0.526"), LIST_ID),
        Market.SPOT: (Decimal("0.2"), LIST_ID),
    }


def test_exactly_a_tenth_is_an_estimate_at_best() -> None:
    spot = retail(NAME, 0.0526, skuName="NC4as T4 v3 Spot")
    part = read_one(retail_page([retail(NAME, 0.526), spot]))
    assert {one.market: one.source for one in part.parsed.prices} == {Market.ON_DEMAND: LIST_ID, Market.SPOT: FLOOR_ID}


@each_row(
    ("changes", "why"),
    [
        ({"productName": "Virtual Machines NCasT4_v3 Series Windows"}, Count.OTHER_PRODUCT),
        ({"productName": "ND H100 v5 Series Win"}, Count.OTHER_PRODUCT),
        ({"productName": "NC Series Cloud Services"}, Count.OTHER_PRODUCT),
        ({"productName": "NCasT4_v3 Series CloudServices"}, Count.OTHER_PRODUCT),
        ({"meterName": "NC4as T4 v3 Low Priority", "skuName": "NC4as T4 v3 Low Priority"}, Count.OTHER_PRODUCT),
        ({"type": "Reservation"}, Count.OTHER_PRODUCT),
        ({"type": "DevTestConsumption"}, Count.OTHER_PRODUCT),
        ({"serviceName": "Azure Batch"}, Count.OTHER_PRODUCT),
        ({"currencyCode": "EUR"}, Count.OTHER_CURRENCY),
        ({"currencyCode": None}, Count.OTHER_CURRENCY),
        ({"unitOfMeasure": "1 GB/Month"}, Count.OTHER_UNIT),
        ({"unitOfMeasure": None}, Count.OTHER_UNIT),
        ({"retailPrice": 0.0}, Count.NO_PRICE),
        ({"retailPrice": "much"}, Count.NO_PRICE),
        ({"retailPrice": True}, Count.NO_PRICE),
        ({"tierMinimumUnits": 100.0}, Count.TIERS),
        ({"effectiveStartDate": "2026-12-01T00:00:00Z"}, Count.NOT_NOW),
        ({"effectiveEndDate": "2026-10-01T00:00:00Z"}, Count.NOT_NOW),
        ({"armRegionName": "westus"}, Count.OTHER_PLACEMENT),
        ({"armRegionName": ["eastus"]}, Count.OTHER_PLACEMENT),
        ({"armSkuName": "Standard_NC6"}, Count.OTHER_PRODUCT),
        ({"armSkuName": ""}, Count.INCOMPLETE),
        ({"armSkuName": "Standard NC4"}, Count.INCOMPLETE),
        ({"meterName": None}, Count.INCOMPLETE),
        ({"productName": 7}, Count.INCOMPLETE),
    ],
)
def test_what_is_no_price_of_a_linux_machine(changes: dict[str, Any], why: Count) -> None:
    page = parse_page(retail_page([retail(NAME, 0.526, **changes)]), (NAME, {"eastus"}), TODAY)
    assert (page.rows, dict(page.parsed.skipped)) == ([], {why: 1})


@pytest.mark.parametrize(
    ("unit", "usd", "per_hour"), [("1 Hour", 0.5, "0.5"), ("100 Hours", 50.0, "0.5"), ("1 Second", 0.0001, "0.36")]
)
def test_odd_units(unit: str, usd: float, per_hour: str) -> None:
    part = read_one(retail_page([retail(NAME, usd, unitOfMeasure=unit)]))
    assert part.parsed.prices[0].usd_per_hour == Decimal(per_hour)


@pytest.mark.parametrize(
    ("first", "second", "price"),
    [
        ({"isPrimaryMeterRegion": False}, {}, 0.2),
        ({"effectiveStartDate": "2024-01-01T00:00:00Z"}, {}, 0.2),
        ({}, {"effectiveStartDate": "2024-01-01T00:00:00Z"}, 0.1),
        ({}, {}, 0.2),
    ],
)
def test_of_two_prices_the_primary_then_the_newest_then_the_dearer(
    first: dict[str, Any], second: dict[str, Any], price: float
) -> None:
    part = read_one(retail_page([retail(NAME, 0.1, **first), retail(NAME, 0.2, **second)]))
    (one,) = part.parsed.prices
    assert one.usd_per_hour == Decimal(str(price))
    assert part.parsed.skipped == {Count.TWO_PRICES: 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html><body>503</body></html>", "a web page came"),
        (b'{"BillingCurrency":"USD","Items":[{"arm', "ends in the middle"),
        (b"", "empty"),
        (b"[]", "no object"),
        (b"{}", "without items"),
        (b'{"Items": 7}', "without items"),
        (retail_page([], currency="EUR"), "'EUR', not in USD"),
        (retail_page([]), "lists no price"),
        (b"[" * 200_000, "ends in the middle"),
    ],
)
def test_what_is_no_page_of_prices(content: bytes, message: str) -> None:
    assert message in read_one(content).error


def test_items_that_are_none_are_counted() -> None:
    content = json.dumps({"BillingCurrency": "USD", "Items": [None, 7, [], {}]}).encode()
    assert parse_page(content, (NAME, {"eastus"}), TODAY).parsed.skipped == {Count.INCOMPLETE: 4}


def test_an_endless_list_ends() -> None:
    following = f"{Endpoints().prices}?$skip=1"
    page = retail_page([retail(NAME, 0.5)], following)
    assert "no end" in read_one(*[page] * 600).error


def test_the_page_is_checked_before_it_is_believed() -> None:
    with pytest.raises(SourceError, match="not in USD"):
        parse_page(json.dumps({"Items": []}).encode(), (NAME, {"eastus"}), TODAY)
