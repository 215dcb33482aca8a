"""Offers that a provider tells by itself, in the shape in which the catalog has those of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pricing.catalog import Places, RentalPlaces
from pricing.money import to_micro
from pricing.offers import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pricing.cost import ProviderRates
    from pricing.offers import Offer, Rental


class GivenOffers:
    """Offers of one provider and its side rates. Their row ids count down from -1: no row of the catalog has those."""

    def __init__(self, offers: Sequence[Offer], rates: ProviderRates) -> None:
        self.rates = rates
        self._offers = {-1 - index: offer for index, offer in enumerate(offers)}

    @property
    def regions(self) -> frozenset[str]:
        return frozenset(offer.region for offer in self._offers.values())

    def rentals(self) -> list[RentalPlaces]:
        """Every rental, each with its places, cheapest first; offers without a planning price are only counted."""
        found: dict[Rental, list[Place]] = {}
        unrankable: dict[Rental, int] = {}
        for row_id, offer in self._offers.items():
            places = found.setdefault(offer.rental, [])
            price = offer.planning_usd_per_hour
            if price is None:
                unrankable[offer.rental] = unrankable.get(offer.rental, 0) + 1
            else:
                places.append(Place(to_micro(price), offer.region, row_id))
        return [_row(rental, sorted(places), unrankable.get(rental, 0)) for rental, places in found.items()]

    def offers(self, row_ids: Iterable[int]) -> list[Offer]:
        return [self._offers[row_id] for row_id in row_ids]


def _row(rental: Rental, places: list[Place], unrankable: int) -> RentalPlaces:
    first = places[0] if places else None
    return RentalPlaces(rental, Places(first, len(places), unrankable, lambda: places))
