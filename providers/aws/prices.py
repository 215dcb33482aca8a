"""What a thing that is found costs per hour, out of the catalog: for lists of what is left."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from pricing.catalog import Catalog, CatalogError
from pricing.current import current_catalog
from pricing.money import HOURS_PER_MONTH
from pricing.offers import Market, OfferQuery
from providers.aws.settings import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NO_MORE_HOURS = ("shutting-down", "stopping", "stopped")


def usd_per_hour_of(kind: str, region: str, told: Mapping[str, Any], home: Path | None) -> Decimal | None:
    """A machine without its disk and address, which are rows of their own. None where the catalog of the state folder
    does not tell, or cannot be read: a list is not lost for want of a price."""
    try:
        match kind:
            case "instance":
                return _of_instance(region, told, home)
            case "volume":
                return Decimal(told.get("Size") or 0) * _disk_and_address(home)[0]
            case "network interface":
                has_address = (told.get("Association") or {}).get("PublicIp")
                return _disk_and_address(home)[1] if has_address else Decimal(0)
            case _:
                return None
    except CatalogError:
        return None


def _of_instance(region: str, told: Mapping[str, Any], home: Path | None) -> Decimal | None:
    if (told.get("State") or {}).get("Name") in _NO_MORE_HOURS:
        return Decimal(0)
    market = Market.SPOT if told.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND
    return _machine(region, str(told.get("InstanceType", "")), market, home)


@cache
def _machine(region: str, instance_type: str, market: Market, home: Path | None) -> Decimal | None:
    """The list price, and on spot the newest that the catalog has."""
    asked = OfferQuery(
        providers=frozenset({PROVIDER}),
        regions=frozenset({region}),
        instance_types=frozenset({instance_type}),
        markets=frozenset({str(market)}),
        include_retired=True,
    )
    with Catalog.open(current_catalog(home)) as catalog:
        offers = catalog.offers(asked, date.max)
    return offers[0].usd_per_hour if offers else None


@cache
def _disk_and_address(home: Path | None) -> tuple[Decimal, Decimal]:
    """A gigabyte of a root disk, and a public address."""
    with Catalog.open(current_catalog(home)) as catalog:
        rates = catalog.rates[PROVIDER]
        return rates.disk_usd_per_gb_month / HOURS_PER_MONTH, rates.address_usd_per_hour
