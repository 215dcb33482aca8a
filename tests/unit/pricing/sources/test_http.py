"""Fetching: patient with servers, and never half a file for a whole one."""

from __future__ import annotations

import gzip
import json
import socket
from datetime import date

import pytest

from tests.doubles.price_lists import World, aws_list, aws_row, serving
from trainplan.pricing.sources import azure
from trainplan.pricing.sources.http import TRIES, Limits, UrllibHttp
from trainplan.pricing.sources.reading import SourceError, UnreachableError

AWS = {"us-east-1": [aws_row("g4dn.xlarge", "0.526")]}
NAMES = "/locations/1.0/aws/current/locations.json"
LIST = "/pricing/2.0/meteredUnitMaps/US%20East%20(N.%20Virginia)/Linux/index.json"


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def http(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> UrllibHttp:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return UrllibHttp(waits.append, "trainplan/test")


def test_a_list_that_is_packed_without_a_word_is_unpacked(http: UrllibHttp) -> None:
    with serving(World(aws=AWS)) as address:
        content = http.get(address + LIST)
    assert json.loads(content)["manifest"]["currencyCode"] == "USD"
    assert 0 < http.limits.received < len(content), "what came over the line counts"


def test_a_busy_server_is_asked_again_as_late_as_it_says(http: UrllibHttp, waits: list[float]) -> None:
    world = World(aws=AWS, busy=2)
    with serving(world) as address:
        assert b"us-east-1" in http.get(address + NAMES)
    assert waits == [3.0, 3.0]
    assert len(world.requests) == 3


def test_a_server_that_stays_busy_is_given_up(http: UrllibHttp, waits: list[float]) -> None:
    with serving(World(aws=AWS, busy=99)) as address, pytest.raises(SourceError, match="answers 429"):
        http.get(address + NAMES)
    assert len(waits) == TRIES - 1


def test_a_response_that_is_cut_off_is_no_response(http: UrllibHttp) -> None:
    with serving(World(aws=AWS, cut_off={"index.json"})) as address, pytest.raises(SourceError, match="cut off after"):
        http.get(address + LIST)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (aws_list("us-east-1", AWS["us-east-1"])[:-9], "packed content has no end"),
        (b"\x1f\x8b" + b"x" * 90, "cannot be unpacked"),
        (gzip.compress(b"{}") + b"more", "cannot be unpacked"),
        (gzip.compress(bytes(65 << 20)), "more than 64 MiB"),
    ],
    ids=["cut off", "damaged", "something behind it", "too much"],
)
def test_packed_content_that_is_none(http: UrllibHttp, content: bytes, message: str) -> None:
    with serving(World(broken={"list": (200, content)})) as address, pytest.raises(SourceError, match=message):
        http.get(f"{address}/list")


def test_all_requests_together_have_a_limit_of_bytes_and_of_time(waits: list[float]) -> None:
    seconds = 0.0
    world = World(broken={"list": (200, b"x" * 600)}, busy=0)
    with serving(world) as address:
        http = UrllibHttp(waits.append, "trainplan/test", limits=Limits(1000, 60, lambda: seconds))
        assert len(http.get(f"{address}/list")) == 600
        with pytest.raises(UnreachableError, match="limit of 0 MB"):
            http.get(f"{address}/list")
        http = UrllibHttp(waits.append, "trainplan/test", limits=Limits(10_000, 60, lambda: seconds))
        world.busy, seconds = 99, 59
        with pytest.raises(SourceError, match="answers 429"):
            http.get(f"{address}/list")
        assert waits == [], "what a server asks to wait is longer than what is left"
        seconds = 61
        with pytest.raises(UnreachableError, match="limit of 60 s"):
            http.get(f"{address}/list")


@pytest.mark.parametrize(("status", "hint"), [(403, "key"), (404, "")])
def test_a_refusal_is_said_without_the_key(http: UrllibHttp, status: int, hint: str) -> None:
    with serving(World(broken={"skus": (status, b"no")})) as address, pytest.raises(SourceError) as caught:
        http.get(f"{address}/v1/services/1/skus?key=secret")
    assert f"answers {status}" in caught.value.message
    assert "secret" not in caught.value.message
    assert hint in caught.value.hint


def test_nobody_there(http: UrllibHttp, waits: list[float]) -> None:
    with serving(World()) as address:
        pass
    with pytest.raises(SourceError, match="cannot be reached"):
        http.get(address)
    assert waits == [2.0, 4.0, 8.0]


@pytest.mark.parametrize("url", ["prices", "http://[1", "http://127.0.0.1:x/"])
def test_no_address(http: UrllibHttp, url: str) -> None:
    with pytest.raises(SourceError, match=r"no address|cannot be reached"):
        http.get(url)


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(broken={"http://prices.test/": (200, b"by the proxy")})
    with serving(world) as address:
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "")
        assert UrllibHttp(lambda seconds: None, "trainplan/test").get("http://prices.test/list") == b"by the proxy"


def test_once_nobody_can_be_reached_the_rest_is_not_tried(http: UrllibHttp) -> None:
    with serving(World()) as address:
        pass
    names = [f"Standard_N{number}" for number in range(99)]
    parts = list(azure.read(http, azure.Endpoints(address), names, ["eastus"], date(2026, 11, 21)))
    assert [part.name for part in parts] == sorted(names)
    assert all("cannot be reached" in part.error for part in parts)


def test_a_host_without_a_name_is_looked_up_twice_for_all_requests(
    http: UrllibHttp, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request waited 14 s: without a network a refresh took a minute."""
    lookups: list[object] = []

    def no_name(host: object, *arguments: object, **options: object) -> None:
        lookups.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    for path in ("one?key=secret", "two"):
        with pytest.raises(UnreachableError, match=r"^the name no-host\.invalid cannot be resolved"):
            http.get(f"http://no-host.invalid/{path}")
    assert (len(lookups), len(waits)) == (2, 1)


def test_what_is_no_address_has_one_text_for_all_queries(http: UrllibHttp) -> None:
    errors = []
    for query in ("a=1", "key=secret"):
        with pytest.raises(SourceError) as caught:
            http.get(f"notaurl?{query}")
        errors.append((caught.value.message, caught.value.hint))
    assert errors[0] == errors[1]
    assert "https://HOST/PATH is expected" in errors[0][1]
