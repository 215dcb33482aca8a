"""What a thing that is found costs per hour, out of the catalog: for lists of what is left."""

from __future__ import annotations

import contextlib
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.catalog import Catalog, CatalogError
from pricing.current import current_catalog
from pricing.money import HOURS_PER_MONTH
from pricing.offers import Market, OfferQuery
from providers.gcp.found import instant, last_of, region_of
from providers.gcp.kinds import instance_type_of
from providers.gcp.part import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def usd_per_hour_of(kind: str, place: str, told: Mapping[str, Any], home: Path | None = None) -> Decimal | None:
    """As the catalog of the state folder has it, None where it does not tell, or cannot be read: a list is not lost for
    want of a price. What has stopped bills no hours of its machine."""
    with contextlib.suppress(CatalogError), Catalog.open(current_catalog(home)) as catalog:
        rates = catalog.rates[PROVIDER]
        if kind == "disks":
            return Decimal(told.get("sizeGb") or 0) * rates.disk_usd_per_gb_month / HOURS_PER_MONTH
        if kind == "addresses":
            return rates.address_usd_per_hour
        if told.get("status") in ("TERMINATED", "STOPPED"):
            return Decimal(0)
        spot = (told.get("scheduling") or {}).get("provisioningModel") == "SPOT"
        market = Market.SPOT if spot else Market.ON_DEMAND
        asked = OfferQuery(
            providers=frozenset({PROVIDER}),
            regions=frozenset({region_of(place)}),
            instance_types=frozenset({_instance_type(told)}),
            markets=frozenset({str(market)}),
            include_retired=True,
        )
        made = instant(told.get("creationTimestamp"))
        offers = catalog.offers(asked, made.date() if made else date.max)
        return offers[0].usd_per_hour if offers else None
    return None


def _instance_type(told: Mapping[str, Any]) -> str:
    attached = [
        (last_of(str(row["acceleratorType"])), int(row["acceleratorCount"]))
        for row in told.get("guestAccelerators") or ()
    ]
    return instance_type_of(last_of(str(told.get("machineType", ""))), attached)
