"""The ledger's account of who ended a machine and what it was doing, and the verdicts that follow from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.builders import a_job
from tests.doubles.clock import NOON
from tests.faults.harness import EndedBy, Lived, Work
from tests.faults.health import BOOT_LIMIT, SILENCE_LIMIT, Doing, destroyed, doing, useless_machines
from tests.faults.sim import SimCloud
from trainplan.planner.runs.decision import next_action
from trainplan.planner.runs.directory import signs
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.objects import RunFiles

RUN = "261121-00000001"
HOUR = timedelta(hours=1)


def a_cloud(case: str = "plain", **changes: Any) -> SimCloud:
    cloud = SimCloud(case, **changes)
    RunFiles(cloud.world.state.objects).write(RUN, "job.json", a_job(epochs=4000).to_json().encode())
    return cloud


def launched(cloud: SimCloud, lasting: timedelta = 24 * HOUR, market: str = "on_demand") -> str:
    deadline = (cloud.now() + lasting).isoformat()
    asked = {
        "region": "sim-east", "zone": "sim-east-a", "instanceType": "t4.one", "market": market, "image": "img-1",
        "clientToken": "t", "labels": {LABEL_RUN: RUN, LABEL_ATTEMPT: "1", LABEL_DEADLINE: deadline},
        "userData": {"run": RUN, "attempt": "1", "deadline": deadline},
    }  # fmt: skip
    return str(call(cloud.world, "RunInstance", asked)["id"])


def machine_of(cloud: SimCloud) -> Lived:
    return next(row for row in cloud.ledger() if row.machine)


def deleted(cloud: SimCloud, name: str) -> None:
    call(cloud.world, "DeleteInstance", {"region": "sim-east", "id": name})


def waited(cloud: SimCloud, span: timedelta) -> datetime:
    cloud.pass_time(cloud.now() + span)
    return cloud.now()


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("reclaim", "SpotReclaim"),
        ("maintenance", "HostMaintenance"),
        ("crash", "HostFailure"),
        ("vanish", "HostFailure"),
        ("lose_device", "AcceleratorLost"),
    ],
)
def test_what_befalls_a_machine_is_the_providers_doing(event: str, why: str) -> None:
    cloud = a_cloud(incidents=[{"event": event, "after": "1h"}])
    launched(cloud)
    waited(cloud, 2 * HOUR)
    row = machine_of(cloud)
    assert (row.ended_by, row.why) == (EndedBy.PROVIDER, why)
    assert destroyed([row]) == []


@pytest.mark.parametrize(
    ("case", "lasting", "by"),
    [
        ("plain", 200 * HOUR, EndedBy.AGENT),
        ("cloud's timer", 2 * HOUR, EndedBy.CLOUD_TIMER),
        ("machine's timer", 2 * HOUR, EndedBy.MACHINE_TIMER),
    ],
)
def test_ends_that_are_right_are_told_apart_and_destroy_nothing(case: str, lasting: timedelta, by: EndedBy) -> None:
    cloud = a_cloud(case)
    launched(cloud, lasting)
    waited(cloud, 200 * HOUR)
    row = machine_of(cloud)
    assert row.ended_by is by
    assert destroyed([row]) == []


def test_a_delete_while_it_trains_destroys_and_is_a_commands_doing() -> None:
    cloud = a_cloud()
    name = launched(cloud)
    at = waited(cloud, 2 * HOUR)
    deleted(cloud, name)
    row = machine_of(cloud)
    assert row.ended_by is EndedBy.COMMAND
    assert row.work is not None
    assert row.work.progress_at is not None
    assert timedelta(0) <= at - row.work.progress_at < timedelta(minutes=30)
    assert "training with its last sign at" in destroyed([row])[0]
    assert destroyed([row], wished_at=at) == [], "a person asked for its end"


def test_a_delete_in_boot_destroys() -> None:
    cloud = a_cloud()
    name = launched(cloud)
    waited(cloud, timedelta(seconds=5))
    deleted(cloud, name)
    assert "booting since" in destroyed([machine_of(cloud)])[0]


def test_a_stop_that_nobody_wanted_destroys_though_the_machine_ends_itself() -> None:
    cloud = a_cloud()
    name = launched(cloud)
    waited(cloud, 2 * HOUR)
    call(cloud.world, "StopTraining", {"region": "sim-east", "id": name})
    waited(cloud, HOUR)
    row = machine_of(cloud)
    assert row.ended_by is EndedBy.AGENT
    assert "nobody wanted" in destroyed([row])[0]


def test_what_a_hung_machine_wrote_last_is_told_and_deleting_it_destroys_nothing() -> None:
    cloud = a_cloud("cloud's timer")  # its trainer goes silent when its work is done, and never ends
    name = launched(cloud, 400 * HOUR)
    waited(cloud, 200 * HOUR)
    before = cloud.ledger()
    assert useless_machines(before, cloud.now(), cloud.ledger()) != []
    deleted(cloud, name)
    row = machine_of(cloud)
    assert row.work is not None
    assert row.work.trained_at is None
    assert doing(row.work, cloud.now()) is Doing.SILENT
    assert destroyed([row]) == []
    assert useless_machines(before, cloud.now(), cloud.ledger()) == []


def test_what_never_boots_is_kept_if_it_bills_after_a_look() -> None:
    cloud = a_cloud(boot=[10 * 24 * HOUR, 10 * 24 * HOUR])
    name = launched(cloud, 200 * HOUR)
    waited(cloud, 2 * HOUR)
    before = cloud.ledger()
    assert "silent since its creation" in useless_machines(before, cloud.now(), cloud.ledger())[0]
    deleted(cloud, name)
    assert destroyed(cloud.ledger()) == []


def work(**changes: Any) -> Work:
    return replace(Work(deadline=NOON + 24 * HOUR, boots_since=NOON), **changes)


@pytest.mark.parametrize(
    ("expected_work", "after", "what"),
    [
        (work(boots_since=None), HOUR, Doing.WAITING),
        (work(), BOOT_LIMIT, Doing.BOOTING),
        (work(), BOOT_LIMIT + timedelta(seconds=1), Doing.NEVER_BEGAN),
        (work(progress_at=NOON + HOUR), HOUR + SILENCE_LIMIT, Doing.TRAINING),
        (work(progress_at=NOON + HOUR), HOUR + SILENCE_LIMIT + timedelta(seconds=1), Doing.SILENT),
        (work(progress_at=NOON, trained_at=NOON + HOUR), HOUR, Doing.BRINGING_HOME),
        (work(progress_at=NOON, trained_at=NOON + HOUR, home_at=NOON + 2 * HOUR), HOUR, Doing.BRINGING_HOME),
        (work(progress_at=NOON, trained_at=NOON + HOUR, home_at=NOON + 2 * HOUR), 2 * HOUR, Doing.FINISHED),
    ],
)
def test_what_a_machine_was_doing(expected_work: Work, after: timedelta, what: Doing) -> None:
    assert doing(expected_work, NOON + after) is what


def a_row(**changes: Any) -> Lived:
    made = Lived(
        id="m", run=RUN, machine=True, ours=True, created_at=NOON, ended_at=NOON + 2 * HOUR, remaining=False,
        usd_per_hour=1.0, usd=2.0, ended_by=EndedBy.COMMAND, why="deleted", work=work(progress_at=NOON + 2 * HOUR),
    )  # fmt: skip
    return replace(made, **changes)


@pytest.mark.parametrize(
    "spared",
    [
        lambda row: replace(row, ours=False),
        lambda row: replace(row, machine=False),
        lambda row: replace(row, ended_by=EndedBy.PROVIDER),
        lambda row: replace(row, ended_by=None, ended_at=None),
        lambda row: replace(row, work=None),
        lambda row: replace(row, work=replace(row.work, deadline=NOON + 2 * HOUR)),
        lambda row: replace(row, work=replace(row.work, taken_at=NOON + HOUR)),
    ],
)
def test_only_a_healthy_machine_of_ours_can_be_destroyed(spared: Callable[[Lived], Lived]) -> None:
    assert len(destroyed([a_row()])) == 1
    assert destroyed([spared(a_row())]) == []


@pytest.mark.parametrize("by", [EndedBy.COMMAND, EndedBy.AGENT, EndedBy.MACHINE_TIMER, EndedBy.CLOUD_TIMER])
def test_whatever_of_ours_ends_a_healthy_machine_destroys_it(by: EndedBy) -> None:
    assert len(destroyed([a_row(ended_by=by)])) == 1


def test_a_machine_past_its_deadline_is_kept_if_it_bills() -> None:
    row = a_row(ended_at=None, ended_by=None, work=work(progress_at=NOON + 25 * HOUR))
    assert useless_machines([row], NOON + 24 * HOUR + timedelta(minutes=10), [row]) == []
    assert "past its deadline" in useless_machines([row], NOON + 25 * HOUR, [row])[0]


def test_the_newest_sign_is_the_trainers_and_not_a_clients() -> None:
    cloud = a_cloud()
    launched(cloud)
    waited(cloud, 2 * HOUR)
    row = machine_of(cloud)
    assert row.work is not None
    told = json.loads(cloud.world.files.read(RUN, "attempts/1/status.json"))
    assert row.work.progress_at == datetime.fromisoformat(told["time"])


def test_the_limits_are_those_of_the_product() -> None:
    """The harness has values of its own, for older code: new ones are to be judged here first."""
    limits = signs if hasattr(signs, "SILENCE_LIMIT") else next_action
    assert (BOOT_LIMIT, SILENCE_LIMIT) == (limits.BOOT_LIMIT, limits.SILENCE_LIMIT)
