"""The catalog at run time: an indexed, read-only file of everything that can be rented, with its prices."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from trainplan.pricing import queries, rows
from trainplan.pricing.devices import Device, DeviceTable
from trainplan.pricing.grades import OLD_AFTER, Market, PriceGrade, grade
from trainplan.pricing.offers import Offer, OfferQuery, Placement, Quote, Rental
from trainplan.pricing.side_rates import SideRate, SideRates

if TYPE_CHECKING:
    from trainplan.pricing.cost import ProviderRates

SCHEMA_VERSION = 6
SHIPPED_CATALOG = Path(__file__).parent / "data" / "catalog.sqlite"
REFRESHED = "catalog.sqlite"
"""The name of the refreshed catalog in the state folder."""

_REGION_MASK = (1 << queries.REGION_BITS) - 1
_OFFSET_MASK = (1 << queries.OFFSET_BITS) - 1
_PRICE_SHIFT = queries.REGION_BITS + queries.OFFSET_BITS
_ROW_IDS_AT_ONCE = 10_000
"""SQLite takes a statement of up to a million characters."""
_HINT = "install the package again; in a checkout run `python -m trainplan.pricing.compile`"


class CatalogError(Exception):
    """The catalog cannot be read; `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = _HINT) -> None:
        self.hint = hint
        super().__init__(message)


class RentalPlacements(NamedTuple):
    """A rental, and every placement that has it."""

    rental: Rental
    placements: Placements


class Placements(Sequence[Placement]):
    """The placements of one rental, cheapest planning price first, ties by region.

    The first is known at once, the others are read when asked for, while the catalog is open. `unrankable` counts
    further placements whose price cannot be planned with: an untrusted spot price of a type that has no known
    on-demand price.
    """

    __slots__ = ("_count", "_first", "_load", "_loaded", "unrankable")

    def __init__(
        self, first: Placement | None, count: int, unrankable: int, load: Callable[[], list[Placement]]
    ) -> None:
        self.unrankable = unrankable
        self._first = first
        self._count = count
        self._load = load
        self._loaded: list[Placement] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Placement: ...
    @overload
    def __getitem__(self, index: slice) -> list[Placement]: ...
    def __getitem__(self, index: int | slice) -> Placement | list[Placement]:
        if index == 0 and self._first is not None:
            return self._first
        return self._all()[index]

    def __iter__(self) -> Iterator[Placement]:
        return iter(self._all())

    def _all(self) -> list[Placement]:
        if self._loaded is None:
            self._loaded = self._load() if self._count else []
        return self._loaded


class ProviderSummary(NamedTuple):
    """What is known of one provider: how many offers, how old their prices are, where they were read.

    `sources` has the short name of each source, its text and how many prices are from there; `grades` counts prices
    by market and by what they are worth today. `not_offered` were not among the vendor's offerings on
    `offerings_as_of`; of `by_lifecycle` only the type's lifecycle is known. `old_prices` are over a month old.
    """

    provider: str
    offers: int
    retired_offers: int
    undated_prices: int
    oldest_price: date | None
    newest_price: date | None
    sources: tuple[tuple[str, str, int], ...]
    grades: Mapping[tuple[str, str], int]
    not_offered: int
    offerings_as_of: date | None
    by_lifecycle: int
    old_prices: int


class Catalog:
    """Offers, devices and rates out of one compiled file. Use as a context manager, or close it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path
        self._rentals_by_day: dict[date, dict[int, Rental]] = {}
        self._assumed = queries.Assumed()

    @classmethod
    def open(cls, path: Path | None = None) -> Catalog:
        """The catalog at `path`, by default the shipped one. Raises CatalogError."""
        path = SHIPPED_CATALOG if path is None else path
        if not os.path.isfile(path):  # noqa: PTH113  # Path.is_file raises for a name that is too long
            raise CatalogError(f"there is no price catalog at {path}")
        # immutable: nothing is locked and no journal is looked for; a refresh replaces the file, it never writes it.
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        catalog = cls(connection, path)
        try:
            ((version,),) = catalog._rows("PRAGMA user_version")
            if version != SCHEMA_VERSION:
                raise CatalogError(f"the catalog {path} has format {version}, this version reads {SCHEMA_VERSION}")
        except CatalogError:
            connection.close()
            raise
        return catalog

    def check(self) -> None:
        """Raises CatalogError where a page of the file is damaged (SQLite's quick_check)."""
        complaints = [str(row[0]) for row in self._rows("PRAGMA quick_check(1)")]
        if complaints != ["ok"]:
            raise CatalogError(
                f"the price catalog {self.path} is damaged: {complaints[0] if complaints else 'it is empty'}"
            )

    def close(self) -> None:
        """Let go of the file. Placements that were not read yet cannot be read afterwards."""
        self._connection.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def devices(self) -> DeviceTable:
        """Every device, by canonical name."""
        aliases: dict[str, tuple[str, ...]] = {}
        for spelling, name in self._rows("SELECT spelling, device FROM device_alias ORDER BY spelling"):
            aliases[name] = (*aliases.get(name, ()), spelling)
        device_rows = self._rows("SELECT * FROM device ORDER BY rowid")
        not_devices = dict(self._rows("SELECT spelling, reason FROM not_a_device"))
        return DeviceTable((rows.device(row, aliases.get(row[0], ())) for row in device_rows), not_devices)

    @cached_property
    def rates(self) -> Mapping[str, ProviderRates]:
        """What each provider charges besides the machine, region by region, and how it rounds time."""
        groups: dict[str, dict[str, str]] = {}
        for provider, region, name in self._rows("SELECT provider, region, name FROM region_group"):
            groups.setdefault(provider, {})[region] = name
        side: dict[str, list[SideRate]] = {}
        for provider, *row in self._rows(queries.SIDE_RATES):
            side.setdefault(provider, []).append(rows.side_rate(row))
        return {
            row[0]: rows.rates(row, SideRates(side.get(row[0], ()), groups.get(row[0], {})))
            for row in self._rows("SELECT * FROM provider")
        }

    def rentals(self, query: OfferQuery, today: date) -> list[RentalPlacements]:
        """What can be rented, by provider, type and market, each with its placements.

        Retired ones are in it only if the query asks for them. A rental none of whose placements can be ranked is
        in it with no placements, and their number as `placements.unrankable`.
        """
        conditions = queries.conditions(query, today, self._assumed)
        rental_rows = self._rows(queries.rentals(conditions), conditions.parameters)
        return [self._rental_placements(row, conditions, today) for row in rental_rows]

    def retired_count(self, query: OfferQuery, today: date) -> int:
        """Offers that the query leaves out only because they are retired on `today`."""
        if query.include_retired:
            return 0
        conditions = queries.conditions(query._replace(include_retired=True), today, self._assumed)
        ((count,),) = self._rows(queries.retired_count(conditions), conditions.parameters)
        return int(count)

    def assume(self, *, as_listed: bool = False, had: Iterable[tuple[str, str, str]] = ()) -> None:
        """Treat no price as an outlier, with `as_listed`, or none at the placements `had`: provider, region and machine
        type of which somebody had one within 30 days.
        """
        numbers = {name: number for number, name in enumerate(self._regions)}
        parts = tuple((provider, numbers[region], kind) for provider, region, kind in had if region in numbers)
        self._assumed = queries.Assumed(as_listed, parts)

    def offers(self, query_or_ids: OfferQuery | Iterable[int], today: date) -> list[Offer]:
        """Full offers: of a query, in catalog order, or of row ids, in the order given (unknown ones left out)."""
        if isinstance(query_or_ids, OfferQuery):
            conditions = queries.conditions(query_or_ids, today, self._assumed)
            offer_rows = self._rows(queries.offers(conditions.rental, conditions.placement), conditions.parameters)
            return list(self._offers(offer_rows, today).values())
        row_ids = list(query_or_ids)
        offers: dict[int, Offer] = {}
        for start in range(0, len(row_ids), _ROW_IDS_AT_ONCE):
            numbers = ",".join(str(int(row_id)) for row_id in row_ids[start : start + _ROW_IDS_AT_ONCE])
            rental = f"r.rental_id IN (SELECT rental_id FROM price WHERE row_id IN ({numbers}))"
            sql = queries.offers(rental, f"p.row_id IN ({numbers})")
            offers |= self._offers(self._rows(sql, self._assumed.parameters(today)), today)
        return [offers[row_id] for row_id in row_ids if row_id in offers]

    def usd_per_hour(
        self, provider: str, region: str, instance_type: str, market: Market, today: date = date.max
    ) -> Decimal | None:
        """What a machine costs there an hour, retired or not, as of a day (the newest). None where no row has it."""
        query = OfferQuery(
            providers=frozenset({provider}),
            regions=frozenset({region}),
            instance_types=frozenset({instance_type}),
            markets=frozenset({str(market)}),
            include_retired=True,
        )
        offers = self.offers(query, today)
        return offers[0].usd_per_hour if offers else None

    def quotes(self, query: OfferQuery, today: date) -> dict[int, Quote]:
        """Prices of a query by row id: what thousands of offers are printed from, without making each an Offer."""
        conditions = queries.conditions(query, today, self._assumed)
        return rows.quotes(self._rows(queries.quotes(conditions), conditions.parameters), self._sources, today)

    def summary(self, today: date) -> list[ProviderSummary]:
        """What is known of each provider, by name."""
        sources: dict[str, tuple[tuple[str, str, int], ...]] = {}
        for provider, *source in self._rows(queries.SUMMARY_SOURCES):
            sources[provider] = (*sources.get(provider, ()), tuple(source))
        grades: dict[str, dict[tuple[str, str], int]] = {}
        for provider, market, kind, as_of_day, count in self._rows(queries.SUMMARY_GRADES):
            key = market, grade(PriceGrade(kind), Market(market), rows.day(as_of_day), today).value
            of = grades.setdefault(provider, {})
            of[key] = of.get(key, 0) + count
        days = {"today": today.toordinal(), "old_before": (today - OLD_AFTER).toordinal()}
        return [
            ProviderSummary(
                provider=provider,
                offers=count,
                retired_offers=retired,
                undated_prices=undated,
                oldest_price=rows.day(oldest),
                newest_price=rows.day(newest),
                sources=sources[provider],
                grades=grades[provider],
                not_offered=not_offered,
                offerings_as_of=rows.day(asked_on),
                by_lifecycle=by_lifecycle,
                old_prices=old,
            )
            for provider, count, retired, undated, oldest, newest, *rest in self._rows(queries.SUMMARY, days)
            for not_offered, asked_on, by_lifecycle, old in [rest]
        ]

    def cheapest(self, provider: str) -> dict[tuple[str, str, str], int]:
        """Prices as their sources say them, in millionths of a dollar per hour, by region, type and market; of the
        zones of a region the cheapest."""
        return {tuple(key): usd for *key, usd in self._rows(queries.CHEAPEST, {"provider": provider})}

    def rented(self, provider: str) -> list[tuple[str, str, str]]:
        """The machine types that a provider rents: type, family and region of each, in every market."""
        return [tuple(row) for row in self._rows(queries.RENTED, {"provider": provider})]

    @cached_property
    def regions(self) -> frozenset[str]:
        """The names of all regions, of all providers."""
        return frozenset(self._regions)

    @cached_property
    def text_sha256(self) -> str:
        """Digest of the text that the file was compiled from."""
        ((value,),) = self._rows("SELECT value FROM meta WHERE key = 'text_sha256'")
        return str(value)

    @cached_property
    def _regions(self) -> list[str]:
        return [name for (name,) in self._rows("SELECT name FROM region ORDER BY region_id")]

    @cached_property
    def _notes(self) -> Mapping[int | None, str]:
        return {None: "", **dict(self._rows("SELECT note_id, text FROM note"))}

    @cached_property
    def _sources(self) -> Mapping[int, tuple[PriceGrade, str]]:
        source_rows = self._rows("SELECT source_id, kind, text FROM source")
        return {source_id: (PriceGrade(kind), text) for source_id, kind, text in source_rows}

    def _rental_placements(self, row: Sequence[Any], conditions: queries.Conditions, today: date) -> RentalPlacements:
        key, count, unrankable, *columns = row
        rental_id, first_row = columns[0], columns[rows.FIRST_ROW]

        def load() -> list[Placement]:
            placement_rows = self._rows(
                queries.placements(conditions), {**conditions.parameters, "rental_id": rental_id}
            )
            placement = self._placement
            return [placement(key, first_row) for (key,) in placement_rows]

        first = None if key is None else self._placement(key, first_row)
        rental = self._rental(columns, today)
        return RentalPlacements(rental, Placements(first, count - unrankable, unrankable, load))

    def _placement(self, key: int, first_row: int) -> Placement:
        offset = (key >> queries.REGION_BITS) & _OFFSET_MASK
        return Placement(key >> _PRICE_SHIFT, self._regions[key & _REGION_MASK], first_row + offset)

    def _rental(self, row: Sequence[Any], today: date) -> Rental:
        """A row of table `rental` as it is on `today`, made once."""
        rentals = self._rentals_by_day.setdefault(today, {})
        if row[0] not in rentals:
            rentals[row[0]] = rows.rental(row, self.rates, today)
        return rentals[row[0]]

    def _offers(self, offer_rows: Sequence[Sequence[Any]], today: date) -> dict[int, Offer]:
        make = self._maker(offer_rows, today)
        return {row[0]: make.offer(row) for row in offer_rows}

    def _maker(self, offer_rows: Sequence[Sequence[Any]], today: date) -> rows.OfferMaker:
        """Return the function that makes offers from rows of `queries.offers`, whose second column is the rental."""
        missing_ids = {row[1] for row in offer_rows} - self._rentals_by_day.setdefault(today, {}).keys()
        if missing_ids:
            numbers = ",".join(str(int(rental_id)) for rental_id in missing_ids)
            for row in self._rows(f"SELECT * FROM rental WHERE rental_id IN ({numbers})"):
                self._rental(row, today)
        return rows.OfferMaker(self._rentals_by_day[today], self._regions, self._sources, self._notes, today)

    def _rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise CatalogError(f"the price catalog {self.path} cannot be read: {error}") from error


def find_device(name: str) -> Device:
    """The shipped device of this name or alias. Raises UnknownDeviceError with the nearest names, CatalogError."""
    with Catalog.open() as catalog:
        return catalog.devices.find(name)
