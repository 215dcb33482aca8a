"""What offers cost and where they are to be had right now: zones, live spot prices, hints of spot."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.offers import Market, PriceGrade
from providers.aws.account import Account
from providers.errors import CredentialsError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pricing.offers import Offer

LIKELY, UNLIKELY = 7, 3
"""AWS's score from 1 to 10 of how likely a spot request succeeds: from here on likely, up to here not."""
_LINUX = "Linux/UNIX"
_SOURCE = "DescribeSpotPriceHistory"
_THREADS = 8


@dataclass(frozen=True)
class Live:
    """`threads` look-ups run at once."""

    account: Account
    now: Callable[[], datetime]
    threads: int = _THREADS

    def refined(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """`providers.base.Refiner.refine`."""
        if not offers:
            return []
        open_regions = frozenset(self.account.regions())
        with ThreadPoolExecutor(self.threads) as pool:
            found = pool.map(lambda offer: self._refined(offer, open_regions), offers)
            return [offer for several in found for offer in several]

    def has_spot(self, offer: Offer, zone: str | None) -> bool | None:
        """`providers.base.SpotScout.has_spot`, by the placement score; None in between, and where it is not told."""
        asked = {
            "InstanceTypes": [offer.instance_type],
            "TargetCapacity": 1,
            "TargetCapacityUnitType": "units",
            "SingleAvailabilityZone": zone is not None,
            "RegionNames": [offer.region],
        }
        try:
            told = self.account.api.call("ec2", offer.region, "GetSpotPlacementScores", asked)
            name = self.account.network(offer.region).zone_ids.get(zone, "") if zone else ""
        except CredentialsError:
            raise
        except ProviderError:
            return None  # few are allowed to ask, and not often
        scores = [
            int(row["Score"])
            for row in told.get("SpotPlacementScores", ())
            if not zone or row.get("AvailabilityZoneId") == name
        ]
        if not scores:
            return None
        return True if max(scores) >= LIKELY else False if max(scores) <= UNLIKELY else None

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
        asked = {
            "InstanceTypes": [offer.instance_type],
            "ProductDescriptions": [_LINUX],
            "StartTime": now,
            "EndTime": now,
        }
        rows = self.account.pages(offer.region, "DescribeSpotPriceHistory", asked, "SpotPriceHistory")
        newest: dict[str, dict[str, Any]] = {}
        for row in rows:
            known = newest.get(row["AvailabilityZone"])
            if known is None or row["Timestamp"] > known["Timestamp"]:
                newest[row["AvailabilityZone"]] = row
        return {zone: Decimal(row["SpotPrice"]) for zone, row in newest.items()}

    def _priced(self, offer: Offer, prices: Mapping[str, Decimal]) -> Sequence[Offer]:
        """One offer for each price, the cheapest first, with its zones."""
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
            )
            for price, zones in sorted(zones_at.items())
        ]
