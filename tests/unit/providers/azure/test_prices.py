"""Live spot prices out of Azure's public list, served on loopback; nobody signs in for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.doubles.azure.rules import SUBSCRIPTION
from tests.doubles.clock import NOON
from tests.doubles.price_lists import World, retail, serving
from tests.faults.azure import an_offer
from trainplan.pricing.offers import Market, PriceGrade
from trainplan.providers.abilities import Refiner
from trainplan.providers.azure.provider import AzureProvider, make
from trainplan.providers.base import ProviderSettings
from trainplan.providers.errors import ProviderError

T4 = "Standard_NC4as_T4_v3"
SPOT = {"skuName": "NC4as T4 v3 Spot", "meterName": "NC4as T4 v3 Spot"}
REQUESTS = 11
"""Whoever asks for that many at once asks for them in threads."""


@pytest.fixture
def price_list() -> Iterator[tuple[World, str]]:
    world = World()
    with serving(world) as address:
        yield world, f"{address}/api/retail/prices"


@pytest.fixture
def provider(tmp_path: Path, price_list: tuple[World, str]) -> Callable[..., AzureProvider]:
    def made(**options: str) -> AzureProvider:
        environment = {"PLAN_AZURE_PRICES_URL": price_list[1]} if not options else {}
        given = {"subscription": SUBSCRIPTION, **options}
        return make(ProviderSettings(home=tmp_path, options=given, environment=environment, now=lambda: NOON))

    return made


def test_spot_has_todays_price_and_on_demand_keeps_its_own(
    provider: Callable[..., AzureProvider], price_list: tuple[World, str]
) -> None:
    price_list[0].azure["eastus"] = [
        retail(T4, 0.55),
        retail(T4, 0.2, **SPOT),
        retail(T4, 0.1, productName="NCasT4_v3 Series Windows", **SPOT),
        retail("Standard_NC8as_T4_v3", 0.3, skuName="NC8as T4 v3 Spot"),
    ]
    asked = [an_offer("eastus", market) for market in Market]
    found = provider().refine(asked * REQUESTS)
    assert len(found) == len(asked) * REQUESTS
    by_market = {offer.market: offer for offer in found}
    assert by_market[Market.ON_DEMAND] == next(offer for offer in asked if offer.market is Market.ON_DEMAND)
    spot = by_market[Market.SPOT]
    assert (spot.usd_per_hour, spot.planning_usd_per_hour) == (Decimal("0.2"), Decimal("0.2"))
    assert (spot.price_grade, spot.price_as_of) == (PriceGrade.OBSERVED, NOON.date())
    assert spot.on_demand_usd_per_hour == Decimal("0.55"), "the cap of a spot machine is what on demand costs today"
    assert all("armSkuName" in path for path in price_list[0].requests), (
        "the list of a whole region is not read for one"
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [retail(T4, 0.5)],
        [retail(T4, 0.5), retail(T4, 0.05, **SPOT)],
        [retail("Standard_NC8as_T4_v3", 0.3, skuName="NC8as T4 v3 Spot")],
    ],
    ids=["nothing", "no spot", "the floor of a tenth", "another size"],
)
def test_what_the_list_does_not_tell_is_left_as_it_is(
    provider: Callable[..., AzureProvider], price_list: tuple[World, str], rows: list[dict[str, object]]
) -> None:
    price_list[0].azure["eastus"] = rows
    offer = an_offer("eastus", Market.SPOT)
    assert provider().refine([offer]) == [offer]


@pytest.mark.parametrize("answer", [(503, b""), (200, b"<html>"), (200, b'{"BillingCurrency": "EUR", "Items": []}')])
def test_a_list_that_cannot_be_read_is_told(
    provider: Callable[..., AzureProvider], price_list: tuple[World, str], answer: tuple[int, bytes]
) -> None:
    price_list[0].broken["retail"] = answer
    with pytest.raises(ProviderError):
        provider().refine([an_offer("eastus", Market.SPOT)])


def test_away_from_azure_nobody_is_asked(provider: Callable[..., AzureProvider], price_list: tuple[World, str]) -> None:
    elsewhere = provider(arm_endpoint="https://stack.example")
    assert isinstance(elsewhere, Refiner)
    offer = an_offer("eastus", Market.SPOT)
    assert elsewhere.refine([offer]) == [offer]
    assert price_list[0].requests == []
