"""A person's own list of prices, to be held against the checks: a CSV of prices, or settings with `prices.override`."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.grades import Market
from trainplan.pricing.list_checks import Failure, ListedPrice, failures_against
from trainplan.pricing.own_rates import OwnRate, OwnRateError, parse_own_rates
from trainplan.pricing.sources.reading import usd
from trainplan.workloads.nearest import nearest_names
from trainplan.workloads.regular_file import hint_of, regular_text

if TYPE_CHECKING:
    from trainplan.pricing.tables import InstanceType

NEEDED_COLUMNS = ("provider", "region", "instance_type", "usd_per_hour")
COLUMNS = (*NEEDED_COLUMNS, "market", "as_of")
MOST_BYTES = 20_000_000
_HINT = f"columns: {', '.join(NEEDED_COLUMNS)}, and if known market and as_of; docs/prices.md has an example"


class OwnListError(ValueError):
    """A file that is no list of prices; `hint` says what one looks like."""

    def __init__(self, message: str, hint: str = _HINT) -> None:
        self.hint = hint
        super().__init__(message)


class OwnPrice(NamedTuple):
    """A price of a person's list; `location` is where it stands in the file."""

    location: str
    provider: str
    region: str
    instance_type: str
    market: Market
    usd_per_hour: Decimal
    as_of: date | None


class Unchecked(NamedTuple):
    """An entry of the file that no check is for, and why."""

    location: str
    reason: str


class OwnListReport(NamedTuple):
    """What came of a list: its prices, those that fail with their places, and what was not checked."""

    prices: tuple[OwnPrice, ...]
    failed: tuple[tuple[OwnPrice, Failure], ...]
    unchecked: tuple[Unchecked, ...]

    @property
    def checked_count(self) -> int:
        """How many of the prices were held against others."""
        return len({own.location for own in self.prices} - {one.location for one in self.unchecked})


def read_own_list(path: Path) -> tuple[list[OwnPrice], list[Unchecked]]:
    """The prices of a file, by its ending: `.toml` is settings, anything else CSV. Raises OwnListError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise OwnListError(f"{path} is larger than {MOST_BYTES // 1_000_000} MB", "is this the right file?")
        # Spreadsheets write a byte order mark, which would become part of the first column's name.
        text = regular_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OwnListError(f"cannot read {path}: {reason}", hint_of(error, _HINT)) from None
    if path.suffix.lower() == ".toml":
        return _of_settings(text, path.name)
    return _of_csv(text, path.name), []


def check_own_list(
    prices: Sequence[OwnPrice],
    types: Mapping[tuple[str, str], InstanceType],
    known: Collection[ListedPrice],
    today: date,
) -> OwnListReport:
    """Hold a list against itself and what is `known`.

    Not checked is a price of a machine type that is not among `types`, of a region without a known price, and of a day
    after `today`.
    """
    regions = {(one.type.provider, one.region) for one in known}
    listed: dict[str, OwnPrice] = {}
    rows, unchecked = [], []
    for price in prices:
        kind = types.get((price.provider, price.instance_type))
        if kind is None:
            unchecked.append(Unchecked(price.location, f"{price.provider} {price.instance_type} is not known here"))
            continue
        if (price.provider, price.region) not in regions:
            near = nearest_names(price.region, sorted(name for provider, name in regions if provider == price.provider))
            hint = f"; did you mean {near[0]}?" if near else ""
            reason = f"no price of {price.provider} in a region {price.region!r} is known here{hint}"
            unchecked.append(Unchecked(price.location, reason))
            continue
        if price.as_of is not None and price.as_of > today:
            unchecked.append(Unchecked(price.location, f"its day, {price.as_of}, is in the future"))
            continue
        row = ListedPrice(kind, price.region, price.market, price.usd_per_hour, price.as_of)
        if row.name in listed:
            raise OwnListError(
                f"{price.location}: {row.name} stands in the list twice (before: {listed[row.name].location})",
                "keep the one that holds",
            )
        listed[row.name] = price
        rows.append(row)
    failed = tuple((listed[one.price.name], one) for one in failures_against(rows, known))
    return OwnListReport(tuple(prices), failed, tuple(unchecked))


def _of_csv(text: str, name: str) -> list[OwnPrice]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, restkey="", restval="")
    try:
        header = [column.strip() for column in reader.fieldnames or ()]
        reader.fieldnames = header
        missing = [column for column in NEEDED_COLUMNS if column not in header]
        if missing:
            raise OwnListError(f"{name} has no column {missing[0]!r} in its line 1")
        twice = [column for column in COLUMNS if header.count(column) > 1]
        if twice:
            raise OwnListError(f"{name} has the column {twice[0]!r} twice", "leave one of them out")
        prices = [_price(f"{name}:{reader.line_num}", row) for row in reader]
    except csv.Error as error:
        raise OwnListError(f"{name}:{reader.reader.line_num}: {error}", "is this a CSV file?") from None
    if not prices:
        raise OwnListError(f"{name} has no prices")
    return prices


def _price(location: str, row: Mapping[str, str]) -> OwnPrice:
    if row.get(""):
        raise OwnListError(f"{location}: more cells than columns: a cell with a comma needs quotes")
    cells = {column: (row.get(column) or "").strip() for column in COLUMNS}
    for column in NEEDED_COLUMNS:
        if not cells[column]:
            raise OwnListError(f"{location}: {column} is empty")
    price = usd(cells["usd_per_hour"])
    if price is None:
        raise OwnListError(f"{location}: usd_per_hour {cells['usd_per_hour']!r} is not a price above 0, as 0.526")
    market = (cells["market"] or Market.ON_DEMAND).replace("-", "_")
    if market not in set(Market):
        raise OwnListError(f"{location}: market {cells['market']!r} is not on_demand or spot")
    try:
        as_of = date.fromisoformat(cells["as_of"]) if cells["as_of"] else None
    except ValueError:
        raise OwnListError(f"{location}: as_of {cells['as_of']!r} is not a day, as 2026-11-23") from None
    names = cells["provider"], cells["region"], cells["instance_type"]
    return OwnPrice(location, *names, Market(market), price, as_of)


def _of_settings(text: str, name: str) -> tuple[list[OwnPrice], list[Unchecked]]:
    try:
        rates = parse_own_rates(tomllib.loads(text).get("prices", {}))
    except tomllib.TOMLDecodeError as error:
        raise OwnListError(f"{name}: {error}", "is this a TOML file?") from None
    except OwnRateError as error:
        raise OwnListError(f"{name}: {error}", error.hint) from None
    prices: list[OwnPrice] = []
    unchecked: list[Unchecked] = []
    for number, rate in enumerate(rates, start=1):
        location = f"{name}: prices.override {number}"
        why = _why_not(rate)
        if why or rate.usd_per_hour is None:
            unchecked.append(Unchecked(location, why))
            continue
        names = rate.provider, rate.region, rate.instance_type
        prices.append(OwnPrice(location, *names, Market(rate.market), rate.usd_per_hour, rate.as_of))
    if not rates:
        raise OwnListError(f"{name} has no [[prices.override]]")
    return prices, unchecked


def _why_not(rate: OwnRate) -> str:
    if rate.usd_per_hour is None:
        return "a discount is no price"
    return (
        "" if rate.region and rate.instance_type else "only a price of one instance_type in one region can be checked"
    )
