"""Where Google and Azure really have a machine type, as their own APIs say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from tests.doubles.price_lists import NoHttp
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.sources.offerings import (
    BearerToken,
    Endpoints,
    parse_azure,
    parse_google,
    read_azure,
    read_google,
)
from trainplan.pricing.sources.reading import SourceError
from trainplan.pricing.tables import read_tables

TODAY = date(2026, 11, 21)
ACCOUNT = BearerToken("token", "mine")


class Pages(NoHttp):
    """Answers by what is in the address."""

    def __init__(self, pages: Mapping[str, Any]) -> None:
        self.pages = pages
        self.requests: list[tuple[str, Mapping[str, str]]] = []

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        self.requests.append((url, headers or {}))
        page = next(page for fragment, page in self.pages.items() if fragment in url)
        return page if isinstance(page, bytes) else json.dumps(page).encode()


def zones(kind: str, **types_by_zone: list[str]) -> dict[str, Any]:
    placements = {
        f"zones/{zone.replace('_', '-')}": {kind: [{"name": name} for name in names]}
        for zone, names in types_by_zone.items()
    }
    return {"items": placements}


def test_google_has_a_machine_where_its_host_and_what_is_attached_to_it_are() -> None:
    machines = zones("machineTypes", us_central1_a=["n1-standard-4", "g2-standard-4"], us_central1_b=["n1-standard-4"])
    more = zones("machineTypes", europe_west4_a=["n1-standard-4"])
    devices = zones("acceleratorTypes", us_central1_b=["nvidia-tesla-t4"], europe_west4_b=["nvidia-tesla-t4"])
    http = Pages(
        {
            "pageToken=2": more,
            "aggregated/machineTypes": {**machines, "nextPageToken": "2"},
            "aggregated/acceleratorTypes": devices,
        }
    )
    types = [kind for (provider, _), kind in read_tables(TEXT_DIR).types.items() if provider == "gcp"]
    offered = read_google(http, Endpoints(), ACCOUNT, types, TODAY)
    assert offered.regions == {"us-central1", "europe-west4"}
    assert offered.zones["us-central1", "n1-standard-4+1xT4"] == ("us-central1-b",)
    assert offered.zones["us-central1", "n1-standard-4"] == ("us-central1-a", "us-central1-b")
    assert ("europe-west4", "n1-standard-4+1xT4") not in offered.zones
    assert all(headers == {"Authorization": "Bearer token"} for _, headers in http.requests)
    assert all("/projects/mine/" in url for url, _ in http.requests)


def test_what_google_has_retired_is_not_offered() -> None:
    page = zones("machineTypes", us_central1_a=["old", "new"])
    page["items"]["zones/us-central1-a"]["machineTypes"][0]["deprecated"] = {"state": "OBSOLETE"}
    assert parse_google(page) == {"new": frozenset({"us-central1-a"})}


def size(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "locationInfo": [{"location": "eastus", "zones": ["3", "1"]}],
        "restrictions": [],
    } | changes


@pytest.mark.parametrize(
    ("entry", "offerings"),
    [
        (size("A"), {"A": ("eastus-1", "eastus-3")}),
        (size("A", locationInfo=[{"location": "EastUS"}]), {"A": ()}),
        (size("A", restrictions=[{"type": "Zone"}]), {"A": ("eastus-1", "eastus-3")}),
        (size("A", restrictions=[{"type": "Location", "reasonCode": "NotAvailableForSubscription"}]), {}),
        (size("A", locationInfo=[{"location": "westus"}]), {}),
        (size("A", resourceType="disks"), {}),
        (size("no name"), {}),
    ],
)
def test_azure_has_a_size_where_nothing_restricts_it(entry: dict[str, Any], offerings: dict[str, Any]) -> None:
    assert parse_azure({"value": [entry, 7, None]}, "eastus") == offerings


def test_azure_in_pages_and_never_somewhere_else() -> None:
    endpoint = Endpoints().azure
    http = Pages({"skip=1": {"value": [size("B")], "nextLink": "https://elsewhere.example/"}, "skus": {}})
    http.pages = {**http.pages, "skus": {"value": [size("A")], "nextLink": f"{endpoint}/next?skip=1"}}
    offered = read_azure(http, Endpoints(), ACCOUNT, ["eastus"], TODAY)
    assert set(offered.zones) == {("eastus", "A"), ("eastus", "B")}
    assert len(http.requests) == 2
    assert "/subscriptions/mine/" in http.requests[0][0]


def test_an_answer_that_is_none_is_an_error_in_words() -> None:
    with pytest.raises(SourceError, match="a web page came"):
        read_azure(Pages({"": b"<html>"}), Endpoints(), ACCOUNT, ["eastus"], TODAY)
