"""The conditions of Azure's role assignments, read by their documented grammar: what is ours, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import ROOT
from tests.doubles.azure.permissions import ASSIGNMENTS, holds
from tests.doubles.azure.rules import PRINCIPAL, SUBSCRIPTION
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_setup import bare, set_up
from trainplan.providers.azure.api import Call
from trainplan.providers.azure.names import (
    API,
    BLOB_DATA_CONTRIBUTOR,
    data_role,
    group_path,
    machine_role,
)
from trainplan.providers.azure.permissions import (
    CHANGES_RUNS_ALONE,
    CLIENT_ACTIONS,
    DATA_ACTIONS,
    SETUP_ACTIONS,
    client_condition,
    setup_condition,
)
from trainplan.providers.base import PreflightState

MakeWorld = Callable[..., "Client"]
OWNER = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"
BLOB_PATH = "Resource:Microsoft.Storage/storageAccounts/blobServices/containers/blobs:path"
READ, WRITE, DELETE = DATA_ACTIONS
SETUP_ROLES = (data_role(SUBSCRIPTION), BLOB_DATA_CONTRIBUTOR)
CONDITIONS = {
    "client": client_condition(machine_role(SUBSCRIPTION), PRINCIPAL),
    "set-up": setup_condition(SETUP_ROLES),
    "machine data": CHANGES_RUNS_ALONE,
}


@pytest.mark.parametrize("path", ["runs/r1/status.json", "data/0123/a.tar", "invoices/2026.pdf", "xruns/r1", "runs"])
def test_a_machine_reads_the_container_and_changes_runs_alone(path: str) -> None:
    seen = {BLOB_PATH: path}
    assert holds(CHANGES_RUNS_ALONE, READ, seen)
    changed = [holds(CHANGES_RUNS_ALONE, action, seen) for action in (WRITE, DELETE)]
    assert changed == [path.startswith("runs/")] * 2


@pytest.mark.parametrize(("verb", "source"), [("write", "Request"), ("delete", "Resource")])
def test_whoever_sets_up_grants_the_right_to_the_container_alone(verb: str, source: str) -> None:
    def may(role: str) -> bool:
        seen = {f"{source}:{ASSIGNMENTS}:RoleDefinitionId": role}
        return holds(CONDITIONS["set-up"], f"{ASSIGNMENTS}/{verb}", seen)

    assert [may(role) for role in (*SETUP_ROLES, OWNER, machine_role(SUBSCRIPTION))] == [True, True, False, False]


@pytest.mark.parametrize("name", ["client", "set-up"])
def test_a_condition_stops_no_other_action_of_its_role(name: str) -> None:
    actions = {"client": CLIENT_ACTIONS, "set-up": SETUP_ACTIONS}[name]
    others = [action for action in actions if action not in (f"{ASSIGNMENTS}/write", f"{ASSIGNMENTS}/delete")]
    assert others
    assert all(holds(CONDITIONS[name], action, {}) for action in others)


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_that_is_cut_off_is_none(name: str) -> None:
    """So the form is looked at, and not only words in it."""
    for cut in (CONDITIONS[name][:-1], CONDITIONS[name].replace("ForAnyOfAnyValues:", "Some:").replace("Like", "Lik")):
        with pytest.raises(ValueError, match=r"condition|comparison"):
            holds(cut, DELETE, {BLOB_PATH: "runs/x"})


def test_a_set_up_and_its_removal_work_under_the_condition(make_world: MakeWorld) -> None:
    world = bare(make_world)
    row = {"actions": list(SETUP_ACTIONS), "notActions": [], "condition": CONDITIONS["set-up"]}
    world.rules(granted=[row])
    provider = set_up(world)
    for step in provider.removable():
        provider.carry_out(step, lambda _: None)
    assert world.azure.control("denied") == []


def test_the_file_of_the_set_ups_condition_is_the_condition() -> None:
    file = ROOT / "docs" / "permissions" / "azure" / "set-up-condition.txt"
    assert file.read_text(encoding="utf-8") == setup_condition(("DATA_ROLE", BLOB_DATA_CONTRIBUTOR)) + "\n"


def test_the_doctor_says_whether_the_subscription_is_for_runs_alone(make_world: MakeWorld) -> None:
    world = make_world()
    world.provider.launch(world.request())

    def scope() -> str:
        (found,) = [check for check in world.provider.doctor() if check.name == "scope"]
        assert found.state is PreflightState.OK
        return f"{found.detail} {found.fix}"

    assert "no resource groups but those of runs" in scope()
    for number in range(5):
        body = {"location": "eastus", "tags": {"team": "web"}}
        path = group_path(SUBSCRIPTION, f"web-{number}")
        world.provider.account.arm.send(Call(method="PUT", path=path, api=API["resources"], body=body))
    world.provider.sleep(60)  # until the list shows them
    said = scope()
    assert "5 resource groups that are not of runs (web-0, web-1, web-2 and 2 more)" in said
    assert "a subscription for these runs alone" in said
