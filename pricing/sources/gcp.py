"""Google's Cloud Billing Catalog: prices of cores, memory, accelerators and chips, and machines put together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from trainplan.pricing.grades import Market
from trainplan.pricing.money import HOURS_PER_MONTH
from trainplan.pricing.sources.reading import (
    MOST_USD_PER_HOUR,
    Count,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    day_of,
    hours_in,
    inside,
    is_name,
    items,
    json_object,
)

if TYPE_CHECKING:
    from trainplan.pricing.sources.http import Http
    from trainplan.pricing.tables import InstanceType

LIST_ID = "gcp-billing-catalog"
SOURCES = ((LIST_ID, "listed", "Google Cloud Billing Catalog API (SKUs of Compute Engine and Cloud TPU)"),)
# Google's ids of the services: Compute Engine and Cloud TPU.
COMPUTE, TPU = "6F81-5844-456A", "E000-3F24-B8AA"
# A list whose pages lead in a circle has to end.
MOST_PAGES = 200

_USAGE = frozenset({"OnDemand", "Preemptible"})
# Commitments, reservations and whole hosts are other products than a machine by the hour.
_NOT_PLAIN = re.compile(r"custom|sole tenancy|reserved|reservation|premium|commit|suspended|calendar|dws|flex", re.I)
_SPOT = re.compile(r"^(spot )?preemptible ", re.I)
_HOST = re.compile(r"^(?P<name>.+?)( instance)? (?P<what>core|ram) running in ", re.I)
_DEVICE = re.compile(r"^(?P<name>.+?) gpu( \(1 gpu slice\))? (attached to (spot )?preemptible vms )?running in ", re.I)
_TPU = re.compile(r"\btpu[ -]?v(?P<generation>[2-9][a-z]?)\b", re.I)
# One device, listed under several names over time.
_SAME_DEVICE = {
    "nvidia h100 80gb plus": "nvidia h100 80gb mega",
    "nvidia rtx 6000 96gb": "nvidia rtx pro 6000 96gb",
    "rtx 6000 96gb": "nvidia rtx pro 6000 96gb",
    "nvidia a100 80gb": "nvidia tesla a100 80gb",
}
_LOCAL_SSD = re.compile(r"^ssd backed local storage\b", re.I)


class Endpoints(NamedTuple):
    """Where Google publishes prices."""

    prices: str = "https://cloudbilling.googleapis.com"


class SkuPrice(NamedTuple):
    """What one SKU says: USD per hour and unit of a `thing` (`core n1 predefined`, `gpu nvidia l4`, `tpu v5e`).

    `as_of`: the SKU's effectiveTime, which Google's reference says lies within the last 12 hours where no time range
    was asked for.
    """

    thing: str
    market: Market
    regions: tuple[str, ...]
    usd_per_hour: Decimal
    as_of: date | None = None


def read(
    http: Http, endpoints: Endpoints, headers: Mapping[str, str], types: Iterable[InstanceType], regions: frozenset[str]
) -> Iterator[PricePart]:
    """Read one part: a machine's price is put together from SKUs of both services. `headers` carry the key or token.

    The list is of all regions; of them those of `regions` are taken over, all where it is empty.
    """
    part = PricePart(
        name=", ".join(sorted(regions)) or "all regions", markets=frozenset(Market), regions=regions or None
    )
    yield part.read(partial(_everything, http, endpoints, headers, types, regions))


def _everything(
    http: Http, endpoints: Endpoints, headers: Mapping[str, str], types: Iterable[InstanceType], regions: frozenset[str]
) -> Parsed:
    prices: list[SkuPrice] = []
    parsed = Parsed()
    for service in (COMPUTE, TPU):
        token = ""
        for _ in range(MOST_PAGES):
            request = {"currencyCode": "USD", "pageSize": "5000"} | ({"pageToken": token} if token else {})
            content = http.get(f"{endpoints.prices}/v1/services/{service}/skus?{urlencode(request)}", headers)
            page = parse_page(content)
            prices += page.prices
            parsed.skipped += page.parsed.skipped
            token = page.next_token
            if not token:
                break
        else:
            raise SourceError(f"Google's list of SKUs has no end (more than {MOST_PAGES} pages)")
    price_founds = machines(prices, types, parsed)
    parsed.prices = [one for one in price_founds if not regions or one.region in regions]
    if not parsed.prices:
        raise SourceError("Google's list of SKUs has the parts of no machine that is known here")
    return parsed


class Page(NamedTuple):
    """What one page of SKUs says."""

    prices: list[SkuPrice]
    parsed: Parsed
    next_token: str


def parse_page(content: bytes) -> Page:
    """The prices on a page of SKUs. Raises SourceError where it is none."""
    page = json_object(content, "Google's Billing Catalog")
    if not isinstance(page.get("skus"), list):
        value = inside(page, "error", "message")
        raise SourceError(
            f"Google's Billing Catalog: {value[:200] if isinstance(value, str) else 'a page without SKUs came'}"
        )
    parsed = Parsed()
    prices: list[SkuPrice] = []
    for sku in page["skus"]:
        outcome = _price(sku) if isinstance(sku, dict) else Count.INCOMPLETE
        if isinstance(outcome, Count):
            parsed.skipped[outcome] += 1
        else:
            prices.append(outcome)
    token = page.get("nextPageToken")
    return Page(prices, parsed, token if isinstance(token, str) else "")


def _price(sku: dict[str, Any]) -> SkuPrice | Count:
    text, usage = sku.get("description"), inside(sku, "category", "usageType")
    if not isinstance(text, str) or not isinstance(usage, str):
        return Count.INCOMPLETE
    if usage not in _USAGE or _NOT_PLAIN.search(text):
        return Count.OTHER_PRODUCT
    thing = _thing(text, inside(sku, "category", "resourceGroup"))
    if thing is None:
        return Count.OTHER_PRODUCT
    # Some spot SKUs say so in words only.
    market = Market.SPOT if usage == "Preemptible" or "preemptible" in text.lower() else Market.ON_DEMAND
    rate = _rate(sku, per_month=thing == "ssd")
    if isinstance(rate, Count):
        return rate
    listing = sku.get("serviceRegions")
    regions = tuple(region for region in listing if is_name(region)) if isinstance(listing, list) else ()
    infos = items(sku.get("pricingInfo"))
    # Google's reference calls it a timeline in chronological order: the last entry holds now.
    as_of = day_of(infos[-1].get("effectiveTime")) if infos else None
    return SkuPrice(thing, market, regions, rate, as_of) if regions else Count.INCOMPLETE


def _thing(text: str, group: object) -> str | None:
    plain = _SPOT.sub("", text)
    if group == "TPU" or _TPU.search(plain):
        match = _TPU.search(plain)
        return f"tpu v{match['generation'].lower()}{' pod' if 'pod' in plain.lower() else ''}" if match else None
    if _LOCAL_SSD.match(plain):
        return "ssd"
    if match := _DEVICE.match(plain):
        name = match["name"].lower()
        return f"gpu {_SAME_DEVICE.get(name, name)}"
    if match := _HOST.match(plain):
        return f"{match['what'].lower()} {match['name'].lower()}"
    return None


def _rate(sku: dict[str, Any], *, per_month: bool) -> Decimal | Count:
    """Per hour, for one unit; of prices in tiers the dearest, since nobody pays more."""
    documents = items(sku.get("pricingInfo"))
    expression = inside(documents[-1], "pricingExpression") if documents else None
    unit = inside(expression, "usageUnit")
    hours = _hours(unit, per_month=per_month)
    if hours is None:
        return Count.OTHER_UNIT
    dearest: Decimal | None = None
    for tier in items(inside(expression, "tieredRates")):
        if inside(tier, "unitPrice", "currencyCode") != "USD":
            return Count.OTHER_CURRENCY
        price = _unit_price(tier)
        if price is None:
            return Count.NO_PRICE
        dearest = price if dearest is None else max(dearest, price)
    return dearest * hours if dearest else Count.NO_PRICE


def _hours(unit: object, *, per_month: bool) -> Decimal | None:
    """`h`, `s`; memory comes as `GiBy.h`, local disks as `GiBy.mo`."""
    if not isinstance(unit, str):
        return None
    amount, _, time = unit.rpartition(".")
    if amount not in ("", "GiBy"):
        return None
    if per_month:
        return 1 / Decimal(HOURS_PER_MONTH) if (amount, time) == ("GiBy", "mo") else None
    return hours_in(time)


def _unit_price(tier: dict[str, Any]) -> Decimal | None:
    """`{"units": "2", "nanos": 480000000}`: 2.48."""
    units, nanos = inside(tier, "unitPrice", "units"), inside(tier, "unitPrice", "nanos")
    units, nanos = "0" if units is None else units, 0 if nanos is None else nanos
    if not (isinstance(units, str) and units.isascii() and units.isdecimal() and len(units) <= 6):
        return None
    if not isinstance(nanos, int) or not 0 <= nanos < 1_000_000_000:
        return None
    return int(units) + Decimal(nanos) / 1_000_000_000


class _Rate(NamedTuple):
    """What a thing costs in a region, and the date of the SKU that says so."""

    usd_per_hour: Decimal
    as_of: date | None


def machines(prices: Iterable[SkuPrice], types: Iterable[InstanceType], parsed: Parsed) -> list[PriceFound]:
    """The known machine types wherever every part of them has a price."""
    entries: dict[tuple[Market, str], dict[str, _Rate]] = {}
    for price in prices:
        here = entries.setdefault((price.market, price.thing), {})
        for region in price.regions:
            before = here.get(region)
            if before is not None and before.usd_per_hour != price.usd_per_hour:
                parsed.skipped[Count.TWO_PRICES] += 1
            # Whichever it is, nobody pays more than the dearer one.
            if before is None or before.usd_per_hour < price.usd_per_hour:
                here[region] = _Rate(price.usd_per_hour, price.as_of)
    price_founds: list[PriceFound] = []
    for kind in types:
        parts = parts_of(kind)
        if parts is None:
            parsed.skipped[Count.UNKNOWN_TYPE] += 1
            continue
        for market in parts.markets:
            price_founds += _machine(kind.name, parts, market, entries)
    return price_founds


def _machine(
    name: str, machine: MachineParts, market: Market, replies: Mapping[tuple[Market, str], Mapping[str, _Rate]]
) -> Iterator[PriceFound]:
    of_parts = [
        [(replies.get((market, thing), {}), count) for thing, count in parts]
        for parts in (machine.host, machine.device)
    ]
    every = [rates for parts in of_parts for rates, _ in parts]
    for region in sorted(set.intersection(*(set(rates) for rates in every))):
        host, device = (
            sum((rates[region].usd_per_hour * count for rates, count in parts), start=Decimal(0)) for parts in of_parts
        )
        total = _micro(host) + _micro(device)
        if 0 < total < MOST_USD_PER_HOUR:
            split = (_micro(host), _micro(device)) if machine.attached and market is Market.ON_DEMAND else (None, None)
            as_of = _oldest(rates[region].as_of for rates in every)
            yield PriceFound(region, name, market, total, LIST_ID, host=split[0], device=split[1], as_of=as_of)


def _oldest(days: Iterable[date | None]) -> date | None:
    """A machine's price is as old as the oldest of its parts, and has no date where one of them has none."""
    all_days = list(days)
    return min((day for day in all_days if day is not None), default=None) if None not in all_days else None


def _micro(rate: Decimal) -> Decimal:
    return rate.quantize(Decimal("0.000001"))


class MachineParts(NamedTuple):
    """What has to be paid: things of the price list and how many units of each, of the host and of the device.

    `attached`: the accelerator is an option of the host, and the two parts are shown. `markets`: a few machines are
    rented on spot only, and what the list adds up to on demand is nominal.
    """

    host: tuple[tuple[str, Decimal], ...]
    device: tuple[tuple[str, Decimal], ...]
    attached: bool
    markets: tuple[Market, ...]


# Machine type by its first words, the longest first: what its cores and memory are called in the list.
_HOSTS = (
    ("a3-highgpu-", "a3"),
    ("a3-megagpu-", "a3plus"),
    ("a3-ultragpu-", "a3ultra"),
    ("a2-", "a2"),
    ("c2-", "compute optimized"),
    ("c3-", "c3"),
    ("e2-", "e2"),
    ("g2-", "g2"),
    ("g4-", "g4"),
    ("n1-", "n1 predefined"),
    ("n2d-", "n2d amd"),
    ("n2-", "n2"),
)
# By device, and for the two H100s by the machine.
_DEVICES = {
    "A100-40GB": "nvidia tesla a100",
    "A100-80GB": "nvidia tesla a100 80gb",
    "H100": "nvidia h100 80gb",
    "H200": "nvidia h200 141gb",
    "L4": "nvidia l4",
    "P100": "nvidia tesla p100",
    "P4": "nvidia tesla p4",
    "RTX-PRO-6000": "nvidia rtx pro 6000 96gb",
    "T4": "nvidia tesla t4",
    "V100": "nvidia tesla v100",
}
_MEGA = "nvidia h100 80gb mega"
# Local disks that come with the machine and are priced beside it (docs/disks/local-ssd: disks of 375 GiB).
_LOCAL_SSD_GIB = {
    "a2-ultragpu-1g": 375,
    "a2-ultragpu-2g": 750,
    "a2-ultragpu-4g": 1500,
    "a2-ultragpu-8g": 3000,
    "a3-highgpu-1g": 750,
    "a3-highgpu-2g": 1500,
    "a3-highgpu-4g": 3000,
    "a3-highgpu-8g": 6000,
    "a3-megagpu-8g": 6000,
    "a3-ultragpu-8g": 12000,
}
SPOT_ONLY = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})
# The unit of a TPU's price in chips: v2 and v3 are listed by the device of eight cores, the others by the chip. v4 and
# whatever of v2 and v3 spans hosts has the price of a pod.
_TPU_CHIPS = {"v2": 4, "v3": 4, "v4": 4, "v5e": 1, "v5p": 1, "v6e": 1}
_TPU_NAMES = {"v5litepod": "v5e"}


def parts_of(kind: InstanceType) -> MachineParts | None:
    """What a machine type is made of; None where that is not known."""
    if kind.name.startswith("tpu-"):
        return _tpu(kind)
    host = next((label for begin, label in _HOSTS if kind.name.startswith(begin)), None)
    if host is None or kind.vcpus is None or kind.memory_gib is None:
        return None
    parts = [(f"core {host}", Decimal(kind.vcpus)), (f"ram {host}", Decimal(str(kind.memory_gib)))]
    if disk := _LOCAL_SSD_GIB.get(kind.name):
        parts.append(("ssd", Decimal(disk)))
    device = _device(kind)
    if device is None:
        return None
    markets = (Market.SPOT,) if kind.name in SPOT_ONLY else tuple(Market)
    return MachineParts(tuple(parts), device, "+" in kind.name, markets)


def _device(kind: InstanceType) -> tuple[tuple[str, Decimal], ...] | None:
    if kind.device == "cpu":
        return ()
    label = _MEGA if kind.name.startswith("a3-megagpu-") else _DEVICES.get(kind.device)
    return None if label is None else ((f"gpu {label}", Decimal(kind.device_count)),)


def _tpu(kind: InstanceType) -> MachineParts | None:
    """`tpu-v3-8`: the chips are counted, the host is in the price."""
    name = kind.name.split("-")[1]
    generation = _TPU_NAMES.get(name, name)
    chips = _TPU_CHIPS.get(generation)
    if chips is None:
        return None
    pod = " pod" if generation == "v4" or (generation in ("v2", "v3") and kind.hosts > 1) else ""
    return MachineParts((), ((f"tpu {generation}{pod}", Decimal(kind.device_count) / chips),), False, tuple(Market))
