"""Azure's replies as real subscriptions gave them, and the double's replies as Azure's own libraries describe them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.azure.rules import SUBSCRIPTION
from tests.doubles.azure.wire import SdkModels
from tests.doubles.clock import NOON
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_requests import create_of
from trainplan.pricing.offers import Market
from trainplan.providers.azure.api import Call
from trainplan.providers.azure.errors import not_scheduled, refusal
from trainplan.providers.azure.names import API, OURS, OURS_VALUE, group_path, machine_path, subscription_path
from trainplan.providers.azure.reply import KINDS, instance, owned, power_of
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN, InstanceState
from trainplan.providers.errors import BadRequestError

OURS_TAGS = {
    OURS: OURS_VALUE, LABEL_RUN: "r1", LABEL_ATTEMPT: "1", LABEL_CLIENT: "c1",
    LABEL_DEADLINE: (NOON + timedelta(hours=1)).isoformat(),
}  # fmt: skip
OUR_GROUP = {"name": "trainplan-r1-1", "location": "eastus", "tags": OURS_TAGS}
POWERS = {"", "starting", "running", "stopping", "stopped", "deallocating", "deallocated"}
"""Microsoft's page on states and billing of virtual machines; "" where no instance view was asked for."""


@pytest.fixture
def recorded(oracles: Path) -> list[dict[str, Any]]:
    """Exchanges with Resource Manager, each with method, uri, status and body."""
    found = json.loads((oracles / "recorded" / "azure.json").read_text(encoding="utf-8"))
    assert len(found) > 80
    return [{**row, "body": body_of(row["body"])} for row in found]


def body_of(recorded: Any) -> Any:
    if "string" in recorded:
        return json.loads(recorded["string"])
    return recorded.get("data", recorded)


def documents(recorded: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Every document of a kind that a call with status 200 gave, from lists and by itself."""
    found: list[Any] = []
    for row in recorded:
        path = row["uri"].partition("?")[0].rstrip("/")
        if row["status"] != 200 or not re.search(rf"/{kind}(/[^/]+)?$", path, re.IGNORECASE):
            continue
        found += row["body"]["value"] if "value" in row["body"] else [row["body"]]
    return found


def test_every_recorded_machine_is_read_as_one_of_ours(recorded: list[dict[str, Any]]) -> None:
    machines = documents(recorded, "virtualMachines")
    assert len(machines) > 30
    seen = set()
    for told in machines:
        found = instance({**told, "tags": OURS_TAGS}, NOON)
        assert power_of(told) in POWERS
        assert (found.run_id, found.attempt) == ("r1", 1)
        assert found.ref.region == told["location"]
        # What is created and has no instance view is not known to run; a view always says more.
        assert "instanceView" not in told["properties"] or found.state is not InstanceState.PENDING, told["name"]
        seen.add(power_of(told))
    assert "running" in seen


@pytest.mark.parametrize("kind", ["virtualMachines", "disks", "networkInterfaces", "networkSecurityGroups"])
def test_every_recorded_part_of_a_group_is_listed_with_its_kind(recorded: list[dict[str, Any]], kind: str) -> None:
    parts = documents(recorded, kind)
    assert parts
    for told in parts:
        found = owned({"type": told.get("type", f"Microsoft.Compute/{kind}"), **told}, OUR_GROUP)
        assert found is not None
        assert found.kind in KINDS.values(), told["type"]
        assert (found.run_id, found.attempt, found.client) == ("r1", 1, "c1")


def test_every_recorded_group_is_none_of_ours_until_it_has_our_tags(recorded: list[dict[str, Any]]) -> None:
    groups = documents(recorded, "resourcegroups")
    assert len(groups) > 20
    for told in groups:
        itself = {"type": "Microsoft.Resources/resourceGroups", "id": told["id"]}
        assert owned(itself, told) is None
        found = owned(itself, {**told, "tags": OURS_TAGS})
        assert found is not None
        assert (found.kind, found.region) == ("resource_group", told["location"])


def test_every_recorded_error_has_its_reaction(recorded: list[dict[str, Any]]) -> None:
    errors = [row for row in recorded if row["status"] >= 400]
    assert errors
    for row in errors:
        error = refusal(row["status"], row["body"], "GET metrics")
        assert (type(error), error.code) == (BadRequestError, "BadRequest")
        assert "Failed to find metric configuration" in error.message


def reply_of(world: Client, path: str, api: str, **query: str) -> Any:
    reply = world.provider.account.arm.send(Call(method="GET", path=path, api=API[api], query=query))
    assert reply.status == 200
    return reply.body


def test_the_doubles_machine_has_no_field_that_azures_model_lacks(
    world: Client, recorded: list[dict[str, Any]]
) -> None:
    run = world.request(market=Market.SPOT)
    world.provider.launch(run)
    shown = reply_of(world, machine_path(SUBSCRIPTION, "trainplan-r1-1"), "compute", **{"$expand": "instanceView"})
    SdkModels("azure.mgmt.compute", "VirtualMachine").check_reply(shown)
    always = set.intersection(*(set(one) for one in documents(recorded, "virtualMachines")))
    inside = set.intersection(*(set(one["properties"]) for one in documents(recorded, "virtualMachines")))
    assert always <= set(shown)
    assert inside <= set(shown["properties"])
    assert "customData" not in shown["properties"]["osProfile"], "Azure does not give it back"
    sent = create_of(list(world.provider.requests(run)))
    assert sent["properties"]["osProfile"]["customData"]


def test_the_doubles_groups_have_the_fields_of_recorded_ones(world: Client, recorded: list[dict[str, Any]]) -> None:
    world.provider.launch(world.request())
    shown = reply_of(world, group_path(SUBSCRIPTION, "trainplan-r1-1"), "resources")
    groups = documents(recorded, "resourcegroups")
    assert set(shown) <= set.union(*(set(one) for one in groups))
    assert set.intersection(*(set(one) for one in groups)) <= set(shown)
    assert set(shown["properties"]) == {"provisioningState"}


@pytest.mark.parametrize(
    ("package", "model", "api", "path"),
    [
        ("azure.mgmt.network", "NetworkSecurityGroup", "network", "Microsoft.Network/networkSecurityGroups/nothing-in"),
        ("azure.mgmt.network", "VirtualNetwork", "network", "Microsoft.Network/virtualNetworks/network"),
    ],
)
def test_the_doubles_networks_have_no_field_that_azures_model_lacks(
    world: Client, package: str, model: str, api: str, path: str
) -> None:
    world.provider.launch(world.request())
    home = group_path(SUBSCRIPTION, "trainplan-r1-1")
    SdkModels(package, model).check_reply(reply_of(world, f"{home}/providers/{path}", api))


def test_the_doubles_quotas_and_images_have_no_field_that_azures_model_lacks(world: Client) -> None:
    place = f"{subscription_path(SUBSCRIPTION)}/providers/Microsoft.Compute/locations/eastus"
    for row in reply_of(world, f"{place}/usages", "compute")["value"]:
        SdkModels("azure.mgmt.compute", "Usage").check_reply(row)
    images = f"{place}/publishers/microsoft-dsvm/artifacttypes/vmimage/offers/ubuntu-hpc/skus/2204/versions"
    shown = reply_of(world, f"{images}/24.04.202611110", "compute")
    SdkModels("azure.mgmt.compute", "VirtualMachineImage").check_reply(shown)


@pytest.mark.parametrize("refused", ["", "OperationNotAllowed"])
def test_the_doubles_timer_answers_as_azures_model_says(world: Client, refused: str) -> None:
    run = world.request()
    world.provider.launch(run)
    world.rules(timer_error=refused)
    (timer,) = [call for call in world.provider.requests(run) if call.operation.endswith("SubmitDeallocate")]
    given: Any = timer.parameters
    reply = world.provider.account.arm.send(
        Call(method="POST", path=given["path"], api=given["api-version"], body=given["body"])
    )
    assert reply.status == 200
    SdkModels("azure.mgmt.computeschedule", "DeallocateResourceOperationResponse").check_reply(reply.body)
    assert (not_scheduled(reply.body) is None) is (refused == "")
