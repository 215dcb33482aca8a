"""`plan burn azure`: everything that bills in the subscription, whoever made it, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.doubles.azure.rules import SUBSCRIPTION
from tests.unit.providers.azure.conftest import Client
from trainplan.providers.azure.bill import make
from trainplan.providers.base import ProviderSettings
from trainplan.providers.cloud.bill import Bill


def row(type_name: str, name: str, sku: str, **properties: Any) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{SUBSCRIPTION}/resourceGroups/web/providers/{type_name}/{name}",
        "name": name,
        "type": type_name,
        "location": "westeurope",
        "sku": {"name": sku},
        "properties": properties,
    }


CREATED_AT = "2026-08-01T12:00:00+00:00"
OTHERS = [
    row(
        "Microsoft.Compute/disks",
        "photos",
        "Premium_LRS",
        diskSizeGB=128,
        diskState="Unattached",
        timeCreated=CREATED_AT,
    ),
    row("Microsoft.Compute/snapshots", "old", "Standard_LRS", diskSizeGB=100, timeCreated=CREATED_AT),
    row("Microsoft.Network/publicIPAddresses", "web", "Standard", publicIPAllocationMethod="Static"),
    row("Microsoft.Network/loadBalancers", "front", "Standard"),
    row("Microsoft.Network/loadBalancers", "plain", "Basic"),
    row("Microsoft.Network/natGateways", "out", "Standard"),
    row("Microsoft.Storage/storageAccounts", "pictures", "Standard_LRS", creationTime=CREATED_AT),
]


FAR = row("Microsoft.Compute/disks", "far", "StandardSSD_LRS", diskSizeGB=128) | {"location": "brazilsouth"}


def billed(client: Client) -> Bill:
    settings = ProviderSettings(
        home=client.home, options=client.azure.options, environment=client.azure.environment, now=client.azure.now
    )
    return make(settings).list_billed()


def test_everything_that_bills_is_listed_with_what_it_costs_a_month(make_world: Callable[..., Client]) -> None:
    bill = billed(make_world(others=OTHERS))
    found = {thing.id: thing for thing in bill.things if not thing.whose}
    costs = {name: thing.usd_per_month and float(thing.usd_per_month) for name, thing in found.items()}
    assert costs == {
        "photos": pytest.approx(19.2),
        "old": pytest.approx(5.0),
        "web": pytest.approx(3.65),
        "front": pytest.approx(18.25),
        "plain": 0,
        "out": pytest.approx(32.85),
        "pictures": None,
    }
    assert found["photos"].what == "Premium_LRS 128 GiB, attached to nothing"
    assert found["photos"].since is not None
    assert all(thing.ground and thing.region == "westeurope" for thing in found.values())
    assert bill.unread == []


def test_a_disk_has_the_rate_of_its_region(make_world: Callable[..., Client]) -> None:
    (disk,) = billed(make_world(others=[FAR])).things
    assert disk.usd_per_month == 128 * Decimal("0.14")
    assert "listed, 2023-01-23" in disk.ground


def test_our_machine_is_named_with_its_run(world: Client) -> None:
    request = world.request()
    world.provider.launch(request)
    world.provider.sleep(60)
    run = f"run {request.run_id}"
    ours = {thing.kind: thing for thing in billed(world).things if thing.whose == run}
    assert set(ours) == {"machine", "disk", "address"}
    assert "running" in ours["machine"].what
    assert ours["machine"].usd_per_month
    assert ours["disk"].usd_per_month


def test_what_may_not_be_read_is_named_and_hides_nothing_else(make_world: Callable[..., Client]) -> None:
    denied = ["Microsoft.Compute/snapshots/read", "Microsoft.Network/loadBalancers/read"]
    world = make_world(others=OTHERS, granted=[{"actions": ["*"], "notActions": denied}])
    bill = billed(world)
    assert [line.partition(":")[0] for line in bill.unread] == ["snapshots", "load balancers"]
    assert {"photos", "web", "out"} <= {thing.id for thing in bill.things}


def test_nothing_is_changed(make_world: Callable[..., Client]) -> None:
    world = make_world(others=OTHERS)
    billed(world)
    calls = world.calls()
    assert calls
    assert all(call.startswith("GET ") for call in calls)
