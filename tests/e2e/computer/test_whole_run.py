"""A whole run on a computer: Docker, the image from its registry, results home, power off; what goes wrong there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.doubles.waiting import until
from tests.e2e.computer.yard import ComputerYard, Rented
from tests.e2e.test_rented_endings import a_job
from tests.e2e.yard.trial import Trial
from tests.e2e.yard.yard import OWN

if TYPE_CHECKING:
    from tests.e2e.yard.stores import Store

pytestmark = [pytest.mark.e2e, pytest.mark.container, pytest.mark.parametrize("store", ["aws"], indirect=True)]
PATIENCE = 1500.0
CPU: dict[str, Any] = {"device": "cpu", "zones": ("a",), "memory_gib": 0.9}


@pytest.fixture
def trial(yard: ComputerYard, store: Store, tmp_path: Path) -> Iterator[Trial]:
    with Trial(yard, store, tmp_path) as made:
        yield made


def rented(trial: Trial) -> Rented:
    machine = trial.machine()
    assert isinstance(machine, Rented)
    return machine


def test_from_launch_to_nothing_left(trial: Trial, plain_image: str, tmp_path: Path) -> None:
    receipt = trial.launch(a_job("quick"), plain_image, deadline_seconds=1200, **CPU).wait(PATIENCE)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"
    until(rented(trial).is_off, "the machine is off", seconds=300)
    assert all(instance.is_gone for instance in trial.office.instances.values())


def test_a_machine_whose_network_is_gone_ends_itself(
    trial: Trial, yard: ComputerYard, plain_image: str, late: Callable[[str, float], None]
) -> None:
    """For good, as soon as its agent has begun: nobody hears of its end but by the power."""
    seconds = 600.0
    yard.registries[OWN].stalls = threading.Event()
    terms = {"boot_seconds": seconds}
    client = trial.launch(a_job("quick"), plain_image, deadline_seconds=3600, terms=terms, detached=True, **CPU)
    began = time.time()
    client.wait(PATIENCE)
    machine = rented(trial)
    until(lambda: trial.status(client.run_id).get("state") == "fetching", "its agent has begun", seconds=seconds)
    machine.computer.network(connected=False)
    off = machine.computer.off_at(began + seconds + 300 + 120)
    assert off is not None, machine.journal()[-5000:]
    late("no network once the agent has begun", off - began - seconds)


def test_a_restart_while_docker_pulls(trial: Trial, yard: ComputerYard, plain_image: str, tmp_path: Path) -> None:
    yard.registries[OWN].stalls = threading.Event()
    client = trial.launch(a_job("quick"), plain_image, deadline_seconds=1500, terms={"boot_seconds": 1200}, **CPU)
    machine = rented(trial)
    until(lambda: trial.status(client.run_id).get("state") == "fetching", "it pulls", seconds=PATIENCE)
    time.sleep(10)  # noqa: TID251
    machine.restart()
    assert machine.computer.says("Linux version", times=2), machine.journal()[-3000:]
    yard.registries[OWN].let_go()
    receipt = client.wait(PATIENCE)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1), receipt
    until(machine.is_off, "the machine is off", seconds=300)
