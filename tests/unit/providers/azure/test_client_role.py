"""What the role of whoever launches lets them do: launch, stop and delete, and grant the machines' role to machines."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.doubles.azure.rules import PERSON, PRINCIPAL, SUBSCRIPTION
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_setup import bare, set_up
from trainplan.providers.azure.account import GRANTS
from trainplan.providers.azure.api import Call
from trainplan.providers.azure.names import (
    API,
    BLOB_DATA_CONTRIBUTOR,
    group_path,
    machine_role,
    role_path,
    subscription_path,
)
from trainplan.providers.azure.permissions import CLIENT_ACTIONS, client_condition
from trainplan.providers.base import InstanceState, PreflightState

MakeWorld = Callable[..., "Client"]
OWNER = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"
"""The built-in role, by Microsoft's list of built-in roles."""
CONDITION = client_condition(machine_role(SUBSCRIPTION), PRINCIPAL)
CLIENT = {"actions": list(CLIENT_ACTIONS), "notActions": [], "condition": CONDITION, "conditionVersion": "2.0"}
GROUP = group_path(SUBSCRIPTION, "trainplan-r1-1")


def granted(world: Client, scope: str, role: str, principal: str) -> int:
    """The status by which Azure answers whoever launches, and wants to assign this role."""
    body = {"properties": {"roleDefinitionId": role_path(SUBSCRIPTION, role), "principalId": principal}}
    path = f"{scope}/providers/Microsoft.Authorization/roleAssignments/11111111-0000-0000-0000-000000000000"
    return world.provider.account.arm.send(Call(method="PUT", path=path, api=API["authorization"], body=body)).status


def test_with_the_condition_a_launch_and_its_teardown_work(make_world: MakeWorld) -> None:
    world = make_world(granted=[CLIENT])
    run = world.request()
    made = world.provider.launch(run)
    assert made.state is InstanceState.RUNNING
    assert "role_assignment" in world.remaining()
    for _ in range(3):
        world.provider.sleep(60)
        for owned in world.provider.list_owned():
            world.provider.delete(owned)
    assert world.remaining() == []


@pytest.mark.parametrize(
    ("scope", "role", "principal"),
    [
        (subscription_path(SUBSCRIPTION), OWNER, PERSON),
        (GROUP, OWNER, PRINCIPAL),
        (GROUP, machine_role(SUBSCRIPTION), PERSON),
        (GROUP, BLOB_DATA_CONTRIBUTOR, PRINCIPAL),
    ],
)
def test_who_launches_grants_nothing_but_the_machines_role_to_machines(
    make_world: MakeWorld, scope: str, role: str, principal: str
) -> None:
    world = make_world(granted=[CLIENT])
    world.provider.launch(world.request())
    assert granted(world, GROUP, machine_role(SUBSCRIPTION), PRINCIPAL) == 201
    assert granted(world, scope, role, principal) == 403


def test_who_launches_takes_no_right_from_anybody_else(make_world: MakeWorld) -> None:
    """Set-up's right on the container is the machines', and of another role."""
    world = bare(make_world)
    set_up(world)
    (path,) = [
        call["path"]
        for call in world.azure.control("calls")
        if call["method"] == "PUT" and "roleAssignments" in call["path"]
        and call["body"]["properties"]["principalId"] == PRINCIPAL
    ]  # fmt: skip
    world.rules(granted=[CLIENT])
    refused = world.provider.account.arm.send(Call(method="DELETE", path=path, api=API["authorization"]))
    assert refused.status == 403


def test_set_up_gives_the_command_that_narrows_the_role(make_world: MakeWorld) -> None:
    said: list[str] = []
    set_up(bare(make_world), said)
    (command,) = [line for line in said if line.startswith("az role assignment create")]
    given: Any = shlex.split(command)
    options = dict(zip(given[4::2], given[5::2], strict=True))
    assert options["--condition"] == CONDITION
    assert options["--condition-version"] == "2.0"
    assert options["--role"] == "trainplan client"
    assert options["--scope"] == subscription_path(SUBSCRIPTION)


def test_the_file_of_the_condition_is_the_condition() -> None:
    file = ROOT / "docs" / "permissions" / "azure" / "client-condition.txt"
    assert file.read_text(encoding="utf-8") == client_condition("MACHINE_ROLE", "MACHINE_IDENTITY") + "\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [(CLIENT, "the machines' role"), ({"actions": ["*"], "notActions": []}, "any role")],
)
def test_the_doctor_says_how_much_may_be_granted(make_world: MakeWorld, row: dict[str, Any], message: str) -> None:
    world = make_world(granted=[row])
    (granting,) = [check for check in world.provider.doctor() if check.name == "granting"]
    assert granting.state is PreflightState.OK
    assert message in granting.detail
    assert world.provider.account.may(GRANTS)
