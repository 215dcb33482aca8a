"""Fetching: patient with servers, and never half a file for a whole one."""

from __future__ import annotations

from datetime import date

import pytest

from tests.doubles.price_lists import World, aws_row, serving
from trainplan.pricing.sources import azure
from trainplan.pricing.sources.http import TRIES, UrllibHttp
from trainplan.pricing.sources.reading import SourceError

AWS = {"us-east-1": [aws_row("g4dn.xlarge", "0.526")]}
INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
FILE = "/offers/v1.0/aws/AmazonEC2/20261118193211/us-east-1/index.csv"


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def http(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> UrllibHttp:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return UrllibHttp(waits.append, "trainplan/test")


def test_whole_and_in_pieces(http: UrllibHttp) -> None:
    with serving(World(aws=AWS)) as address:
        assert http.get(address + FILE) == b"".join(http.stream(address + FILE))


def test_a_busy_server_is_asked_again_as_late_as_it_says(http: UrllibHttp, waits: list[float]) -> None:
    world = World(aws=AWS, busy=2)
    with serving(world) as address:
        assert b"us-east-1" in http.get(address + INDEX)
    assert waits == [3.0, 3.0]
    assert len(world.requests) == 3


@pytest.mark.parametrize("method", ["get", "stream"])
def test_a_server_that_stays_busy_is_given_up(http: UrllibHttp, waits: list[float], method: str) -> None:
    with serving(World(aws=AWS, busy=99)) as address, pytest.raises(SourceError, match="answers 429"):
        b"".join([getattr(http, method)(address + INDEX)] if method == "get" else http.stream(address + INDEX))
    assert len(waits) == TRIES - 1


def test_a_response_that_is_cut_off_is_no_response(http: UrllibHttp) -> None:
    with serving(World(aws=AWS, cut_off={"index.csv"})) as address:
        with pytest.raises(SourceError, match="cut off after"):
            b"".join(http.stream(address + FILE))
        with pytest.raises(SourceError, match="cut off after"):
            http.get(address + FILE)


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


def test_more_than_fits_is_refused(http: UrllibHttp) -> None:
    world = World(broken={"big": (200, b" " * (65 << 20))})
    with serving(world) as address, pytest.raises(SourceError, match="more than 64 MiB"):
        http.get(f"{address}/big")


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(broken={"http://prices.test/": (200, b"by the proxy")})
    with serving(world) as address:
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "")
        assert UrllibHttp(lambda seconds: None, "trainplan/test").get("http://prices.test/list") == b"by the proxy"


def test_once_nobody_can_be_reached_the_rest_is_not_tried(http: UrllibHttp, waits: list[float]) -> None:
    with serving(World()) as address:
        pass
    regions = ["eastus", "westus", "northeurope"]
    parts = list(azure.read(http, azure.Endpoints(address), regions, date(2026, 11, 21)))
    assert [("cannot be reached" in part.error, part.name) for part in parts] == [
        (True, name) for name in sorted(regions)
    ]
    assert len(waits) == TRIES - 1
