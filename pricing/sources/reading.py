"""What every price source hands back, and how its figures are checked before they are believed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.pricing.grades import Market

if TYPE_CHECKING:
    from trainplan.pricing.tables import SpotHistory

MOST_USD_PER_HOUR = Decimal(2000)
"""More than any machine in the lists costs; what the compiled format can hold ends a little above."""

_LONGEST_NUMBER = 40
_UNITS = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Decimal(1)),
    **dict.fromkeys(("min", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), Decimal(3600)),
}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(T|$)", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", re.ASCII)


class SourceError(Exception):
    """A list of prices could not be read: what came instead, and what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


class UnreachableError(SourceError):
    """The source does not answer after several tries; the next part would take as long to fail."""


class PriceFound(NamedTuple):
    """A price as a list has it, in USD per hour; `source` is the id of a row of sources.csv.

    `zones` empty: the whole region. `host` and `device` are its parts where the list has parts, `bucket` is Spot
    Advisor's. `as_of` is the list's own date, or the day of reading where the list is the one of the moment (None: the
    list has none and may be of any age); `since` is the day from which the row itself says that its price holds.
    """

    region: str
    instance_type: str
    market: Market
    usd_per_hour: Decimal
    source: str
    zones: tuple[str, ...] = ()
    history: SpotHistory | None = None
    bucket: int | None = None
    host: Decimal | None = None
    device: Decimal | None = None
    as_of: date | None = None
    since: date | None = None

    @property
    def zone(self) -> str:
        """The zone that the price is of; empty: the whole region, or several zones."""
        return self.zones[0] if len(self.zones) == 1 else ""


class TypeSeen(NamedTuple):
    """A machine type that a list describes; `device_count` 0: no accelerator that the list knows of, None: it does not
    say how many."""

    name: str
    vcpus: int
    memory_gib: float
    device_count: int | None


class Count(StrEnum):
    """Why a row of a list was left out."""

    OTHER_PRODUCT = "another product (system, tenancy, licence, commitment)"
    OTHER_PLACEMENT = "another placement (Local Zone, Wavelength, government)"
    OTHER_CURRENCY = "another currency than USD"
    OTHER_UNIT = "no price for time"
    TIERS = "a price in tiers"
    NO_PRICE = "no price, or one that cannot be"
    NOT_NOW = "not valid today"
    TWO_PRICES = "two prices for one thing, the dearer one taken"
    DISAGREE = "two prices for one thing, neither one taken"
    BETTER_KNOWN = "a price of its zones, or of the vendor's own list, is known and counts"
    INCOMPLETE = "fields are missing"
    UNKNOWN_TYPE = "a machine type that is not known here"


@dataclass(slots=True)
class Parsed:
    """What a list says: prices, machine types, and how many of its rows were left out, by reason."""

    prices: list[PriceFound] = field(default_factory=list)
    types: list[TypeSeen] = field(default_factory=list)
    skipped: Counter[Count] = field(default_factory=Counter)

    def add(self, other: Parsed) -> None:
        """Take over what another page says."""
        self.prices += other.prices
        self.types += other.types
        self.skipped += other.skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePart:
    """A piece of a provider's prices that was read whole or failed whole: these markets in these regions, of these
    machine types (None: all).

    `error` says why it failed; what was known of it before stays. `keeps_missing`: so does what the list does not have,
    since it is not the vendor's list of what is sold. `digest` is of the content of a list that changes all the time
    and has no date: one that stays the same is no list of today.
    """

    name: str
    markets: frozenset[Market]
    regions: frozenset[str] | None
    types: frozenset[str] | None = None
    parsed: Parsed = field(default_factory=Parsed)
    error: str = ""
    unreachable: bool = False
    keeps_missing: bool = False
    digest: str = ""

    def covers(self, region: str, instance_type: str, market: Market) -> bool:
        """Whether a price is of this part."""
        return (
            market in self.markets
            and (self.regions is None or region in self.regions)
            and (self.types is None or instance_type in self.types)
        )

    def read(self, parse: Callable[[], Parsed]) -> PricePart:
        """The part as `parse` has it, or with what was in the way."""
        try:
            return replace(self, parsed=parse())
        except SourceError as error:
            return replace(self, error=error.message, unreachable=isinstance(error, UnreachableError))


def in_turn(todo: Iterable[tuple[PricePart, Callable[[], Parsed]]]) -> Iterator[PricePart]:
    """Read one part after the other; once nobody can be reached, the rest is not tried."""
    return at_once(todo, threads=1)


def at_once(todo: Iterable[tuple[PricePart, Callable[[], Parsed]]], threads: int) -> Iterator[PricePart]:
    """Read several parts at a time and yield them in order; once nobody can be reached, the rest is not tried."""
    unreachable: list[str] = []

    def read(one: tuple[PricePart, Callable[[], Parsed]]) -> PricePart:
        part, parse = one
        if unreachable:
            return replace(part, error=unreachable[0], unreachable=True)
        part = part.read(parse)
        if part.unreachable:
            unreachable.append(part.error)
        return part

    if threads == 1:
        yield from map(read, todo)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(read, todo)


class Offered(NamedTuple):
    """Where a vendor's own offerings have which machine types: zones by (region, type), for the regions asked."""

    regions: frozenset[str]
    zones: dict[tuple[str, str], tuple[str, ...]]
    on: date


def usd(value: object) -> Decimal | None:
    """A price that can be: finite, above nothing, not beyond everything. None for whatever else it is."""
    # True is an int in Python, and no price.
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    text = str(value).strip()
    if not text or len(text) > _LONGEST_NUMBER:
        return None
    try:
        price = Decimal(text)
    except InvalidOperation:
        return None
    return price if price.is_finite() and 0 < price < MOST_USD_PER_HOUR else None


def day_of(value: object) -> date | None:
    """The day of an instant as lists write it (`2026-11-18T19:32:11Z`, `2026-11-01`); None: it is no day."""
    if not isinstance(value, str) or not _DAY.match(value):
        return None
    try:
        return date.fromisoformat(value[:10])
    except ValueError:
        return None


def hours_in(unit: object) -> Decimal | None:
    """How often a unit of time goes into an hour (`Hrs`, `1 Hour`, `100 Hours`, `Seconds`); None: it is no time."""
    if not isinstance(unit, str) or len(unit) > _LONGEST_NUMBER:
        return None
    count, _, name = unit.strip().lower().rpartition(" ")
    per_hour = _UNITS.get(name.removesuffix("."))
    if per_hour is None:
        return None
    if not count:
        return per_hour
    return per_hour / int(count) if re.fullmatch(r"[1-9][0-9]{0,5}", count, re.ASCII) else None


def is_name(value: object) -> bool:
    """Whether it can name a region, a zone or a machine type."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def json_object(content: bytes, what: str) -> dict[str, Any]:
    """The JSON object that `content` is. Raises SourceError saying what came instead."""
    try:
        value = json.loads(content)
    # json raises RecursionError for what is nested too deeply.
    except (ValueError, RecursionError):
        raise SourceError(f"{what}: {came_instead(content)}", "try again later") from None
    if not isinstance(value, dict):
        raise SourceError(f"{what}: JSON, and no object", "try again later")
    return value


def came_instead(content: bytes) -> str:
    """What a response that is no list of prices begins with, on one line."""
    begin = content[:60].decode("utf-8", "replace").lstrip()
    if begin[:1] == "<":
        return "a web page came instead of prices"
    text = "".join(letter if letter.isprintable() else " " for letter in begin)
    return f"it ends in the middle or is damaged (it begins with {text!r})" if begin else "it is empty"


def items(value: object) -> list[dict[str, Any]]:
    """The objects of a JSON list; whatever else is in it is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def inside(value: object, *keys: str) -> Any:
    """What lies at a path of keys through JSON objects; None where the path ends before."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
