"""Google's own descriptions as an oracle: what it lets pass, what it does not, and that the double is held to it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.doubles.google.discovery import ViolationError, description
from tests.doubles.google.process import Google
from tests.doubles.google.server import DOCUMENTS, HANDLERS
from tests.unit.providers.gcp.test_requests import body_of, t4

COMPUTE = description("compute.v1")
INSTANCES = "/compute/v1/projects/a-project/zones/us-central1-a/instances"


def insert(**changes: Any) -> dict[str, Any]:
    return {**body_of(t4()), **changes}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"name": "Not_A_Name"}, "name"),
        ({"colour": "blue"}, "colour"),
        ({"labels": ["a"]}, "labels"),
        ({"scheduling": {"provisioningModel": "SPOTTY"}}, "SPOTTY"),
        ({"scheduling": {"maxRunDuration": {"seconds": 60}}}, "seconds"),
        ({"scheduling": {"automaticRestart": "no"}}, "automaticRestart"),
        ({"status": "RUNNING"}, "only Google writes"),
        ({"selfLink": "https://example.com"}, "only Google writes"),
        ({"guestAccelerators": {"acceleratorCount": 1}}, "no list"),
        ({"guestAccelerators": [{"acceleratorCount": True}]}, "no integer"),
    ],
)
def test_a_body_that_google_would_not_take_is_refused(changes: dict[str, Any], wrong: str) -> None:
    matched = COMPUTE.match("POST", INSTANCES)
    assert matched
    with pytest.raises(ViolationError, match=wrong):
        COMPUTE.check_request(matched, "", insert(**changes))


@pytest.mark.parametrize(
    ("query", "wrong"),
    [("requestID=x", "requestID"), ("requestId=a&requestId=b", "more than once")],
)
def test_a_query_that_google_does_not_know_is_refused(query: str, wrong: str) -> None:
    matched = COMPUTE.match("POST", INSTANCES)
    assert matched
    with pytest.raises(ViolationError, match=wrong):
        COMPUTE.check_request(matched, query, insert())


def test_a_page_size_is_a_number() -> None:
    matched = COMPUTE.match("GET", "/compute/v1/projects/a-project/aggregated/instances")
    assert matched
    with pytest.raises(ViolationError, match="whole number"):
        COMPUTE.check_request(matched, "maxResults=many", None)


def test_a_project_is_one_that_google_takes() -> None:
    matched = COMPUTE.match("GET", "/compute/v1/projects/UPPER/zones/us-central1-a/instances/x")
    assert matched
    with pytest.raises(ViolationError, match="project"):
        COMPUTE.check_request(matched, "", None)


def test_a_body_where_there_is_none_is_refused() -> None:
    matched = COMPUTE.match("GET", f"{INSTANCES}/x")
    assert matched
    with pytest.raises(ViolationError, match="no body"):
        COMPUTE.check_request(matched, "", {"a": 1})


@pytest.mark.parametrize(
    "reply",
    [
        {"status": "SLEEPING"},
        {"id": 17},
        {"disks": {}},
        {"nothing": 1},
        {"creationTimestamp": 5},
    ],
)
def test_a_reply_that_google_would_not_send_is_noticed(reply: dict[str, Any]) -> None:
    matched = COMPUTE.match("GET", f"{INSTANCES}/x")
    assert matched
    with pytest.raises(ViolationError):
        COMPUTE.check_reply(matched, reply)


def test_what_google_alone_writes_may_stand_in_a_reply() -> None:
    matched = COMPUTE.match("GET", f"{INSTANCES}/x")
    assert matched
    COMPUTE.check_reply(matched, {"status": "RUNNING", "id": "17", "selfLink": "https://x"})


def test_a_path_of_no_method_is_none() -> None:
    assert COMPUTE.match("GET", "/compute/v1/projects/a-project/nonsense") is None
    assert COMPUTE.match("PATCH", f"{INSTANCES}/x") is None


def test_bytes_are_base64() -> None:
    with pytest.raises(ViolationError, match="base64"):
        COMPUTE.check_value("Image", {"labelFingerprint": "not base64!"}, sent=True)


def test_every_method_of_the_double_is_one_of_googles() -> None:
    known = {method for name in DOCUMENTS for method in description(name).methods()}
    assert set(HANDLERS) <= known


def test_what_is_not_googles_is_remembered_against_the_test(google: Google) -> None:
    google.control("reset", {})
    for method, path, body in (
        ("POST", f"{INSTANCES}?requestId=x", {"name": "UPPER"}),
        ("GET", "/compute/v1/nonsense", None),
        ("GET", "/compute/v1/projects/a-project/global/firewalls", None),
    ):
        data = None if body is None else json.dumps(body).encode()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(f"{google.url}{path}", data=data, method=method), timeout=300)
        caught.value.close()
    assert len(google.control("calls")["violations"]) == 3
    google.control("reset", {})
