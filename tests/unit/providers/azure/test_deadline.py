"""What ends a machine whose client never comes back, layer by layer, and what each leaves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tests.contract.harness import Ask, request
from tests.unit.providers.azure.conftest import Client
from trainplan.providers.azure.deadline import TIMER_GRACE
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest
from trainplan.providers.errors import InstanceNotFoundError

MakeWorld = Callable[..., "Client"]
LASTING = timedelta(minutes=20)


def abandoned(world: Client) -> LaunchRequest:
    """Launched, and nobody comes back until the last timer has had its time."""
    run = request(world.provider, Ask(run_id="r1", lasting=LASTING))
    world.provider.launch(run)
    world.provider.sleep((LASTING + TIMER_GRACE + timedelta(minutes=1)).total_seconds())
    return run


def test_the_machine_deletes_its_own_group_and_nothing_is_left(make_world: MakeWorld) -> None:
    world = make_world(cloud_timer_works=False)
    abandoned(world)
    assert world.remaining() == []


def test_a_machine_waits_for_its_right_and_then_ends_itself(make_world: MakeWorld) -> None:
    """Training was over long before the right held that the launch gave; the client never came back."""
    world = make_world(role_holds_after=20 * 60, cloud_timer_works=False)
    world.provider.launch(request(world.provider, Ask(run_id="r1", behaviour="finish", lasting=timedelta(hours=3))))
    world.provider.sleep(15 * 60)
    assert "machine" in world.remaining()
    world.provider.sleep(10 * 60)
    assert world.remaining() == []


def test_a_right_that_never_comes_leaves_the_machine_to_azures_timer(make_world: MakeWorld) -> None:
    world = make_world(role_holds_after=2 * 3600)
    world.provider.launch(request(world.provider, Ask(run_id="r1", behaviour="finish", lasting=timedelta(hours=1))))
    world.provider.sleep(50 * 60)
    (machine,) = [row for row in world.azure.control("ledger") if row["kind"] == "machine"]
    assert machine["stopped_at"] is None, "a guest that is off bills on"
    world.provider.sleep((timedelta(minutes=11) + TIMER_GRACE).total_seconds())
    (machine,) = [row for row in world.azure.control("ledger") if row["kind"] == "machine"]
    assert machine["stopped_at"] is not None


def test_azures_timer_stops_what_computes_and_no_more(make_world: MakeWorld) -> None:
    """Where the machine does not end itself, disk and address bill on: named with what they cost, and cleaned up."""
    world = make_world(machine_timer_works=False)
    run = abandoned(world)
    seen = world.provider.get(world.provider.launch(run).ref)
    assert (seen.state, seen.end) == (InstanceState.ENDED, EndKind.DEADLINE)
    (machine,) = [row for row in world.azure.control("ledger") if row["kind"] == "machine"]
    assert machine["left"]
    assert machine["stopped_at"] is not None
    owned = world.provider.list_owned(run.run_id)
    assert {"disk", "address"} <= {one.kind for one in owned}
    for one in owned:
        world.provider.delete(one)
    world.provider.sleep(60)
    assert world.remaining() == []


def test_without_the_right_to_delete_its_group_a_machine_only_switches_itself_off(make_world: MakeWorld) -> None:
    """Azure bills a guest that was shut down as before: that is why its timer stands behind."""
    contributor = {
        "actions": ["*"],
        "notActions": ["Microsoft.Authorization/*/Write", "Microsoft.Authorization/*/Delete"],
    }
    world = make_world(granted=[contributor], cloud_timer_works=False)
    run = abandoned(world)
    assert world.provider.get(world.provider.launch(run).ref).state is InstanceState.ENDED
    (machine,) = [row for row in world.azure.control("ledger") if row["kind"] == "machine"]
    assert machine["stopped_at"] is None
    assert "PUT" not in " ".join(call for call in world.calls("PUT") if "roleAssignments" in call)


def test_with_azures_timer_behind_it_that_is_over_too(make_world: MakeWorld) -> None:
    contributor = {"actions": ["*"], "notActions": ["Microsoft.Authorization/*/Write"]}
    world = make_world(granted=[contributor])
    abandoned(world)
    (machine,) = [row for row in world.azure.control("ledger") if row["kind"] == "machine"]
    assert machine["stopped_at"] is not None


def test_without_any_timer_the_machine_is_still_there(make_world: MakeWorld) -> None:
    """That is what the other tests would see."""
    world = make_world(machine_timer_works=False, cloud_timer_works=False)
    run = abandoned(world)
    assert world.provider.get(world.provider.launch(run).ref).state is InstanceState.RUNNING


def test_a_machine_that_is_evicted_takes_its_disk_and_address_with_it(make_world: MakeWorld) -> None:
    world = make_world()
    run = request(world.provider, Ask(run_id="r1"))
    ref = world.provider.launch(run).ref
    world.azure.control("script", incidents=[{"event": "reclaim", "after": "30s"}])
    world.provider.sleep(120)
    try:
        raise AssertionError(world.provider.get(ref).state)
    except InstanceNotFoundError:
        pass
    assert world.remaining() == ["network", "resource_group", "role_assignment", "security_group"]
