"""Rows of an offers table taken apart into one entry for each price. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.changes import Key
from trainplan.pricing.grades import Market
from trainplan.pricing.money import to_micro

if TYPE_CHECKING:
    from trainplan.pricing.tables import DatedPrice, OfferRow, SpotHistory


class PriceKey(NamedTuple):
    """What a price is of; `zone` empty: the region."""

    region: str
    instance_type: str
    market: Market
    zone: str


class Entry(NamedTuple):
    """A price, and what goes with it."""

    price: DatedPrice
    zones: tuple[str, ...]
    bucket: int | None
    history: SpotHistory | None
    host: Decimal | None
    device: Decimal | None
    note: str


def entries_of(offers: Iterable[OfferRow]) -> dict[PriceKey, Entry]:
    """Rows taken apart into one entry a price."""
    entries: dict[PriceKey, Entry] = {}
    for row in offers:
        if row.on_demand is not None:
            parts = row.host_usd_per_hour, row.device_usd_per_hour
            entry = Entry(row.on_demand, row.zones, None, None, *parts, row.note)
            entries[PriceKey(row.region, row.type.name, Market.ON_DEMAND, "")] = entry
        if row.spot is not None:
            # A row without an on-demand price is the spot price of a single zone (tables.OfferRow).
            zone = row.zones[0] if row.on_demand is None and len(row.zones) == 1 else ""
            entry = Entry(row.spot, row.zones, row.interruption_bucket, row.history, None, None, row.note)
            entries[PriceKey(row.region, row.type.name, Market.SPOT, zone)] = entry
    return entries


def prices_of(offers: Iterable[OfferRow]) -> dict[Key, int]:
    """Prices to compare, of zones the cheapest."""
    counts: dict[Key, int] = {}
    for price_key, entry in entries_of(offers).items():
        key = Key(price_key.region, price_key.instance_type, price_key.market.value)
        price = to_micro(entry.price.usd_per_hour)
        counts[key] = min(price, counts.get(key, price))
    return counts
