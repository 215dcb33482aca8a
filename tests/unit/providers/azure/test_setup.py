"""`plan setup azure` on the double: what is missing is made, a second time nothing, also after a crash half-way."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.doubles.azure.rules import PERSON, PRINCIPAL, SUBSCRIPTION
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_account import CONTRIBUTOR
from trainplan.providers.azure.names import NAMESPACES, account_of
from trainplan.providers.azure.provider import AzureProvider
from trainplan.providers.base import InstanceState
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, TransientError

MakeWorld = Callable[..., "Client"]
ALL = ["resource providers", "group", "identity", "storage", "role", "data role", "machines' data", "your data"]


def bare(make_world: MakeWorld, **rules: object) -> Client:
    """A subscription that nobody has set up."""
    world = make_world()
    world.azure.control("reset", set_up=False)
    world.rules(unregistered=list(NAMESPACES), **rules)
    return world


def set_up(world: Client, messages: list[str] | None = None) -> AzureProvider:
    provider = world.another(region="eastus")
    for step in provider.lacking():
        provider.carry_out(step, (messages if messages is not None else []).append)
    return provider


def test_what_is_missing_is_made_and_then_launches_work(make_world: MakeWorld) -> None:
    world = bare(make_world)
    provider = world.another(region="eastus")
    assert [step.name for step in provider.lacking()] == ALL
    assert [call for call in world.calls() if not call.startswith("GET")] == []
    with pytest.raises(BadRequestError, match="identity") as caught:
        world.request()
    assert "plan setup azure" in caught.value.hint
    set_up(world)
    assert world.another(region="eastus").lacking() == []
    later = replace(world)
    assert later.provider.launch(later.request()).state is InstanceState.RUNNING
    assert all(check.state == "ok" for check in world.another().doctor())


def test_steps_show_what_they_send(make_world: MakeWorld) -> None:
    world = bare(make_world)
    steps = {step.name: step for step in world.another(region="eastus").lacking()}
    assert all(step.detail for step in steps.values())
    storage, *inside = steps["storage"].calls
    assert storage.parameters["body"]["properties"]["allowBlobPublicAccess"] is False  # type: ignore[index]
    assert [call.operation for call in inside] == ["PUT blobServices", "PUT containers", "PUT managementPolicies"]
    granted = [steps[name].calls[0] for name in ("machines' data", "your data")]
    assert all("/containers/trainplan/" in str(call.parameters["path"]) for call in granted)


def test_the_machine_and_the_person_get_their_rights_on_the_container_alone(make_world: MakeWorld) -> None:
    world = bare(make_world)
    set_up(world)
    rights = [call for call in world.azure.control("calls") if call["method"] == "PUT" and "roleAssign" in call["path"]]
    assert [right["body"]["properties"]["principalId"] for right in rights] == [PRINCIPAL, PERSON]
    assert all("/storageAccounts/" in right["path"] for right in rights)


def allows(condition: str, action: str, path: str) -> bool:
    """What Azure would say of a condition of this form: its actions and its comparison with the blob's path."""
    blobs = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
    text = re.sub(r"!\(ActionMatches\{'([^']+)'\}\)", lambda found: str(found[1] != f"{blobs}/{action}"), condition)
    text = re.sub(
        rf"@Resource\[{re.escape(blobs)}:path\] StringLike '([^']+)'",
        lambda found: str(fnmatch.fnmatchcase(path, found[1])),
        text,
    )
    assert re.fullmatch(r"[() ]*((True|False|AND|OR)[() ]*)+", text), text
    return bool(eval(text.replace("AND", "and").replace("OR", "or")))


@pytest.mark.parametrize(
    ("action", "path", "allowed"),
    [
        ("read", "data/abc/train-0.tar", True),
        ("read", "runs/261121-00000001/job.json", True),
        ("write", "runs/261121-00000001/attempts/1/status.json", True),
        ("delete", "runs/261121-00000001/checkpoints/1", True),
        ("write", "data/abc/train-0.tar", False),
        ("delete", "data/abc/train-0.tar", False),
        ("write", "runs", False),
    ],
)
def test_machines_read_data_sets_and_change_run_directories_alone(
    make_world: MakeWorld, action: str, path: str, allowed: bool
) -> None:
    steps = {step.name: step for step in bare(make_world).another(region="eastus").lacking()}
    (granted,) = steps["machines' data"].calls
    right: Any = granted.parameters["body"]
    assert right["properties"]["conditionVersion"] == "2.0"
    assert allows(right["properties"]["condition"], action, path) is allowed
    (defined,) = steps["data role"].calls
    assert str(defined.parameters["path"]) == right["properties"]["roleDefinitionId"]
    role: Any = defined.parameters["body"]
    (row,) = role["properties"]["permissions"]
    assert row["actions"] == []
    assert [one.rpartition("/")[2] for one in row["dataActions"]] == ["read", "write", "delete"]


def test_a_storage_account_of_the_persons_own_is_left_as_it_is(make_world: MakeWorld) -> None:
    world = bare(make_world)
    set_up(world)
    before = len(world.calls("PUT"))
    provider = world.another(region="eastus", bucket="another")
    (storage,) = [step for step in provider.lacking() if step.name == "storage"]
    assert [call.operation for call in storage.calls] == ["PUT containers"]
    assert "your storage account trainplantests" in storage.detail
    assert len(world.calls("PUT")) == before


def test_it_waits_until_the_new_right_holds(make_world: MakeWorld) -> None:
    world = bare(make_world)
    world.script("PutObject", code="AuthorizationFailed", times=3)
    said: list[str] = []
    set_up(world, said)
    assert sum("does not hold yet" in line for line in said) == 1


def test_a_right_that_holds_late_is_waited_for_with_a_line_each_minute(make_world: MakeWorld) -> None:
    """Refused 240 times, five seconds apart: 20 minutes, within the 30 that Microsoft has named."""
    world = bare(make_world)
    world.script("PutObject", code="AuthorizationFailed", times=240)
    said: list[str] = []
    set_up(world, said)
    waiting = [line for line in said if "does not hold yet" in line]
    assert waiting[0] == "the new right does not hold yet; Azure takes up to 30 minutes"
    assert waiting[1:] == [
        f"the new right does not hold yet after {minutes} of up to 30 minutes; "
        "Ctrl-C ends the waiting: nothing else is left to do"
        for minutes in range(1, len(waiting))
    ]
    assert len(waiting) >= 20
    assert world.another(region="eastus").lacking() == []


def test_a_right_that_never_holds_ends_the_set_up_after_half_an_hour(make_world: MakeWorld) -> None:
    world = bare(make_world)
    world.script("PutObject", code="AuthorizationFailed", times=None)
    began, said = world.azure.now(), list[str]()
    with pytest.raises(PermissionDeniedError) as caught:
        set_up(world, said)
    assert timedelta(minutes=30) <= world.azure.now() - began <= timedelta(minutes=45)
    assert caught.value.hint.startswith("the right is there, and did not hold within the 30 minutes")
    assert sum("does not hold yet" in line for line in said) == 30


@pytest.mark.parametrize("broken", ["PUT resourceGroups", "PUT userAssignedIdentities", "PUT containers"])
@pytest.mark.parametrize("effect", ["lost_request", "lost_reply"])
def test_a_set_up_that_broke_off_is_gone_on_with(make_world: MakeWorld, broken: str, effect: str) -> None:
    world = bare(make_world)
    world.script(broken, effect=effect, times=30)  # longer than trouble is waited for
    with pytest.raises(TransientError):
        set_up(world)
    set_up(world)
    assert world.another(region="eastus").lacking() == []


@pytest.mark.parametrize("effect", ["lost_request", "lost_reply"])
def test_a_call_without_an_answer_is_sent_again(make_world: MakeWorld, effect: str) -> None:
    world = bare(make_world)
    world.script("PUT resourceGroups", effect=effect, times=2)
    set_up(world)
    assert world.another(region="eastus").lacking() == []


@pytest.mark.parametrize("code", ["PrincipalNotFound", "RoleDefinitionDoesNotExist"])
def test_a_new_identity_or_role_that_is_not_known_yet_is_waited_for(make_world: MakeWorld, code: str) -> None:
    world = bare(make_world)
    world.script("PUT roleAssignments", code=code, times=2)
    said: list[str] = []
    set_up(world, said)
    assert sum("PUT roleAssignments does not find the new" in line for line in said) == 1


def test_a_contributor_is_told_who_can(make_world: MakeWorld) -> None:
    world = bare(make_world, granted=[CONTRIBUTOR])
    world.script("PUT roleDefinitions", code="AuthorizationFailed", times=None)
    with pytest.raises(PermissionDeniedError) as caught:
        set_up(world)
    assert "Contributor" in caught.value.hint
    assert "owner" in caught.value.hint


def test_without_a_region_it_asks_for_one(make_world: MakeWorld) -> None:
    with pytest.raises(BadRequestError, match="region"):
        bare(make_world).another().lacking()


def test_what_was_made_is_removed_but_for_the_data(make_world: MakeWorld) -> None:
    world = bare(make_world)
    set_up(world)
    provider = world.another()
    steps = provider.removable()
    assert [step.name for step in steps] == ["machines' data", "your data", "role", "data role", "identity"]
    for step in steps:
        provider.carry_out(step, lambda _: None)
        provider.carry_out(step, lambda _: None)
    world.provider.sleep(60)
    assert world.another().removable() == []
    assert [step.name for step in world.another().lacking()] == [
        "identity",
        "role",
        "data role",
        "machines' data",
        "your data",
    ]


def test_nothing_is_removed_under_a_run(make_world: MakeWorld) -> None:
    world = make_world()
    world.provider.launch(world.request())
    world.provider.sleep(60)
    assert world.another(region="eastus").removable() == []


def test_the_storage_account_has_a_name_that_azure_takes() -> None:
    name = account_of(SUBSCRIPTION)
    assert 3 <= len(name) <= 24
    assert name.isalnum()
    assert name == name.lower() == account_of(SUBSCRIPTION.upper())
