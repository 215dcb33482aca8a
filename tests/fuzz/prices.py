"""Mutated price lists by the thousand: whatever comes, a parser answers or says what is wrong, and what it answers can
be taken over. `python -m tests.fuzz.prices [--inputs N] [--seed S]` prints the count."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from tests.doubles.price_lists import (
    AWS_NAMES,
    Handler,
    World,
    advisor_file,
    aws_list,
    aws_locations,
    aws_row,
    copy_changes,
    google_copy,
    handler_of,
    retail,
    retail_page,
    serving,
    sku,
    spot_list,
    variables,
)
from tests.fuzz.mutations import Crash, as_a_program, changed_bytes, changed_value
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.entries import entries_of, prices_of
from trainplan.pricing.grades import Market
from trainplan.pricing.list_checks import failures_against, listed_prices
from trainplan.pricing.merge import KnownPrices, News, merge
from trainplan.pricing.money import to_micro
from trainplan.pricing.overlay import Overlay, overlaid, overlay_text
from trainplan.pricing.refresh import price_sources
from trainplan.pricing.sources import aws, aws_account, azure, gcp, gcp_copy
from trainplan.pricing.sources.http import UrllibHttp
from trainplan.pricing.sources.ibm import parse_plan, parse_profiles
from trainplan.pricing.sources.news import Accounts, Asking, news_of
from trainplan.pricing.sources.offerings import parse_azure, parse_google
from trainplan.pricing.sources.reading import Parsed, PriceFound, PricePart, SourceError, json_object
from trainplan.pricing.sources.small_vendors import parse_huggingface, parse_lambda, parse_runpod
from trainplan.pricing.tables import OfferRow, Tables, read_tables

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TODAY = NOW.date()
_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 5, 1e308, -0.0, 10**30, "", " ", "0", "-1", "NaN", "Infinity", "1e400", "9" * 50),
    *("\x00", "\ud800", "²", "USD", "EUR", "Hrs", "0 Hours", "999999 Hours", "../..", "us-east-1", "g5.xlarge"),
    *([], {}, [None], {"": ""}, [[[]]], {"USD": "1"}, {"units": "1", "nanos": "1"}),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A parser with an input that it understands; `structured`: the input is JSON, and is mutated as such too."""

    name: str
    content: bytes
    parse: Callable[[bytes], Parsed | None]
    structured: bool


def run(inputs: int, seed: int, targets: Sequence[Target] = ()) -> Counter[str]:
    """Feed so many mutated inputs; what came of them, counted. Raises Crash with the seed of the input."""
    tables = read_tables(TEXT_DIR)
    targets = targets or make_targets(tables)
    outcomes: Counter[str] = Counter()
    for number in range(inputs):
        random = Random(f"{seed}/{number}")
        target = targets[number % len(targets)]
        content = mutated(target, random)
        try:
            parsed = target.parse(content)
        except SourceError:
            outcomes["refused"] += 1
            continue
        except Exception as error:
            raise Crash(f"{target.name}, seed {seed}/{number}: {type(error).__name__}: {error}") from error
        outcomes["understood"] += 1
        if parsed is not None and number % 11 == 0:
            outcomes["planted"] += _take_over(tables, target, parsed, random, f"seed {seed}/{number}")
            outcomes["taken over"] += 1
    return outcomes


def refreshes(inputs: int, seed: int) -> Counter[str]:
    """Read every list of the three clouds as a refresh without an account does, some of the replies damaged, and put
    what came over what was known; what came of it, counted.

    Raises Crash for an unexpected error, and for a price that would be used although it fails a check of lists.
    """
    shipped = read_tables(TEXT_DIR)
    regions = frozenset({REGION, "us-west-2", "us-central1", "europe-west4", "eastus", "westeurope"})
    tables = replace(shipped, offers=tuple(row for row in shipped.offers if row.region in regions))
    outcomes: Counter[str] = Counter()
    damage = _Damage()
    with serving(_small_world(tables), damage.handler_of) as address:
        for number in range(inputs):
            damage.random = Random(f"{seed}/{number}")
            for provider in ("aws", "gcp", "azure"):
                outcomes += _refresh(tables, provider, address, f"{provider}, seed {seed}/{number}")
    return outcomes


class _Damage:
    """Damages replies: nearly a third lose or change bytes on their way, as many have another figure in one to forty
    places."""

    random = Random(0)

    def handler_of(self, world: World) -> type[Handler]:
        """What answers requests, damaged now and then."""
        damage = self

        class Damaged(handler_of(world)):  # type: ignore[misc]  # a class made for this world
            def content_of(self, path: str, request: dict[str, str]) -> bytes | None:
                content = super().content_of(path, request)
                return damage.other_figures(content) if content and damage.random.random() < 0.3 else content

            def send_content(self, content: bytes) -> None:
                if damage.random.random() < 0.3:
                    content = changed_bytes(content, damage.random)[: len(content)].ljust(len(content))
                self.wfile.write(content)

        return Damaged

    def other_figures(self, content: bytes) -> bytes:
        """The list with some figures multiplied; a packed one is packed again."""
        if content[:2] == b"\x1f\x8b":
            return gzip.compress(self.other_figures(gzip.decompress(content)))
        places = list(_FIGURE.finditer(content))
        chosen = set(self.random.sample(range(len(places)), min(len(places), self.random.randint(1, 40))))
        pieces, end = list[bytes](), 0
        for number, place in enumerate(places):
            if number in chosen:
                figure = float(place.group()) * self.random.choice((0.01, 0.3, 1.065, 3, 100))
                pieces += [content[end : place.start()], f"{figure:.6f}".encode()]
                end = place.end()
        return b"".join((*pieces, content[end:]))


_FIGURE = re.compile(rb"\d+\.\d+")


def _small_world(tables: Tables) -> World:
    """The known prices, and spot at four tenths of them."""
    rows = [row for row in tables.offers if row.on_demand is not None]
    prices = {name: [row for row in rows if row.type.provider == name] for name in ("aws", "gcp", "azure")}
    world = World(day=str(TODAY), page=100, advice={REGION: {"g4dn.xlarge": (60, 3)}})
    for row in prices["aws"]:
        world.aws.setdefault(row.region, []).append(aws_row(row.type.name, str(_usd(row))))
        world.spot.setdefault(row.region, {})[row.type.name] = f"{_usd(row) * 2 / 5:.4f}"
    for row in prices["azure"]:
        spot = {"skuName": "x Spot", "armRegionName": row.region}
        world.azure.setdefault(row.region, []).extend(
            [
                retail(row.type.name, float(_usd(row)), armRegionName=row.region),
                retail(row.type.name, float(_usd(row)) * 0.4, **spot),
            ]
        )
    world.copy += [
        (
            f"{row.type.name} 1" if row.type.name.startswith("tpu-") else row.type.name,
            row.region,
            f"{row.region}-a",
            str(_usd(row)),
            f"{_usd(row) * 2 / 5:.5f}",
        )
        for row in prices["gcp"]
        if row.type.name.startswith("tpu-") or row.type.device == CPU_DEVICE
    ]
    return world


def _usd(row: OfferRow) -> Decimal:
    assert row.on_demand is not None
    return row.on_demand.usd_per_hour


def _refresh(tables: Tables, provider: str, address: str, seed: str) -> Counter[str]:
    offers = [row for row in tables.offers if row.type.provider == provider]
    known = KnownPrices(provider=provider, offers=offers, types=tables.types, sources=price_sources())
    environment = {name: value for name, value in variables(address).items() if name != "PLAN_GCP_API_KEY"}
    asking = Asking(
        http=UrllibHttp(_no_wait, "trainplan/test", tries=1), environment=environment, now=NOW, say=_silent,
        accounts=Accounts(aws=_nobody, google=_nobody, azure=_nobody),
    )  # fmt: skip
    try:
        news = news_of(known, asking)
        merged = merge(known, news)
    except Exception as error:
        raise Crash(f"{seed}: {type(error).__name__}: {error}") from error
    before = list(listed_prices(offers))
    same = {(price.name, price.usd_per_hour) for price in before}
    used = [price for price in listed_prices(merged.offers) if (price.name, price.usd_per_hour) not in same]
    for failure in failures_against(used, before):
        raise Crash(f"{seed}: {failure.price.name} is used: {failure.reason}")
    failed = sum(bool(part.error) for part in news.parts)
    return Counter(refreshes=1, lists=len(news.parts), refused=failed, used=len(used), held=len(merged.held_prices))


def _nobody(*environment: object) -> None:
    del environment


def _silent(line: str) -> None:
    del line


def make_targets(tables: Tables) -> list[Target]:
    """Every parser of the sources."""
    types = [kind for (provider, _), kind in tables.types.items() if provider == "gcp"]
    return [
        Target("aws list", _AWS_LIST, _on_demand, True),
        Target("aws packed list", _AWS_PACKED, _packed, False),
        Target("aws names", aws_locations([REGION]), _nothing(aws.parse_locations), True),
        Target("aws spot list", _SPOT, lambda content: aws.parse_spot(content, {REGION, "us-west-2"}, TODAY), True),
        Target("aws advisor", _ADVICE, _nothing(aws.parse_advisor), True),
        Target("aws product", _bytes(_PRODUCT), _product, True),
        Target("aws history", _bytes({"changes": [_CHANGE]}), _history, True),
        Target("gcp skus", _bytes(_SKUS), lambda content: _skus(content, types), True),
        Target("gcp copy", _COPY, lambda content: gcp_copy.parse_copy(content, types, TODAY), False),
        Target("gcp copy changes", copy_changes(), _nothing(gcp_copy.parse_changes), True),
        Target("gcp offerings", _bytes(_GOOGLE), _nothing(lambda content: parse_google(_json(content))), True),
        Target("azure page", _PAGE, _page, True),
        Target(
            "azure offerings", _bytes(_SIZES), _nothing(lambda content: parse_azure(_json(content), "eastus")), True
        ),
        Target("huggingface list", _bytes(_HARDWARE), lambda content: parse_huggingface(content, TODAY), True),
        Target("ibm plan", _bytes(_IBM_PLAN), lambda content: parse_plan(content, _IBM, TODAY), True),
        Target("ibm profiles", _bytes(_IBM_PROFILES), _nothing(parse_profiles), True),
        Target("lambda list", _bytes(_INSTANCE_TYPES), lambda content: parse_lambda(content, TODAY), True),
        Target("runpod list", _bytes(_GPUS), lambda content: parse_runpod(content, TODAY), True),
    ]


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


REGION = "us-east-1"
_AWS_PACKED = aws_list(REGION, [aws_row("g4dn.xlarge", "0.526"), aws_row("g5.xlarge", "1.006")])
_AWS_LIST = gzip.decompress(_AWS_PACKED)
_SPOT = spot_list(
    {
        REGION: {"g4dn.xlarge": "0.2265", "g5.xlarge": "0.41", "t3.nano": "9.0E-4", "p5.48xlarge": "N/A*"},
        "us-west-2": {},
    }
)
_COPY = google_copy(
    [
        ("n1-standard-4", "us-central1", "us-central1-a", "0.19", "0.04"),
        ("n1-standard-4", "us-central1", "us-central1-b", "0.19", "0.04"),
        ("T4 1.0", "us-central1", "us-central1-a", "0.35", "0.14"),
        ("tpu-v5litepod-1 1", "us-central1", "us-central1-a", "1.2", "0.298"),
        ("tpu-v6e-1 1", "us-central1", "us-central1-b", "2.7", "700.0"),
    ]
)
_ADVICE = advisor_file({REGION: {"g4dn.xlarge": (60, 3), "g5.xlarge": (50, 1)}})
_PRODUCT = {
    "product": {"attributes": {"instanceType": "g5.xlarge", "regionCode": REGION}},
    "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": "1.006"}}}}}},
}
_CHANGE = {
    "AvailabilityZone": f"{REGION}a",
    "InstanceType": "g5.xlarge",
    "ProductDescription": "Linux/UNIX",
    "SpotPrice": "0.4",
    "Timestamp": 3,
}
_HARDWARE = [{"name": "t4-small", "unitCostMicroUSD": 6667, "unitLabel": "minute"}]
_IBM = "gx3d-160x1792x8h100"
_IBM_PLAN = {
    "resources": [
        {
            "deployment_region": "us-south",
            "metrics": [
                {
                    **{"metric_id": f"part-is.instance-hours-{_IBM}", "charge_unit": "Instance-Hour"},
                    **{"charge_unit_quantity": 1, "effective_from": "2026-10-01T00:00:00Z"},
                    "amounts": [
                        {"country": "USA", "currency": "USD", "prices": [{"quantity_tier": 1, "price": 85.85}]}
                    ],
                }
            ],
        }
    ]
}
_METERS = [{"unit": "INSTANCE_MULTI_TENANT", "quantity": "1"}]
_MEASURES = [{"component": "instance", "deployments": [{"type": "multi-tenant", "plan": "a", "meters": _METERS}]}]
_IBM_PROFILES = {
    "count": 1,
    "resources": [{"name": _IBM, "active": True, "metadata": {"other": {"profile": {"measures": _MEASURES}}}}],
}
_INSTANCE_TYPES = {"data": {"a": {"instance_type": {"name": "gpu_1x_a10", "price_cents_per_hour": 129}}}}
_GPUS = {"gpus": [{"id": "NVIDIA H100 PCIe", "secure": True, "price": {"secure": 2.89}}]}
_SKUS = {
    "skus": [
        sku("N1 Predefined Instance Core running in Americas", "0.031611"),
        sku("N1 Predefined Instance Ram running in Americas", "0.004237", unit="GiBy.h"),
        sku("Nvidia Tesla T4 GPU running in Americas", "0.35"),
        sku("Tpu-v3 Accelerator running in Americas", "8", group="TPU"),
    ],
    "nextPageToken": "",
}
_NAME = "Standard_NC4as_T4_v3"
_PAGE = retail_page([retail(_NAME, 0.526), retail(_NAME, 0.1, skuName="NC4as T4 v3 Spot")])
_GOOGLE = {"items": {"zones/us-central1-a": {"machineTypes": [{"name": "n1-standard-4"}], "acceleratorTypes": []}}}
_SIZES = {
    "value": [
        {
            "resourceType": "virtualMachines",
            "name": _NAME,
            "locationInfo": [{"location": "eastus", "zones": ["1"]}],
            "restrictions": [],
        }
    ]
}


def _json(content: bytes) -> dict[str, Any]:
    return json_object(content, "offerings")


def _product(content: bytes) -> Parsed:
    return aws_account.parse_products([content.decode("utf-8", "replace")], REGION)


def mutated(target: Target, random: Random) -> bytes:
    """One to four changes of the input: of its bytes, or of its values where it is JSON."""
    if target.structured and random.random() < 0.6:
        value = json.loads(target.content)
        for _ in range(random.randint(1, 4)):
            value = changed_value(value, random, _ODD)
        return _bytes(value)
    return changed_bytes(target.content, random)


def _nothing(parse: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def silent(content: bytes) -> None:
        parse(content)

    return silent


def _history(content: bytes) -> Parsed:
    """The vendor's library makes instants of timestamps; a number stands for days ago here."""
    listed = json_object(content, "history").get("changes")
    entries = []
    for entry in listed if isinstance(listed, list) else []:
        days = entry.get("Timestamp") if isinstance(entry, dict) else None
        if isinstance(days, int) and not isinstance(days, bool) and abs(days) < 1000:
            entries.append({**entry, "Timestamp": NOW - timedelta(days=days)})
        else:
            entries.append(entry)
    return aws_account.parse_history(entries, REGION, NOW)


def _skus(content: bytes, types: list[Any]) -> Parsed:
    page = gcp.parse_page(content)
    page.parsed.prices = gcp.machines(page.prices, types, page.parsed)
    return page.parsed


def _page(content: bytes) -> Parsed:
    page = azure.parse_page(content, (_NAME, {"eastus"}), TODAY)
    page.parsed.prices = azure.settled(page.rows, page.parsed, TODAY)
    return page.parsed


def _on_demand(content: bytes) -> Parsed:
    return aws.parse_on_demand(content, REGION, (AWS_NAMES[REGION],), TODAY)


def _packed(content: bytes) -> Parsed:
    """As it comes over the line."""
    address = f"data:application/octet-stream;base64,{b64encode(content).decode()}"
    return _on_demand(UrllibHttp(_no_wait, "trainplan/test", tries=1).get(address))


def _no_wait(seconds: float) -> None:
    del seconds


def _take_over(tables: Tables, target: Target, parsed: Parsed, random: Random, seed: str) -> int:
    """What was understood becomes a catalog's text, and that text can be read; what was planted in it is not used.

    Returns how many absurd prices were planted. Raises Crash where one of them comes into the catalog.
    """
    provider = target.name.partition(" ")[0]
    planted = [_absurd(one, random) for one in random.sample(parsed.prices, min(3, len(parsed.prices)))]
    parsed = Parsed(prices=[*parsed.prices, *planted], types=parsed.types)
    offers = [
        row
        for row in tables.offers
        if row.type.provider == provider and row.region in ("us-east-1", "us-central1", "eastus", "any")
    ]
    known = KnownPrices(provider=provider, offers=offers, types=tables.types, sources=price_sources())
    part = PricePart(name="fuzz", markets=frozenset(Market), regions=None, parsed=parsed)
    merged = merge(known, News(parts=[part], on=TODAY))
    new_types = [row.type for row in merged.offers if (provider, row.type.name) not in tables.types]
    types, sources, text = overlay_text(merged.offers, set(new_types), price_sources().values())
    overlay = Overlay(provider=provider, read_on=TODAY, types=types, sources=sources, offers=text, parts="{}")
    overlaid(tables, [overlay])
    _refuse_absurd(offers, merged.offers, planted, f"{target.name}, {seed}")
    return len(planted)


def _refuse_absurd(
    before: Sequence[OfferRow], after: Sequence[OfferRow], planted: Sequence[PriceFound], seed: str
) -> None:
    """Raises Crash where a price moved more than fivefold, or a planted one is used in the place of a dated one.

    One that replaces a price without a date keeps its own, of 2019: it is stale, and planned as such.
    """
    known, undated = (
        prices_of(before),
        {placement[:3] for placement, one in entries_of(before).items() if not one.price.as_of},
    )
    absurd = {(one.region, one.instance_type, one.market): to_micro(one.usd_per_hour) for one in planted}
    for key, micro_usd in prices_of(after).items():
        placement = (key.region, key.instance_type, Market(key.market))
        if key not in known or micro_usd == known[key]:
            continue
        if not known[key] / 5.001 <= micro_usd <= known[key] * 5.001:
            raise Crash(f"{seed}: {key} went from {known[key]} to {micro_usd} and was not held")
        if absurd.get(placement) == micro_usd and placement not in undated:
            raise Crash(f"{seed}: the planted price of {key} is used")


def _absurd(one: PriceFound, random: Random) -> PriceFound:
    """A price that cannot be true in one of the ways that the rule names: too low, too high, or years old."""
    low, high, old = one.usd_per_hour / 1000, one.usd_per_hour * 1000, one.usd_per_hour * Decimal("0.5")
    way = random.choice(("low", "high", "old"))
    usd_per_hour = max(Decimal("0.000001"), {"low": low, "high": high, "old": old}[way])
    return one._replace(usd_per_hour=usd_per_hour, as_of=date(2019, 1, 1) if way == "old" else one.as_of)


if __name__ == "__main__":
    as_a_program(run, "price lists")
