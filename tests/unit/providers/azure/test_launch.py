"""A launch against the double: what is refused leaves nothing, what is replayed makes nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.contract.harness import state_of, wait_until_it_trains
from tests.unit.providers.azure.conftest import Client
from trainplan.pricing.offers import Market
from trainplan.providers.azure.launch import Pace
from trainplan.providers.base import EndKind, InstanceState, RunId
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)

MakeWorld = Callable[..., "Client"]
KINDS = ["address", "disk", "interface", "machine", "network", "resource_group", "role_assignment", "security_group"]
"""What a launch makes."""


def test_a_launch_makes_this_and_no_more(world: Client) -> None:
    world.rules(listing_lag=29)
    run = world.request()
    made = world.provider.launch(run)
    assert made.state is InstanceState.RUNNING
    assert world.remaining() == KINDS
    assert {owned.kind for owned in world.provider.list_owned(run.run_id)} == set()  # the list lags behind
    world.provider.sleep(world.provider.listing_lag.total_seconds())
    owned = world.provider.list_owned(run.run_id)
    assert sorted(one.kind for one in owned) == KINDS
    assert owned[0].instance
    assert owned[0].usd_per_hour == run.offer.usd_per_hour


def test_all_that_bills_of_a_run_is_told_with_it(world: Client) -> None:
    """Cost Management tells costs by the tag of the resource itself."""
    run = world.request()
    world.provider.launch(run)
    billed_to = {row["kind"]: row["billed_to"] for row in world.azure.control("ledger") if row["usd_per_hour"]}
    assert billed_to == dict.fromkeys(("machine", "disk", "address"), str(run.run_id))


@pytest.mark.parametrize("form", ["sync", "lro"])
def test_a_placement_without_room_says_so_and_keeps_nothing(make_world: MakeWorld, form: str) -> None:
    """Said at once (spot) or by the operation: then the machine that failed is deleted before anybody goes on."""
    world = make_world(full=[["*", "*", "*"]], refuses=form)
    with pytest.raises(CapacityError) as caught:
        world.provider.launch(world.request())
    assert caught.value.code == {"sync": "SkuNotAvailable", "lro": "AllocationFailed"}[form]
    assert world.remaining() == []
    calls = world.calls("DELETE")
    assert [call.rpartition("/")[2] for call in calls] == ["trainplan-r1-1"] * 2
    assert "virtualMachines" in calls[0]
    assert "virtualMachines" not in calls[1]


def test_a_size_that_the_region_does_not_have_is_a_placement_without_room(world: Client) -> None:
    """A price list may know more than the region has; a run with other placements goes there."""
    run = world.request()
    with pytest.raises(CapacityError, match="no Standard_NC16as_T4_v3 in eastus"):
        world.provider.resolve(replace(run, offer=replace(run.offer, instance_type="Standard_NC16as_T4_v3")))


@pytest.mark.parametrize(
    ("market", "limit", "quota"),
    [
        (Market.ON_DEMAND, "*/standardNCASv3_T4Family", "standardNCASv3_T4Family Cores"),
        (Market.ON_DEMAND, "*/cores", "Total Regional Cores"),
        (Market.SPOT, "*/lowPriorityCores", "Total Regional Low Priority Cores"),
    ],
)
def test_a_quota_is_named_and_nothing_is_left(make_world: MakeWorld, market: Market, limit: str, quota: str) -> None:
    world = make_world(limits={limit: 3})
    with pytest.raises(QuotaError) as caught:
        world.provider.launch(world.request(market=market))
    assert caught.value.quota == quota
    assert world.remaining() == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("TooManyRequests", ThrottledError),
        ("InternalServerError", TransientError),
        ("ExpiredAuthenticationToken", CredentialsError),
        ("AuthorizationFailed", PermissionDeniedError),
        ("RequestDisallowedByPolicy", PermissionDeniedError),
        ("MissingSubscriptionRegistration", PermissionDeniedError),
        ("InvalidParameter", BadRequestError),
        ("Conflict", TransientError),
        ("NeverHeardOf", UnrecognizedError),
    ],
)
@pytest.mark.parametrize("call", ["PUT resourceGroups", "PUT virtualMachines"])
def test_other_refusals_are_what_their_code_says(
    world: Client, call: str, code: str, kind: type[ProviderError]
) -> None:
    """A 409 is never read as: it is there already. Of several of these the engine's teardown takes what was made."""
    run = world.request()
    world.script(call, code=code, times=times_until_told(call, kind))
    with pytest.raises(kind) as caught:
        world.provider.launch(run)
    assert type(caught.value) is kind
    assert caught.value.code == code
    if kind in (ThrottledError, TransientError):
        assert world.provider.launch(run).state is InstanceState.RUNNING
        assert world.remaining() == KINDS


def times_until_told(call: str, kind: type[ProviderError]) -> int:
    """How often a call is refused before the launch says so: what makes no machine is sent four times."""
    return 4 if kind is TransientError and call != "PUT virtualMachines" else 1


WITHOUT_MACHINE = [
    "PUT resourceGroups", "PUT networkSecurityGroups", "PUT virtualNetworks", "PUT roleAssignments",
    "POST virtualMachinesSubmitDeallocate",
]  # fmt: skip


@pytest.mark.parametrize("call", WITHOUT_MACHINE)
@pytest.mark.parametrize("effect", ["lost_request", "lost_reply"])
def test_what_makes_no_machine_is_sent_again_within_the_launch(world: Client, call: str, effect: str) -> None:
    """Else each of seven calls would use up a try of the engine's."""
    for lost in [*WITHOUT_MACHINE, "GET virtualMachines"]:
        world.script(lost, effect=effect, times=3 if lost == call else 1)
    assert world.provider.launch(world.request()).state is InstanceState.RUNNING
    assert world.remaining() == KINDS


@pytest.mark.parametrize("effect", ["lost_request", "lost_reply"])
def test_a_create_without_an_answer_is_not_sent_again_before_a_look(world: Client, effect: str) -> None:
    world.script("PUT virtualMachines", effect=effect)
    with pytest.raises(TransientError):
        world.provider.launch(world.request())
    assert sum("virtualMachines/" in call for call in world.calls("PUT")) == 1


@pytest.mark.parametrize("call", ["PUT virtualMachines", *WITHOUT_MACHINE])
@pytest.mark.parametrize("effect", ["lost_request", "lost_reply"])
def test_a_call_without_an_answer_is_made_good_by_launching_again(world: Client, call: str, effect: str) -> None:
    run = world.request()
    world.script(call, effect=effect, times=times_until_told(call, TransientError))
    with pytest.raises(TransientError):
        world.provider.launch(run)
    made = world.another().launch(run)
    assert made.state in (InstanceState.PENDING, InstanceState.RUNNING)
    assert world.remaining() == KINDS
    submitted = [call for call in world.calls("POST") if call.endswith("SubmitDeallocate")]
    assert submitted, "the cloud's timer is armed also where the create was another process's"


@pytest.mark.parametrize("code", ["TooManyRequests", "InternalServerError"])
@pytest.mark.parametrize("call", ["GET virtualNetworks", "GET virtualMachines"])
def test_a_look_without_an_answer_between_others_is_repeated(world: Client, call: str, code: str) -> None:
    world.script(call, code=code, times=3, skip=1)
    assert world.provider.launch(world.request()).state is InstanceState.RUNNING


def test_a_machine_that_failed_for_another_is_ended_by_whoever_looks(make_world: MakeWorld) -> None:
    """The client died after the create; the next one finds a machine that never came up."""
    world = make_world(full=[["*", "*", "*"]])
    run = world.request()
    world.script("PUT virtualMachines", effect="lost_reply")
    with pytest.raises(TransientError):
        world.provider.launch(run)
    world.provider.sleep(10)
    assert world.another().get(_ref(run.run_id)).end is EndKind.LOST
    with pytest.raises(CapacityError):
        world.another().launch(run)
    assert world.remaining() == []


def test_an_attempt_that_lived_is_not_launched_again(world: Client) -> None:
    run = world.request("finish")
    world.provider.launch(run)
    world.provider.sleep(300)
    assert world.remaining() == []
    again = world.another().launch(run)
    assert (again.state, again.end) == (InstanceState.ENDED, None)
    assert world.remaining() == []


def test_an_attempt_whose_machine_was_evicted_is_not_launched_again(world: Client) -> None:
    run = world.request(market=Market.SPOT)
    world.incident("reclaim", "40s")
    world.provider.launch(run)
    wait_until_it_trains(world.provider, run)
    world.provider.sleep(120)
    assert state_of(world.provider, _ref(run.run_id)) is None
    assert "resource_group" in world.remaining()
    assert world.another().launch(run).state is InstanceState.ENDED


def test_a_group_that_is_being_deleted_is_waited_for(make_world: MakeWorld) -> None:
    """The same attempt's, of a try before: no second group, no machine in one that goes."""
    world = make_world(stuck=60)
    run = world.request()
    world.script("PUT virtualMachines", code="InternalServerError")
    with pytest.raises(TransientError):
        world.provider.launch(run)
    world.provider.delete(_ref(run.run_id))
    with pytest.raises(TransientError) as caught:
        world.provider.launch(run)
    assert caught.value.code == "ResourceGroupBeingDeleted"
    world.provider.sleep(90)
    assert world.provider.launch(run).state is InstanceState.RUNNING


def test_who_may_not_schedule_is_told_what_to_do(world: Client) -> None:
    run = world.request()
    world.script("POST virtualMachinesSubmitDeallocate", code="InvalidParameter")
    with pytest.raises(BadRequestError, match="schedule") as caught:
        world.provider.launch(run)
    assert "cloud_timer" in caught.value.hint


def test_azures_timer_is_set_once_the_machine_is_allocated(world: Client) -> None:
    """ComputeSchedule answers 200 for a machine that it does not know, with the error in the machine's own result."""
    run = world.request()
    world.provider.launch(run)
    (timer,) = world.azure.control("timers")
    assert datetime.fromisoformat(timer["at"]) == world.provider.timers(run).cloud


def test_a_timer_that_was_not_set_is_asked_for_again(make_world: MakeWorld) -> None:
    world = make_world(timer_lag=40)
    assert world.provider.launch(world.request()).state is InstanceState.RUNNING
    assert len(world.azure.control("timers")) == 1


@pytest.mark.parametrize(
    ("code", "kind"), [("OperationNotAllowed", BadRequestError), ("AuthorizationFailed", PermissionDeniedError)]
)
def test_a_machine_whose_timer_is_refused_is_withdrawn(
    make_world: MakeWorld, code: str, kind: type[ProviderError]
) -> None:
    world = make_world(timer_error=code)
    began = world.azure.now()
    with pytest.raises(kind, match="does not schedule the machine's end") as caught:
        world.provider.launch(world.request())
    assert world.remaining() == []
    assert world.azure.now() - began < timedelta(minutes=5)
    assert code in caught.value.message


def test_a_timer_that_is_refused_to_the_next_client_ends_no_machine_that_trains(world: Client) -> None:
    """The first client died before it set the timer; the machine's own timer was armed by its create."""
    run = world.request()
    world.script("POST virtualMachinesSubmitDeallocate", effect="lost_request", times=4)
    with pytest.raises(TransientError):
        world.provider.launch(run)
    wait_until_it_trains(world.provider, run)
    world.rules(timer_error="OperationNotAllowed")
    assert world.another().launch(run).state is InstanceState.RUNNING
    assert world.remaining() == KINDS


@pytest.mark.parametrize("lag_seconds", [1, 12])
def test_a_group_that_is_not_found_right_after_its_create_is_waited_for(
    make_world: MakeWorld, lag_seconds: int
) -> None:
    """Resource Manager replicates what it was told; within one launch, not as a try of the engine's."""
    world = make_world(group_lag=lag_seconds)
    assert world.provider.launch(world.request()).state is InstanceState.RUNNING
    assert world.remaining() == KINDS


def test_a_group_that_is_never_found_is_refused_within_five_minutes(make_world: MakeWorld) -> None:
    world = make_world(group_lag=3600)
    began = world.azure.now()
    with pytest.raises(PermissionDeniedError, match="asked again for 120 s"):
        world.provider.launch(world.request())
    assert world.azure.now() - began < timedelta(minutes=5)


def test_a_create_is_not_waited_for_without_an_end(world: Client) -> None:
    """What lasts longer is a machine that is still to come."""
    run = world.request()
    hasty = replace(world.provider, pace=Pace(allocation=timedelta(seconds=1), sleep=world.azure.sleep))
    assert hasty.launch(run).state is InstanceState.PENDING


def test_stop_and_logs_of_what_is_gone_are_no_errors(world: Client) -> None:
    ref = _ref(RunId("never"))
    world.provider.stop(ref)
    assert list(world.provider.logs(ref)) == []
    world.provider.delete(ref)


def _ref(run_id: str):  # type: ignore[no-untyped-def]
    from trainplan.providers.azure.reply import ref_of

    return ref_of(f"trainplan-{run_id}-1", "eastus")
