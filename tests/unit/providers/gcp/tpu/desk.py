"""One person's computer beside a server in this process, into whose world a test may reach."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.contract.gcp import TimedGcp
from tests.contract.harness import Ask, request
from tests.contract.tpu import TpuClient, make_ready
from tests.doubles.google import tasks, tpu
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import FaultRule, Scenario
from tests.doubles.google.server import GoogleServer
from tests.doubles.google.world import World
from trainplan.providers.base import LaunchRequest, OwnedResource, RunId

RUN = RunId("r1")


@dataclass
class Desk:
    server: GoogleServer
    home: Path

    @cached_property
    def google(self) -> Google:
        return Google(self.server.url)

    @cached_property
    def client(self) -> TpuClient:
        return TpuClient(self.google, self.home)

    @cached_property
    def provider(self) -> TimedGcp:
        return self.client.provider()

    @property
    def world(self) -> World:
        return self.server.host.world

    @property
    def nodes(self) -> list[tpu.Queued]:
        return [known for known in self.world.table(tpu.Tpu).all if known.remaining]

    @property
    def timers(self) -> list[str]:
        return list(self.world.table(tasks.Tasks).tasks)

    def begin(self, **scenario: Any) -> None:
        """A new world, in which everything is set up."""
        self.google.reset(Scenario(**scenario))
        make_ready(self.client)

    def request(self, **changes: Any) -> LaunchRequest:
        return request(self.provider, Ask(**changes))

    def script(self, operation: str, **rule: Any) -> None:
        self.google.script(FaultRule(operation=operation, **rule))

    def owned(self) -> list[OwnedResource]:
        return list(self.provider.list_owned(RUN))
