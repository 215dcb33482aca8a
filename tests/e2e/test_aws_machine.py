"""A run on EC2 from `plan launch` to nothing left: a real machine, booted with what RunInstances brought."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doubles.aws import remote
from tests.doubles.waiting import until
from tests.e2e.test_rented_machine import digits, home_files, written
from tests.e2e.yard.machine import Machine, Running
from tests.e2e.yard.provider import now
from tests.e2e.yard.watcher import Watcher
from tests.e2e.yard.yard import OWN, Yard
from trainplan.providers.aws.store import make as bucket_of
from trainplan.providers.base import ProviderSettings
from trainplan.providers.stores.store import ObjectStore

pytestmark = [pytest.mark.container, pytest.mark.train, pytest.mark.e2e]
PATIENCE = 1200.0
PLAN = Path(sys.executable).with_name("plan")


class Rented:
    """`tests.e2e.yard.watcher.CloudDouble` over the double of AWS, whose scenario is `real`."""

    def __init__(self, double: remote.Double) -> None:
        self._double = double
        self._booted: set[str] = set()

    def to_boot(self) -> Sequence[Machine]:
        new = [row for row in self._double.ask("real") if row["booted"] and row["id"] not in self._booted]
        self._booted |= {row["id"] for row in new}
        return [
            Machine(name=row["id"], cloud="aws", user_data=row["user_data"], region=row["region"])
            for row in new
            if not row["ended"]
        ]

    def to_kill(self) -> Sequence[str]:
        return [row["id"] for row in self._double.ask("real") if row["ended"]]

    def machine_ended(self, name: str) -> None:
        self._double.ask("off", id=name)


class Account:
    """A person's computer, and an AWS account whose machines are the yard's."""

    def __init__(self, yard: Yard, folder: Path, double: remote.Double, watcher: Watcher) -> None:
        self.double, self._watcher, self._folder = double, watcher, folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in remote.UNSET},
            **remote.ENVIRONMENT,
            "PLAN_HOME": str(folder / "home"),
            "PLAN_AWS_REGION": "us-east-1",
            "PLAN_AWS_ENDPOINT": double.url,
            "PLAN_AWS_MACHINE_ENDPOINT": yard.relay(double.url).url,
        }

    def plan(self, *words: str) -> subprocess.CompletedProcess[str]:
        streams: dict[str, Any] = {"capture_output": True, "text": True, "timeout": PATIENCE, "check": False}
        return subprocess.run([str(PLAN), *words], cwd=self._folder, env=self._environment, **streams)

    def launch(self, image: str) -> subprocess.CompletedProcess[str]:
        job = self._folder / "job.yaml"
        job.write_text(yaml.safe_dump(digits(container=f"{OWN}/{image}")), encoding="utf-8")
        where = ("--provider", "aws", "--device", "T4", "--region", "us-east-1", "--market", "on_demand")
        return self.plan("launch", str(job), *where, "--yes", "--json", "--output", str(self._folder / "model"))

    def status(self) -> str:
        """The last status.json of the run's first attempt."""
        settings = {name: self._environment[f"PLAN_AWS_{name.upper()}"] for name in ("region", "endpoint")}
        given = ProviderSettings(home=self._folder, options=settings, environment=self._environment, now=now)
        with remote.signed_in():
            store = ObjectStore(bucket_of(given), "runs")
            paths = [path for path in store.list() if path.endswith("attempts/1/status.json")]
            return "\n".join(store.get(path).decode() for path in paths)

    @property
    def machines(self) -> list[Running]:
        return list(self._watcher.machines.values())


@pytest.fixture
def account(yard: Yard, tmp_path: Path) -> Iterator[Account]:
    with ExitStack() as stack:
        stack.callback(yard.clear)
        double = stack.enter_context(remote.Double())
        double.reset(real=True, boot=[0, 0], listing_lag=0, regions=["us-east-1", "us-west-2"])
        watcher = stack.enter_context(Watcher(yard, Rented(double)))
        yield Account(yard, tmp_path, double, watcher)


def test_from_launch_to_nothing_left(account: Account, trainer_image: str, tmp_path: Path) -> None:
    ran = account.launch(trainer_image)
    assert ran.returncode == 0, f"{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}\n{_journals(account)}"
    receipt = json.loads(ran.stdout)
    assert (receipt["outcome"], receipt["attempts"]) == ("succeeded", 1)
    assert "Tesla T4" in receipt["device"]

    (machine,) = account.machines
    assert home_files(tmp_path / "model") == written(machine) != {}
    until(machine.is_off, "the machine is off")
    until(lambda: not account.double.remaining(), "nothing is left by AWS's own books")


def _journals(account: Account) -> str:
    """What the machines said, and what their agent wrote of the end."""
    told = [running.journal()[-4000:] for running in account.machines]
    return "\n".join([*told, account.plan("logs").stdout[-4000:], account.status()])
