"""The roles of docs/permissions/azure, held to the calls that were really made: nothing missing, nothing to spare."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.contract.harness import let_show
from tests.doubles.azure.permissions import actions_for, permits
from tests.doubles.azure.rules import SUBSCRIPTION
from tests.doubles.needs import rows
from tests.faults.azure import an_offer
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_setup import set_up
from trainplan.pricing.offers import Market
from trainplan.providers.agent.end import End
from trainplan.providers.azure.names import group_path
from trainplan.providers.azure.permissions import (
    ALARM_ACTIONS,
    CLIENT_ACTIONS,
    DATA_ACTIONS,
    LINKED_ACTIONS,
    MACHINE_ACTIONS,
    SETUP_ACTIONS,
)  # fmt: skip
from trainplan.providers.azure.preflight import LAUNCH_ACTIONS
from trainplan.providers.errors import CapacityError, ProviderError

pytestmark = pytest.mark.slow

MakeWorld = Callable[..., "Client"]
FILES = {
    "client.json": CLIENT_ACTIONS,
    "machine.json": MACHINE_ACTIONS,
    "set-up.json": SETUP_ACTIONS,
    "alarm.json": ALARM_ACTIONS,
}
DATA_FILES = {"machine-data.json": DATA_ACTIONS}


TABLE = tomllib.loads((Path(__file__).parent / "permissions.toml").read_text(encoding="utf-8"))
ROLES = {*CLIENT_ACTIONS, *MACHINE_ACTIONS, *SETUP_ACTIONS, *ALARM_ACTIONS, *DATA_ACTIONS}


def test_somebody_else_says_of_every_permission_that_it_exists() -> None:
    """Azure refuses a role that names one that does not, and set-up would end at it."""
    named = [action for row in TABLE["exist"] for action in row["actions"]]
    assert sorted(named) == sorted(ROLES)
    assert all("iam-dataset" in row["source"] or "learn.microsoft.com" in row["source"] for row in TABLE["exist"])


def test_what_azure_asks_for_within_a_call_is_in_the_table_of_needs() -> None:
    """That all others are asked for by calls of their own, and no more, the whole launch and set-up below show."""
    within = {row.permission for row in rows() if row.cloud == "azure" and row.ground != "azure-operations"}
    assert set(LINKED_ACTIONS) <= within


def calls_of(world: Client) -> list[dict[str, Any]]:
    """Every call but the one that tells which subscriptions there are."""
    return [call for call in world.azure.control("calls") if call["path"] != "/subscriptions"]


def refused_without(lacking: str, role: Sequence[str], calls: list[dict[str, Any]]) -> set[str]:
    """What of these calls is refused to whoever has all of a role but that, by the double's own rule."""
    granted = [{"actions": [action for action in role if action != lacking], "notActions": []}]
    return {action for call in calls for action in _needed(call) if not permits(granted, action, {})}


def _needed(call: dict[str, Any]) -> list[str]:
    return actions_for(call["method"], call["path"], call.get("body"))


@pytest.mark.parametrize("name", [*FILES, *DATA_FILES])
def test_the_files_are_the_roles(name: str) -> None:
    told = json.loads((ROOT / "docs" / "permissions" / "azure" / name).read_text(encoding="utf-8"))
    assert told["Actions"] == list(FILES.get(name, ()))
    assert told["DataActions"] == list(DATA_FILES.get(name, ()))
    assert told["IsCustom"] is True
    assert told["AssignableScopes"] == ["/subscriptions/SUBSCRIPTION"]
    assert told["NotActions"] == told["NotDataActions"] == []
    assert all("*" not in action for action in (*told["Actions"], *told["DataActions"]))


def use(world: Client) -> None:
    """From the doctor to the cleanup, with a placement without room, and with what a teardown finds left behind."""
    asked = world.provider
    asked.doctor()
    asked.preflight(an_offer("eastus", Market.ON_DEMAND))
    asked.obtainability([an_offer("eastus", Market.SPOT)])
    run = world.request()
    with pytest.raises(CapacityError):
        asked.launch(
            asked.resolve(replace(run, attempt=7, offer=an_offer("westus3", Market.ON_DEMAND), resolution=None))
        )
    ref = asked.launch(run).ref
    let_show(asked)
    asked.get(ref)
    list(asked.logs(ref))
    asked.deleted_at(ref)
    world.rules(stuck=120)
    for _ in range(5):
        for owned in asked.list_owned():
            asked.delete(owned)
        asked.sleep(60)
    assert asked.list_owned() == []


IN_USE = {"leaves_rights": True, "full": [["westus3", "*", "*"]]}


def test_a_whole_launch_takes_all_of_the_clients_role_and_no_more(make_world: MakeWorld) -> None:
    world = make_world(**IN_USE)
    use(world)
    calls = calls_of(world)
    assert {action for call in calls for action in _needed(call)} == set(CLIENT_ACTIONS)
    for lacking in CLIENT_ACTIONS:
        assert refused_without(lacking, CLIENT_ACTIONS, calls) == {lacking}


@pytest.mark.parametrize("lacking", ["Microsoft.Compute/virtualMachines/write", LINKED_ACTIONS[0]])
def test_without_one_of_its_permissions_a_launch_is_refused(make_world: MakeWorld, lacking: str) -> None:
    """One that a call is about, and one that Azure asks for within a call."""
    granted = {"actions": [action for action in CLIENT_ACTIONS if action != lacking], "notActions": []}
    world = make_world(**IN_USE, granted=[granted])
    with contextlib.suppress(ProviderError):
        use(world)
    assert lacking in world.azure.control("denied")


def test_setting_up_takes_all_of_its_role_and_no_more(make_world: MakeWorld) -> None:
    world = make_world()
    world.azure.control("reset", first_day=True)
    provider = set_up(world)
    for step in provider.removable():
        provider.carry_out(step, lambda _: None)
    calls = calls_of(world)
    assert {action for call in calls for action in _needed(call)} == set(SETUP_ACTIONS)
    for lacking in SETUP_ACTIONS:
        assert refused_without(lacking, SETUP_ACTIONS, calls) == {lacking}


def test_the_machine_may_do_what_it_asks_for_and_not_more_than_end_its_group() -> None:
    sent: list[tuple[str, str]] = []

    class Access:
        def end(self, name: str, usual: str) -> str:
            del name, usual
            return ""

    how = {"kind": "azure_group", "subscription": SUBSCRIPTION, "group": "g", "machine": "g"}
    end: Any = End(how=how, access=Access(), processes=None, clock=None)  # type: ignore[arg-type]
    for method, url, _ in end._calls():
        sent.append((method, url.partition("?")[0]))
    asked = {action for method, path in sent for action in actions_for(method, path)}
    within = {action for row in TABLE["within_deletion"] for action in row["actions"]}
    assert all(row["reason"] and row["source"] for row in TABLE["within_deletion"])
    assert asked | within == set(MACHINE_ACTIONS)
    assert not asked & within
    assert all(action.endswith(("/delete", "/deallocate/action")) for action in MACHINE_ACTIONS)


def test_what_a_launch_cannot_do_without_is_in_the_clients_role() -> None:
    assert set(LAUNCH_ACTIONS) <= set(CLIENT_ACTIONS)


def test_a_launch_gives_the_machine_its_right_on_its_own_group_alone(world: Client) -> None:
    run = world.request()
    world.provider.launch(run)
    (right,) = [path for path in world.calls("PUT") if "roleAssignments" in path]
    assert right.startswith(f"PUT {group_path(SUBSCRIPTION, 'trainplan-r1-1')}/providers/Microsoft.Authorization")
