"""A launch on a TPU against its double: what is refused leaves nothing, what is replayed makes nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.gcp import PROJECT
from tests.contract.tpu import CREATE, LIST, NO_CAPACITY, TpuClient
from tests.doubles.google import iam, tasks, tpu
from tests.doubles.google.server import GoogleServer
from tests.doubles.google.world import World
from tests.unit.providers.gcp.tpu.desk import RUN, Desk
from trainplan.pricing.offers import Market, OfferQuery
from trainplan.providers.base import (
    EndKind,
    InstanceRef,
    InstanceState,
    PreflightState,
)
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    IncompleteListingError,
    PermissionDeniedError,
    QuotaError,
    ThrottledError,
    TransientError,
)
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.settings import GcpSettings
from trainplan.providers.gcp.tpu import preflight
from trainplan.providers.gcp.tpu.api import Refused

QUEUE = "cloudtasks.projects.locations.queues"


@pytest.fixture
def make_desk(server: GoogleServer, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    def made(**scenario: Any) -> Desk:
        desk = Desk(server, tmp_path)
        desk.begin(**{"trainer": "named", **scenario})
        return desk

    yield made
    assert server.host.world.violations == []


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"status": 429, "message": NO_CAPACITY}, CapacityError),
        ({"effect": "operation_error", "message": NO_CAPACITY}, CapacityError),
        ({"status": 429, "message": "Quota limit 'TPUV3s' has been exceeded"}, QuotaError),
    ],
)
def test_a_placement_that_refuses_keeps_no_timer(desk: Desk, rule: Mapping[str, Any], kind: type[Exception]) -> None:
    run = desk.request()
    desk.script(CREATE, **rule)
    with pytest.raises(kind):
        desk.provider.launch(run)
    assert (desk.nodes, desk.timers) == ([], [])
    assert len(desk.world.table(tasks.Tasks).created_tasks) == 3


def test_a_refusal_whose_timers_cannot_go_yet_is_no_refusal_yet(desk: Desk) -> None:
    """The engine sends again, and only when nothing is left hears that there is no room."""
    run = desk.request()
    desk.script(CREATE, status=429, message=NO_CAPACITY, times=None)
    desk.script(f"{QUEUE}.tasks.delete", status=503, times=1)
    with pytest.raises(TransientError):
        desk.provider.launch(run)
    with pytest.raises(CapacityError):
        desk.provider.launch(run)
    assert (desk.nodes, desk.timers) == ([], [])


@pytest.mark.parametrize(
    ("status", "kind"), [(401, CredentialsError), (403, PermissionDeniedError), (400, BadRequestError)]
)
def test_another_refusal_leaves_its_timers_to_the_teardown(desk: Desk, status: int, kind: type[Exception]) -> None:
    run = desk.request()
    desk.script(CREATE, status=status)
    with pytest.raises(kind):
        desk.provider.launch(run)
    assert {owned.kind for owned in desk.owned()} == {"task"}
    for owned in desk.owned():
        desk.provider.delete(owned)
    assert desk.timers == []


def test_without_a_queue_nothing_is_launched(desk: Desk) -> None:
    run = desk.request()
    desk.world.table(tasks.Tasks).queues.clear()
    for refused in (lambda: desk.request(), lambda: desk.provider.launch(run)):
        with pytest.raises(PermissionDeniedError, match="no timer in the cloud would end") as caught:
            refused()
        assert caught.value.hint == "plan setup gcp"
    assert desk.nodes == []


def test_a_queue_that_sends_nothing_is_none(desk: Desk) -> None:
    next(iter(desk.world.table(tasks.Tasks).queues.values()))["state"] = "PAUSED"
    with pytest.raises(PermissionDeniedError, match="paused") as caught:
        desk.request()
    assert "resume" in caught.value.hint


def test_an_account_of_the_machine_that_nobody_may_use_stops_the_launch(desk: Desk) -> None:
    run = desk.request()
    desk.script(f"{QUEUE}.tasks.create", status=403, message="lacks iam.serviceAccounts.actAs")
    with pytest.raises(PermissionDeniedError):
        desk.provider.launch(run)
    assert desk.nodes == []


def test_an_unclear_answer_is_not_taken_for_a_refusal(desk: Desk) -> None:
    run = desk.request()
    desk.script(CREATE, status=503)
    with pytest.raises(TransientError):
        desk.provider.launch(run)
    assert len(desk.timers) == 3
    assert desk.provider.launch(run).state is InstanceState.PENDING


def test_too_many_calls_are_no_quota(desk: Desk) -> None:
    run = desk.request()
    desk.script(CREATE, status=429, message="Quota exceeded: requests per minute")
    with pytest.raises(ThrottledError):
        desk.provider.launch(run)


# --- what is replayed ---------------------------------------------------------------------------------------------


def test_what_is_there_is_taken_without_sending_anything(desk: Desk) -> None:
    run = desk.request()
    first = desk.provider.launch(run)
    desk.google.sleep(60)
    before = len(desk.world.calls)
    again = desk.provider.launch(run)
    assert (again.ref, again.state) == (first.ref, InstanceState.RUNNING)
    sent = {call.method for call in desk.world.calls[before:]}
    assert not sent & {CREATE, f"{QUEUE}.tasks.create", "storage.objects.insert"}


def test_an_attempt_whose_timers_are_gone_is_over(desk: Desk) -> None:
    """Its name is kept for a day: what was torn down does not come back without a timer."""
    run = desk.request()
    made = desk.provider.launch(run)
    desk.google.sleep(10)
    desk.provider.delete(made.ref)
    desk.google.sleep(3700)
    assert desk.owned() == []
    again = desk.provider.launch(run)
    assert (again.ref, again.state) == (made.ref, InstanceState.ENDED)
    assert desk.nodes == []


def test_an_attempt_that_has_trained_is_over(desk: Desk) -> None:
    run = desk.request(behaviour="finish")
    made = desk.provider.launch(run)
    desk.google.sleep(600)
    assert desk.nodes == []
    again = desk.provider.launch(run)
    assert (again.ref, again.state) == (made.ref, InstanceState.ENDED)
    assert desk.nodes == []


def test_a_name_that_is_taken_is_ours(desk: Desk) -> None:
    """The answer to a look may lag behind the create."""
    run = desk.request()
    desk.provider.launch(run)
    for known in desk.world.table(tpu.Tpu).all:
        known.shown_from = desk.world.now + timedelta(minutes=5)
    desk.world.table(tpu.Tpu).requests.clear()
    assert desk.provider.launch(run).state is InstanceState.PENDING
    assert len(desk.world.table(tpu.Tpu).all) == 1


# --- how it goes on -----------------------------------------------------------------------------------------------


def test_a_request_that_finds_no_room_in_time_has_ended(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(stock={"europe-west4-a": 0})
    made = desk.provider.launch(desk.request())
    desk.google.sleep(600)
    assert desk.provider.get(made.ref).state is InstanceState.PENDING
    desk.google.sleep(600)
    ended = desk.provider.get(made.ref)
    assert (ended.state, ended.end, ended.bills) == (InstanceState.ENDED, EndKind.NO_CAPACITY, False)
    assert "no more capacity" in str(ended.reason)
    assert next(iter(desk.provider.logs(made.ref))) == "queued resource: FAILED"
    for owned in desk.owned():
        desk.provider.delete(owned)
    desk.google.sleep(10)
    assert desk.owned() == []


@pytest.mark.parametrize(
    ("event", "end"),
    [("preempt", EndKind.RECLAIMED), ("maintenance", EndKind.RECLAIMED), ("crash", EndKind.LOST)],
)
def test_what_google_takes_is_told(make_desk: Callable[..., Desk], event: str, end: EndKind) -> None:
    desk = make_desk(incidents=({"event": event, "after": 100},))
    made = desk.provider.launch(desk.request())
    desk.google.sleep(300)
    found = desk.provider.get(made.ref)
    assert (found.state, found.end) == (InstanceState.ENDED, end)
    assert found.reason


def test_it_is_charged_for_from_ready_on(desk: Desk) -> None:
    made = desk.provider.launch(desk.request())
    assert (made.bills, made.bills_from) == (False, None)
    desk.google.sleep(6)
    while not (found := desk.provider.get(made.ref)).bills:
        assert found.state is InstanceState.PENDING
        desk.google.sleep(1)
    (known,) = desk.world.table(tpu.Tpu).all
    assert found.state is InstanceState.RUNNING
    assert found.bills_from == known.provisioned_at
    assert known.ready_at is not None
    assert desk.google.now() - known.ready_at <= timedelta(seconds=1)


def test_a_node_that_stays_behind_is_listed_and_deleted(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(disks_stay=True)
    made = desk.provider.launch(desk.request())
    desk.google.sleep(60)
    desk.provider.delete(made.ref)
    desk.google.sleep(60)
    (node,) = desk.owned()
    assert (node.kind, node.instance) == ("node", False)
    desk.provider.delete(node)
    desk.provider.delete(node)
    assert desk.owned() == []


@pytest.mark.parametrize("timer", ["machine_timer_works", "cloud_timer_works"])
def test_either_timer_alone_ends_it(make_desk: Callable[..., Desk], timer: str) -> None:
    desk = make_desk(trainer="hung", **{timer: False})
    desk.provider.launch(desk.request(lasting=timedelta(minutes=30)))
    desk.google.sleep(29 * 60)
    assert desk.nodes
    desk.google.sleep(2 * 60)
    assert desk.nodes == []


def test_a_first_delete_that_does_not_work_is_followed_by_others(make_desk: Callable[..., Desk]) -> None:
    """The cloud's timer: at the deadline, and 15 and 60 minutes after it."""
    desk = make_desk(trainer="hung", machine_timer_works=False)
    desk.provider.launch(desk.request(lasting=timedelta(minutes=30)))
    desk.google.sleep(30 * 60 + 1)
    (known,) = desk.nodes
    assert known.state == "DELETING"
    known.state, known.node, known.turns_at = "ACTIVE", "READY", None  # a 200 says that it has begun, no more
    desk.google.sleep(14 * 60)
    assert desk.nodes
    desk.google.sleep(2 * 60)
    assert desk.nodes == []


def test_a_timer_goes_last(desk: Desk) -> None:
    desk.provider.launch(desk.request())
    desk.google.sleep(60)
    timers = [owned for owned in desk.owned() if owned.kind == "task"]
    for owned in timers:
        desk.provider.delete(owned)
    assert len(desk.timers) == 3
    (queued,) = [owned for owned in desk.owned() if owned.instance]
    desk.provider.delete(queued)
    assert desk.timers == []


def test_a_machine_that_is_asked_to_stop_is_told_so_in_its_run_directory(desk: Desk) -> None:
    made = desk.provider.launch(desk.request())
    desk.google.sleep(60)
    desk.provider.stop(made.ref)
    assert desk.provider.store(RUN).get("control/stop") == b"stop\n"
    desk.provider.stop(InstanceRef(provider="gcp", region="x", id="tpu/europe-west4-a/never"))


# --- lists ---------------------------------------------------------------------------------------------------------


def test_lists_are_read_to_their_end(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(page_size=1)
    for number in (1, 2, 3):
        desk.provider.launch(desk.request(attempt=number))
    desk.google.sleep(60)
    kinds = sorted(owned.kind for owned in desk.owned())
    assert kinds == ["node"] * 3 + ["queued resource"] * 3 + ["task"] * 9


def test_whose_it_is_and_until_when_is_told_by_each(desk: Desk) -> None:
    run = replace(desk.request(), client="another-computer")
    desk.provider.launch(replace(run, calls=()))
    desk.google.sleep(60)
    for owned in desk.owned():
        assert (owned.client, owned.deadline, owned.attempt) == ("another-computer", run.deadline, 1)
        assert owned.created_at is not None


def test_a_zone_that_is_not_open_has_nothing(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    assert desk.owned() == []  # the zones are known now
    desk.world.scenario = desk.world.scenario.model_copy(update={"closed_zones": ("us-west4-a",)})
    assert desk.owned() == []


@pytest.mark.parametrize("operation", ["tpu.projects.locations.list", LIST, f"{QUEUE}.tasks.list"])
def test_a_list_that_does_not_answer_is_no_absence(desk: Desk, operation: str) -> None:
    desk.script(operation, status=503, times=None)
    with pytest.raises(IncompleteListingError) as caught:
        desk.owned()
    assert caught.value.unanswered
    assert caught.value.hint


@pytest.mark.parametrize("operation", ["tpu.projects.locations.list", LIST, f"{QUEUE}.tasks.list"])
def test_a_sign_in_that_ended_is_told_as_such(desk: Desk, operation: str) -> None:
    desk.script(operation, status=401, times=None)
    with pytest.raises(CredentialsError):
        desk.owned()


def test_a_project_that_does_not_use_tpus_has_none(desk: Desk) -> None:
    """Who rents GPUs alone need not switch the two services on."""
    off = Refused("PERMISSION_DENIED", "off", [{"reason": "SERVICE_DISABLED"}])

    class Off:
        def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
            raise off

    client = TpuClient(desk.google, desk.home, tpu=lambda _: Off(), tasks=lambda _: Off())
    assert client.provider().list_owned() == []


# --- preflight -----------------------------------------------------------------------------------------------------


def checks(desk: Desk, market: Market = Market.ON_DEMAND) -> dict[str, tuple[PreflightState, str]]:
    asked = OfferQuery(regions=frozenset({"europe-west4"}), markets=frozenset({market}))
    offer = desk.provider.offers(asked)[0]
    return {check.name: (check.state, f"{check.detail} {check.fix}") for check in desk.provider.preflight(offer).checks}


def test_a_project_that_is_set_up_is_let_in_and_asked_once(desk: Desk) -> None:
    assert {state for state, _ in checks(desk).values()} == {PreflightState.OK}
    before = len(desk.world.calls)
    assert {state for state, _ in checks(desk, Market.SPOT).values()} == {PreflightState.OK}
    assert len(desk.world.calls) == before


@pytest.mark.parametrize(
    ("wrong", "line", "state", "message"),
    [
        (lambda world: world.table(tasks.Tasks).queues.clear(), "timers", PreflightState.REFUSED, "plan setup gcp"),
        (lambda world: world.table(iam.Iam).accounts.clear(), "machine account", PreflightState.REFUSED, "plan setup"),
        (lambda world: world.table(iam.Iam).tpu_quotas.clear(), "quota", PreflightState.UNKNOWN, "v3, on demand"),
        (
            lambda world: world.table(iam.Iam).tpu_quotas.update({"TPU v3 cores": 4}),
            "quota",
            PreflightState.REFUSED,
            "TPU v3 cores: at most 4",
        ),
    ],
)
def test_what_is_missing_is_named(
    desk: Desk, wrong: Callable[[World], None], line: str, state: PreflightState, message: str
) -> None:
    wrong(desk.world)
    found = checks(desk)
    assert found[line][0] is state
    assert message in found[line][1]


def test_where_no_gpu_is_let_in_a_tpu_is_unknown_and_its_request_gets_nothing(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(quotas={"global": {"GPUS_ALL_REGIONS": 0}})
    state, told = checks(desk)["quota"]
    assert state is PreflightState.UNKNOWN
    assert "GPUS_ALL_REGIONS is 0: Google's guide" in told
    assert desk.provider.launch(desk.request()).state is InstanceState.PENDING
    desk.world.pass_by(timedelta(days=1).total_seconds())
    assert {known.node for known in desk.world.table(tpu.Tpu).all} == {""}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no subnetwork 'trainplan' in us-west4, and a TPU needs it by its name gcloud compute networks subnets"),
        ({"network": "mine"}, "the project has no network 'mine' plan setup gcp makes one"),
        ({"subnetwork": "own"}, "no subnetwork 'own' in us-west4"),
    ],
)
def test_a_region_in_which_the_network_has_no_such_subnetwork_is_refused_ahead(
    make_desk: Callable[..., Desk], settings: dict[str, str], message: str
) -> None:
    desk = make_desk(regions_without_subnetwork=("us-west4",))
    found = preflight.network(an_account(desk, **settings), "us-west4")
    assert found.state is PreflightState.REFUSED
    assert message in f"{found.detail} {found.fix}"


def test_a_subnetwork_of_another_name_has_to_be_named(desk: Desk) -> None:
    found = preflight.network(an_account(desk, subnetwork="own"), "us-west4")
    assert found.state is PreflightState.REFUSED
    assert found.fix == "name one that it has there in the setting `subnetwork`: trainplan"


def test_a_launch_names_the_subnetwork_of_its_network(make_desk: Callable[..., Desk]) -> None:
    """Without a name the API takes "default", which a project need not have, and which is of another network."""
    desk = make_desk(networks=("trainplan",))
    assert desk.provider.launch(desk.request()).state is InstanceState.PENDING
    (made,) = desk.nodes
    assert made.spec["networkConfig"]["subnetwork"] == "trainplan"


def an_account(desk: Desk, **settings: Any) -> GcpAccount:
    return GcpAccount(GcpSettings(project=PROJECT, endpoint=desk.google.url, **settings))


def test_a_zone_that_has_it_not_is_named(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(closed_zones=("europe-west4-a",))
    state, said = checks(desk)["offered"]
    assert state is PreflightState.REFUSED
    assert "no zone of europe-west4 has v3-8" in said


def test_operations_tell_for_two_weeks_when_a_node_that_is_gone_was_deleted(desk: Desk) -> None:
    ref = desk.provider.launch(desk.request()).ref
    desk.google.sleep(60)
    asked_at = desk.world.now
    desk.provider.delete(ref)
    desk.google.sleep(60)
    for _ in range(3):
        assert desk.provider.deleted_at(ref) == asked_at
        desk.google.sleep(4 * 86_400)
    desk.google.sleep(3 * 86_400)
    assert desk.provider.deleted_at(ref) is None


def test_what_google_took_back_is_no_operation(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(incidents=({"event": "vanish", "after": 5},))
    ref = desk.provider.launch(desk.request()).ref
    desk.google.sleep(120)
    assert desk.provider.deleted_at(ref) is None
