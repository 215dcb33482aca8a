"""A project as a test wants it: a server in this process, into whose world a test may reach, and a provider of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.gcp import PROJECT
from tests.doubles.google import iam
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import Scenario
from tests.doubles.google.server import GoogleServer
from trainplan.providers.abilities import SetupStep
from trainplan.providers.base import Check, ProviderSettings
from trainplan.providers.gcp.provider import GcpProvider, make
from trainplan.providers.gcp.setup import GcpSetUp

if TYPE_CHECKING:
    from tests.doubles.google.world import World


def reset(server: GoogleServer) -> None:
    """A project of which nobody has set anything up: no network, no account, nothing but three APIs."""
    Google(server.url).reset(Scenario(networks=()))
    server.host.world.table(iam.Iam).disabled |= {"tpu", "cloudtasks", "iam"}


@dataclass
class Project:
    server: GoogleServer
    home: Path

    @cached_property
    def provider(self) -> GcpProvider:
        return make(self.settings())

    def settings(self, **options: str) -> ProviderSettings:
        given = {"project": PROJECT, "endpoint": self.server.url, **options}
        now = Google(self.server.url).now
        return ProviderSettings(home=self.home, options=given, environment={}, now=now)

    @property
    def world(self) -> World:
        return self.server.host.world

    @property
    def iam(self) -> iam.Iam:
        return self.world.table(iam.Iam)

    def set_up(self, provider: GcpProvider | None = None) -> list[SetupStep]:
        """As `plan setup gcp --yes` does it; nobody waits."""
        asked = self._set_up(provider)
        return _carried_out(asked, asked.lacking())

    def waiting(self) -> GcpSetUp:
        """A set-up whose pauses let the double's time pass."""
        return replace(self._set_up(), wait=self.world.pass_by)

    def set_up_waiting(self) -> list[SetupStep]:
        asked = self.waiting()
        return _carried_out(asked, asked.lacking())

    def remove(self) -> list[SetupStep]:
        asked = self._set_up()
        return _carried_out(asked, asked.removable())

    def _set_up(self, provider: GcpProvider | None = None) -> GcpSetUp:
        asked = provider or self.provider
        assert asked.standing_resources is not None
        return GcpSetUp(asked.standing_resources, asked.list_owned, lambda _: None)

    def lines(self) -> dict[str, Check]:
        """What the doctor of a new command says, by name."""
        return {check.name: check for check in make(self.settings()).doctor()}

    def methods(self, since: int = 0) -> set[str]:
        return {call.method for call in self.world.calls[since:]}


def _carried_out(asked: GcpSetUp, steps: Sequence[SetupStep]) -> list[SetupStep]:
    for step in steps:
        asked.carry_out(step, lambda _: None)
    return list(steps)
