"""Hugging Face Jobs, Lambda and RunPod: the shapes that others recorded, and what else may come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.price_lists import NoHttp
from tests.rows import each_row
from trainplan.pricing.grades import Market
from trainplan.pricing.merge import merge
from trainplan.pricing.refresh import known_of
from trainplan.pricing.sources.news import Asking, news_of
from trainplan.pricing.sources.reading import Count, Parsed, SourceError
from trainplan.pricing.sources.small_vendors import parse_huggingface, parse_lambda, parse_runpod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ON = NOW.date()
GPU = {"type": "gpu", "model": "T4", "quantity": "1", "vram": "16 GB", "manufacturer": "Nvidia"}
HARDWARE: list[dict[str, Any]] = [
    {
        **{"name": "cpu-basic", "prettyName": "CPU Basic", "cpu": "2 vCPU", "ram": "16 GB", "accelerator": None},
        **{"unitCostMicroUSD": 167, "unitCostUSD": 0.000167, "unitLabel": "minute"},
    },
    {
        **{"name": "t4-small", "prettyName": "Nvidia T4 - small", "cpu": "4 vCPU", "ram": "15 GB", "accelerator": GPU},
        **{"unitCostMicroUSD": 6667, "unitCostUSD": 0.006667, "unitLabel": "minute"},
    },
]
INSTANCE_TYPES: dict[str, Any] = {
    "data": {
        "gpu_1x_a10": {
            "instance_type": {
                **{"name": "gpu_1x_a10", "description": "1x NVIDIA A10", "gpu_description": "A10"},
                **{"price_cents_per_hour": 129, "architecture": "x86_64"},
                "specs": {"vcpus": 30, "memory_gib": 226, "storage_gib": 1400, "gpus": 1},
            },
            "regions_with_capacity_available": [{"name": "us-west-1", "description": "California, USA"}],
        }
    }
}
GPUS: dict[str, Any] = {
    "gpus": [
        {"id": "NVIDIA H100 PCIe", "secure": True, "price": {"secure": 2.89, "community": 1.99}},
        {"id": "NVIDIA A100 80GB PCIe", "secure": False, "price": {"secure": 9.99}},
        {"id": "NVIDIA GeForce RTX 4090", "secure": True, "price": {"secure": 0.74}},
    ]
}
Parser = Callable[[bytes, date], Parsed]
LISTS: list[tuple[str, Parser, Any, dict[str, str]]] = [
    ("huggingface", parse_huggingface, HARDWARE, {"cpu-basic": "0.0100", "t4-small": "0.4000"}),
    ("lambda", parse_lambda, INSTANCE_TYPES, {"gpu_1x_a10": "1.29"}),
    ("runpod", parse_runpod, GPUS, {"1x_H100_SECURE": "2.89"}),
]
NAMES = [name for name, *_ in LISTS]
KEYS = {"PLAN_LAMBDA_API_KEY": "one", "RUNPOD_API_KEY": "two"}


class OneAnswer(NoHttp):
    """Answers every request with the same."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.requests: list[tuple[str, Mapping[str, str]]] = []

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        self.requests.append((url, headers or {}))
        return self.content


def asking(content: bytes, environment: Mapping[str, str] = KEYS) -> tuple[Asking, OneAnswer]:
    http = OneAnswer(content)
    return Asking(http=http, environment=environment, now=NOW, say=lambda _: None), http


@pytest.mark.parametrize(("name", "parse", "listed", "prices"), LISTS, ids=NAMES)
def test_the_recorded_shape(name: str, parse: Parser, listed: Any, prices: dict[str, str]) -> None:
    parsed = parse(json.dumps(listed).encode(), ON)
    assert {one.instance_type: one.usd_per_hour for one in parsed.prices} == {
        machine: Decimal(usd) for machine, usd in prices.items()
    }
    assert {(one.region, one.market, one.as_of) for one in parsed.prices} == {("any", Market.ON_DEMAND, ON)}


@pytest.mark.parametrize(("name", "parse", "listed", "prices"), LISTS, ids=NAMES)
def test_what_was_read_takes_the_place_of_what_was_known(
    name: str, parse: Parser, listed: Any, prices: dict[str, str], tmp_path: Path
) -> None:
    known = known_of(name, tmp_path)
    ask, http = asking(json.dumps(listed).encode())
    merged = merge(known, news_of(known, ask))
    assert not merged.held_prices
    rows = {row.type.name: row.on_demand for row in merged.offers}
    for machine, usd in prices.items():
        price = rows[machine]
        assert price is not None
        assert (price.usd_per_hour, price.as_of) == (Decimal(usd), ON)
    assert len(merged.offers) == len(known.offers), "what the list does not have stays, with its old day"
    ((url, headers),) = http.requests
    assert url.startswith("https://")
    assert headers.get("Authorization", "") in ("", "Bearer one", "Bearer two")


@each_row(("name", "parse", "listed", "prices"), LISTS, ids=NAMES)
@each_row("content", [b"", b"<html>", b"[", b"{}", b"7", b"[[[", b'{"data": 1, "gpus": 1}'])
def test_what_is_no_list_is_refused(
    name: str, parse: Parser, listed: Any, prices: dict[str, str], content: bytes
) -> None:
    with pytest.raises(SourceError):
        parse(content, ON)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"unitLabel": "month"}, Count.OTHER_UNIT),
        ({"unitCostMicroUSD": "free"}, Count.NO_PRICE),
        ({"unitCostMicroUSD": True}, Count.NO_PRICE),
        ({"unitCostMicroUSD": -1}, Count.NO_PRICE),
        ({"name": "../t4"}, Count.INCOMPLETE),
        ({"name": None}, Count.INCOMPLETE),
    ],
)
def test_what_is_no_price_is_left_out_and_counted(changes: dict[str, Any], why: Count) -> None:
    parsed = parse_huggingface(json.dumps([HARDWARE[1] | changes]).encode(), ON)
    assert (parsed.prices, dict(parsed.skipped)) == ([], {why: 1})


def test_runpod_keeps_no_placeholder() -> None:
    parsed = parse_runpod(json.dumps(GPUS).encode(), ON)
    assert dict(parsed.skipped) == {Count.OTHER_PRODUCT: 1, Count.UNKNOWN_TYPE: 1}


@pytest.mark.parametrize("name", ["lambda", "runpod"])
def test_a_list_that_asks_for_a_key_says_which(name: str, tmp_path: Path) -> None:
    ask, http = asking(b"", {})
    with pytest.raises(SourceError, match="only to an account") as refused:
        news_of(known_of(name, tmp_path), ask)
    assert refused.value.hint == f"set PLAN_{name.upper()}_API_KEY to its API key"
    assert http.requests == []


def test_a_mirror_is_asked_in_its_place(tmp_path: Path) -> None:
    ask, http = asking(json.dumps(HARDWARE).encode(), {"PLAN_HUGGINGFACE_PRICES_URL": "http://127.0.0.1:9/list"})
    news_of(known_of("huggingface", tmp_path), ask)
    assert http.requests == [("http://127.0.0.1:9/list", {})]
