"""AWS without an account: the lists behind its two price pages, and the Spot Advisor's interruption buckets.

AWS documents none of the three: whatever is not as it was recorded is refused, and what was known before stays. None
has been asked from here; the shapes are those of public copies of 2026-08 and 2026-09.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from trainplan.pricing.grades import Market
from trainplan.pricing.sources.reading import (
    Count,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    TypeSeen,
    UnreachableError,
    at_once,
    day_of,
    inside,
    is_name,
    items,
    json_object,
    usd,
)

if TYPE_CHECKING:
    from trainplan.pricing.sources.http import Http

LIST_ID, SPOT_ID, ADVISOR_ID = "aws-on-demand-page", "aws-spot-page", "aws-spot-advisor"
SOURCES = (
    (
        LIST_ID,
        "listed",
        "the list behind https://aws.amazon.com/ec2/pricing/on-demand/ (Linux), which AWS does not document",
    ),
    (
        SPOT_ID,
        "observed",
        "the list behind https://aws.amazon.com/ec2/spot/pricing/ (Linux), by region, which AWS does not document",
    ),
    (ADVISOR_ID, "estimated", "AWS Spot Advisor: savings off on demand"),
)
SPOT_PART = "spot by region"
"""The part of a reading that has the spot prices of all regions."""
_LOCATIONS = "/locations/1.0/aws/current/locations.json"
_ON_DEMAND = "/pricing/2.0/meteredUnitMaps/ec2/USD/current/ec2-ondemand-without-sec-sel/{location}/Linux/index.json"
# Not those of governments and of China, nor Local Zones and Wavelength Zones.
_PUBLIC = re.compile(r"(?!cn-)[a-z]{2}-[a-z]+-\d")
_ACCELERATED = ("gpu", "machine learning", "fpga", "media accelerator")
"""Words in the family of machines with accelerators; the list does not say how many they have."""
_THREADS = 8
FROZEN_AFTER = {Market.ON_DEMAND: timedelta(days=90), Market.SPOT: timedelta(days=3)}
"""A list that is older is no list of today. In 2026 AWS published the one of on-demand prices several times a month and
renewed the one of spot prices every hour; `spot.js` at the same address stands still since 2024-05-13 (github.com/
alexei-led/spotinfo docs/data-sources.md)."""


class Endpoints(NamedTuple):
    """Where AWS publishes prices."""

    on_demand: str = "https://b0.p.awsstatic.com"
    spot: str = "https://website.spot.ec2.aws.a2z.com/spot.json"
    advisor: str = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"


def read_on_demand(http: Http, endpoints: Endpoints, regions: Collection[str], today: date) -> Iterator[PricePart]:
    """On-demand prices, a part for each region. Raises SourceError without the names of the regions."""
    names = parse_locations(http.get(endpoints.on_demand + _LOCATIONS))

    def parse(region: str) -> Parsed:
        if region not in names:
            raise SourceError(f"AWS lists no region {region!r}")
        locations = _spellings(names[region])
        return parse_on_demand(_first_that_is_there(http, endpoints, locations), region, locations, today)

    return at_once(
        (
            (
                PricePart(name=region, markets=frozenset({Market.ON_DEMAND}), regions=frozenset({region})),
                partial(parse, region),
            )
            for region in sorted(regions)
        ),
        _THREADS,
    )


def _spellings(name: str) -> tuple[str, ...]:
    """AWS writes `EU (Ireland)` in the addresses of its lists, and `Europe (Ireland)` elsewhere."""
    if name.startswith("Europe ("):
        return name, name.replace("Europe", "EU", 1)
    return (name, name.replace("EU", "Europe", 1)) if name.startswith("EU (") else (name,)


def _first_that_is_there(http: Http, endpoints: Endpoints, locations: Collection[str]) -> bytes:
    """The list of a region under the first of its names that has one. Raises SourceError."""
    *others, last = (endpoints.on_demand + _ON_DEMAND.format(location=quote(name, safe="()")) for name in locations)
    for address in others:
        try:
            return http.get(address)
        except UnreachableError:
            raise
        except SourceError:
            continue
    return http.get(last)


def read_spot(http: Http, endpoints: Endpoints, regions: Collection[str], today: date) -> PricePart:
    """Spot prices of `regions`, all in one part. The list names no zones, nor what its price of a region is."""
    part = PricePart(name=SPOT_PART, markets=frozenset({Market.SPOT}), regions=frozenset(regions), keeps_missing=True)
    try:
        content, modified = http.get_dated(endpoints.spot)
        if modified is not None and today - modified > FROZEN_AFTER[Market.SPOT]:
            raise SourceError(f"the list of spot prices was last changed on {modified}: it is no list of today")
        parsed = parse_spot(content, regions, modified or today)
    except SourceError as error:
        return replace(part, error=error.message)
    return replace(part, parsed=parsed, digest=hashlib.sha256(content).hexdigest())


def read_advisor(http: Http, endpoints: Endpoints) -> Advice:
    """How often spot machines are interrupted, and what they save, as of the day of the file. Raises SourceError."""
    content, as_of = http.get_dated(endpoints.advisor)
    return parse_advisor(content)._replace(as_of=as_of)


def parse_locations(content: bytes) -> dict[str, str]:
    """The name of each region by its code, as the lists spell it (`EU (Ireland)`). Raises SourceError."""
    whole = json_object(content, "the names of AWS's regions")
    names = {
        code: name
        for entry in whole.values()
        if inside(entry, "type") == "AWS Region"
        and isinstance(code := inside(entry, "code"), str)
        and _PUBLIC.fullmatch(code)
        and isinstance(name := inside(entry, "name"), str)
        and 0 < len(name) <= 60
    }
    if not names:
        raise SourceError("the names of AWS's regions: none came: the format has changed")
    return names


def parse_on_demand(content: bytes, region: str, locations: Collection[str], today: date) -> Parsed:
    """Prices and machine types of a region; `locations` are its names. Raises SourceError."""
    what = f"the on-demand list of {region}"
    whole = json_object(content, what)
    published = day_of(inside(whole, "manifest", "hawkFilePublicationDate"))
    if published is None or published > today + timedelta(days=1):
        raise SourceError(f"{what} has no date that can be: its format has changed")
    if today - published > FROZEN_AFTER[Market.ON_DEMAND]:
        raise SourceError(f"{what} was published on {published}: it is no list of today")
    if inside(whole, "manifest", "currencyCode") != "USD":
        raise SourceError(f"{what} is in {str(inside(whole, 'manifest', 'currencyCode'))[:20]!r}, not in USD")
    rows = next((rows for name in locations if (rows := inside(whole, "regions", name))), None)
    if not isinstance(rows, dict):
        raise SourceError(f"{what} has no rows of {' or '.join(locations)}: its format has changed")
    parsed = Parsed()
    prices: list[PriceFound] = []
    for row in rows.values():
        name, price = inside(row, "Instance Type"), usd(inside(row, "price"))
        if not is_name(name):
            parsed.skipped[Count.INCOMPLETE] += 1
        elif row.get("Operating System") != "Linux" or row.get("Location") not in (None, *locations):
            parsed.skipped[Count.OTHER_PRODUCT] += 1
        elif price is None:
            parsed.skipped[Count.NO_PRICE] += 1
        else:
            prices.append(PriceFound(region, name, Market.ON_DEMAND, price, LIST_ID, as_of=published))
            parsed.types += _type(name, row)
    return _settled(prices, parsed, what)


def parse_spot(content: bytes, regions: Collection[str], as_of: date) -> Parsed:
    """The spot prices of Linux machines in `regions`; the list has no date of its own: `as_of`. Raises SourceError."""
    what = "the list of spot prices"
    config = inside(json_object(content, what), "config")
    listed = inside(config, "regions")
    if not isinstance(listed, list) or inside(config, "rate") != "perhr":
        raise SourceError(f"{what} has no regions, or no prices by the hour: its format has changed")
    parsed = Parsed()
    prices: list[PriceFound] = []
    for region, size in _sizes(listed, regions, parsed):
        name = size.get("size")
        linux = [column for column in items(size.get("valueColumns")) if column.get("name") == "linux"]
        if not isinstance(name, str) or not is_name(name) or not linux:
            parsed.skipped[Count.INCOMPLETE] += 1
            continue
        # `N/A*` where a machine has none.
        for price in (usd(inside(column, "prices", "USD")) for column in linux):
            if price is None:
                parsed.skipped[Count.NO_PRICE] += 1
            else:
                prices.append(PriceFound(region, name, Market.SPOT, price, SPOT_ID, as_of=as_of))
    return _settled(prices, parsed, what)


def _sizes(listed: list[Any], regions: Collection[str], parsed: Parsed) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each machine type with its region."""
    for entry in items(listed):
        region = entry.get("region")
        if not isinstance(region, str) or region not in regions:
            parsed.skipped[Count.OTHER_PLACEMENT] += 1
            continue
        for family in items(entry.get("instanceTypes")):
            for size in items(family.get("sizes")):
                yield region, size


def _settled(prices: list[PriceFound], parsed: Parsed, what: str) -> Parsed:
    """The list with one price for each machine and region; where it has two, neither. Raises SourceError on none."""
    by_place: dict[tuple[str, str], set[Decimal]] = {}
    for one in prices:
        by_place.setdefault((one.region, one.instance_type), set()).add(one.usd_per_hour)
    kept = {(one.region, one.instance_type): one for one in prices}
    parsed.prices = [one for place, one in kept.items() if len(by_place[place]) == 1]
    parsed.skipped[Count.DISAGREE] += len(kept) - len(parsed.prices)
    if not parsed.prices:
        raise SourceError(f"{what} has no prices of Linux machines: its format has changed")
    return parsed


def _type(name: str, row: dict[str, Any]) -> Iterator[TypeSeen]:
    """The machine type, where the row describes it: `61 GiB`, `1,952 GiB`."""
    memory, unit, *_ = *str(row.get("Memory")).replace(",", "").split(), "", ""
    vcpus, family = str(row.get("vCPU")), str(row.get("Instance Family")).lower()
    if unit == "GiB" and _is_number(memory, 8) and vcpus.isascii() and vcpus.isdecimal() and len(vcpus) <= 4:
        count = None if any(word in family for word in _ACCELERATED) else 0
        yield TypeSeen(name, int(vcpus), float(memory), count)


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
