"""A simulated cloud for a test, and the calls that its tests make most."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import datetime, timedelta
from typing import Any

from tests.doubles.clock import NOON
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.ledger import ledger
from trainplan.providers.sim.scenario import Scenario, Script
from trainplan.providers.sim.world import World
from trainplan.workloads.job import TrainingJob

REGION = "sim-east"
JOB = TrainingJob.model_validate(
    {
        "name": "vgg16-cifar10",
        "model": {"preset": "vgg16"},
        "data": {"name": "cifar10"},
        "epochs": 90,
        "global_batch_size": 128,
        "checkpoint_every": "5m",
    }
)
"""Trains for about 25 minutes on t4.one."""


class Practice:
    """One world with short ways of calling it; nothing of it is random but what the test asks for."""

    def __init__(self, scenario: dict[str, Any] | None = None) -> None:
        given = {"reclaims_per_hour": 0, "boot": ["60s", "60s"], "listing_lag": "0s"} | (scenario or {})
        self.world = World(Scenario.model_validate(given), NOON)

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return call(self.world, operation, {"region": REGION} | parameters)

    def put_job(self, run: str = "r1", job: TrainingJob = JOB) -> None:
        self.call("PutObject", run=run, path="job.json", data=b64encode(job.to_json().encode()).decode())

    def launch(self, run: str = "r1", attempt: int = 1, *, lasting: timedelta | None = None, **changes: Any) -> str:
        """The id of a machine that trains JOB for at most `lasting`; None: it has no timers."""
        self.put_job(run)
        deadline = None if lasting is None else (self.world.now + lasting).isoformat()
        labels = {LABEL_RUN: run, LABEL_ATTEMPT: str(attempt)} | ({LABEL_DEADLINE: deadline} if deadline else {})
        data = {"run": run, "attempt": str(attempt)} | ({"deadline": deadline} if deadline else {})
        asked = {
            "zone": "sim-east-a", "instanceType": "t4.one", "market": "on_demand", "image": "img-1",
            "clientToken": f"{run}-{attempt}", "labels": labels, "userData": data,
        }  # fmt: skip
        return str(self.call("RunInstance", **asked | changes)["id"])

    def look(self, machine: str) -> dict[str, Any]:
        return self.call("DescribeInstance", id=machine)

    def read(self, path: str, run: str = "r1") -> bytes:
        return b64decode(self.call("GetObject", run=run, path=path)["data"])

    def paths(self, prefix: str = "", run: str = "r1") -> list[str]:
        return list(self.call("ListObjects", run=run, prefix=prefix)["paths"])

    def ids(self, operation: str = "ListInstances", **parameters: Any) -> list[str]:
        return [item["id"] for item in self.call(operation, **parameters)["items"]]

    def wait(self, **span: float) -> datetime:
        """Let time pass: `minutes=5`."""
        self.world.advance(self.world.now + timedelta(**span))
        return self.world.now

    def script(self, **script: Any) -> None:
        self.world.play(Script.model_validate(script))

    @property
    def ledger(self) -> dict[str, Any]:
        return ledger(self.world.state, self.world.now)

    def row(self, name: str) -> dict[str, Any]:
        """One line of the ledger."""
        return next(row for row in self.ledger["resources"] if row["id"] == name)
