"""A run on a TPU from `plan launch` to nothing left: a real machine, booted with the script that the request brought.

No TPU is behind it: device files without a chip, and a JAX that reports what of them the container was given, which
only a privileged one is. The trainer plays its part; what trains for real is tests/e2e/test_gcp_machine.py's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.doubles.google import iam, tasks, tpu
from tests.doubles.google.rented import TOKEN
from tests.doubles.google.scenario import Scenario
from tests.doubles.google.server import GoogleServer, Host
from tests.doubles.google.world import World
from tests.doubles.waiting import until
from tests.e2e.test_rented_endings import a_job
from tests.e2e.yard import images
from tests.e2e.yard.machine import Machine, Running
from tests.e2e.yard.provider import now
from tests.e2e.yard.watcher import Watcher
from tests.e2e.yard.yard import OWN, Yard

pytestmark = [pytest.mark.container, pytest.mark.e2e]
PATIENCE = 1200.0
PLAN = Path(sys.executable).with_name("plan")
PROJECT = "a-project"
EMAIL = f"trainplan-machine@{PROJECT}.iam.gserviceaccount.com"
CHIPS = "for chip in 0 1 2 3; do mknod /dev/accel$chip c 1 3; done"
"""Device files as a TPU v3-8 has them; what is behind them is /dev/null."""


class Nodes:
    """`tests.e2e.yard.watcher.CloudDouble` over the double's TPU API, whose scenario is `real`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._booted: set[str] = set()

    def to_boot(self) -> Sequence[Machine]:
        with self._host.lock:
            new = [known for known in self._all() if known.node == "READY" and _name(known) not in self._booted]
            self._booted |= {_name(known) for known in new}
            return [self._machine(known) for known in new]

    def to_kill(self) -> Sequence[str]:
        with self._host.lock:
            return [_name(known) for known in self._all() if known.state == "DELETING"]

    def machine_ended(self, name: str) -> None:
        with self._host.lock:
            for known in self._all():
                if _name(known) == name:
                    known.off()

    def _all(self) -> Sequence[tpu.Queued]:
        return list(self._host.world.table(tpu.Tpu).all)

    def _machine(self, queued: tpu.Queued) -> Machine:
        """Google's guest agent runs `startup-script` at each boot; here cloud-init runs it, at the first."""
        script = queued.spec["metadata"]["startup-script"]
        region = queued.zone.rpartition("-")[0]
        return Machine(name=_name(queued), cloud="gcp", user_data=script, region=region, gpus=(), token=TOKEN)


@pytest.fixture(scope="session")
def tpu_image(yard: Yard) -> str:
    """A person's own image on a TPU: its name and digest at their registry."""
    return f"tpu@{yard.registries[OWN].add('tpu', images.saved(images._built('tpu', images.plain())))}"


@pytest.fixture
def server(yard: Yard) -> Iterator[GoogleServer]:
    with ExitStack() as stack:
        stack.callback(yard.clear)
        made = stack.enter_context(GoogleServer())
        quick = Scenario(real=True, began=now(), operation_seconds=1.0, boot_seconds=1.0, lag_seconds=0.0)
        world = made.host.world = World(quick)
        tasks.set_up(world, PROJECT)
        world.table(iam.Iam).accounts[EMAIL] = {"email": EMAIL}
        yield made


def test_from_launch_to_nothing_left(yard: Yard, server: GoogleServer, tpu_image: str, tmp_path: Path) -> None:
    with Watcher(yard, Nodes(server.host)) as watcher:
        client = _launch(yard, server, tpu_image, tmp_path)
        until(lambda: bool(watcher.machines) or client.poll() is not None, "the node is booted", seconds=PATIENCE)
        machines = list(watcher.machines.values())
        if machines:
            machines[0].run("sh", "-ec", CHIPS)
        said, errors = client.communicate(timeout=PATIENCE)
        assert client.returncode == 0, f"{errors[-3000:]}\n{_journals(machines)}\n{_statuses(server.host.world)}"
        (machine,) = machines
        until(machine.is_off, "the machine is off")

    receipt = json.loads(said)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1)
    assert "TPU v3" in receipt["device"]
    assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"
    world = server.host.world
    assert [row for row in (*tpu.ledger(world), *tasks.ledger(world)) if row["left"]] == []
    assert world.violations == []
    # Its own delete came first, with its own identity.
    assert world.signed["tpu.projects.locations.queuedResources.delete"][0] == f"Bearer {TOKEN}"


def _launch(yard: Yard, server: GoogleServer, image: str, folder: Path) -> subprocess.Popen[str]:
    job = folder / "job.yaml"
    job.write_text(yaml.safe_dump({**a_job("quick"), "container": f"{OWN}/{image}"}), encoding="utf-8")
    environment = {
        **os.environ,
        "PLAN_HOME": str(folder / "home"),
        "PLAN_GCP_PROJECT": PROJECT,
        "PLAN_GCP_ENDPOINT": server.url,
        "PLAN_GCP_MACHINE_ENDPOINT": yard.relay(server.url).url,
    }
    where = ("--provider", "gcp", "--device", "TPU v3", "--region", "us-central1", "--market", "on_demand")
    words = [str(PLAN), "launch", str(job), *where, "--yes", "--json", "--output", str(folder / "model")]
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _name(queued: tpu.Queued) -> str:
    return queued.name.rpartition("/")[2]


def _statuses(world: World) -> list[str]:
    """What the machines say of themselves."""
    there = [stored for objects in world.bucket.objects.values() for stored in objects.items()]
    return [kept.data.decode() for name, kept in there if name.endswith("/status.json")]


def _journals(machines: Sequence[Running]) -> str:
    return "\n".join(running.journal()[-6000:] for running in machines)
