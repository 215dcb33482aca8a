"""The end of an attempt: its group, forced and looked for; what still bills where that is stuck is named, and ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.builders import a_job
from tests.contract.harness import launched, let_show
from tests.doubles.clock import NOON
from tests.unit.providers.azure.conftest import Client
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.execution.teardown import Teardown
from trainplan.planner.runs.run import Attempt, Phase, Run
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.money import HOURS_PER_MONTH
from trainplan.providers.azure.reply import deleted_at, instance, was_made
from trainplan.providers.base import InstanceRef, LaunchRequest, RunId
from trainplan.providers.errors import IncompleteListingError, PermissionDeniedError

MakeWorld = Callable[..., "Client"]


def the_run(world: Client, request: LaunchRequest, ref: InstanceRef) -> Run:
    now = world.azure.now()
    attempt = Attempt(number=1, asked_at=now, sent_at=now, ref=ref)
    return Run(
        run_id=request.run_id, job_name="tiny", job_digest=a_job().digest(), provider="azure", phase=Phase.TEARING_DOWN,
        created_at=now, deadline=request.deadline, model_folder="", attempts=(attempt,),
    )  # fmt: skip


def cleared(world: Client, run: Run, patience: timedelta = timedelta(minutes=5)) -> None:
    Teardown(world.provider, world.provider, lambda _: None, patience).clear(run)


def test_the_group_is_deleted_by_force_and_looked_for(world: Client) -> None:
    request = world.request()
    ref = launched(world.provider, request).ref
    cleared(world, the_run(world, request, ref))
    assert world.remaining() == []
    (forced,) = {
        call["query"].get("forceDeletionTypes")
        for call in world.azure.control("calls")
        if call["method"] == "DELETE" and call["path"].endswith("/resourceGroups/trainplan-r1-1")
    }
    assert forced == "Microsoft.Compute/virtualMachines"


def test_what_still_bills_is_named_where_the_deletion_is_stuck(make_world: MakeWorld) -> None:
    """And the machine, which bills most, is ended by itself."""
    world = make_world(stuck=3600)
    request = world.request()
    ref = launched(world.provider, request).ref
    run = the_run(world, request, ref)
    with pytest.raises(TeardownUnverifiedError) as caught:
        cleared(world, run, timedelta(minutes=2))
    assert "resource_group" in str(caught.value)
    ledger = {row["kind"]: row for row in world.azure.control("ledger")}
    assert not ledger["machine"]["left"]
    assert not ledger["disk"]["left"]
    assert not ledger["address"]["left"]
    assert ledger["resource_group"]["left"]
    world.provider.sleep(3600)
    cleared(world, run)
    assert world.remaining() == []


def test_a_right_that_outlives_its_group_is_found_and_deleted(make_world: MakeWorld) -> None:
    world = make_world(leaves_rights=True)
    request = world.request()
    ref = launched(world.provider, request).ref
    world.provider.delete(ref)
    world.provider.sleep(60)
    assert world.remaining() == ["role_assignment"]
    (right,) = world.provider.list_owned()
    assert (right.kind, right.run_id, right.attempt) == ("role_assignment", "r1", 1)
    cleared(world, the_run(world, request, ref))
    assert world.remaining() == []


def test_a_right_of_a_group_that_somebody_else_made_has_its_labels(world: Client) -> None:
    """Or a cleanup would take it for an orphan of ours, and end a stranger's machine."""
    request = replace(world.request(), client="another computer")
    launched(world.provider, request)
    owned = world.provider.list_owned()
    assert {one.kind for one in owned} >= {"role_assignment", "machine", "resource_group"}
    assert {one.client for one in owned} == {"another computer"}
    assert {one.deadline for one in owned} == {request.deadline}


def test_a_right_whose_group_is_not_listed_is_left_alone(world: Client) -> None:
    """Nobody knows whose it is: its group has lost its tags, or is not in the list yet."""
    world.rules(listing_lag=600)
    request = world.request()
    world.provider.launch(request)
    assert world.provider.list_owned() == []
    assert "role_assignment" in world.remaining()


@pytest.mark.parametrize("call", ["GET resourcegroups", "GET resources", "GET roleAssignments"])
def test_no_list_may_fail(world: Client, call: str) -> None:
    request = world.request()
    launched(world.provider, request)
    world.script(call, code="AuthorizationFailed", times=None)
    with pytest.raises(IncompleteListingError) as caught:
        world.provider.list_owned(request.run_id)
    assert caught.value.unanswered


def test_every_page_is_read(make_world: MakeWorld) -> None:
    world = make_world(page_size=1)
    runs = [world.request(run_id=name) for name in ("r1", "r2", "r3")]
    for run in runs:
        world.provider.launch(run)
    world.provider.sleep(60)
    machines = [one for one in world.provider.list_owned() if one.instance]
    assert sorted(one.run_id for one in machines) == ["r1", "r2", "r3"]
    assert [one.run_id for one in world.provider.list_owned(RunId("r2")) if one.instance] == ["r2"]
    assert len(world.provider.list_owned()) == 24


def test_a_delete_that_is_refused_is_told(world: Client) -> None:
    request = world.request()
    ref = launched(world.provider, request).ref
    world.script("DELETE resourceGroups", code="ScopeLocked")
    with pytest.raises(PermissionDeniedError, match="resourceGroups") as caught:
        world.provider.delete(ref)
    assert "lock" in caught.value.hint
    world.provider.delete(ref)
    world.provider.sleep(60)
    assert world.remaining() == []


def test_everything_that_bills_is_listed_with_what_it_costs(world: Client) -> None:
    """As the rates of the estimate have it; the rest of a group is free."""
    request = world.request()
    launched(world.provider, request)
    prices = {one.kind: one.usd_per_hour for one in world.provider.list_owned()}
    with Catalog.open() as catalog:
        rates = catalog.rates["azure"].at(request.offer.region)
    assert prices["machine"] == request.offer.usd_per_hour
    assert prices["address"] == rates.address.usd
    assert prices["disk"] == 128 * rates.disk.usd / HOURS_PER_MONTH
    assert {kind for kind, usd in prices.items() if usd is not None} == {"machine", "address", "disk"}


def test_when_a_machine_was_deleted_is_in_the_activity_log(make_world: MakeWorld) -> None:
    world = make_world()
    ref = launched(world.provider, world.request()).ref
    let_show(world.provider)
    at = world.azure.now()
    world.provider.delete(ref)
    assert world.provider.deleted_at(ref) is None, "it is 20 minutes behind"
    world.provider.sleep(25 * 60)
    told = world.provider.deleted_at(ref)
    assert told is not None
    assert abs(told - at) <= timedelta(seconds=1)
    world.provider.sleep(timedelta(days=88).total_seconds())
    assert world.provider.deleted_at(ref) == told
    world.provider.sleep(timedelta(days=2).total_seconds())
    assert world.provider.deleted_at(ref) is None


def test_whether_a_machine_was_ever_made_is_in_the_activity_log(make_world: MakeWorld) -> None:
    world = make_world()
    request, asked_at = world.request(), world.azure.now()

    def was_made(attempt: int) -> bool | None:
        return world.provider.was_made(request.run_id, attempt, request.offer.region, asked_at)

    ref = launched(world.provider, request).ref
    assert was_made(1) is was_made(2) is None, "it is 20 minutes behind"
    world.provider.delete(ref)
    world.provider.sleep(2 * 3600)
    assert (was_made(1), was_made(2)) == (True, False)
    world.provider.sleep(timedelta(days=89).total_seconds())
    assert was_made(1) is None


@pytest.mark.parametrize(
    ("statuses", "made"),
    [((), False), (("Started",), None), (("Started", "Failed"), False), (("Failed", "Accepted", "Succeeded"), True)],
)
def test_a_create_that_failed_has_made_no_machine(statuses: tuple[str, ...], made: bool | None) -> None:
    told = [event("write", status, second) for second, status in enumerate(statuses)]
    assert was_made([*told, event("delete", "Succeeded", 9)]) is made


@pytest.mark.parametrize(
    ("provisioning", "power", "is_deleted"),
    [
        ("Succeeded", "running", False),
        ("Deleting", "running", True),
        ("Updating", "deallocating", True),
        ("Updating", "stopping", False),
    ],
)
def test_what_is_being_deleted_is_not_charged_for(provisioning: str, power: str, *, is_deleted: bool) -> None:
    view = {"statuses": [{"code": f"PowerState/{power}"}]}
    shown = {"name": "a", "properties": {"provisioningState": provisioning, "instanceView": view}}
    assert instance(shown, NOON).is_deleted is is_deleted


def event(verb: str, status: str, second: int, number: int = 1) -> dict[str, object]:
    return {
        "operationName": {"value": f"Microsoft.Compute/virtualMachines/{verb}"},
        "status": {"value": status},
        "eventTimestamp": f"2026-11-21T12:00:{second:02}.1234567Z",
        "correlationId": str(number),
    }


@pytest.mark.parametrize(
    ("events", "second"),
    [
        ((), None),
        ((event("write", "Succeeded", 1),), None),
        ((event("delete", "Started", 1),), None),
        ((event("delete", "Started", 1), event("delete", "Failed", 2)), None),
        ((event("delete", "Succeeded", 9), event("delete", "Accepted", 5), event("delete", "Started", 4)), 4),
        ((event("delete", "Started", 1), event("delete", "Succeeded", 9, 2)), 9),
        ((event("deallocate/action", "Succeeded", 3), event("delete", "Succeeded", 9, 2)), 3),
        (({"operationName": None, "status": "x"}, {}), None),
    ],
)
def test_the_first_record_of_what_ended_it_counts(events: tuple[dict[str, object], ...], second: int | None) -> None:
    told = deleted_at(events)
    assert (None if told is None else told.second) == second
