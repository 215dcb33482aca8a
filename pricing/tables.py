"""The price tables as text: what each column is, and typed rows out of it (used to compile, never at run time)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from trainplan.pricing.device_text import read_devices, required_field, toml_rows
from trainplan.pricing.devices import DeviceTable
from trainplan.pricing.free_places import FREE_PLACE_COLUMNS, FREE_PLACES, parse_free_place
from trainplan.pricing.grades import PriceGrade
from trainplan.pricing.money import Billing
from trainplan.pricing.offers import BY_LIFECYCLE, Availability, Lifecycle, LifecycleState
from trainplan.pricing.side_rates_text import REGION_GROUPS, SIDE_RATES, SideTables, read_side_tables
from trainplan.pricing.table_text import (
    UNFILLED,
    Source,
    TableError,
    date_of,
    look_up,
    member,
    number,
    read_table,
    table_rows,
    usd,
    whole,
)

TYPE_COLUMNS = (
    *("provider", "instance_type", "family", "cpu_architecture", "device", "device_count", "device_fraction"),
    *("device_memory_gib", "vcpus", "memory_gib", "hosts", "state", "state_date", "successor", "state_source"),
)
OFFER_COLUMNS = (
    *("region", "instance_type", "zones"),
    *("on_demand_usd_per_hour", "on_demand_as_of", "on_demand_as_of_text", "on_demand_source"),
    *("spot_usd_per_hour", "spot_as_of", "spot_as_of_text", "spot_source", "spot_interruption_bucket"),
    *("host_usd_per_hour", "device_usd_per_hour", "note"),
)
REFRESHED_COLUMNS = (
    *OFFER_COLUMNS,
    *("spot_mean_usd_per_hour", "spot_low_usd_per_hour", "spot_high_usd_per_hour", "offered", "offered_as_of"),
)
"""What a refresh knows beside: the week's spot prices in a zone, and what the vendor's offerings say."""
SOURCE_COLUMNS = ("id", "kind", "text")
RESTRICTED_COLUMNS = ("provider", "region", "as_of", "source")
CPU_ARCHITECTURES = frozenset({"x86_64", "arm64"})

_KINDS = frozenset(kind for kind in PriceGrade if kind is not PriceGrade.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A machine as the vendor names it, wherever it stands."""

    provider: str
    name: str
    family: str
    cpu_architecture: str
    device: str
    device_count: int
    device_fraction: Fraction
    device_memory_gib: float | None
    vcpus: int | None
    memory_gib: float | None
    hosts: int
    lifecycle: Lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPrice:
    """A price with its date and source. `as_of_text` is the source's own date where that is not a day."""

    usd_per_hour: Decimal
    as_of: date | None
    as_of_text: str
    source: Source


class SpotHistory(NamedTuple):
    """What a spot price was in the days before it was read: the mean over time, the lowest and the highest."""

    mean_usd_per_hour: Decimal
    low_usd_per_hour: Decimal
    high_usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow:
    """One row of an offers table: a type at a placement, with a price for each market it has there.

    Spot prices that differ between the zones of a region are rows of their own, a zone each.
    """

    type: InstanceType
    region: str
    zones: tuple[str, ...]
    on_demand: DatedPrice | None
    spot: DatedPrice | None
    interruption_bucket: int | None
    host_usd_per_hour: Decimal | None
    device_usd_per_hour: Decimal | None
    note: str
    history: SpotHistory | None = None
    availability: Availability = BY_LIFECYCLE


class ProviderRow(NamedTuple):
    """How a provider rounds time, and which of its side rates are the disk and the address that launches make."""

    name: str
    billing: Billing
    disk_kind: str
    address_kind: str
    billing_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Everything the text says. `restricted`: regions, by provider and name, that a vendor opens to chosen customers
    alone, each with the day on which that was known."""

    devices: DeviceTable
    not_devices: dict[str, str]
    sources: tuple[Source, ...]
    providers: tuple[ProviderRow, ...]
    side: SideTables
    types: Mapping[tuple[str, str], InstanceType]
    offers: tuple[OfferRow, ...]
    restricted: Mapping[tuple[str, str], date]


def text_files(text_dir: Path) -> tuple[Path, ...]:
    """Every file the catalog is compiled from, in a fixed order."""
    names = ["devices.toml", "instance_types.csv", "rates.toml", "restricted_regions.csv", "sources.csv"]
    names += [SIDE_RATES, REGION_GROUPS]
    return (
        *(text_dir / name for name in names),
        *text_dir.glob(FREE_PLACES),
        *sorted((text_dir / "offers").glob("*.csv")),
    )


def read_tables(text_dir: Path) -> Tables:
    """Parse and check every table. Raises TableError, or OSError for a file that is not there."""
    devices, not_devices = read_devices(text_dir / "devices.toml")
    sources = {source.id: source for source in read_table(text_dir / "sources.csv", parse_sources)}
    instance_types = read_table(text_dir / "instance_types.csv", lambda text, name: parse_types(text, name, devices))
    types = {(kind.provider, kind.name): kind for kind in instance_types}
    offers: list[OfferRow] = []
    # A table without the file has no machine that costs nothing.
    free = frozenset(one for path in text_dir.glob(FREE_PLACES) for one in read_table(path, parse_free_places))
    for path in sorted((text_dir / "offers").glob("*.csv")):
        of = OffersOf(path.stem, types, sources, free)
        offers += read_table(path, lambda text, name, of=of: parse_offers(text, name, of))  # type: ignore[misc]
    refuse_duplicates(offers)
    side = read_side_tables(text_dir, sources)
    providers = read_providers(text_dir / "rates.toml", side)
    for name in sorted({kind.provider for kind in instance_types} - {row.name for row in providers}):
        raise TableError(f"instance_types.csv: rates.toml has no [[provider]] of the name {name!r}: add one")
    return Tables(
        devices=devices,
        not_devices=not_devices,
        sources=tuple(sources.values()),
        providers=providers,
        side=side,
        types=types,
        offers=tuple(offers),
        restricted=dict(read_table(text_dir / "restricted_regions.csv", parse_restricted)),
    )


class OffersOf(NamedTuple):
    """What an offers table refers to: its provider, instance types by provider and name, sources by id, and the types
    that cost nothing."""

    provider: str
    types: Mapping[tuple[str, str], InstanceType]
    sources: Mapping[str, Source]
    free: frozenset[tuple[str, str]] = frozenset()


def parse_sources(text: str, name: str) -> list[Source]:
    """Rows of a sources table. `name` is said where one cannot be true. Raises TableError, as the next three do."""
    return list(table_rows(text, name, (SOURCE_COLUMNS,), _source))


def parse_restricted(text: str, name: str) -> list[tuple[tuple[str, str], date]]:
    """Rows of the table of restricted regions: provider and region, and the day. Raises TableError."""
    return list(table_rows(text, name, (RESTRICTED_COLUMNS,), _restricted))


def parse_types(text: str, name: str, devices: DeviceTable) -> list[InstanceType]:
    """Rows of an instance types table."""
    return list(table_rows(text, name, (TYPE_COLUMNS,), lambda row: _type(row, devices)))


def parse_offers(text: str, name: str, of: OffersOf) -> list[OfferRow]:
    """Rows of an offers table, shipped or refreshed."""
    return list(table_rows(text, name, (OFFER_COLUMNS, REFRESHED_COLUMNS), lambda row: _offer(row, of)))


def parse_free_places(text: str, name: str) -> list[tuple[str, str]]:
    """Provider and instance type of each row of the table of places that cost nothing."""
    places = table_rows(text, name, (FREE_PLACE_COLUMNS,), parse_free_place)
    return [(place.provider, place.instance_type) for place in places]


_OF_A_PROVIDER = {
    "name": "as in the offers",
    "disk": f'the disk that launches make, a kind of {SIDE_RATES}, or "" where nobody says what it costs',
    "address": f'the public address that launches make, a kind of {SIDE_RATES}, or ""',
    "billing_increment_seconds": "time is rounded up to a multiple of this",
    "billing_minimum_seconds": "the least that is billed",
    "billing_source": "where that was read",
}


def read_providers(path: Path, side: SideTables) -> tuple[ProviderRow, ...]:
    """Each provider of rates.toml. Raises TableError, also for a disk or address (but "") that has no side rate."""
    pairs = {(row.provider, row.kind) for row in side.rates}
    rows = []
    for location, entry in toml_rows(path, "provider"):
        name, disk, address, increment, minimum, source = (
            required_field(location, entry, field, what) for field, what in _OF_A_PROVIDER.items()
        )
        if source in UNFILLED:
            raise TableError(f"{location}: to be filled in: billing_source {source}")
        for kind in (disk, address):
            if kind and (name, kind) not in pairs:
                raise TableError(f"{location}: {SIDE_RATES} has no rate for {name} {kind}: add a row there")
        try:
            billing = Billing(increment_seconds=increment, minimum_seconds=minimum)
        except (TypeError, ValueError) as error:
            what = f"billing_increment_seconds {increment!r} and billing_minimum_seconds {minimum!r}"
            raise TableError(f"{location}: {what} must be whole seconds, 1 or more and 0 or more") from error
        rows.append(ProviderRow(name, billing, disk, address, source))
    return tuple(rows)


def _source(row: dict[str, str]) -> Source:
    kind = member(row, "kind", PriceGrade)
    if kind not in _KINDS:
        raise ValueError(f"{kind} is what a price becomes, not how it is obtained")
    return Source(id=row["id"], kind=kind, text=row["text"])


def _restricted(row: dict[str, str]) -> tuple[tuple[str, str], date]:
    if not row["source"]:
        raise ValueError(f"nobody says that {row['region']} is restricted")
    return (row["provider"], row["region"]), date.fromisoformat(row["as_of"])


def _type(row: dict[str, str], devices: DeviceTable) -> InstanceType:
    if row["device"] not in devices:
        raise ValueError(f"device {row['device']!r} is not in devices.toml: add a row there, or write the name of one")
    if row["cpu_architecture"] not in CPU_ARCHITECTURES:
        name = ", ".join(sorted(CPU_ARCHITECTURES))
        raise ValueError(f"cpu_architecture {row['cpu_architecture']!r} is not one of {name}")
    fraction = Fraction(row["device_fraction"])
    if not 0 < fraction <= 1:
        raise ValueError(f"a fraction of a device is above 0 and at most 1, not {fraction}")
    return InstanceType(
        provider=row["provider"],
        name=row["instance_type"],
        family=row["family"],
        cpu_architecture=row["cpu_architecture"],
        device=row["device"],
        device_count=whole(row, "device_count"),
        device_fraction=fraction,
        device_memory_gib=number(row, "device_memory_gib"),
        vcpus=whole(row, "vcpus") if row["vcpus"] else None,
        memory_gib=number(row, "memory_gib"),
        hosts=whole(row, "hosts"),
        lifecycle=_lifecycle(row),
    )


def _lifecycle(row: dict[str, str]) -> Lifecycle:
    state = member(row, "state", LifecycleState)
    if state is LifecycleState.RETIRED and not (row["state_date"] and row["successor"]):
        raise ValueError(f"{row['instance_type']} is retired: since when, and what replaces it?")
    return Lifecycle(state=state, date=date_of(row, "state_date"), successor=row["successor"] or None)


def _offer(row: dict[str, str], of: OffersOf) -> OfferRow:
    has_bucket = bool(row["spot_interruption_bucket"])
    is_free = (of.provider, row["instance_type"]) in of.free
    on_demand, spot = _price(row, "on_demand", of.sources, is_free=is_free), _price(row, "spot", of.sources)
    if on_demand is None and spot is None:
        raise ValueError("a row needs a price")
    return OfferRow(
        type=look_up(of.types, (of.provider, row["instance_type"]), _no_type(of.provider, row["instance_type"])),
        region=row["region"],
        zones=tuple(row["zones"].split()),
        on_demand=on_demand,
        spot=spot,
        interruption_bucket=whole(row, "spot_interruption_bucket") if has_bucket else None,
        host_usd_per_hour=usd(row, "host_usd_per_hour"),
        device_usd_per_hour=usd(row, "device_usd_per_hour"),
        note=row["note"],
        history=_history(row),
        availability=_availability(row),
    )


def _no_type(provider: str, name: str) -> str:
    return f"instance_type {name!r} of {provider} is not in instance_types.csv"


def _history(row: dict[str, str]) -> SpotHistory | None:
    mean, low, high = (usd(row, f"spot_{which}_usd_per_hour") for which in ("mean", "low", "high"))
    if mean is None or low is None or high is None:
        return None
    if not low <= mean <= high:
        raise ValueError(f"a mean of {mean} is not between {low} and {high}")
    return SpotHistory(mean, low, high)


def _availability(row: dict[str, str]) -> Availability:
    text = row.get("offered", "")
    if not text:
        return BY_LIFECYCLE
    if text not in ("yes", "no"):
        raise ValueError(f"offered {text!r} is not one of yes, no")
    return Availability(text == "yes", date.fromisoformat(row["offered_as_of"]))


def _price(
    row: dict[str, str], market: str, sources: Mapping[str, Source], *, is_free: bool = False
) -> DatedPrice | None:
    usd_per_hour = usd(row, f"{market}_usd_per_hour", is_free=is_free)
    if usd_per_hour is None:
        return None
    as_of, as_of_text = date_of(row, f"{market}_as_of"), row[f"{market}_as_of_text"]
    if as_of is None and not as_of_text:
        raise ValueError(f"the {market} price has neither a date nor the source's words for it")
    stated = row[f"{market}_source"]
    source = look_up(sources, stated, f"{market}_source {stated!r} is not in sources.csv")
    return DatedPrice(usd_per_hour=usd_per_hour, as_of=as_of, as_of_text=as_of_text, source=source)


def refuse_duplicates(offers: Iterable[OfferRow]) -> None:
    """Raises TableError for a price that stands twice; spot prices of different zones may stand side by side."""
    names_of_entries: set[tuple[str, ...]] = set()
    for offer in offers:
        key = (offer.type.provider, offer.region, offer.type.name)
        keys: list[tuple[str, ...]] = [key] if offer.on_demand else []
        if offer.spot:
            keys += [(*key, zone) for zone in offer.zones if offer.on_demand is None] or [(*key, "")]
        if not names_of_entries.isdisjoint(keys):
            raise TableError(f"two rows for {' '.join(key)}: keep the one with the newer price")
        names_of_entries.update(keys)
