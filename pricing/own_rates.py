"""The person's own rates: what they really pay, by contract or commitment, in the place of list prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

from pricing.catalog import Places, RentalPlaces
from pricing.grades import Market
from pricing.money import from_micro, to_micro

if TYPE_CHECKING:
    from datetime import date

    from pricing.cost import ProviderRates
    from pricing.devices import DeviceTable
    from pricing.offer_source import OfferSource
    from pricing.offers import Offer, OfferQuery, Placement, Quote, Rental

_KEYS = ("provider", "region", "instance_type", "family", "market", "usd_per_hour", "discount_percent", "note")
_MOST_USD = 2000


class OwnRateError(ValueError):
    """An entry of `prices.override` that cannot be; `hint` says how one looks."""

    hint = 'for example {provider = "aws", family = "p5", discount_percent = 30, note = "our contract of 2026"}'


class OwnRate(NamedTuple):
    """One rate, and of what: whatever is not named is any. Either an hour's price or a discount off the planning price.

    Without a market it is for on demand only: discounts seldom hold for spot.
    """

    provider: str
    market: str
    region: str = ""
    instance_type: str = ""
    family: str = ""
    usd_per_hour: Decimal | None = None
    discount_percent: Decimal = Decimal(0)
    note: str = ""

    @property
    def text(self) -> str:
        """`aws p5, on demand: 30 % off (our contract of 2026)`."""
        what = " ".join(part for part in (self.provider, self.region, self.instance_type or self.family) if part)
        rate = f"{self.discount_percent.normalize():f} % off"
        if self.usd_per_hour is not None:
            rate = f"${self.usd_per_hour}/h"
        return f"{what}, {self.market.replace('_', ' ')}: {rate}{f' ({self.note})' if self.note else ''}"

    def holds_for(self, rental: Rental) -> bool:
        """Whether it is for the machine, wherever that is."""
        return (
            rental.provider == self.provider
            and rental.market == self.market
            and self.instance_type in ("", rental.instance_type)
            and self.family in ("", rental.family)
        )

    def micro(self, planning_micro: int) -> int:
        """The rate in the place of a planning price, in millionths of a dollar per hour."""
        if self.usd_per_hour is not None:
            return to_micro(self.usd_per_hour)
        return to_micro(from_micro(planning_micro) * (100 - self.discount_percent) / 100)


def parse_own_rates(table: object) -> tuple[OwnRate, ...]:
    """The `[prices]` table of the settings: `override` is a list of tables. Raises OwnRateError naming the entry."""
    if not isinstance(table, Mapping) or table.keys() - {"override"}:
        raise OwnRateError("prices: the one thing that can be set is prices.override")
    listing = table.get("override", [])
    if not isinstance(listing, list):
        raise OwnRateError("prices.override is a list of tables")
    return tuple(_rate(entry, f"prices.override {number}") for number, entry in enumerate(listing, start=1))


def _rate(entry: object, name: str) -> OwnRate:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("provider"), str):
        raise OwnRateError(f"{name}: needs at least a provider")
    for key in entry:
        if key not in _KEYS:
            raise OwnRateError(f"{name}: there is no {key!r}; known: {', '.join(_KEYS)}")
    if ("usd_per_hour" in entry) == ("discount_percent" in entry):
        raise OwnRateError(f"{name}: needs usd_per_hour or discount_percent, one of the two")
    market = str(entry.get("market", Market.ON_DEMAND)).replace("-", "_")
    if market not in set(Market):
        raise OwnRateError(f"{name}: market {market!r} is not on_demand or spot")
    price, percent = entry.get("usd_per_hour"), entry.get("discount_percent", 0)
    return OwnRate(
        provider=entry["provider"],
        market=market,
        usd_per_hour=None if price is None else _number(price, f"{name}: usd_per_hour", Decimal("0.000001"), _MOST_USD),
        discount_percent=_number(percent, f"{name}: discount_percent", Decimal(0), 99),
        **{key: str(entry[key]) for key in ("region", "instance_type", "family", "note") if key in entry},
    )


def _number(value: object, name: str, least: Decimal, most: int) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal(-1)
    if isinstance(value, bool) or not number.is_finite() or not least <= number <= most:
        raise OwnRateError(f"{name}: {value!r} is not a number from {least} to {most}")
    return number


class WithOwnRates:
    """A catalog in which the person's rates stand in the place of planning prices. The last one that fits holds."""

    def __init__(self, catalog: OfferSource, rates: Sequence[OwnRate]) -> None:
        self._catalog = catalog
        self._own = rates

    @property
    def devices(self) -> DeviceTable:
        return self._catalog.devices

    @property
    def rates(self) -> Mapping[str, ProviderRates]:
        return self._catalog.rates

    @property
    def regions(self) -> frozenset[str]:
        return self._catalog.regions

    def rentals(self, query: OfferQuery, today: date) -> list[RentalPlaces]:
        return [self._priced(row) for row in self._catalog.rentals(query, today)]

    def offers(self, item: OfferQuery | Iterable[int], today: date) -> list[Offer]:
        return [self._own_offer(offer) for offer in self._catalog.offers(item, today)]

    def quotes(self, query: OfferQuery, today: date) -> dict[int, Quote]:
        """List prices stay what they are; the stamp names the rate."""
        entries = self._catalog.quotes(query, today)
        for rental, places in self._catalog.rentals(query, today):
            own = [rate for rate in self._own if rate.holds_for(rental)]
            for place in places if own else ():
                rate = _for_region(own, place.region)
                if rate is not None and place.row_id in entries:
                    quote = entries[place.row_id]
                    entries[place.row_id] = quote._replace(stamp=quote.stamp._replace(own_rate=rate.text))
        return entries

    def _priced(self, row: RentalPlaces) -> RentalPlaces:
        own = [rate for rate in self._own if rate.holds_for(row.rental)]
        if not own or not len(row.places):
            return row
        places = sorted(_own_place(place, own) for place in row.places)
        return RentalPlaces(row.rental, Places(places[0], len(places), row.places.unrankable, lambda: places))

    def _own_offer(self, offer: Offer) -> Offer:
        rate = _for_region([rate for rate in self._own if rate.holds_for(offer.rental)], offer.region)
        planning = offer.planning_usd_per_hour
        if rate is None or planning is None:
            return offer
        return replace(offer, planning_usd_per_hour=from_micro(rate.micro(to_micro(planning))), own_rate=rate.text)


def _own_place(place: Placement, own: Sequence[OwnRate]) -> Placement:
    rate = _for_region(own, place.region)
    if rate is None:
        return place
    return place._replace(planning_micro_usd_per_hour=rate.micro(place.planning_micro_usd_per_hour))


def _for_region(own: Sequence[OwnRate], region: str) -> OwnRate | None:
    return next((rate for rate in reversed(own) if rate.region in ("", region)), None)
