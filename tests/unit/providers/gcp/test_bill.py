"""`plan burn gcp`: everything that bills in the project, whoever made it, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.gcp import Client
from tests.unit.providers.gcp.conftest import World
from trainplan.providers.cloud.bill import Bill
from trainplan.providers.gcp.bill import make

ZONE = "us-central1-a"
LINK = "https://www.googleapis.com/compute/v1/projects/a-project"


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "creationTimestamp": "2026-08-01T12:00:00.000-07:00", **more}


OTHERS = {
    "disks": (
        {
            "scope": f"zones/{ZONE}",
            "row": row("photos", sizeGb="200", type=f"{LINK}/zones/{ZONE}/diskTypes/pd-standard", status="READY"),
        },
    ),
    "addresses": (
        {"scope": "regions/us-east1", "row": row("web", status="RESERVED", addressType="EXTERNAL")},
        {"scope": "regions/us-east1", "row": row("inside", status="RESERVED", addressType="INTERNAL")},
    ),
    "forwardingRules": ({"scope": "regions/us-east1", "row": row("front")},),
    "snapshots": ({"scope": "global", "row": row("old", diskSizeGb="100", storageBytes=str(20 * 1024**3))},),
}


def billed(world: World) -> Bill:
    return make(Client(world.google, world.home).settings()).list_billed()


def test_an_empty_project_costs_nothing(world: World) -> None:
    assert billed(world) == Bill([], [])


def test_everything_that_bills_is_listed_with_what_it_costs_a_month(make_world: Callable[..., World]) -> None:
    bill = billed(make_world(others=OTHERS))
    found = {thing.id: (thing.kind, thing.region, float(thing.usd_per_month or 0)) for thing in bill.things}
    assert found == {
        "photos": ("disk", ZONE, pytest.approx(8.0)),
        "web": ("address", "us-east1", pytest.approx(7.3)),
        "front": ("load balancer", "us-east1", pytest.approx(18.25)),
        "old": ("snapshot", "global", pytest.approx(1.0)),
    }
    assert all(thing.ground and not thing.whose and thing.since for thing in bill.things)
    assert bill.unread == []


def test_our_machine_and_our_tpu_are_named_with_their_run(world: World) -> None:
    request = world.request()
    world.provider.launch(request)
    world.provider.sleep(60)
    things = billed(world).things
    run = f"run {request.run_id}"
    kinds = {thing.kind: thing for thing in things}
    assert kinds["machine"].whose == kinds["disk"].whose == run
    assert kinds["machine"].usd_per_month
    assert kinds["bucket"].whose == "run directories"
    assert kinds["bucket"].usd_per_month is None


def test_what_may_not_be_read_is_named_and_hides_nothing_else(make_world: Callable[..., World]) -> None:
    world = make_world(others=OTHERS)
    for method in ("compute.snapshots.list", "compute.addresses.aggregatedList"):
        world.script(method, status=403, code="forbidden", times=None)
    bill = billed(world)
    assert sorted(line.partition(":")[0] for line in bill.unread) == ["addresses", "snapshots"]
    assert {thing.id for thing in bill.things} == {"photos", "front"}


def test_a_list_that_leaves_a_placement_out_says_so(make_world: Callable[..., World]) -> None:
    world = make_world(others=OTHERS)
    world.script("compute.disks.aggregatedList", effect="warning", placement=ZONE)
    assert [line.partition(":")[0] for line in billed(world).unread] == ["disks"]


def test_nothing_is_changed(make_world: Callable[..., World]) -> None:
    world = make_world(others=OTHERS)
    billed(world)
    methods = {call["method"] for call in world.google.control("calls")["calls"]}
    assert methods
    assert all(method.rpartition(".")[2] in ("list", "aggregatedList") for method in methods), methods
