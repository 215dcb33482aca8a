"""Google Cloud's double for these tests: `world` is a client of it in a new world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.gcp import Client, TimedGcp
from tests.contract.harness import Ask, request
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import FaultRule, Scenario
from tests.doubles.google.server import GoogleServer

if TYPE_CHECKING:
    from trainplan.providers.base import LaunchRequest


@dataclass
class World:
    """A client of a server whose world is as the test wants it."""

    google: Google
    home: Path

    @cached_property
    def provider(self) -> TimedGcp:
        return self.another()

    def another(self) -> TimedGcp:
        """As a newly started command makes it."""
        return Client(self.google, self.home).provider()

    def request(self, behaviour: str = "wait", **changes: Any) -> LaunchRequest:
        """Looked up, on a machine with a T4."""
        return request(self.provider, Ask(behaviour=behaviour, **changes))

    def script(self, operation: str, **rule: Any) -> None:
        self.google.script(FaultRule(operation=operation, **rule))

    def calls(self, method: str) -> list[dict[str, Any]]:
        """What was sent of a method, as path, query and body."""
        return [dict(call) for call in self.google.control("calls")["calls"] if call["method"] == method]


@pytest.fixture(scope="session")
def server() -> Iterator[GoogleServer]:
    """A server in this process, into whose world a test may reach; each test begins with a new world."""
    with GoogleServer() as made:
        yield made


@pytest.fixture
def make_world(google: Google, tmp_path: Path) -> Iterator[Callable[..., World]]:
    def made(**scenario: Any) -> World:
        google.reset(Scenario(**{"trainer": "named", **scenario}))
        return World(google, tmp_path)

    yield made
    assert google.control("calls")["violations"] == []


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
