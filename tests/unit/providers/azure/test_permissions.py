"""The roles of docs/permissions/azure, held to the calls that were really made: nothing missing, nothing to spare."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pricing.offers import Market
from providers.agent.end import End
from providers.azure.names import group_path
from providers.azure.preflight import LAUNCH_ACTIONS
from providers.azure.roles import CLIENT_ACTIONS, DATA_ACTIONS, LINKED_ACTIONS, MACHINE_ACTIONS, SETUP_ACTIONS
from tests.conftest import ROOT
from tests.contract.harness import let_show
from tests.doubles.azure.rules import SUBSCRIPTION
from tests.faults.azure import an_offer
from tests.unit.providers.azure.test_setup import bare, set_up

if TYPE_CHECKING:
    from tests.unit.providers.azure.conftest import Client

MakeWorld = Callable[..., "Client"]
FILES = {"client.json": CLIENT_ACTIONS, "machine.json": MACHINE_ACTIONS, "set-up.json": SETUP_ACTIONS}
DATA_FILES = {"machine-data.json": DATA_ACTIONS}
_VERBS = {"GET": "read", "PUT": "write", "DELETE": "delete"}


def action_of(method: str, path: str) -> str:
    """The action that Resource Manager asks for a call: its kind, without names, and what is done."""
    parts = [part for part in path.split("/") if part]
    if "providers" in parts and parts[-1] != "providers":
        at = len(parts) - 1 - parts[::-1].index("providers")
        namespace, rest = parts[at + 1], parts[at + 2 :]
        if not rest:
            return "Microsoft.Resources/subscriptions/providers/read"
        if rest == ["register"]:
            return f"{namespace}/register/action"
        doing = len(rest) % 2 == 1 and method == "POST"
        kinds = rest[:-1:2] if doing else rest[::2]
        kind = "/".join([namespace, *kinds])
        return f"{kind}/{rest[-1]}/action" if doing else f"{kind}/{_VERBS[method]}"
    kinds = [part for part in parts[::2]]
    named = {"resourcegroups": "resourceGroups"}
    return "/".join(["Microsoft.Resources", *(named.get(kind, kind) for kind in kinds), _VERBS[method]])


def actions(world: Client) -> set[str]:
    found = {action_of(call["method"], call["path"]) for call in world.azure.control("calls")}
    # Named otherwise than their paths are.
    named = {
        "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions/read",
        "Microsoft.ComputeSchedule/locations/virtualMachinesSubmitDeallocate/action",
    }
    renamed = {
        action: next(
            (name for name in named if action.rpartition("/")[0].split("/")[-1] in name.split("/")[-2:]), action
        )
        for action in found
        if "publishers" in action or "Submit" in action
    }
    return {renamed.get(action, action) for action in found}


@pytest.mark.parametrize("name", [*FILES, *DATA_FILES])
def test_the_files_are_the_roles(name: str) -> None:
    told = json.loads((ROOT / "docs" / "permissions" / "azure" / name).read_text(encoding="utf-8"))
    assert told["Actions"] == list(FILES.get(name, ()))
    assert told["DataActions"] == list(DATA_FILES.get(name, ()))
    assert told["IsCustom"] is True
    assert told["AssignableScopes"] == ["/subscriptions/SUBSCRIPTION"]
    assert told["NotActions"] == told["NotDataActions"] == []
    assert all("*" not in action for action in (*told["Actions"], *told["DataActions"]))


def test_a_whole_launch_takes_all_of_the_clients_role_and_no_more(make_world: MakeWorld) -> None:
    """From the doctor to the sweep, with a place without room, and with what a teardown finds left behind."""
    world = make_world(leaves_rights=True, full=[["westus3", "*", "*"]])
    asked = world.provider
    asked.doctor()
    asked.preflight(an_offer("eastus", Market.ON_DEMAND))
    run = world.request()
    with pytest.raises(Exception, match="capacity"):
        asked.launch(asked.resolve(replace(run, attempt=7, offer=an_offer("westus3", Market.ON_DEMAND), resolved={})))
    ref = asked.launch(run).ref
    let_show(asked)
    asked.get(ref)
    list(asked.logs(ref))
    world.rules(stuck=120)
    for _ in range(5):
        for owned in asked.list_owned():
            asked.delete(owned)
        asked.sleep(60)
    assert asked.list_owned() == []
    seen = actions(world)
    assert seen - set(CLIENT_ACTIONS) == set()
    assert set(CLIENT_ACTIONS) - seen == set(LINKED_ACTIONS)


def test_setting_up_takes_all_of_its_role_and_no_more(make_world: MakeWorld) -> None:
    world = bare(make_world)
    provider = set_up(world)
    for step in provider.removable():
        provider.carry_out(step, lambda _: None)
    assert {
        action for action in actions(world) if not action.startswith("Microsoft.Resources/subscriptions/providers")
    } == {action for action in SETUP_ACTIONS if not action.startswith("Microsoft.Resources/subscriptions/providers")}


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
    asked = {action_of(method, path) for method, path in sent}
    assert asked <= set(MACHINE_ACTIONS)
    assert all(action.endswith(("/delete", "/deallocate/action")) for action in MACHINE_ACTIONS)


def test_what_a_launch_cannot_do_without_is_in_the_clients_role() -> None:
    assert set(LAUNCH_ACTIONS) <= set(CLIENT_ACTIONS)


def test_a_launch_gives_the_machine_its_right_on_its_own_group_alone(world: Client) -> None:
    run = world.request()
    world.provider.launch(run)
    (right,) = [path for path in world.calls("PUT") if "roleAssignments" in path]
    assert right.startswith(f"PUT {group_path(SUBSCRIPTION, 'trainplan-r1-1')}/providers/Microsoft.Authorization")
