"""Vendors whose whole price list is one answer: Hugging Face Jobs, Lambda, RunPod. Only those who name them read them.

Each answers with the price of the moment, so that the day of the answer is the day of the price. None has been asked
from here: the parsers are held to shapes that others recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.pricing.grades import Market
from trainplan.pricing.merge import News
from trainplan.pricing.sources.reading import (
    Count,
    Parsed,
    PriceFound,
    PricePart,
    SourceError,
    came_instead,
    hours_in,
    inside,
    is_name,
    items,
    usd,
)

if TYPE_CHECKING:
    from datetime import date

    from trainplan.pricing.merge import KnownPrices
    from trainplan.pricing.sources.news import Asking

EVERYWHERE = "any"
"""The region of vendors whose list has one price for all."""
HUGGINGFACE_ID, LAMBDA_ID, RUNPOD_ID = "huggingface-hardware", "lambda-instance-types", "runpod-gpus"
SOURCES = (
    (HUGGINGFACE_ID, "listed", "huggingface.co/api/jobs/hardware, which `hf jobs hardware` reads"),
    (LAMBDA_ID, "listed", "cloud.lambda.ai/api/v1/instance-types"),
    (RUNPOD_ID, "listed", "api.runpod.io/v2/catalog/gpus (Secure Cloud)"),
)
_CENTS = Decimal("0.0001")
"""Hugging Face rounds the price of a minute to a millionth of a dollar; an hour is right to this."""
_RUNPOD_GPUS = {
    "NVIDIA A100 80GB PCIe": "1x_A100-80GB_SECURE",
    "NVIDIA H100 PCIe": "1x_H100_SECURE",
    "NVIDIA H100 NVL": "1x_H100-NVL_SECURE",
    "NVIDIA H100 80GB HBM3": "1x_H100-SXM_SECURE",
}
"""RunPod's GPUs (docs.runpod.io/references/gpu-types) and the machines of the tables, which have one each."""


class _List(NamedTuple):
    """Where a list is, and how its answer is read; `keys` are the variables that may hold the key that it asks for."""

    name: str
    url: str
    parse: Callable[[bytes, date], Parsed]
    keys: tuple[str, ...] = ()


def read_huggingface(catalog_state: KnownPrices, asking: Asking) -> News:
    """Hugging Face Jobs: open to everybody. Raises SourceError, as the next two do."""
    del catalog_state
    return _news(_List("huggingface", "https://huggingface.co/api/jobs/hardware", parse_huggingface), asking)


def read_lambda(catalog_state: KnownPrices, asking: Asking) -> News:
    """Lambda: asks for an account's API key."""
    del catalog_state
    url, keys = "https://cloud.lambda.ai/api/v1/instance-types", ("PLAN_LAMBDA_API_KEY", "LAMBDA_API_KEY")
    return _news(_List("lambda", url, parse_lambda, keys), asking)


def read_runpod(catalog_state: KnownPrices, asking: Asking) -> News:
    """RunPod: asks for an account's API key."""
    del catalog_state
    url, keys = "https://api.runpod.io/v2/catalog/gpus", ("PLAN_RUNPOD_API_KEY", "RUNPOD_API_KEY")
    return _news(_List("runpod", url, parse_runpod, keys), asking)


def parse_huggingface(content: bytes, on: date) -> Parsed:
    """A list of flavors, each with `name`, `unitCostMicroUSD` and `unitLabel`. Raises SourceError, as the next two."""
    flavors = _json(content, "the list of hardware")
    if not isinstance(flavors, list):
        raise SourceError("the list of hardware: JSON, and no list", "try again later")
    parsed = Parsed()
    for flavor in items(flavors):
        per_hour = hours_in(flavor.get("unitLabel"))
        micro = usd_of(flavor.get("unitCostMicroUSD"))
        if per_hour is None:
            parsed.skipped[Count.OTHER_UNIT] += 1
        else:
            hourly = None if micro is None else (micro * per_hour / 1_000_000).quantize(_CENTS)
            _add(parsed, flavor.get("name"), hourly, (HUGGINGFACE_ID, on))
    return parsed


def parse_lambda(content: bytes, on: date) -> Parsed:
    """`data` with an object for each machine: `instance_type` with `name` and `price_cents_per_hour`."""
    machines = inside(_json(content, "the list of instance types"), "data")
    if not isinstance(machines, dict):
        raise SourceError("the list of instance types: no data in it", "try again later")
    parsed = Parsed()
    for machine in machines.values():
        cents = usd_of(inside(machine, "instance_type", "price_cents_per_hour"))
        hourly = None if cents is None else cents / 100
        _add(parsed, inside(machine, "instance_type", "name"), hourly, (LAMBDA_ID, on))
    return parsed


def parse_runpod(content: bytes, on: date) -> Parsed:
    """`gpus` with `id` and `price.secure`, which stands for a placeholder where `secure` is false."""
    gpus = inside(_json(content, "the list of GPUs"), "gpus")
    if not isinstance(gpus, list):
        raise SourceError("the list of GPUs: no gpus in it", "try again later")
    parsed = Parsed()
    for gpu in items(gpus):
        name = _RUNPOD_GPUS.get(str(gpu.get("id")))
        if name is None:
            parsed.skipped[Count.UNKNOWN_TYPE] += 1
        elif gpu.get("secure") is False:
            parsed.skipped[Count.OTHER_PRODUCT] += 1
        else:
            _add(parsed, name, usd_of(inside(gpu, "price", "secure")), (RUNPOD_ID, on))
    return parsed


def usd_of(value: object) -> Decimal | None:
    """A figure above nothing, in whatever part of a dollar; None for whatever else it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**9:
        return None
    return Decimal(str(value))


def _add(parsed: Parsed, name: object, hourly: Decimal | None, stamp: tuple[str, date]) -> None:
    source, on = stamp
    price = usd(hourly)
    if not isinstance(name, str) or not is_name(name):
        parsed.skipped[Count.INCOMPLETE] += 1
    elif price is None:
        parsed.skipped[Count.NO_PRICE] += 1
    else:
        parsed.prices.append(PriceFound(EVERYWHERE, name, Market.ON_DEMAND, price, source, as_of=on))


def _json(content: bytes, what: str) -> Any:
    try:
        return json.loads(content)
    # json raises RecursionError for what is nested too deeply.
    except (ValueError, RecursionError):
        raise SourceError(f"{what}: {came_instead(content)}", "try again later") from None


def _news(one: _List, asking: Asking) -> News:
    on = asking.now.date()
    url = asking.environment.get(f"PLAN_{one.name.upper()}_PRICES_URL") or one.url
    headers = _headers(one, asking.environment)
    part = PricePart(name=one.name, markets=frozenset({Market.ON_DEMAND}), regions=None)
    part = part.read(lambda: one.parse(asking.http.get(url, headers), on))
    asking.say(f"{part.name}: {part.error}" if part.error else f"{part.name}: {len(part.parsed.prices):,} prices")
    return News(parts=[part], on=on)


def _headers(one: _List, environment: Mapping[str, str]) -> Mapping[str, str]:
    if not one.keys:
        return {}
    key = next((environment[name] for name in one.keys if environment.get(name)), None)
    if key is None:
        raise SourceError(f"{one.name} tells its prices only to an account", f"set {one.keys[0]} to its API key")
    return {"Authorization": f"Bearer {key}"}
