"""What was read, put over what was known: the last good price stays where a new one failed or is held back. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.entries import Entry, PriceKey, entries_of
from trainplan.pricing.grades import Market, PriceGrade, trusted_until
from trainplan.pricing.held_prices import Check, HeldPrice
from trainplan.pricing.offers import BY_LIFECYCLE, Availability
from trainplan.pricing.sources.aws import ADVISOR_ID, Advice
from trainplan.pricing.sources.reading import Count, Offered, PriceFound, PricePart, TypeSeen
from trainplan.pricing.table_text import Source
from trainplan.pricing.tables import DatedPrice, InstanceType, OfferRow

_MICRO = Decimal("0.000001")
NO_DATE = "the list has no date"
"""What stands in the place of a price's date where its list has none; the day of reading would say too much."""
LEAST_SPOT_SHARE = Decimal("0.02")
"""Nothing was ever let for less than about a tenth of its on-demand price: below this share it is no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrices:
    """What is known of a provider before: its offers, and machine types and sources of all."""

    provider: str
    offers: Sequence[OfferRow]
    types: Mapping[tuple[str, str], InstanceType]
    sources: Mapping[str, Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What was read of a provider on one day."""

    parts: Sequence[PricePart]
    advice: Advice | None = None
    offered: Offered | None = None
    on: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The new offers, and what could not be taken over.

    `kept_count` counts prices that the list no longer has under a name that is understood: they stay, with their
    old day.
    `held_prices` are prices that cannot be true. `unknown_types` are accelerated machines that nothing is known of.
    """

    offers: tuple[OfferRow, ...]
    kept_count: int
    held_prices: tuple[HeldPrice, ...]
    skipped: Counter[str]
    unknown_types: tuple[str, ...]


def merge(catalog_state: KnownPrices, news: News) -> Merged:
    """Each part that was read replaces what was known of its markets and regions."""
    types = _Types(catalog_state, [type_row for part in news.parts for type_row in part.parsed.types])
    entries = entries_of(catalog_state.offers)
    read = [one for part in news.parts for one in part.parsed.prices]
    check = Check(catalog_state.provider, catalog_state.offers, read, types.get, catalog_state.sources)
    skipped: Counter[str] = Counter()
    kept_count = 0
    for part in news.parts:
        skipped.update({str(why): count for why, count in part.parsed.skipped.items()})
        skipped[Count.UNKNOWN_TYPE.value] += sum(types.get(one.instance_type) is None for one in part.parsed.prices)
        if not part.error:
            kept, better = _take_over(entries, part, types, catalog_state, check, news.on)
            kept_count += kept
            skipped[Count.BETTER_KNOWN.value] += better
    # Before the Spot Advisor's savings, which take the place of prices that are not there.
    skipped["a spot price of next to nothing"] += _drop_nothing(entries)
    if news.advice is not None:
        _advise(entries, news.advice, catalog_state, news.on)
    offers = _rows(entries, types, _availability(catalog_state.offers, news.offered))
    return Merged(
        offers=tuple(offers),
        kept_count=kept_count,
        held_prices=tuple(check.held_prices),
        skipped=+skipped,
        unknown_types=tuple(sorted(types.unknown)),
    )


def let_through(catalog_state: KnownPrices, held_prices: Iterable[HeldPrice]) -> tuple[OfferRow, ...]:
    """The offers with held prices in the place of those that are known, each with a note that a person let it in."""
    types, entries = _Types(catalog_state, ()), entries_of(catalog_state.offers)
    for one in held_prices:
        before = entries.get(one.key) or entries.get(one.key._replace(zone=""))
        read = PriceFound(
            one.key.region, one.key.instance_type, one.key.market, one.usd_per_hour, one.source,
            zones=(one.key.zone,) if one.key.zone else (), as_of=one.as_of,
        )  # fmt: skip
        entries[one.key] = _entry(read, before, catalog_state)._replace(note=f"let through by name although {one.why}")
    return tuple(_rows(entries, types, _availability(catalog_state.offers, None)))


class _Types:
    """Machine types by name: those known, and further sizes of known families as the list describes them."""

    def __init__(self, catalog_state: KnownPrices, type_rows: Iterable[TypeSeen]) -> None:
        self._provider = catalog_state.provider
        self._machines_by_name = {
            name: kind for (provider, name), kind in catalog_state.types.items() if provider == catalog_state.provider
        }
        self._type_rows_by_name = {one.name: one for one in type_rows}
        self._families: defaultdict[str, list[InstanceType]] = defaultdict(list)
        for kind in self._machines_by_name.values():
            self._families[kind.family].append(kind)
        self._new: dict[str, InstanceType] = {}
        self.unknown: set[str] = set()

    def get(self, name: str) -> InstanceType | None:
        """The type; None where nothing is known of it."""
        kind = self._machines_by_name.get(name) or self._new.get(name) or self._like_its_family(name)
        if kind is None and self._is_accelerated(name):
            self.unknown.add(name)
        return kind

    def _is_accelerated(self, name: str) -> bool:
        type_row = self._type_rows_by_name.get(name)
        return type_row is not None and type_row.device_count != 0

    def _like_its_family(self, name: str) -> InstanceType | None:
        """Another size of a family in which everything but the size is the same."""
        family, dot, size = name.partition(".")
        type_row, kin = self._type_rows_by_name.get(name), self._families.get(family, [])
        if type_row is None or type_row.device_count is None or not dot or not kin or size.startswith("metal"):
            return None
        first = kin[0]
        alike = all(
            (one.device, one.device_fraction, one.cpu_architecture, one.device_memory_gib, one.lifecycle, one.hosts)
            == (first.device, Fraction(1), first.cpu_architecture, first.device_memory_gib, first.lifecycle, 1)
            for one in kin
        )
        if not alike or (first.device == CPU_DEVICE) != (type_row.device_count == 0):
            return None
        count = max(1, type_row.device_count)
        self._new[name] = replace(
            first, name=name, device_count=count, vcpus=type_row.vcpus, memory_gib=type_row.memory_gib
        )
        return self._new[name]


def _better_known(
    documents: Mapping[PriceKey, PriceFound], by_region: _ByRegion, sources: Mapping[str, Source], on: date
) -> set[PriceKey]:
    """Where zones have prices that count and a list has one of their region, or another project's copy one and the
    vendor's own list one that is as new."""
    return {
        key
        for key, one in documents.items()
        if any(
            (not key.zone and other.zone and key.market is Market.SPOT and _counts(entry.price, on))
            or (
                other == key
                and sources[one.source].kind is PriceGrade.COPIED
                and _is_at_least_as_new(entry.price, one.as_of)
            )
            for other, entry in by_region.get(key[:3], ())
        )
    }


def _is_at_least_as_new(price: DatedPrice, as_of: date | None) -> bool:
    if price.source.kind not in (PriceGrade.OBSERVED, PriceGrade.LISTED) or price.as_of is None:
        return False
    return as_of is None or price.as_of >= as_of


_ByRegion = Mapping[tuple[str, str, Market], Sequence[tuple[PriceKey, Entry]]]
"""What is known of a machine in a market of a region: its price, or those of its zones."""


def _take_over(
    entries: dict[PriceKey, Entry], part: PricePart, types: _Types, catalog_state: KnownPrices, check: Check, on: date
) -> tuple[int, int]:
    """Put a part's prices in the place of those before; returns how many stay that it does not have, and how many of
    its own are not taken since what is known is better.

    A type that the part has elsewhere is gone where it does not have it; one that it has nowhere goes by another name
    now, perhaps: what was known of it stays, with its old day. So does what was known in the place of a held price, and
    what is better.
    """
    documents = _known_prices(part, types)
    understood = {(key.instance_type, key.market) for key in documents}
    by_region: defaultdict[tuple[str, str, Market], list[tuple[PriceKey, Entry]]] = defaultdict(list)
    of_part = {key[:3] for key in documents}
    for key, entry in entries.items():
        if key[:3] in of_part:
            by_region[key[:3]].append((key, entry))
    better = _better_known(documents, by_region, catalog_state.sources, on)
    by_key = {
        key: one
        for key, one in documents.items()
        if key not in better and check.passes(key, one, _last(key, entries, by_region))
    }
    keys = documents.keys() - by_key.keys()
    kept_count = 0
    old = [key for key in entries if part.covers(*key[:3])]
    before = {key[:3]: entries[key] for key in old}
    here = {key[:3] for key in by_key}
    held_here = {key[:3] for key in keys} - here
    for key in old:
        if key in keys or key[:3] in held_here:
            continue
        if key[:3] in here or ((key.instance_type, key.market) in understood and not part.keeps_missing):
            del entries[key]
        else:
            kept_count += 1
    for key, one in by_key.items():
        entries[key] = _entry(one, before.get(key[:3]), catalog_state)
    return kept_count, len(better)


def _last(key: PriceKey, entries: Mapping[PriceKey, Entry], by_region: _ByRegion) -> Entry | None:
    """The last known price of a placement: its own, else the region's, else the median of its zones."""
    exact = entries.get(key) or entries.get(key._replace(zone=""))
    if exact is not None:
        return exact
    zones = sorted((entry for _, entry in by_region.get(key[:3], ())), key=lambda entry: entry.price.usd_per_hour)
    return zones[(len(zones) - 1) // 2] if zones else None


def _known_prices(part: PricePart, types: _Types) -> dict[PriceKey, PriceFound]:
    """The prices of machine types that are known."""
    return {
        PriceKey(one.region, one.instance_type, one.market, one.zone): one
        for one in part.parsed.prices
        if types.get(one.instance_type) is not None
    }


def _entry(one: PriceFound, before: Entry | None, catalog_state: KnownPrices) -> Entry:
    """The zones and the interruption bucket that were known stay; so does a later date of the same price."""
    price = DatedPrice(
        # In the unit of the compiled catalog, so that a price that was read again equals itself.
        usd_per_hour=one.usd_per_hour.quantize(_MICRO),
        as_of=one.as_of,
        as_of_text=NO_DATE if one.as_of is None else "",
        source=catalog_state.sources[one.source],
    )
    if before is not None and before.price.usd_per_hour == price.usd_per_hour and _is_later(before.price, price):
        price = before.price
    zones = one.zones or (before.zones if before else ())
    bucket = one.bucket if one.bucket is not None or before is None else before.bucket
    return Entry(price, zones, bucket, one.history, one.host, one.device, "")


def _is_later(one: DatedPrice, other: DatedPrice) -> bool:
    return one.as_of is not None and (other.as_of is None or one.as_of > other.as_of)


def _drop_nothing(entries: dict[PriceKey, Entry]) -> int:
    nothing = []
    for key, entry in entries.items():
        on_demand = entries.get(key._replace(market=Market.ON_DEMAND, zone=""))
        if key.market is not Market.SPOT or on_demand is None:
            continue
        if entry.price.usd_per_hour < on_demand.price.usd_per_hour * LEAST_SPOT_SHARE:
            nothing.append(key)
    for key in nothing:
        del entries[key]
    return len(nothing)


def _advise(entries: dict[PriceKey, Entry], advice: Advice, catalog_state: KnownPrices, on: date) -> None:
    """Spot Advisor's buckets for every spot price, and its saving off on demand where no price counts today."""
    for key, entry in list(entries.items()):
        if key.market is Market.SPOT:
            bucket, _ = advice.buckets.get((key.region, key.instance_type), (None, None))
            entries[key] = entry._replace(bucket=bucket)
    pairs = {
        key[:2]
        for key, entry in entries.items()
        if key.market is Market.SPOT and _counts(entry.price, on)
    }  # fmt: skip
    source = catalog_state.sources[ADVISOR_ID]
    for (region, name), (bucket, saved) in advice.buckets.items():
        on_demand = entries.get(PriceKey(region, name, Market.ON_DEMAND, ""))
        if on_demand is None or (region, name) in pairs:
            continue
        usd = (on_demand.price.usd_per_hour * (100 - saved) / 100).quantize(_MICRO)
        text = NO_DATE if advice.as_of is None else ""
        price = DatedPrice(usd_per_hour=usd, as_of=advice.as_of, as_of_text=text, source=source)
        for key in [one for one in entries if one[:3] == (region, name, Market.SPOT)]:
            del entries[key]
        key = PriceKey(region, name, Market.SPOT, "")
        entries[key] = Entry(price, on_demand.zones, bucket, None, None, None, on_demand.note)


def _counts(price: DatedPrice, on: date) -> bool:
    until = trusted_until(price.source.kind, Market.SPOT, price.as_of)
    return price.source.kind in (PriceGrade.OBSERVED, PriceGrade.LISTED) and until is not None and on <= until


def _availability(offers: Iterable[OfferRow], offered: Offered | None) -> _There:
    before = {(row.region, row.type.name): row.availability for row in offers}
    return _There(before, offered)


class _There(NamedTuple):
    """Whether a machine type can be had in a region, according to whom."""

    before: Mapping[tuple[str, str], Availability]
    offered: Offered | None

    def of(self, kind: InstanceType, region: str) -> Availability:
        # Google's list of machine types has no TPUs (sources/offerings.py): that one is not in it says nothing.
        if self.offered is None or region not in self.offered.regions or kind.name.startswith("tpu-"):
            return self.before.get((region, kind.name), BY_LIFECYCLE)
        return Availability((region, kind.name) in self.offered.zones, self.offered.on)

    def zones(self, kind: InstanceType, region: str) -> tuple[str, ...]:
        return () if self.offered is None else self.offered.zones.get((region, kind.name), ())


def _rows(entries: Mapping[PriceKey, Entry], types: _Types, there: _There) -> list[OfferRow]:
    """A row for each placement, both markets in it; spot prices of zones in rows of their own."""
    rows = []
    for key, entry in entries.items():
        kind = types.get(key.instance_type)
        assert kind is not None, "only prices of known types were taken over"
        spot_here = entries.get(key._replace(market=Market.SPOT)) if not key.zone else None
        if key.market is Market.SPOT and not key.zone and key._replace(market=Market.ON_DEMAND) in entries:
            continue  # beside its on-demand price
        on_demand = entry if key.market is Market.ON_DEMAND else None
        spot = entry if key.market is Market.SPOT else spot_here
        rows.append(_row(kind, key, on_demand, spot, there))
    return rows


def _row(kind: InstanceType, key: PriceKey, on_demand: Entry | None, spot: Entry | None, there: _There) -> OfferRow:
    one = on_demand or spot
    assert one is not None
    zones = one.zones if key.zone else there.zones(kind, key.region) or one.zones
    return OfferRow(
        type=kind,
        region=key.region,
        zones=zones,
        on_demand=on_demand.price if on_demand else None,
        spot=spot.price if spot else None,
        interruption_bucket=spot.bucket if spot else None,
        host_usd_per_hour=on_demand.host if on_demand else None,
        device_usd_per_hour=on_demand.device if on_demand else None,
        note=one.note,
        history=spot.history if spot else None,
        availability=there.of(kind, key.region),
    )
