"""Offers that a provider tells by itself, beside those of the catalog and in their shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Protocol

from trainplan.pricing.catalog import Placements, RentalPlacements
from trainplan.pricing.money import to_micro
from trainplan.pricing.offers import Offer, OfferQuery, Placement, PriceStamp, Quote, Rental

if TYPE_CHECKING:
    from trainplan.pricing.cost import ProviderRates
    from trainplan.pricing.devices import DeviceTable


class OfferSource(Protocol):
    """What a plan asks of a catalog."""

    @property
    def devices(self) -> DeviceTable:
        """Every device that an offer may name."""
        ...

    @property
    def rates(self) -> Mapping[str, ProviderRates]:
        """Rates beside the machine's price (disk, address, storage), by provider."""
        ...

    @property
    def regions(self) -> frozenset[str]:
        """The names of all regions in which there are offers."""
        ...

    def rentals(self, query: OfferQuery, today: date) -> list[RentalPlacements]:
        """Machine types with their markets and placements that match the query, priced as of `today`."""
        ...

    def offers(self, item: OfferQuery | Iterable[int], today: date) -> list[Offer]:
        """The offers that match a query, or those with these ids, priced as of `today`."""
        ...

    def quotes(self, query: OfferQuery, today: date) -> dict[int, Quote]:
        """The price of each matching offer as of `today`, by the offer's id."""
        ...


class GivenOffers:
    """Offers that providers list themselves and the side rates of each, with devices from the catalog; offers of
    others are not in it.

    Their row ids count down from -1, so that none is taken for a row of the catalog.
    """

    def __init__(self, offers: Sequence[Offer], rates: Sequence[ProviderRates], catalog: OfferSource) -> None:
        self._offers = {-1 - index: offer for index, offer in enumerate(offers)}
        self._rates = rates
        self._catalog = catalog

    @property
    def devices(self) -> DeviceTable:
        return self._catalog.devices

    @property
    def rates(self) -> Mapping[str, ProviderRates]:
        return {**self._catalog.rates, **{one.provider: one for one in self._rates}}

    @property
    def regions(self) -> frozenset[str]:
        return frozenset(offer.region for offer in self._offers.values())

    def rentals(self, query: OfferQuery, today: date) -> list[RentalPlacements]:  # noqa: ARG002  the catalog's signature
        """Every rental, each with its placements, cheapest first; offers without a planning price are only counted."""
        entries: dict[Rental, list[Placement]] = {}
        unrankable: dict[Rental, int] = {}
        for row_id, offer in self._offers.items():
            placements = entries.setdefault(offer.rental, [])
            price = offer.planning_usd_per_hour
            if price is None:
                unrankable[offer.rental] = unrankable.get(offer.rental, 0) + 1
            else:
                placements.append(Placement(to_micro(price), offer.region, row_id))
        return [_row(rental, sorted(placements), unrankable.get(rental, 0)) for rental, placements in entries.items()]

    def offers(self, item: OfferQuery | Iterable[int], today: date) -> list[Offer]:  # noqa: ARG002  as above
        if isinstance(item, OfferQuery):
            return list(self._offers.values())
        return [self._offers[row_id] for row_id in item]

    def quotes(self, query: OfferQuery, today: date) -> dict[int, Quote]:  # noqa: ARG002  as above
        return {
            row_id: Quote(
                to_micro(offer.usd_per_hour),
                PriceStamp(offer.zones, offer.price_grade, offer.price_as_of, source=offer.price_source),
            )
            for row_id, offer in self._offers.items()
        }


class AddedOffers:
    """The offers of a catalog and those that providers list themselves."""

    def __init__(self, own: GivenOffers, catalog: OfferSource) -> None:
        self._own = own
        self._catalog = catalog

    @classmethod
    def beside(cls, offers: Sequence[Offer], rates: Sequence[ProviderRates], catalog: OfferSource) -> AddedOffers:
        """These offers, which providers list themselves, beside those of the catalog."""
        return cls(GivenOffers(offers, rates, catalog), catalog)

    @property
    def devices(self) -> DeviceTable:
        return self._catalog.devices

    @property
    def rates(self) -> Mapping[str, ProviderRates]:
        return self._own.rates

    @property
    def regions(self) -> frozenset[str]:
        return self._catalog.regions | self._own.regions

    def rentals(self, query: OfferQuery, today: date) -> list[RentalPlacements]:
        return [*self._catalog.rentals(query, today), *self._own.rentals(query, today)]

    def offers(self, item: OfferQuery | Iterable[int], today: date) -> list[Offer]:
        if isinstance(item, OfferQuery):
            return [*self._catalog.offers(item, today), *self._own.offers(item, today)]
        row_ids = list(item)
        listed = iter(self._catalog.offers([row_id for row_id in row_ids if row_id >= 0], today))
        return [next(listed) if row_id >= 0 else self._own.offers([row_id], today)[0] for row_id in row_ids]

    def quotes(self, query: OfferQuery, today: date) -> dict[int, Quote]:
        return {**self._catalog.quotes(query, today), **self._own.quotes(query, today)}


def _row(rental: Rental, placements: list[Placement], unrankable: int) -> RentalPlacements:
    first = placements[0] if placements else None
    return RentalPlacements(rental, Placements(first, len(placements), unrankable, lambda: placements))
