"""The ground of each price of the tables: what pricing/planning.py asks of a family and of a machine's regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.money import from_micro, to_micro
from trainplan.pricing.planning import Ground, PriceDate, Share, ground, is_admitted, outlier_floors, share_of

if TYPE_CHECKING:
    from trainplan.pricing.tables import DatedPrice, OfferRow


class Grounds:
    """Grounds of the prices of some offers. `on_demand_micro` tells what a row's machine costs on demand, there or at
    the cheapest; None where nobody knows."""

    def __init__(self, offers: Iterable[OfferRow], on_demand_micro: Callable[[OfferRow], int | None]) -> None:
        self._on_demand_micro = on_demand_micro
        spot = [(row, row.spot) for row in offers if row.spot is not None]
        # In the place of today, which a compilation does not know: the same text gives the same catalog on any day.
        self._newest = max((price.as_of for _, price in spot if price.as_of is not None), default=None)
        self._shares = self._known_shares(spot)
        regions: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for row, price in spot:
            micro = self._alone(row, price, Market.SPOT).micro
            if micro is not None and row.availability.offered is not False:
                of = regions[row.type.provider, row.type.name]
                of[row.region] = min(micro, of.get(row.region, micro))
        self._floors = {machine: outlier_floors(of) for machine, of in regions.items()}

    def _known_shares(self, spot: Sequence[tuple[OfferRow, DatedPrice]]) -> dict[tuple[str, ...], Share]:
        """Shares of the on-demand price, of prices that are admitted: by family, by device, and of all with or without
        an accelerator."""
        shares_of_group: defaultdict[tuple[str, ...], list[tuple[Decimal, date]]] = defaultdict(list)
        for row, price in spot:
            on_demand, dated = self._on_demand_micro(row), self._dated(price)
            share = price.usd_per_hour / from_micro(on_demand) if on_demand else None
            if share is not None and is_admitted(share, dated) and dated.since is not None:
                for group in _groups(row):
                    shares_of_group[group].append((share, dated.since))
        return {group: share_of(shares) for group, shares in shares_of_group.items()}

    def _dated(self, price: DatedPrice) -> PriceDate:
        return PriceDate(price.as_of, price.as_of_text, price.source.kind, self._newest)

    def of(self, row: OfferRow, price: DatedPrice, market: Market) -> Ground:
        """What the price is planned from, and of a listed spot price far below the other regions' what stands in its
        place. What was read from the market is not doubted: there a low price is one of machines that nobody takes."""
        alone = self._alone(row, price, market)
        floor = self._floors.get((row.type.provider, row.type.name), {}).get(row.region)
        if market is Market.ON_DEMAND or price.source.kind is PriceGrade.OBSERVED:
            return alone
        if alone.micro is None or floor is None or alone.micro >= floor:
            return alone
        return alone._replace(floor_micro=floor)

    def _alone(self, row: OfferRow, price: DatedPrice, market: Market) -> Ground:
        micro = to_micro(price.usd_per_hour)
        if market is Market.SPOT and row.history is not None:
            micro = max(micro, to_micro(row.history.mean_usd_per_hour))  # a run meets the week, not the moment
        share = next((self._shares[group] for group in _groups(row) if group in self._shares), None)
        return ground(micro, market, self._dated(price), self._on_demand_micro(row), share)


def _groups(row: OfferRow) -> tuple[tuple[str, ...], ...]:
    """The groups whose share holds for a row, the nearest first."""
    kind = row.type
    return (kind.provider, kind.family), (kind.device,), ("cpu" if kind.device == CPU_DEVICE else "accelerated",)
