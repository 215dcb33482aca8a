"""A run on Compute Engine from `plan launch` to nothing left: a real machine, booted with what the insert brought."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doubles.google.machines import ledger_rows, table_of
from tests.doubles.google.rented import TOKEN, Rented
from tests.doubles.google.scenario import Scenario
from tests.doubles.google.server import GoogleServer
from tests.doubles.google.world import World
from tests.doubles.waiting import until
from tests.e2e.test_rented_machine import digits, home_files, written
from tests.e2e.yard.machine import Running
from tests.e2e.yard.provider import now
from tests.e2e.yard.watcher import Watcher
from tests.e2e.yard.yard import OWN, Yard

pytestmark = [pytest.mark.container, pytest.mark.train, pytest.mark.e2e]
PATIENCE = 1200.0
REGION = "us-central1"
PLAN = Path(sys.executable).with_name("plan")


class Project:
    """A person's computer, and a Google project whose machines are the yard's."""

    def __init__(self, yard: Yard, folder: Path, server: GoogleServer, watcher: Watcher) -> None:
        self.world, self._host, self._watcher, self._folder = server.host.world, server.host, watcher, folder
        self._environment = {
            **os.environ,
            "PLAN_HOME": str(folder / "home"),
            "PLAN_GCP_PROJECT": "a-project",
            "PLAN_GCP_ENDPOINT": server.url,
            "PLAN_GCP_MACHINE_ENDPOINT": yard.relay(server.url).url,
        }

    def plan(self, *words: str) -> subprocess.CompletedProcess[str]:
        streams: dict[str, Any] = {"capture_output": True, "text": True, "timeout": PATIENCE, "check": False}
        return subprocess.run([str(PLAN), *words], cwd=self._folder, env=self._environment, **streams)

    def launch(self, image: str, job: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        file = self._folder / "job.yaml"
        file.write_text(yaml.safe_dump({**(job or digits()), "container": f"{OWN}/{image}"}), encoding="utf-8")
        where = ("--provider", "gcp", "--device", "T4", "--region", REGION, "--market", "on_demand")
        return self.plan("launch", str(file), *where, "--yes", "--json", "--output", str(self._folder / "model"))

    @property
    def machines(self) -> list[Running]:
        return list(self._watcher.machines.values())

    def remaining(self) -> list[dict[str, Any]]:
        """What is there by Google's own books, a second after all that was to go has gone."""
        with self._host.lock:
            self.world.pass_by(5)
            return [row for row in ledger_rows(self.world) if row["left"]]


@pytest.fixture
def project(yard: Yard, tmp_path: Path) -> Iterator[Project]:
    with ExitStack() as stack:
        stack.callback(yard.clear)
        server = stack.enter_context(GoogleServer())
        server.host.world = World(Scenario(real=True, began=now(), operation_seconds=0.0, lag_seconds=0.0))
        watcher = stack.enter_context(Watcher(yard, Rented(server.host)))
        yield Project(yard, tmp_path, server, watcher)


def test_from_launch_to_nothing_left(project: Project, trainer_image: str, tmp_path: Path) -> None:
    ran = project.launch(trainer_image)
    assert ran.returncode == 0, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}\n{console_text(project)}"
    receipt = json.loads(ran.stdout)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1)
    assert "Tesla T4" in receipt["device"]

    (machine,) = project.machines
    assert home_files(tmp_path / "model") == written(machine) != {}
    until(machine.is_off, "the machine is off")
    assert project.remaining() == []
    assert project.world.violations == []
    # Its own delete came first, with its own identity.
    assert project.world.signed["compute.instances.delete"][0] == f"Bearer {TOKEN}"
    (made,) = table_of(project.world).machines
    assert made.name == machine.machine.name


def console_text(project: Project) -> str:
    """What a person needs who reads of a failure: the attempts' own words, and the end of the machines' journals."""
    words = [
        f"{name}: {stored.data[-3000:].decode(errors='replace')}"
        for there in project.world.bucket.objects.values()
        for name, stored in there.items()
        if name.endswith(("status.json", "output.log"))
    ]
    return "\n".join([*words, *(running.journal()[-2000:] for running in project.machines)])
