"""Runs on Azure from `plan launch` to nothing left: machines booted with what the create brought, one evicted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doubles.azure.client import SERVICE_PRINCIPAL
from tests.doubles.azure.ledger import remaining
from tests.doubles.azure.rented import Rented
from tests.doubles.azure.rules import SUBSCRIPTION, Rules
from tests.doubles.azure.server import AzureServer
from tests.doubles.waiting import until
from tests.e2e.test_rented_endings import a_job
from tests.e2e.test_rented_interruptions import take_back
from tests.e2e.test_rented_machine import digits, home_files, written
from tests.e2e.yard.machine import Running
from tests.e2e.yard.provider import now
from tests.e2e.yard.stores import Store
from tests.e2e.yard.watcher import Watcher
from tests.e2e.yard.yard import BLOB, OWN, Yard

pytestmark = [pytest.mark.container, pytest.mark.train, pytest.mark.e2e]
PATIENCE = 1200.0
PLAN = Path(sys.executable).with_name("plan")


class Subscription:
    """A person's computer, and a subscription whose machines are the yard's."""

    def __init__(self, yard: Yard, store: Store, folder: Path, server: AzureServer, watcher: Watcher) -> None:
        self.world, self._server, self._watcher, self._folder = server.world, server, watcher, folder
        arm = f"https://{BLOB}:{yard.relay(server.url).port}"
        self._environment = {
            **os.environ,
            **store.environment,
            **SERVICE_PRINCIPAL,
            "PLAN_HOME": str(folder / "home"),
            "PLAN_AZURE_SUBSCRIPTION": SUBSCRIPTION,
            "PLAN_AZURE_ARM_ENDPOINT": server.url,
            "PLAN_AZURE_AUTHORITY": server.url,
            "PLAN_AZURE_MACHINE_ENDPOINTS": f"arm={arm},blob={store.endpoints['blob']}",
            **{f"PLAN_AZURE_{name.upper()}": value for name, value in store.options.items()},
        }

    def launch(self, image: str, market: str, job: dict[str, Any]) -> subprocess.Popen[str]:
        file = self._folder / "job.yaml"
        file.write_text(yaml.safe_dump({**job, "container": f"{OWN}/{image}"}), encoding="utf-8")
        where = ("--provider", "azure", "--device", "T4", "--region", "eastus", "--market", market)
        words = [str(PLAN), "launch", str(file), *where, "--yes", "--json", "--output", str(self._folder / "model")]
        return subprocess.Popen(
            words, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def machine(self, number: int, client: subprocess.Popen[str]) -> Running:
        """The n-th that was made, once it is booted."""
        until(
            lambda: len(self._watcher.machines) >= number or client.poll() is not None,
            f"machine {number} is booted",
            seconds=PATIENCE,
        )
        assert len(self._watcher.machines) >= number, client.communicate()
        return list(self._watcher.machines.values())[number - 1]

    def receipt(self, client: subprocess.Popen[str]) -> dict[str, Any]:
        said, errors = client.communicate(timeout=PATIENCE)
        journals = "\n".join(running.journal()[-4000:] for running in self._watcher.machines.values())
        assert client.returncode == 0, f"{said[-3000:]}\n{errors[-3000:]}\n{journals}"
        return dict(json.loads(said))

    def evict(self, machine: Running) -> None:
        """As `az vm simulate-eviction`: the notice, and then the machine is Azure's again."""
        name = machine.machine.name
        path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}/providers/Microsoft.Compute/virtualMachines/{name}"
        told = self._server.answer("POST", f"{path}/simulateEviction?api-version=2026-04-01", "Bearer a-person", b"")
        assert told.status == 204
        take_back(machine, timedelta(seconds=20))

    def remaining(self) -> list[str]:
        """What is there by Azure's own books, once all that was to go has gone."""
        with self._server.lock:
            self.world.advance(now() + timedelta(seconds=20))
            return remaining(self.world)

    def deleted_by_machines(self) -> list[str]:
        return [call["path"] for call in self.world.calls if call["machine"] and call["method"] == "DELETE"]


@pytest.fixture
def subscription(yard: Yard, store: Store, tmp_path: Path) -> Iterator[Subscription]:
    with ExitStack() as stack:
        stack.callback(yard.clear)
        server = AzureServer(Path(yard.certificate), Rules(start=now(), real=True, machine_token=store.token))
        server.start()
        stack.callback(server.close)
        watcher = stack.enter_context(Watcher(yard, Rented(server)))
        yield Subscription(yard, store, tmp_path, server, watcher)


@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_from_launch_to_nothing_left(subscription: Subscription, trainer_image: str, tmp_path: Path) -> None:
    client = subscription.launch(trainer_image, "on_demand", digits())
    machine = subscription.machine(1, client)
    receipt = subscription.receipt(client)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1)
    assert "Tesla T4" in receipt["device"]
    assert home_files(tmp_path / "model") == written(machine) != {}
    until(machine.is_off, "the machine is off")
    assert subscription.remaining() == []
    # Its own delete of its group came first, with its own identity and the right that the launch gave it.
    assert subscription.deleted_by_machines()[0].endswith(f"/resourceGroups/{machine.machine.name}")


@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_a_machine_ends_its_own_group(subscription: Subscription, plain_image: str, tmp_path: Path) -> None:
    """With an image that is quick: custom data, agent, container, model, and the right that the launch gave."""
    client = subscription.launch(plain_image, "on_demand", a_job("quick"))
    machine = subscription.machine(1, client)
    assert subscription.receipt(client)["outcome"] == "succeeded"
    assert home_files(tmp_path / "model") != {}
    until(machine.is_off, "the machine is off")
    assert subscription.remaining() == []
    assert subscription.deleted_by_machines()[0].endswith(f"/resourceGroups/{machine.machine.name}")


@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_an_eviction_costs_little(subscription: Subscription, trainer_image: str, tmp_path: Path) -> None:
    client = subscription.launch(trainer_image, "spot", digits(epochs=30, checkpoint_every="5s"))
    first = subscription.machine(1, client)
    kept = ("sh", "-c", "ls /var/lib/trainplan/run-dir/checkpoints/*/complete.json")
    until(lambda: first.run(*kept).returncode == 0, "a checkpoint is written", seconds=PATIENCE)
    subscription.evict(first)
    second = subscription.machine(2, client)
    receipt = subscription.receipt(client)
    assert (receipt["outcome"], receipt["attempts"], receipt["interruptions"]) == ("succeeded", 2, 1)
    assert receipt["lost_steps"] < receipt["total_steps"] / 2
    assert home_files(tmp_path / "model") == written(second) != {}
    until(second.is_off, "the machine is off")
    assert subscription.remaining() == []
