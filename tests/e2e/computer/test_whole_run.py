"""A whole run on a computer: Docker, the image from its registry, results home, power off; what goes wrong there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.doubles.waiting import until
from tests.e2e.computer.yard import ComputerYard, Rented
from tests.e2e.test_rented_endings import a_job
from tests.e2e.test_rented_machine import digits
from tests.e2e.yard.trial import Client, Trial
from tests.e2e.yard.yard import OWN

if TYPE_CHECKING:
    from tests.e2e.yard.stores import Store

pytestmark = [pytest.mark.e2e, pytest.mark.container]
on_aws = pytest.mark.parametrize("store", ["aws"], indirect=True)
PATIENCE = 1500.0
CPU: dict[str, Any] = {"device": "cpu", "zones": ("a",), "memory_gib": 0.9}


@pytest.fixture
def shapes() -> list[dict[str, Any]]:
    """How the machines of a test differ from the usual one."""
    return []


@pytest.fixture
def trial(yard: ComputerYard, store: Store, shapes: list[dict[str, Any]], tmp_path: Path) -> Iterator[Trial]:
    with Trial(yard, store, tmp_path, shapes) as made:
        yield made


def rented(trial: Trial) -> Rented:
    machine = trial.machine()
    assert isinstance(machine, Rented)
    return machine


def reached(what: str, holds: Callable[[], bool]) -> None:
    """As `Client.until`, where the client has gone."""
    until(holds, what, seconds=PATIENCE, pause_seconds=0.5)


def stored_step(trial: Trial, client: Client) -> int:
    """Of the last checkpoint that its store has."""
    return int(trial.status(client.run_id)["checkpoint"].removeprefix("step-"))


@pytest.mark.parametrize("store", ["aws", "gcp", "azure"], indirect=True)
def test_from_launch_to_nothing_left(trial: Trial, plain_image: str, tmp_path: Path) -> None:
    terms = {"own_end": True}
    receipt = trial.launch(a_job("quick"), plain_image, deadline_seconds=1200, terms=terms, **CPU).wait(PATIENCE)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"
    until(rented(trial).is_off, "the machine is off", seconds=300)
    assert all(instance.is_gone for instance in trial.office.instances.values())
    if trial.store.cloud != "aws":
        assert next(iter(trial.office.instances.values())).deleted_itself


@on_aws
@pytest.mark.minutes(7)
def test_a_restart_while_it_trains_costs_no_attempt(trial: Trial, plain_image: str, tmp_path: Path) -> None:
    """Nor anybody at the client's computer: it powers itself off, and who comes later finds all of it."""
    client = trial.launch(a_job("long"), plain_image, deadline_seconds=1800, detached=True, **CPU)
    machine = rented(trial)
    reached("a checkpoint is stored", lambda: "checkpoint" in trial.status(client.run_id))
    machine.restart()
    until(machine.is_off, "the machine is off", seconds=PATIENCE)
    assert machine.journal().count("Linux version") == 2
    receipt = trial.attach(client.run_id).wait(PATIENCE)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"
    first, second = (line for line in trial.progress(client.run_id) if line["event"] == "start")
    assert first["resumed_from_step"] == 0 < second["resumed_from_step"] < second["total_steps"]
    assert len(trial.office.instances) == 1


@pytest.mark.minutes(15)
@pytest.mark.train
@pytest.mark.parametrize("store", os.environ.get("DIGITS_CLOUDS", "aws").split(","), indirect=True)
@pytest.mark.parametrize("shapes", [[{"memory_mib": 3072, "disk_mib": 12288}]], ids=["3 GiB"])
def test_the_digits_are_trained_with_a_restart_in_the_middle(trial: Trial, trainer_image: str, tmp_path: Path) -> None:
    """DIGITS_CLOUDS=gcp,azure tries the others, which take as long."""
    terms = {"boot_seconds": 3600, "own_end": True}
    client = trial.launch(digits(epochs=1), trainer_image, deadline_seconds=6000, terms=terms, **CPU)
    client.until(lambda: "checkpoint" in trial.status(client.run_id), "a checkpoint is stored", 4000)
    machine = rented(trial)
    machine.restart()
    receipt = client.wait(6000)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    assert receipt["steps"] == receipt["total_steps"] == 44
    first, second = (line for line in trial.progress(client.run_id) if line["event"] == "start")
    assert first["resumed_from_step"] == 0 < second["resumed_from_step"]
    assert (tmp_path / "model" / "model.keras").is_file()
    until(machine.is_off, "the machine is off", seconds=300)
    assert len(trial.office.instances) == 1


@on_aws
@pytest.mark.minutes(9)
def test_a_machine_whose_network_is_gone_ends_itself(
    trial: Trial, yard: ComputerYard, plain_image: str, late: Callable[[str, float], None]
) -> None:
    """For good, as soon as its agent has begun: nobody hears of its end but by the power."""
    seconds = 480.0
    yard.registries[OWN].stalls = threading.Event()
    terms = {"boot_seconds": seconds}
    client = trial.launch(a_job("quick"), plain_image, deadline_seconds=3600, terms=terms, detached=True, **CPU)
    began = time.time()
    client.wait(PATIENCE)
    machine = rented(trial)
    reached("its agent has begun", lambda: trial.status(client.run_id).get("state") == "fetching")
    machine.computer.network(connected=False)
    off = machine.computer.off_at(began + seconds + 300 + 120)
    assert off is not None, machine.journal()[-5000:]
    late("no network once the agent has begun", off - began - seconds)


@on_aws
@pytest.mark.minutes(8)
def test_a_network_that_comes_back_costs_no_attempt(trial: Trial, plain_image: str, tmp_path: Path) -> None:
    """Gone in the middle of training, five minutes here; LOST_SECONDS=3600 tries an hour. Nobody follows: who does
    takes a machine that is silent for 45 minutes for a hung one, and goes on elsewhere from its checkpoint."""
    lost_seconds = float(os.environ.get("LOST_SECONDS", "300"))
    job = {**a_job("long"), "epochs": int(lost_seconds / 60) + 3}
    client = trial.launch(job, plain_image, deadline_seconds=lost_seconds + 3600, detached=True, **CPU)
    machine = rented(trial)
    reached("a checkpoint is stored", lambda: "checkpoint" in trial.status(client.run_id))
    machine.computer.network(connected=False)
    last_step = stored_step(trial, client)
    time.sleep(lost_seconds)  # noqa: TID251  it lives in the real time
    assert stored_step(trial, client) <= last_step + 40, "its network was not gone"
    machine.computer.network(connected=True)
    reached("what it did meanwhile is stored", lambda: stored_step(trial, client) > lost_seconds)
    receipt = trial.attach(client.run_id).wait(PATIENCE)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"
    assert receipt["steps"] == receipt["total_steps"] == 120 * job["epochs"]
    assert [line["event"] for line in trial.progress(client.run_id)].count("start") == 1
    until(machine.is_off, "the machine is off", seconds=300)
    assert len(trial.office.instances) == 1


@on_aws
def test_a_restart_while_docker_pulls(trial: Trial, yard: ComputerYard, plain_image: str, tmp_path: Path) -> None:
    registry = yard.registries[OWN]
    registry.requests.clear()
    registry.stalls = threading.Event()
    client = trial.launch(a_job("quick"), plain_image, deadline_seconds=1500, terms={"boot_seconds": 1200}, **CPU)
    machine = rented(trial)
    until(lambda: any("/blobs/" in path for _, path in registry.requests), "it waits for a layer", seconds=PATIENCE)
    machine.restart()
    assert machine.computer.says("Linux version", times=2), machine.journal()[-3000:]
    registry.let_go()
    receipt = client.wait(PATIENCE)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    until(machine.is_off, "the machine is off", seconds=300)
