"""Compile the text tables into the indexed catalog file: `python -m trainplan.pricing.compile`, or while a wheel is
built."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from trainplan.pricing.catalog import SCHEMA_VERSION, SHIPPED_CATALOG
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market
from trainplan.pricing.grounds import Grounds
from trainplan.pricing.list_checks import failures, listed_prices
from trainplan.pricing.money import to_micro
from trainplan.pricing.offers import Availability, LifecycleState
from trainplan.pricing.overlay import Overlay, overlaid
from trainplan.pricing.planning import NEVER, TABLE, drift_of
from trainplan.pricing.queries import MOST_MICRO_USD, MOST_PLACEMENTS, MOST_REGIONS
from trainplan.pricing.table_text import TableError
from trainplan.pricing.tables import DatedPrice, OfferRow, Tables, read_tables, text_files

TEXT_DIR = Path(__file__).parent / "data"

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE device (
    name TEXT PRIMARY KEY, device_group TEXT NOT NULL, architecture TEXT NOT NULL, compute_capability TEXT,
    tpu_generation TEXT, memory_gib REAL, memory_bandwidth_gb_s REAL, fp32_tflops REAL, tf32_tflops REAL,
    amp_fp16_tflops REAL, amp_bf16_tflops REAL, interconnect TEXT NOT NULL, interconnect_gb_s REAL, tdp_w REAL,
    source TEXT NOT NULL, verified TEXT NOT NULL, unverified TEXT NOT NULL, note TEXT NOT NULL,
    usable_low_mib REAL, usable_high_mib REAL, usable_source TEXT NOT NULL
);
CREATE TABLE device_alias (spelling TEXT PRIMARY KEY, device TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE not_a_device (spelling TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE provider (
    name TEXT PRIMARY KEY, billing_increment_seconds INTEGER NOT NULL, billing_minimum_seconds INTEGER NOT NULL,
    disk_kind TEXT NOT NULL, address_kind TEXT NOT NULL, billing_source TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE side_rate (
    provider TEXT NOT NULL, kind TEXT NOT NULL, regions TEXT NOT NULL, to_regions TEXT NOT NULL, usd TEXT NOT NULL,
    per TEXT NOT NULL, as_of_day INTEGER, source_id INTEGER NOT NULL
);
CREATE TABLE region_group (
    provider TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (provider, region)
) WITHOUT ROWID;
CREATE TABLE source (source_id INTEGER PRIMARY KEY, id TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE region (region_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE note (note_id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE spot_drift (
    provider TEXT NOT NULL, family TEXT NOT NULL, ppm_per_day INTEGER NOT NULL, low_90_days REAL NOT NULL,
    high_90_days REAL NOT NULL, PRIMARY KEY (provider, family)
) WITHOUT ROWID;
CREATE TABLE rental (
    rental_id INTEGER PRIMARY KEY, provider TEXT NOT NULL, instance_type TEXT NOT NULL, family TEXT NOT NULL,
    cpu_architecture TEXT NOT NULL, device TEXT NOT NULL, device_count INTEGER NOT NULL,
    fraction_numerator INTEGER NOT NULL, fraction_denominator INTEGER NOT NULL, device_memory_gib REAL,
    vcpus INTEGER, memory_gib REAL, hosts INTEGER NOT NULL, market TEXT NOT NULL, interruption_bucket INTEGER,
    state TEXT NOT NULL, state_day INTEGER, successor TEXT, retired_from_day INTEGER, offered INTEGER,
    offered_day INTEGER, first_row INTEGER NOT NULL, last_row INTEGER NOT NULL
);
CREATE TABLE placement (
    row_id INTEGER PRIMARY KEY, region_id INTEGER NOT NULL, ground_micro INTEGER, old_micro INTEGER,
    floor_micro INTEGER, on_demand_micro INTEGER, until_day INTEGER NOT NULL, read_day INTEGER NOT NULL,
    is_share INTEGER NOT NULL
);
CREATE TABLE price (
    row_id INTEGER PRIMARY KEY, rental_id INTEGER NOT NULL, usd_micro INTEGER NOT NULL, zones TEXT NOT NULL,
    on_demand_here_micro INTEGER, as_of_day INTEGER, as_of_text TEXT NOT NULL, source_id INTEGER NOT NULL,
    host_micro INTEGER, device_micro INTEGER, note_id INTEGER, spot_mean_micro INTEGER, spot_low_micro INTEGER,
    spot_high_micro INTEGER
);
CREATE TABLE overlay (
    provider TEXT PRIMARY KEY, read_day INTEGER NOT NULL, types TEXT NOT NULL, sources TEXT NOT NULL,
    offers TEXT NOT NULL, parts TEXT NOT NULL
) WITHOUT ROWID;
"""


def text_sha256(text_dir: Path) -> str:
    """Digest of everything the catalog is compiled from, whatever the platform's line ends are."""
    digest = hashlib.sha256()
    for path in text_files(text_dir):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(text_dir).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    digest.update(TABLE.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def compile_catalog(
    text_dir: Path, target: Path, overlays: Sequence[Overlay] = (), say: Callable[[str], None] = lambda _: None
) -> int:
    """Write the catalog of `text_dir`, under what was read since, to `target`, whole or not at all; returns the number
    of offers. `say` is told of each price of the text that is left out.

    The same text gives the same bytes (with the same SQLite). Raises TableError for text that cannot be
    true, OSError for files.
    """
    tables = without_restricted(overlaid(read_checked_tables(text_dir, say), overlays))
    # With the process's number: two commands may compile a catalog anew at once (pricing/current.py).
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            count = _write(connection, tables, text_sha256(text_dir), overlays)
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return count


def read_checked_tables(text_dir: Path, say: Callable[[str], None] = lambda _: None) -> Tables:
    """The tables without the prices that cannot be true among the others (pricing/list_checks.py); `say` is told of
    each, with its file and line. Raises TableError, OSError."""
    tables, left_out = _checked(text_dir, text_sha256(text_dir))
    for line in left_out:
        say(line)
    return tables


@lru_cache(maxsize=1)
def _checked(text_dir: Path, _sha256: str) -> tuple[Tables, tuple[str, ...]]:
    """The checked tables and what was left out, kept while the text is the same: a refresh needs them several times."""
    tables = read_tables(text_dir)
    failed = failures(listed_prices(tables.offers))
    if not failed:
        return tables, ()
    lines = _lines_of(tables.offers)
    left_out = tuple(f"left out: {lines[one.price.name]}: {one.price.name}: {one.reason}" for one in failed)
    names = {one.price.name for one in failed}
    offers = tuple(row for row in (_without(row, names) for row in tables.offers) if row is not None)
    return replace(tables, offers=offers), left_out


def _lines_of(offers: Iterable[OfferRow]) -> dict[str, str]:
    """Where each price stands, by its name: `aws.csv:17`."""
    counts: Counter[str] = Counter()
    lines = {}
    for row in offers:
        counts[row.type.provider] += 1
        for price in listed_prices([row]):
            lines[price.name] = f"{row.type.provider}.csv:{counts[row.type.provider] + 1}"  # after the header
    return lines


def _without(row: OfferRow, names: Collection[str]) -> OfferRow | None:
    """A row without the prices of these names; None where no price is left."""
    failed = {price.market for price in listed_prices([row]) if price.name in names}
    if not failed:
        return row
    on_demand = None if Market.ON_DEMAND in failed else row.on_demand
    spot = None if Market.SPOT in failed else row.spot
    return replace(row, on_demand=on_demand, spot=spot) if on_demand or spot else None


def without_restricted(tables: Tables) -> Tables:
    """The tables with every offer in a restricted region marked as not offered, but for those that the vendor's
    offerings of the person's own account have."""

    def marked(row: OfferRow) -> OfferRow:
        as_of = tables.restricted.get((row.type.provider, row.region))
        if as_of is None or row.availability.offered is not None:
            return row
        return replace(row, availability=Availability(offered=False, as_of=as_of))

    return replace(tables, offers=tuple(map(marked, tables.offers)))


def _sync(path: Path) -> None:
    """What was written is on the disk before a name leads to it, and the name before anybody is told."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder, on Windows
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main() -> int:
    """Compile the shipped text beside itself."""
    try:
        count = compile_catalog(TEXT_DIR, SHIPPED_CATALOG, say=_say)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: the catalog was not compiled: {error}\n")
        return 2
    sys.stderr.write(f"{count} offers in {SHIPPED_CATALOG.name}\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _write(connection: sqlite3.Connection, tables: Tables, sha256: str, overlays: Sequence[Overlay]) -> int:
    # The file is temporary: one that is cut off is thrown away, so that nothing has to be rolled back.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.executescript(_SCHEMA)
    connection.execute("BEGIN")
    _write_devices(connection, tables)
    _write_providers(connection, tables)
    count = _write_offers(connection, tables)
    _insert(connection, "meta", [("text_sha256", sha256), ("offers", str(count))])
    for one in overlays:
        _insert(
            connection,
            "overlay",
            [(one.provider, one.read_on.toordinal(), one.types, one.sources, one.offers, one.parts)],
        )
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    return count


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    price_rows = list(rows)
    if price_rows:
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(price_rows[0]))})", price_rows)


def _write_devices(connection: sqlite3.Connection, tables: Tables) -> None:
    for device in tables.devices.values():
        peaks = device.peak_tflops
        row: list[Any] = [device.name, device.group, device.architecture.value, device.compute_capability]
        row += [device.tpu_generation, device.memory_gib, device.memory_bandwidth_gb_s]
        row += [peaks.fp32, peaks.tf32, peaks.amp_fp16, peaks.amp_bf16]
        row += [device.interconnect, device.interconnect_gb_s, device.tdp_w]
        row += [device.source, device.verified.value, " ".join(device.unverified), device.note]
        row += [*(device.usable_memory_mib or (None, None)), device.usable_memory_source]
        _insert(connection, "device", [row])
        _insert(connection, "device_alias", [(alias, device.name) for alias in device.aliases])
    _insert(connection, "not_a_device", sorted(tables.not_devices.items()))


def _write_providers(connection: sqlite3.Connection, tables: Tables) -> None:
    for name, billing, *rest in tables.providers:
        _insert(connection, "provider", [(name, billing.increment_seconds, billing.minimum_seconds, *rest)])


def _write_side_rates(connection: sqlite3.Connection, tables: Tables, sources: dict[str, int]) -> None:
    for row in tables.side.rates:
        where = " ".join(row.regions), " ".join(row.to)
        as_of_day = row.as_of.toordinal() if row.as_of else None
        written = (row.provider, row.kind, *where, str(row.usd), row.per, as_of_day, sources[row.source])
        _insert(connection, "side_rate", [written])
    groups = sorted((*placement, name) for placement, name in tables.side.groups.items())
    _insert(connection, "region_group", groups)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Row ids of what offers refer to, and the cheapest on-demand price (millionths) of each instance type."""

    regions: dict[str, int]
    notes: dict[str, int]
    sources: dict[str, int]
    cheapest: dict[tuple[str, str], int]
    here: dict[tuple[str, str, str], int]
    """On-demand price by provider, type and region: the spot prices of zones have rows of their own."""
    grounds: Grounds

    @classmethod
    def of(cls, tables: Tables) -> _Keys:
        cheapest: dict[tuple[str, str], int] = {}
        here: dict[tuple[str, str, str], int] = {}
        for row in tables.offers:
            if row.on_demand is not None:
                key = (row.type.provider, row.type.name)
                micro = to_micro(row.on_demand.usd_per_hour)
                cheapest[key] = min(micro, cheapest.get(key, micro))
                here[(*key, row.region)] = micro

        def rental_of(row: OfferRow) -> int | None:
            machine = row.type.provider, row.type.name
            return here.get((*machine, row.region), cheapest.get(machine))

        return cls(
            grounds=Grounds(tables.offers, rental_of),
            regions=_numbered({row.region for row in tables.offers}),
            notes=_numbered({row.note for row in tables.offers if row.note}),
            sources=_numbered({source.id for source in tables.sources}),
            cheapest=cheapest,
            here=here,
        )

    def on_demand_here(self, row: OfferRow) -> int | None:
        return self.here.get((row.type.provider, row.type.name, row.region))


def _numbered(names: set[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(sorted(names))}


def _write_offers(connection: sqlite3.Connection, tables: Tables) -> int:
    keys = _Keys.of(tables)
    _insert(connection, "region", [(number, name) for name, number in keys.regions.items()])
    _insert(connection, "note", [(number, text) for text, number in keys.notes.items()])
    _insert(connection, "source", [(keys.sources[s.id], s.id, s.kind.value, s.text) for s in tables.sources])
    _write_side_rates(connection, tables, keys.sources)
    _insert(connection, "spot_drift", _drifts(tables.offers))
    next_row = 0
    for rental_id, (market, placements) in enumerate(_rentals(tables.offers)):
        last_row = next_row + len(placements) - 1
        if len(placements) > MOST_PLACEMENTS:
            raise TableError(f"{placements[0][0].type.name}: more placements than the format can hold")
        _insert(connection, "rental", [_rental(rental_id, placements[0][0], market, (next_row, last_row))])
        numbered = list(enumerate(placements, next_row))
        _insert(
            connection, "placement", [_placement(row_id, row, price, market, keys) for row_id, (row, price) in numbered]
        )
        price_rows = [_price((row_id, rental_id), row, price, market, keys) for row_id, (row, price) in numbered]
        _insert(connection, "price", price_rows)
        next_row = last_row + 1
    return next_row


def _rentals(offers: Iterable[OfferRow]) -> Iterator[tuple[Market, list[tuple[OfferRow, DatedPrice]]]]:
    """Offers by (provider, instance type, market, interruption bucket, availability) in that order, the placements of
    each by region.

    How often a machine is interrupted makes its time and cost, and whether it is there whether it can be had, so
    placements that differ in one of them are rentals of their own.
    """
    groups: defaultdict[tuple[str, str, Market, int, tuple[int, int]], list[tuple[OfferRow, DatedPrice]]] = defaultdict(
        list
    )
    for row in offers:
        for market, price in ((Market.ON_DEMAND, row.on_demand), (Market.SPOT, row.spot)):
            if price is not None:
                bucket, (offered, as_of) = _bucket(row, market), row.availability
                there = (-1 if offered is None else int(offered), as_of.toordinal() if as_of else 0)
                # -1 for what is not known: None cannot be sorted among numbers.
                key = (row.type.provider, row.type.name, market, -1 if bucket is None else bucket, there)
                groups[key].append((row, price))
    for (_, _, market, _, _), placements in sorted(groups.items(), key=lambda group: group[0]):
        yield market, sorted(placements, key=lambda placement: (placement[0].region, placement[0].zones))


def _bucket(row: OfferRow, market: Market) -> int | None:
    return row.interruption_bucket if market is Market.SPOT else None


def _rental(rental_id: int, placement: OfferRow, market: Market, rows: tuple[int, int]) -> tuple[Any, ...]:
    kind = placement.type
    cycle = kind.lifecycle
    day = cycle.date.toordinal() if cycle.date is not None else None
    # Day 0 for what is retired already, so that it is on whichever day the catalog is asked about.
    retired_from = {LifecycleState.RETIRED: NEVER, LifecycleState.DEPRECATED: day}.get(cycle.state)
    offered, as_of = placement.availability
    row: tuple[Any, ...] = (rental_id, kind.provider, kind.name, kind.family, kind.cpu_architecture, kind.device)
    row += (kind.device_count, kind.device_fraction.numerator, kind.device_fraction.denominator)
    row += (kind.device_memory_gib, kind.vcpus, kind.memory_gib, kind.hosts, market.value, _bucket(placement, market))
    row += (cycle.state.value, day, cycle.successor, retired_from)
    return (*row, None if offered is None else int(offered), as_of.toordinal() if as_of else None, *rows)


def _placement(row_id: int, row: OfferRow, price: DatedPrice, market: Market, keys: _Keys) -> tuple[Any, ...]:
    on_demand = keys.on_demand_here(row)
    if on_demand is None:
        # Where the machine has no on-demand price there, the cheapest of its provider stands in for it (ADR 2).
        on_demand = keys.cheapest.get((row.type.provider, row.type.name))
    ground = keys.grounds.of(row, price, market)
    region_id = keys.regions[row.region]
    if (
        region_id >= MOST_REGIONS
        or 2 * max(ground.micro or 0, ground.floor_micro or 0, on_demand or 0) >= MOST_MICRO_USD
    ):
        raise TableError(f"{row.region} {row.type.name}: more regions or dollars than the format can hold")
    days = ground.until_day, ground.read_day
    return (
        row_id,
        region_id,
        ground.micro,
        ground.old_micro,
        ground.floor_micro,
        on_demand,
        *days,
        int(ground.is_share),
    )


def _price(ids: tuple[int, int], row: OfferRow, price: DatedPrice, market: Market, keys: _Keys) -> list[Any]:
    """`ids`: row and rental. The host and device parts belong to the on-demand price only, history to spot."""
    on_demand = market is Market.ON_DEMAND
    parts = [
        to_micro(part) if part and on_demand else None for part in (row.host_usd_per_hour, row.device_usd_per_hour)
    ]
    history: list[int | None] = [None, None, None]
    if row.history is not None and not on_demand:
        history = [to_micro(usd) for usd in row.history]
    detail: list[Any] = [*ids, to_micro(price.usd_per_hour), " ".join(row.zones), keys.on_demand_here(row)]
    detail += [price.as_of.toordinal() if price.as_of else None, price.as_of_text, keys.sources[price.source.id]]
    return [*detail, *parts, keys.notes.get(row.note), *history]


def _drifts(offers: Iterable[OfferRow]) -> list[tuple[Any, ...]]:
    """How the spot prices of each family drift."""
    families = sorted({(row.type.provider, row.type.family, row.type.device != CPU_DEVICE) for row in offers})
    drifts = {
        (provider, family): drift_of(provider, family, accelerated=accelerated)
        for provider, family, accelerated in families
    }
    return [(*family, *drift) for family, drift in drifts.items()]


if __name__ == "__main__":
    sys.exit(main())
