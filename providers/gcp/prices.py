"""What a thing that is found costs per hour, out of the catalog: for lists of what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.current import current_catalog
from trainplan.pricing.money import HOURS_PER_MONTH
from trainplan.pricing.offers import Market
from trainplan.providers.cloud.labels import instant
from trainplan.providers.gcp.kinds import instance_type_of
from trainplan.providers.gcp.reply import last_of, region_in, region_of
from trainplan.providers.gcp.settings import PROVIDER


def usd_per_hour_of(kind: str, location: str, reply: Mapping[str, Any], home: Path | None = None) -> Decimal | None:
    """As the catalog of the state folder has it, None where it does not tell, or cannot be read: a list is not lost for
    want of a price. What has stopped bills no hours of its machine."""
    with contextlib.suppress(CatalogError), Catalog.open(current_catalog(home)) as catalog:
        rates = catalog.rates[PROVIDER].at(region_in(location))
        if kind == "disks":
            return Decimal(reply.get("sizeGb") or 0) * rates.disk.usd / HOURS_PER_MONTH
        if kind == "addresses":
            return rates.address.usd
        if reply.get("status") in ("TERMINATED", "STOPPED"):
            return Decimal(0)
        spot = (reply.get("scheduling") or {}).get("provisioningModel") == "SPOT"
        market = Market.SPOT if spot else Market.ON_DEMAND
        made_at = instant(reply.get("creationTimestamp"))
        day = made_at.date() if made_at else date.max
        return catalog.usd_per_hour(PROVIDER, region_of(location), _instance_type(reply), market, day)
    return None


def _instance_type(reply: Mapping[str, Any]) -> str:
    attached = [
        (last_of(str(row["acceleratorType"])), int(row["acceleratorCount"]))
        for row in reply.get("guestAccelerators") or ()
    ]
    return instance_type_of(last_of(str(reply.get("machineType", ""))), attached)
