"""Data disks of TPUs against the double: what is refused or taken back leaves none, and none that is in use goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.builders import LARGE_DATA
from tests.contract.tpu import CREATE, NO_CAPACITY, DiskClient
from tests.doubles.google import iam, tasks
from tests.doubles.google.disks import there
from tests.doubles.google.machines import Disk, table_of
from tests.doubles.google.server import GoogleServer
from tests.unit.providers.gcp.tpu import desk as desks
from tests.unit.providers.gcp.tpu.desk import RUN
from trainplan.providers.base import EndKind, InstanceState, LaunchRequest, PreflightState
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    PermissionDeniedError,
    QuotaError,
    TransientError,
)
from trainplan.providers.gcp.bill import make as make_billed
from trainplan.providers.gcp.tpu import data_disk

INSERT, DELETE = "compute.disks.insert", "compute.disks.delete"
ZONE = "europe-west4-a"
USD_PER_GB_MONTH = 0.11
"""Of pd-balanced in europe-west4, in Google's list of 2026-07-30 (pricing/data/side_rates.csv)."""


class Desk(desks.Desk):
    """Of somebody whose data is too large for the disk of a node."""

    @cached_property
    def client(self) -> DiskClient:
        return DiskClient(self.google, self.home)

    @property
    def disks(self) -> list[Disk]:
        return [known for known in table_of(self.world).disks if known.ended_at is None]

    def request(self, **changes: Any) -> LaunchRequest:
        return super().request(job=LARGE_DATA, **changes)

    def clear(self) -> None:
        """As a teardown does it: delete what is listed, and look again."""
        for _ in range(20):
            for owned in self.owned():
                self.provider.delete(owned)
            self.google.sleep(10)


@pytest.fixture
def make_desk(server: GoogleServer, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    made_here: list[Desk] = []

    def made(**scenario: Any) -> Desk:
        made_here.append(Desk(server, tmp_path))
        made_here[-1].begin(**{"trainer": "hung", **scenario})
        return made_here[-1]

    yield made
    for desk in made_here:
        desk.provider.account.close()
    assert server.host.world.violations == []


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()


# --- from the launch to its end -------------------------------------------------------------------------------------


def test_the_node_has_the_disk_to_itself_and_both_are_gone_in_the_end(desk: Desk) -> None:
    made = desk.provider.launch(desk.request())
    desk.google.sleep(60)
    assert desk.provider.get(made.ref).state is InstanceState.RUNNING
    (disk,) = desk.disks
    assert (disk.zone, disk.body["sizeGb"]) == (ZONE, "157")
    kinds = sorted(owned.kind for owned in desk.owned())
    assert kinds == ["disk", "node", "queued resource", *["task"] * 6]
    desk.clear()
    assert (desk.disks, desk.nodes, desk.timers, desk.owned()) == ([], [], [], [])


def test_a_disk_in_use_is_not_deleted_and_its_timers_stay(desk: Desk) -> None:
    desk.provider.launch(desk.request())
    desk.google.sleep(60)
    (disk,) = [owned for owned in desk.owned() if owned.kind == "disk"]
    assert (disk.attempt, disk.run_id, disk.instance) == (1, RUN, False)
    assert disk.deadline is not None
    for owned in desk.owned():
        if owned.kind in ("disk", "task"):
            desk.provider.delete(owned)
    assert desk.disks
    assert len(desk.timers) == 6


def test_its_timers_go_when_the_disk_goes_and_not_with_the_node(desk: Desk) -> None:
    made = desk.provider.launch(desk.request())
    desk.google.sleep(60)
    desk.provider.delete(made.ref)
    desk.google.sleep(10)
    assert len([name for name in desk.timers if name.endswith("__disk")]) == len(desk.timers) == 3
    desk.clear()
    assert (desk.disks, desk.timers) == ([], [])


@pytest.mark.parametrize("event", ["preempt", "maintenance", "crash"])
def test_what_google_takes_leaves_no_disk(make_desk: Callable[..., Desk], event: str) -> None:
    desk = make_desk(incidents=({"event": event, "after": 100},))
    made = desk.provider.launch(desk.request())
    desk.google.sleep(300)
    assert desk.provider.get(made.ref).state is InstanceState.ENDED
    assert desk.disks
    desk.clear()
    assert desk.disks == []


@pytest.mark.parametrize("event", [None, "preempt"])
def test_nobody_comes_back_and_the_clouds_timers_end_the_node_and_then_the_disk(
    make_desk: Callable[..., Desk], event: str | None
) -> None:
    incidents = ({"event": event, "after": 100},) if event else ()
    desk = make_desk(machine_timer_works=False, incidents=incidents)
    desk.provider.launch(desk.request(lasting=timedelta(minutes=30)))
    desk.google.sleep(31 * 60)
    assert desk.disks, "its timer comes after the node's"
    desk.google.sleep(5 * 60)
    assert (desk.nodes, desk.disks) == ([], [])


def test_a_node_that_is_slow_to_go_keeps_the_disk_until_a_later_try(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(machine_timer_works=False, deletion_seconds=600)
    desk.provider.launch(desk.request(lasting=timedelta(minutes=30)))
    desk.google.sleep(36 * 60)
    assert desk.disks, "in use"
    desk.google.sleep(14 * 60)
    assert (desk.nodes, desk.disks) == ([], [])


def test_without_the_right_to_delete_disks_the_timers_delete_none(make_desk: Callable[..., Desk]) -> None:
    """A project whose roles were made before there were data disks: plan setup gcp brings them up to date."""
    desk = make_desk(machine_timer_works=False)
    desk.world.table(iam.Iam).machine_granted = frozenset({"compute.instances.delete", "tpu.nodes.delete"})
    desk.provider.launch(desk.request(lasting=timedelta(minutes=30)))
    desk.google.sleep(3 * 3600)
    assert (desk.nodes, len(desk.disks)) == ([], 1)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "rule", "kind"),
    [
        (CREATE, {"status": 429, "message": NO_CAPACITY}, CapacityError),
        (CREATE, {"effect": "operation_error", "message": NO_CAPACITY}, CapacityError),
        (CREATE, {"status": 429, "message": "Quota limit 'TPUV3s' has been exceeded"}, QuotaError),
        (INSERT, {"effect": "operation_error", "code": "ZONE_RESOURCE_POOL_EXHAUSTED"}, CapacityError),
        (INSERT, {"effect": "operation_error", "code": "QUOTA_EXCEEDED"}, QuotaError),
        (INSERT, {"status": 403, "code": "quotaExceeded"}, QuotaError),
    ],
)
def test_a_placement_that_refuses_keeps_neither_disk_nor_timer(
    desk: Desk, operation: str, rule: Mapping[str, Any], kind: type[Exception]
) -> None:
    run = desk.request()
    desk.script(operation, **rule)
    with pytest.raises(kind):
        desk.provider.launch(run)
    assert (desk.nodes, desk.disks, desk.timers) == ([], [], [])
    assert len(desk.world.table(tasks.Tasks).created_tasks) == 6


def test_a_refusal_whose_disk_cannot_go_yet_is_no_refusal_yet(desk: Desk) -> None:
    run = desk.request()
    desk.script(CREATE, status=429, message=NO_CAPACITY, times=None)
    desk.script(DELETE, status=503, times=1)
    with pytest.raises(TransientError):
        desk.provider.launch(run)
    assert len(desk.timers) == 6
    with pytest.raises(CapacityError):
        desk.provider.launch(run)
    assert (desk.disks, desk.timers) == ([], [])


@pytest.mark.parametrize(("status", "kind"), [(403, PermissionDeniedError), (400, BadRequestError)])
def test_another_refusal_leaves_the_disk_to_the_teardown(desk: Desk, status: int, kind: type[Exception]) -> None:
    run = desk.request()
    desk.script(CREATE, status=status)
    with pytest.raises(kind):
        desk.provider.launch(run)
    assert {owned.kind for owned in desk.owned()} <= {"disk", "task"}
    desk.google.sleep(10)
    desk.clear()
    assert (desk.disks, desk.timers) == ([], [])


def test_a_region_whose_quota_is_too_small_is_told_before_anything_is_made(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(quotas={"europe-west4": {"SSD_TOTAL_GB": 100}})
    with pytest.raises(
        QuotaError, match="SSD_TOTAL_GB in europe-west4: 100, a data disk of 157 GB is needed"
    ) as caught:
        desk.request()
    assert caught.value.quota == "SSD_TOTAL_GB"
    assert desk.timers == []


def test_a_quota_that_others_use_is_told_by_the_create(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(quotas={"europe-west4": {"SSD_TOTAL_GB": 200}})
    desk.provider.launch(desk.request())
    desk.google.sleep(10)
    with pytest.raises(QuotaError, match="SSD_TOTAL_GB"):
        desk.provider.launch(desk.request(run_id="r2"))
    assert len(desk.disks) == 1


def test_the_preflight_tells_how_much_of_the_quota_is_used(desk: Desk) -> None:
    run = desk.request()
    desk.provider.launch(run)
    account = desk.client.account()
    desk.google.sleep(10)
    fresh = desk.client.provider()
    lines = {check.name: check for check in fresh.preflight(run.offer).checks}
    assert lines["data disk"].state is PreflightState.OK
    assert "157 of 1000 GB in use in europe-west4" in lines["data disk"].detail
    fresh.account.close()
    account.close()


# --- what is replayed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["lost_request", "lost_reply"])
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_disk_is_made_once(desk: Desk, effect: str, forgotten: bool) -> None:
    """Whether Google remembers the request, or the name alone says that it is there."""
    run = desk.request()
    desk.script(INSERT, effect=effect)
    with pytest.raises(TransientError):
        desk.provider.launch(run)
    desk.google.sleep(10)
    if forgotten:
        table_of(desk.world).tokens.clear()
    assert desk.provider.launch(run).state is InstanceState.PENDING
    assert len(table_of(desk.world).disks) == 1


def test_somebody_elses_disk_of_the_same_name_is_left_alone(desk: Desk) -> None:
    run = desk.request()
    call = next(call for call in run.calls or desk.provider.requests(run) if call.operation == data_disk.INSERT)
    asked: Mapping[str, Any] = call.parameters
    body = {**asked["body"], "labels": {"team": "others"}}
    api = desk.provider.parts[0].api  # type: ignore[attr-defined]
    api.insert_disk(asked["project"], asked["zone"], body, "6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    desk.google.sleep(10)
    with pytest.raises(BadRequestError, match="already exists"):
        desk.provider.launch(run)
    desk.clear()
    assert [known.body["labels"] for known in desk.disks] == [{"team": "others"}]


def test_a_disk_that_takes_long_is_sent_again_and_not_taken_for_made(make_desk: Callable[..., Desk]) -> None:
    """The operation is not waited for longer than lists are believed; the same request then finds it done."""
    desk = make_desk(operation_seconds=150)
    run = desk.request()
    with pytest.raises(TransientError, match="not done"):
        desk.provider.launch(run)
    desk.google.sleep(60)
    assert desk.provider.launch(run).state is InstanceState.PENDING
    assert len(table_of(desk.world).disks) == 1


def test_an_attempt_that_was_torn_down_makes_no_disk_again(desk: Desk) -> None:
    run = desk.request()
    desk.provider.launch(run)
    desk.google.sleep(10)
    desk.clear()
    desk.google.sleep(3700)
    again = desk.provider.launch(run)
    assert again.state is InstanceState.ENDED
    assert desk.disks == []


def test_a_disk_that_went_while_its_node_waited_ends_the_attempt(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(stock={ZONE: 0})
    made = desk.provider.launch(desk.request())
    desk.google.sleep(10)
    (disk,) = desk.disks
    disk.ended_at = desk.world.now
    desk.world.scenario = desk.world.scenario.model_copy(update={"stock": {}})
    desk.google.sleep(10)
    ended = desk.provider.get(made.ref)
    assert (ended.state, ended.end) == (InstanceState.ENDED, EndKind.LOST)
    assert "was not found" in str(ended.reason)


# --- what else sees it -----------------------------------------------------------------------------------------------


def test_burn_names_the_disk_with_its_run_and_its_price(desk: Desk) -> None:
    desk.provider.launch(desk.request())
    desk.google.sleep(60)
    bill = make_billed(desk.client.settings()).list_billed()
    (disk,) = [thing for thing in bill.things if thing.kind == "disk"]
    assert (disk.what, disk.whose) == ("pd-balanced 157 GiB, in use", f"run {RUN}")
    assert float(disk.usd_per_month or 0) == pytest.approx(157 * USD_PER_GB_MONTH)


def test_a_cleanup_is_told_what_the_disk_costs(desk: Desk) -> None:
    desk.provider.launch(desk.request())
    desk.google.sleep(60)
    (disk,) = [owned for owned in desk.owned() if owned.kind == "disk"]
    assert float(disk.usd_per_hour or 0) == pytest.approx(157 * USD_PER_GB_MONTH / 730)


# --- what the double refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"autoDelete": True}, "there is no 'autoDelete'"),
        ({"status": "READY"}, "only Google writes 'status'"),
        ({"sizeGb": "5"}, "sizeGb"),
        ({"type": "projects/a-project/zones/us-central1-a/diskTypes/hyperdisk-ml"}, "resource.type"),
    ],
)
def test_the_double_takes_no_other_disk(desk: Desk, changes: Mapping[str, Any], message: str) -> None:
    account = desk.client.account()
    kind = f"projects/{account.project}/zones/{ZONE}/diskTypes/pd-balanced"
    body = {"name": "plan-x-1", "sizeGb": "100", "type": kind, **changes}
    with pytest.raises(BadRequestError, match=message):
        account.ask("POST", "compute", f"/compute/v1/projects/{account.project}/zones/{ZONE}/disks", None, body)
    account.close()
    desk.world.violations.clear()
    assert there(desk.world, ZONE, "plan-x-1") is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("projects/a-project/zones/europe-west4-a/disks/none", "was not found"),
        ("projects/a-project/zones/us-central1-a/disks/plan-r1-1", "Invalid value for data_disks"),
        ("plan-r1-1", "Invalid value for data_disks"),
        ("projects/a-project/zones/europe-west4-a/disks/plan-r1-1", "already being used"),
    ],
)
def test_the_double_attaches_no_other_disk(desk: Desk, source: str, message: str) -> None:
    """Missing, of another zone, not named whole, or in use."""
    desk.provider.launch(desk.request())
    desk.google.sleep(60)
    account = desk.client.account()
    home = f"/v2/projects/{account.project}/locations/{ZONE}"
    node = {"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base", "dataDisks": [{"sourceDisk": source}]}
    body = {"tpu": {"nodeSpec": [{"parent": home.removeprefix("/v2/"), "nodeId": "other", "node": node}]}}
    with pytest.raises(Exception, match=message):
        account.ask("POST", "tpu", f"{home}/queuedResources", {"queuedResourceId": "other"}, body)
    account.close()
