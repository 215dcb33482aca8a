"""What offers cost: live spot prices and zones; and by the catalog what a thing that is found costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.current import current_catalog
from trainplan.pricing.money import HOURS_PER_MONTH
from trainplan.pricing.offers import Market, Offer, PriceGrade
from trainplan.pricing.planning import AS_LISTED, PlannedAs
from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.settings import PROVIDER
from trainplan.providers.errors import CredentialsError, ProviderError

_LINUX = "Linux/UNIX"
_SOURCE = "DescribeSpotPriceHistory"
_THREADS = 8
_NO_MORE_HOURS = ("shutting-down", "stopping", "stopped")


@dataclass(frozen=True)
class Live:
    """`threads` look-ups run at once."""

    account: AwsAccount
    now: Callable[[], datetime]
    threads: int = _THREADS

    def refined(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """`trainplan.providers.abilities.Refiner.refine`."""
        if not offers:
            return []
        open_regions = frozenset(self.account.regions())
        with ThreadPoolExecutor(self.threads) as pool:
            by_offer = pool.map(lambda offer: self._refined(offer, open_regions), offers)
            return [offer for several in by_offer for offer in several]

    def _refined(self, offer: Offer, open_regions: frozenset[str]) -> Sequence[Offer]:
        if offer.region not in open_regions:
            return []
        try:
            zones = self.account.zones(offer.region, offer.instance_type)
            if offer.market is not Market.SPOT:
                return [replace(offer, zones=zones)] if zones else []
            prices = self._spot_prices(offer)
        except CredentialsError:
            raise
        except ProviderError:
            return [offer]
        return self._priced(offer, {zone: prices[zone] for zone in zones if zone in prices})

    def _spot_prices(self, offer: Offer) -> Mapping[str, Decimal]:
        """The newest price of each zone."""
        now = self.now().astimezone(UTC)
        request = {
            "InstanceTypes": [offer.instance_type],
            "ProductDescriptions": [_LINUX],
            "StartTime": now,
            "EndTime": now,
        }
        rows = self.account.pages(offer.region, "DescribeSpotPriceHistory", request, "SpotPriceHistory")
        newest: dict[str, dict[str, Any]] = {}
        for row in rows:
            entries = newest.get(row["AvailabilityZone"])
            if entries is None or row["Timestamp"] > entries["Timestamp"]:
                newest[row["AvailabilityZone"]] = row
        return {zone: Decimal(row["SpotPrice"]) for zone, row in newest.items()}

    def _priced(self, offer: Offer, prices: Mapping[str, Decimal]) -> Sequence[Offer]:
        """Yield one offer for each price, the cheapest first, with its zones."""
        zones_at: dict[Decimal, list[str]] = {}
        for zone, price in sorted(prices.items()):
            zones_at.setdefault(price, []).append(zone)
        return [
            replace(
                offer,
                zones=tuple(zones),
                usd_per_hour=price,
                planning_usd_per_hour=price,
                price_grade=PriceGrade.OBSERVED,
                price_as_of=self.now().date(),
                price_as_of_text="",
                price_source=_SOURCE,
                planned_as=PlannedAs.LISTED,
                price_spread=AS_LISTED,
            )
            for price, zones in sorted(zones_at.items())
        ]


def usd_per_hour_of(kind: str, region: str, reply: Mapping[str, Any], home: Path | None) -> Decimal | None:
    """A machine without its disk and address, which are rows of their own. None where the catalog of the state folder
    does not tell, or cannot be read: a list is not lost for want of a price."""
    try:
        match kind:
            case "instance":
                return _of_instance(region, reply, home)
            case "volume":
                return Decimal(reply.get("Size") or 0) * _disk_and_address(region, home)[0]
            case "network interface":
                has_address = (reply.get("Association") or {}).get("PublicIp")
                return _disk_and_address(region, home)[1] if has_address else Decimal(0)
            case _:
                return None
    except CatalogError:
        return None


def _of_instance(region: str, reply: Mapping[str, Any], home: Path | None) -> Decimal | None:
    if (reply.get("State") or {}).get("Name") in _NO_MORE_HOURS:
        return Decimal(0)
    market = Market.SPOT if reply.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND
    return _machine(region, str(reply.get("InstanceType", "")), market, home)


@cache
def _machine(region: str, instance_type: str, market: Market, home: Path | None) -> Decimal | None:
    """The list price, and on spot the newest that the catalog has."""
    with Catalog.open(current_catalog(home)) as catalog:
        return catalog.usd_per_hour(PROVIDER, region, instance_type, market)


@cache
def _disk_and_address(region: str, home: Path | None) -> tuple[Decimal, Decimal]:
    """A gigabyte of a root disk, and a public address, for an hour in the region."""
    with Catalog.open(current_catalog(home)) as catalog:
        rates = catalog.rates[PROVIDER].at(region)
        return rates.disk.usd / HOURS_PER_MONTH, rates.address.usd
