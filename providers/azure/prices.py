"""What spot costs right now, by Azure's public price list. It wants no sign-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.current import current_catalog
from trainplan.pricing.offers import Market, Offer, PriceGrade
from trainplan.pricing.planning import AS_LISTED, PlannedAs
from trainplan.pricing.sources.azure import LIST_ID, Endpoints, of_machine
from trainplan.pricing.sources.reading import SourceError
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.names import PROVIDER
from trainplan.providers.errors import TransientError

if TYPE_CHECKING:
    from trainplan.pricing.cost import RegionRates


_SOURCE = "Azure Retail Prices API"
_THREADS = 8


@dataclass(frozen=True)
class Live:
    """On demand stays what the catalog says, or the person's own rates: list prices seldom move.

    Where the settings name another Resource Manager than Azure's own, and no price list, nobody is asked.
    """

    account: AzureAccount
    now: Callable[[], datetime]

    def refined(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """`trainplan.providers.abilities.Refiner.refine`. Raises ProviderError where the list cannot be read."""
        address = self.account.settings.price_list
        if not address:
            return list(offers)
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(lambda offer: self._refined(offer, Endpoints(address)), offers))

    def _refined(self, offer: Offer, endpoints: Endpoints) -> Offer:
        """Unchanged where no spot price is listed, or one that is Azure's floor rather than a price."""
        if offer.market is not Market.SPOT:
            return offer
        today, machine = self.now().date(), (offer.instance_type, offer.region)
        try:
            prices = of_machine(self.account.arm.fetch, endpoints, machine, today)
        except SourceError as error:
            raise TransientError(error.message, hint=error.hint) from error
        spot = next((one for one in prices if one.market is Market.SPOT and one.source == LIST_ID), None)
        if spot is None:
            return offer
        on_demand = next((one.usd_per_hour for one in prices if one.market is Market.ON_DEMAND), None)
        return replace(
            offer,
            usd_per_hour=spot.usd_per_hour,
            planning_usd_per_hour=spot.usd_per_hour,
            on_demand_usd_per_hour=on_demand or offer.on_demand_usd_per_hour,
            price_grade=PriceGrade.OBSERVED,
            price_as_of=today,
            price_as_of_text="",
            planned_as=PlannedAs.LISTED,
            price_spread=AS_LISTED,
            price_source=_SOURCE,
        )


@cache
def rates_at(region: str, home: Path | None) -> RegionRates | None:
    """The rates of a region, as the catalog of the state folder has them; None where it cannot be read: a list is not
    lost for want of a price."""
    try:
        with Catalog.open(current_catalog(home)) as catalog:
            return catalog.rates[PROVIDER].at(region)
    except CatalogError:
        return None
