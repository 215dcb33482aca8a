"""Google without a key: another project's copy of its price list, SkyPilot's catalog of machines.

Google publishes the list to those with a key alone, and its page of spot prices shows one region. The copy has the host
and the accelerator in rows of their own, TPUs in one, and no local disks: machines that bring some (a2-ultragpu, a3)
come out up to 1 % too low. It has no date in it; the day of its last change is asked for.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market
from trainplan.pricing.sources.gcp import SPOT_ONLY
from trainplan.pricing.sources.reading import (
    Count,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    came_instead,
    day_of,
    inside,
    is_name,
    items,
    usd,
)

if TYPE_CHECKING:
    from trainplan.pricing.sources.http import Http
    from trainplan.pricing.tables import InstanceType

COPY_ID = "gcp-skypilot-copy"
SOURCES = ((COPY_ID, "copied", "github.com/skypilot-org/skypilot-catalog gcp/vms.csv, of the day of its last change"),)
COPY_PART = "copy of Google's list"
FROZEN_AFTER = timedelta(days=60)
"""Google changes some price every month; a copy without a change for two is no longer made."""
_FILE = "catalogs/v8/gcp/vms.csv"
_COLUMNS = frozenset({"InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice"})
_NO_PRICE = Decimal(700)
"""What the copy has where Google lists no price of a TPU."""
_DEVICES = {
    "A100-40GB": "A100",
    "A100-80GB": "A100-80GB",
    "H100": "H100",
    "H200": "H200",
    "L4": "L4",
    "P100": "P100",
    "P4": "P4",
    "T4": "T4",
    "V100": "V100",
}
"""What the copy calls the devices that attach to hosts; the H100 of a3-megagpu is `H100-MEGA`."""


class Endpoints(NamedTuple):
    """Where the copy is, and who says when it changed last."""

    copy: str = f"https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/{_FILE}"
    changes: str = f"https://api.github.com/repos/skypilot-org/skypilot-catalog/commits?path={_FILE}&per_page=1"


def read(
    http: Http, endpoints: Endpoints, types: Iterable[InstanceType], regions: frozenset[str], today: date
) -> PricePart:
    """Both markets of `types` in `regions` (empty: in all), as one part."""
    part = PricePart(name=COPY_PART, markets=frozenset(Market), regions=regions or None, keeps_missing=True)
    return part.read(partial(_read, http, endpoints, types, regions, today))


def _read(
    http: Http, endpoints: Endpoints, types: Iterable[InstanceType], regions: frozenset[str], today: date
) -> Parsed:
    as_of = parse_changes(http.get(endpoints.changes))
    if not timedelta(days=-1) <= today - as_of <= FROZEN_AFTER:
        raise SourceError(f"the {COPY_PART} was last changed on {as_of}: it is no list of today")
    parsed = parse_copy(http.get(endpoints.copy), types, as_of)
    parsed.prices = [one for one in parsed.prices if not regions or one.region in regions]
    return parsed


def parse_changes(content: bytes) -> date:
    """The day of the last change of a file, out of GitHub's list of commits. Raises SourceError."""
    try:
        commits = items(json.loads(content))
    except (ValueError, RecursionError):
        raise SourceError(f"the changes of the {COPY_PART}: {came_instead(content)}", "try again later") from None
    day = day_of(inside(commits[0], "commit", "committer", "date")) if commits else None
    if day is None:
        raise SourceError(f"the changes of the {COPY_PART}: no day came")
    return day


_Thing = tuple[str, str]
"""A row's machine type and accelerator with its count, of which one is empty."""


def parse_copy(content: bytes, types: Iterable[InstanceType], as_of: date) -> Parsed:
    """The known machine types wherever each part of them has one price. Raises SourceError."""
    parts = {kind.name: thing for kind in types if (thing := _parts_of(kind))}
    parsed = Parsed()
    rates = _rates(content, {one for several in parts.values() for one in several}, parsed)
    for name, things in parts.items():
        for market in (Market.SPOT,) if name in SPOT_ONLY else tuple(Market):
            every = [rates.get((thing, market), {}) for thing in things]
            for region in sorted(set.intersection(*map(set, every))):
                prices = [by_region[region] for by_region in every]
                host, device = prices if "+" in name and market is Market.ON_DEMAND else (None, None)
                total = sum(prices, start=Decimal(0))
                one = PriceFound(region, name, market, total, COPY_ID, host=host, device=device, as_of=as_of)
                parsed.prices.append(one)
    if not parsed.prices:
        raise SourceError(f"the {COPY_PART} has no machine that is known here: its format has changed")
    return parsed


def _parts_of(kind: InstanceType) -> tuple[_Thing, ...]:
    """The rows that a machine type is made of; none where that is not known."""
    if kind.name.startswith("tpu-"):
        return (("", f"{kind.name} x 1"),)
    host = (kind.name.partition("+")[0], "")
    if kind.device == CPU_DEVICE:
        return (host,)
    name = "H100-MEGA" if kind.name.startswith("a3-megagpu-") else _DEVICES.get(kind.device)
    return (host, ("", f"{name} x {kind.device_count}")) if name else ()


def _rates(
    content: bytes, wanted: Collection[_Thing], parsed: Parsed
) -> Mapping[tuple[_Thing, Market], Mapping[str, Decimal]]:
    """The price of each wanted thing by region; none where its zones differ. Raises SourceError."""
    found: defaultdict[tuple[_Thing, Market], defaultdict[str, set[Decimal]]]
    found = defaultdict(lambda: defaultdict(set))
    for row in _rows(content):
        thing = (row["InstanceType"], _accelerator(row))
        if thing not in wanted:
            continue
        if not is_name(row["Region"]):
            parsed.skipped[Count.INCOMPLETE] += 1
            continue
        for market, column in ((Market.ON_DEMAND, "Price"), (Market.SPOT, "SpotPrice")):
            price = usd(row[column])
            if price is None or price == _NO_PRICE:
                parsed.skipped[Count.NO_PRICE] += 1
            else:
                found[thing, market][row["Region"]].add(price)
    for by_region in found.values():
        parsed.skipped[Count.DISAGREE] += sum(len(prices) > 1 for prices in by_region.values())
    return {
        key: {region: min(prices) for region, prices in by_region.items() if len(prices) == 1}
        for key, by_region in found.items()
    }


def _accelerator(row: Mapping[str, str]) -> str:
    """`T4 x 1`; the file writes counts as `1` and as `1.0`."""
    name = row["AcceleratorName"]
    return f"{name} x {row['AcceleratorCount'].removesuffix('.0')}" if name else ""


def _rows(content: bytes) -> Iterator[Mapping[str, str]]:
    """The rows of the file. Raises SourceError where it is no such file, or was cut off."""
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
        missing = _COLUMNS.difference(reader.fieldnames or ())
        if missing:
            raise SourceError(f"the {COPY_PART} has no column {min(missing)!r}: {came_instead(content)}")
        for row in reader:
            if None in row or None in row.values():
                raise SourceError(f"a row of the {COPY_PART} has other columns: it was cut off or is damaged")
            yield row
    except (csv.Error, UnicodeDecodeError):
        raise SourceError(f"the {COPY_PART} cannot be read: it was cut off or is damaged") from None
