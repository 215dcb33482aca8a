"""The price tables as text: what each column is, and typed rows out of it (used to compile, never at run time)."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pricing.cost import ProviderRates
from pricing.devices import Architecture, Device, DeviceTable, PeakTflops, UnknownDeviceError, Verified
from pricing.grades import PriceGrade
from pricing.money import Billing
from pricing.offers import BY_LIFECYCLE, Availability, Lifecycle, LifecycleState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

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
T = TypeVar("T")

_KINDS = frozenset(kind for kind in PriceGrade if kind is not PriceGrade.STALE)


class TableError(ValueError):
    """A row of a text table that cannot be true; the message names file, line and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where prices were read, and what kind of price that makes them."""

    id: str
    kind: PriceGrade
    text: str


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
class Price:
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
    """One row of an offers table: a type at a place, with a price for each market it has there.

    Spot prices that differ between the zones of a region are rows of their own, a zone each.
    """

    type: InstanceType
    region: str
    zones: tuple[str, ...]
    on_demand: Price | None
    spot: Price | None
    interruption_bucket: int | None
    host_usd_per_hour: Decimal | None
    device_usd_per_hour: Decimal | None
    note: str
    history: SpotHistory | None = None
    availability: Availability = BY_LIFECYCLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Everything the text says. `restricted`: regions, by provider and name, that a vendor opens to chosen customers
    alone, each with the day on which that was known."""

    devices: DeviceTable
    not_devices: dict[str, str]
    sources: tuple[Source, ...]
    rates: tuple[ProviderRates, ...]
    types: Mapping[tuple[str, str], InstanceType]
    offers: tuple[OfferRow, ...]
    restricted: Mapping[tuple[str, str], date]


def text_files(text_dir: Path) -> tuple[Path, ...]:
    """Every file the catalog is compiled from, in a fixed order."""
    names = ("devices.toml", "instance_types.csv", "rates.toml", "restricted_regions.csv", "sources.csv")
    return (*(text_dir / name for name in names), *sorted((text_dir / "offers").glob("*.csv")))


def read_tables(text_dir: Path) -> Tables:
    """Parse and check every table. Raises TableError, or OSError for a file that is not there."""
    devices, not_devices = read_devices(text_dir / "devices.toml")
    sources = {source.id: source for source in _read(text_dir / "sources.csv", parse_sources)}
    known = _read(text_dir / "instance_types.csv", lambda text, name: parse_types(text, name, devices))
    types = {(kind.provider, kind.name): kind for kind in known}
    offers: list[OfferRow] = []
    for path in sorted((text_dir / "offers").glob("*.csv")):
        of = OffersOf(path.stem, types, sources)
        offers += _read(path, lambda text, name, of=of: parse_offers(text, name, of))  # type: ignore[misc]
    refuse_duplicates(offers)
    return Tables(
        devices=devices,
        not_devices=not_devices,
        sources=tuple(sources.values()),
        rates=tuple(_rates(entry) for entry in _toml(text_dir / "rates.toml")["provider"]),
        types=types,
        offers=tuple(offers),
        restricted=dict(_read(text_dir / "restricted_regions.csv", parse_restricted)),
    )


class OffersOf(NamedTuple):
    """What an offers table refers to: its provider, instance types by provider and name, sources by id."""

    provider: str
    types: Mapping[tuple[str, str], InstanceType]
    sources: Mapping[str, Source]


def parse_sources(text: str, name: str) -> list[Source]:
    """Rows of a sources table. `name` is said where one cannot be true. Raises TableError, as the next three do."""
    return list(_rows(text, name, (SOURCE_COLUMNS,), _source))


def parse_restricted(text: str, name: str) -> list[tuple[tuple[str, str], date]]:
    """Rows of the table of restricted regions: provider and region, and the day. Raises TableError."""
    return list(_rows(text, name, (RESTRICTED_COLUMNS,), _restricted))


def parse_types(text: str, name: str, devices: DeviceTable) -> list[InstanceType]:
    """Rows of an instance types table."""
    return list(_rows(text, name, (TYPE_COLUMNS,), lambda row: _type(row, devices)))


def parse_offers(text: str, name: str, of: OffersOf) -> list[OfferRow]:
    """Rows of an offers table, shipped or refreshed."""
    return list(_rows(text, name, (OFFER_COLUMNS, REFRESHED_COLUMNS), lambda row: _offer(row, of)))


def read_devices(path: Path) -> tuple[DeviceTable, dict[str, str]]:
    """Devices, and the spellings that are knowingly none, from devices.toml. Raises TableError."""
    content = _toml(path)
    not_devices = {entry["spelling"]: entry["reason"] for entry in content.get("not_a_device", [])}
    try:
        devices = [_device(entry) for entry in content["device"]]
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(f"{path.name}: {error}") from error
    table = DeviceTable(devices, not_devices)
    for device in devices:
        for spelling in (device.name, *device.aliases):
            if table.find(spelling) is not device:
                raise TableError(f"{path.name}: {spelling!r} means {device.name} and {table.find(spelling).name}")
    return table, not_devices


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"{path.name}: {error}") from error


def _device(entry: dict[str, Any]) -> Device:
    values = dict(entry)
    return Device(
        architecture=Architecture(values.pop("architecture")),
        peak_tflops=PeakTflops(**values.pop("peak_tflops")),
        verified=Verified(values.pop("verified")),
        aliases=tuple(values.pop("aliases")),
        unverified=tuple(values.pop("unverified", ())),
        **values,
    )


def _rates(entry: dict[str, Any]) -> ProviderRates:
    return ProviderRates(
        provider=entry["name"],
        billing=Billing(
            increment_seconds=entry["billing_increment_seconds"], minimum_seconds=entry["billing_minimum_seconds"]
        ),
        disk_usd_per_gb_month=Decimal(entry["disk_usd_per_gb_month"]),
        address_usd_per_hour=Decimal(entry["address_usd_per_hour"]),
        egress_usd_per_gb=Decimal(entry["egress_usd_per_gb"]),
        object_storage_usd_per_gb_month=Decimal(entry["object_storage_usd_per_gb_month"]),
        sources=tuple(sorted(entry["sources"].items())),
    )


def _read(path: Path, parse: Callable[[str, str], list[T]]) -> list[T]:
    with path.open(encoding="utf-8", newline="") as text:
        return parse(text.read(), path.name)


def _rows(text: str, name: str, columns: Sequence[Sequence[str]], parse: Callable[[dict[str, str]], T]) -> Iterator[T]:
    """`columns`: the headers that will do."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if tuple(reader.fieldnames or ()) not in columns:
        raise TableError(f"{name}: the columns must be {','.join(columns[0])}")
    for row in reader:
        try:
            yield parse(row)
        except (KeyError, TypeError, ValueError, InvalidOperation) as error:
            raise TableError(f"{name}:{reader.line_num}: {error}") from error


def _source(row: dict[str, str]) -> Source:
    kind = PriceGrade(row["kind"])
    if kind not in _KINDS:
        raise ValueError(f"{kind} is what a price becomes, not how it is obtained")
    return Source(id=row["id"], kind=kind, text=row["text"])


def _restricted(row: dict[str, str]) -> tuple[tuple[str, str], date]:
    if not row["source"]:
        raise ValueError(f"nobody says that {row['region']} is restricted")
    return (row["provider"], row["region"]), date.fromisoformat(row["as_of"])


def _type(row: dict[str, str], devices: DeviceTable) -> InstanceType:
    if row["device"] not in devices:
        raise UnknownDeviceError(row["device"], ())
    if row["cpu_architecture"] not in CPU_ARCHITECTURES:
        raise ValueError(f"no such CPU architecture: {row['cpu_architecture']!r}")
    fraction = Fraction(row["device_fraction"])
    if not 0 < fraction <= 1:
        raise ValueError(f"a fraction of a device is above 0 and at most 1, not {fraction}")
    return InstanceType(
        provider=row["provider"],
        name=row["instance_type"],
        family=row["family"],
        cpu_architecture=row["cpu_architecture"],
        device=row["device"],
        device_count=int(row["device_count"]),
        device_fraction=fraction,
        device_memory_gib=_number(row["device_memory_gib"]),
        vcpus=int(row["vcpus"]) if row["vcpus"] else None,
        memory_gib=_number(row["memory_gib"]),
        hosts=int(row["hosts"]),
        lifecycle=_lifecycle(row),
    )


def _lifecycle(row: dict[str, str]) -> Lifecycle:
    state = LifecycleState(row["state"])
    if state is LifecycleState.RETIRED and not (row["state_date"] and row["successor"]):
        raise ValueError(f"{row['instance_type']} is retired: since when, and what replaces it?")
    return Lifecycle(state=state, date=_day(row["state_date"]), successor=row["successor"] or None)


def _offer(row: dict[str, str], of: OffersOf) -> OfferRow:
    bucket = row["spot_interruption_bucket"]
    on_demand, spot = _price(row, "on_demand", of.sources), _price(row, "spot", of.sources)
    if on_demand is None and spot is None:
        raise ValueError("a row needs a price")
    return OfferRow(
        type=of.types[of.provider, row["instance_type"]],
        region=row["region"],
        zones=tuple(row["zones"].split()),
        on_demand=on_demand,
        spot=spot,
        interruption_bucket=int(bucket) if bucket else None,
        host_usd_per_hour=_usd(row["host_usd_per_hour"]),
        device_usd_per_hour=_usd(row["device_usd_per_hour"]),
        note=row["note"],
        history=_history(row),
        availability=_availability(row),
    )


def _history(row: dict[str, str]) -> SpotHistory | None:
    mean, low, high = (_usd(row.get(f"spot_{which}_usd_per_hour", "")) for which in ("mean", "low", "high"))
    if mean is None or low is None or high is None:
        return None
    if not low <= mean <= high:
        raise ValueError(f"a mean of {mean} is not between {low} and {high}")
    return SpotHistory(mean, low, high)


def _availability(row: dict[str, str]) -> Availability:
    said = row.get("offered", "")
    if not said:
        return BY_LIFECYCLE
    return Availability({"yes": True, "no": False}[said], date.fromisoformat(row["offered_as_of"]))


def _price(row: dict[str, str], market: str, sources: Mapping[str, Source]) -> Price | None:
    usd_per_hour = _usd(row[f"{market}_usd_per_hour"])
    if usd_per_hour is None:
        return None
    as_of, as_of_text = _day(row[f"{market}_as_of"]), row[f"{market}_as_of_text"]
    if as_of is None and not as_of_text:
        raise ValueError(f"the {market} price has neither a date nor the source's words for it")
    source = sources[row[f"{market}_source"]]
    return Price(usd_per_hour=usd_per_hour, as_of=as_of, as_of_text=as_of_text, source=source)


def _usd(text: str) -> Decimal | None:
    if not text:
        return None
    value = Decimal(text)
    if not (value.is_finite() and value > 0):
        raise ValueError(f"a price is above 0, not {text}")
    return value


def _number(text: str) -> float | None:
    return float(text) if text else None


def _day(text: str) -> date | None:
    return date.fromisoformat(text) if text else None


def refuse_duplicates(offers: Iterable[OfferRow]) -> None:
    """Raises TableError for a price that stands twice; spot prices of different zones may stand side by side."""
    seen: set[tuple[str, ...]] = set()
    for offer in offers:
        key = (offer.type.provider, offer.region, offer.type.name)
        keys: list[tuple[str, ...]] = [key] if offer.on_demand else []
        if offer.spot:
            keys += [(*key, zone) for zone in offer.zones if offer.on_demand is None] or [(*key, "")]
        if not seen.isdisjoint(keys):
            raise TableError(f"two rows for {' '.join(key)}: keep the one with the newer price")
        seen.update(keys)
