"""AWS without an account: the Price List's bulk files, a region each, and the Spot Advisor's interruption buckets."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.grades import Market
from trainplan.pricing.sources.reading import (
    Count,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    TypeSeen,
    came_instead,
    day_of,
    hours_in,
    in_turn,
    inside,
    is_name,
    json_object,
    usd,
)

if TYPE_CHECKING:
    from trainplan.pricing.sources.http import Http

LIST_ID, ADVISOR_ID = "aws-price-list", "aws-spot-advisor"
SOURCES = (
    (LIST_ID, "listed", "AWS Price List, bulk file of the region (AmazonEC2, Linux, shared tenancy)"),
    (ADVISOR_ID, "estimated", "AWS Spot Advisor: savings off on demand"),
)
_INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
# Not those of governments and of China, nor Local Zones and Wavelength Zones.
_PUBLIC = re.compile(r"(?!cn-)[a-z]{2}-[a-z]+-\d")
# What has no line ends is no price list, and must not fill the memory.
_LONGEST_LINE = 1 << 20
_LINES_BEFORE_HEADER = 20
_HEADER = b'"SKU"'
# What a row of a Linux machine on shared hardware has, and what it must say there; an empty string: may be missing.
_ADMITTED_VALUES = {
    "TermType": ("OnDemand",),
    "Product Family": ("Compute Instance",),
    "Location Type": ("AWS Region",),
    "Operating System": ("Linux",),
    "Tenancy": ("Shared",),
    "CapacityStatus": ("Used",),
    "Pre Installed S/W": ("NA", ""),
    "License Model": ("No License required", "NA", ""),
    "MarketOption": ("OnDemand", ""),
}
_FIGURES = ("PricePerUnit", "Currency", "Unit", "StartingRange", "EndingRange", "vCPU", "Memory")
_PUBLISHED = b'"Publication Date"'
"""The line before the header that dates the file."""
_COLUMNS = (*(name for name in _ADMITTED_VALUES if name != "MarketOption"), "Instance Type", "Region Code", *_FIGURES)
# Rows without these words are no Linux machines on demand: a file has a million rows, and few are worth taking apart.
_WORDS = (b"OnDemand", b"Linux", b"Shared", b"Compute Instance", b"Used")


class Endpoints(NamedTuple):
    """Where AWS publishes prices."""

    prices: str = "https://pricing.us-east-1.amazonaws.com"
    advisor: str = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"


def read(http: Http, endpoints: Endpoints, regions: Collection[str] | None) -> Iterator[PricePart]:
    """On-demand prices, a part for each of `regions`, or of all that everybody may use. Raises SourceError without an
    index."""
    files = parse_index(http.get(endpoints.prices + _INDEX))
    if regions is None:
        regions = [region for region in files if _PUBLIC.fullmatch(region)]
    return in_turn(
        (
            PricePart(name=region, markets=frozenset({Market.ON_DEMAND}), regions=frozenset({region})),
            partial(_region, http, endpoints, files.get(region), region),
        )
        for region in sorted(regions)
    )


def _region(http: Http, endpoints: Endpoints, path: str | None, region: str) -> Parsed:
    if path is None:
        raise SourceError(f"AWS lists no region {region!r}")
    return parse_offers(lines(http.stream(endpoints.prices + path)), region)


def read_advisor(http: Http, endpoints: Endpoints) -> Advice:
    """How often spot machines are interrupted, and what they save, as of the day of the file. Raises SourceError."""
    content, as_of = http.get_dated(endpoints.advisor)
    return parse_advisor(content)._replace(as_of=as_of)


def parse_index(content: bytes) -> dict[str, str]:
    """The CSV file of each region, relative to the Price List. Raises SourceError."""
    regions = json_object(content, "the index of the AWS Price List").get("regions")
    entries: dict[str, str] = {}
    for code, entry in regions.items() if isinstance(regions, dict) else ():
        path = inside(entry, "currentVersionUrl")
        if is_name(code) and isinstance(path, str) and path.startswith("/offers/") and path.endswith("/index.json"):
            entries[code] = path.removesuffix(".json") + ".csv"
    if not entries:
        raise SourceError("the index of the AWS Price List names no region", "try again later")
    return entries


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of a stream without their ends, the last one too if it has none. Raises SourceError for endless ones."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > _LONGEST_LINE:
            raise SourceError("a line without an end came instead of prices")
    if rest:
        yield rest


def parse_offers(rows: Iterable[bytes], region: str) -> Parsed:
    """On-demand prices and machine types out of a region's CSV file, line by line. Raises SourceError."""
    table = _Table.find(iter(rows))
    parsed = Parsed()
    prices: dict[str, PriceFound] = {}
    last: list[str] | None = None
    for line in table.rows:
        if all(word in line for word in _WORDS):
            last = None
            _take(table, line, region, prices, parsed)
        else:
            # Of rows that are not taken apart the last one is looked at: where it is not whole, the file was cut off.
            last = [line.decode("utf-8", "replace")]
    if last is not None:
        table.fields(last[0].encode())  # a file that was cut off ends in the middle of a row
    parsed.prices = list(prices.values())
    if not parsed.prices:
        raise SourceError(f"the price list of {region} has no prices of Linux machines")
    return parsed


class _Table(NamedTuple):
    """The rows under a header, where in them the columns are, and when the list was published."""

    width: int
    columns: dict[str, int]
    rows: Iterator[bytes]
    published: date | None

    @classmethod
    def find(cls, rows: Iterator[bytes]) -> _Table:
        """Some lines of the file's own come before the header. Raises SourceError where that or a column is missing."""
        first, published = b"", None
        for _ in range(_LINES_BEFORE_HEADER):
            line = next(rows, None)
            if line is None:
                break
            first = first or line
            if line.startswith(_PUBLISHED):
                published = day_of(_fields(line)[-1])
            if line.startswith((b'"SKU"', b"SKU,")):
                names = _fields(line)
                columns = {name: number for number, name in enumerate(names)}
                missing_names = [name for name in _COLUMNS if name not in columns]
                if missing_names:
                    raise SourceError(f"the price list has no column {missing_names[0]!r}: its format has changed")
                return cls(len(names), columns, rows, published)
        raise SourceError(f"the price list has no header: {came_instead(first)}")

    def fields(self, line: bytes) -> dict[str, str]:
        """A row by column. Raises SourceError where the file was cut off within it."""
        values = _fields(line)
        if len(values) != self.width:
            raise SourceError(f"a row has {len(values)} of {self.width} columns: the file was cut off or is damaged")
        return {name: values[number] for name, number in self.columns.items()}


def _fields(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.rstrip(b"\r").decode("utf-8")], strict=True), [])
    except (csv.Error, UnicodeDecodeError):
        raise SourceError("a row cannot be read: the file was cut off or is damaged") from None


def _take(table: _Table, line: bytes, region: str, prices: dict[str, PriceFound], parsed: Parsed) -> None:
    """A row's price into `prices`, or the reason why not into what was skipped."""
    row = table.fields(line)
    if any(row.get(column, "") not in values for column, values in _ADMITTED_VALUES.items()):
        parsed.skipped[Count.OTHER_PRODUCT] += 1
        return
    name = row["Instance Type"]
    if row["Region Code"] != region or not is_name(name):
        parsed.skipped[Count.OTHER_PLACEMENT] += 1
        return
    price, hours = usd(row["PricePerUnit"]), hours_in(row["Unit"])
    why = _why_not(row, price is None, hours is None)
    if why is not None or price is None or hours is None:
        parsed.skipped[why or Count.NO_PRICE] += 1
        return
    price_found = PriceFound(
        region, name, Market.ON_DEMAND, price * hours, LIST_ID,
        as_of=table.published, since=day_of(row.get("EffectiveDate")),
    )  # fmt: skip
    before = prices.setdefault(name, price_found)
    if before.usd_per_hour != price_found.usd_per_hour:
        # Whichever it is, nobody pays more than the dearer one.
        parsed.skipped[Count.TWO_PRICES] += 1
        prices[name] = max(before, price_found, key=lambda one: one.usd_per_hour)
    elif before is price_found:
        _see(row, parsed)


def _why_not(row: dict[str, str], no_price: bool, no_time: bool) -> Count | None:
    if row["Currency"] != "USD":
        return Count.OTHER_CURRENCY
    if no_time:
        return Count.OTHER_UNIT
    if (row["StartingRange"] or "0", row["EndingRange"] or "Inf") != ("0", "Inf"):
        return Count.TIERS
    return Count.NO_PRICE if no_price else None


def _see(row: dict[str, str], parsed: Parsed) -> None:
    """The machine type, where the row describes it: `61 GiB`, `1,952 GiB`."""
    memory, unit, *_ = *row["Memory"].replace(",", "").split(), "", ""
    vcpus, count = row["vCPU"], row.get("GPU", "") or "0"
    if unit != "GiB" or not _is_number(memory, 8) or not _is_number(vcpus, 4) or not _is_number(count, 3):
        return
    parsed.types.append(TypeSeen(row["Instance Type"], int(vcpus), float(memory), int(float(count))))


def _is_number(text: str, longest: int) -> bool:
    return len(text) <= longest and text.isascii() and text.replace(".", "", 1).isdecimal() and text[:1].isdecimal()


class Advice(NamedTuple):
    """Spot Advisor by (region, machine type): interruption bucket 0-4, and percent saved off on demand.

    The file has no date in it; `as_of` is when it was last modified, as its server says (None: it does not say).
    """

    buckets: dict[tuple[str, str], tuple[int, int]]
    skipped: int
    as_of: date | None = None


def parse_advisor(content: bytes) -> Advice:
    """Spot Advisor's file, Linux only. Raises SourceError."""
    whole = json_object(content, "the Spot Advisor's file")
    ranges, regions = whole.get("ranges"), whole.get("spot_advisor")
    if not isinstance(ranges, list) or len(ranges) != 5 or not isinstance(regions, dict):
        raise SourceError(
            "the Spot Advisor's file has other ranges than the five that are known: its format has changed"
        )
    buckets: dict[tuple[str, str], tuple[int, int]] = {}
    skipped = 0
    for region, systems in regions.items():
        linux = inside(systems, "Linux")
        for name, entry in linux.items() if isinstance(linux, dict) else ():
            bucket, saved = inside(entry, "r"), inside(entry, "s")
            if is_name(region) and is_name(name) and _is_in(bucket, 4) and _is_in(saved, 99):
                buckets[region, name] = (bucket, saved)
            else:
                skipped += 1
    if not buckets:
        raise SourceError("the Spot Advisor's file has no Linux machines")
    return Advice(buckets, skipped)


def _is_in(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
