"""The simulated cloud in a folder of the test, whose time only sleepers move."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.doubles.clock import NOON
from trainplan.providers.base import VendorRequest
from trainplan.providers.sim.api import Api, canonical
from trainplan.providers.sim.calls import call
from trainplan.providers.sim.cloud import Setup, SimCloud
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario, Script
from trainplan.providers.sim.training import Simulated, Write
from trainplan.providers.sim.values import Course, Ending

if TYPE_CHECKING:
    from trainplan.providers.sim.world import World

_CREATES = ("PutObject", "RunInstance", "CreateSchedule")
_EXITS = {"finish": (0, "done"), "fail": (70, "failed"), "bad-job": (65, "failed")}


class NamedTrainer:
    """Behaves as tests/doubles/fake_trainer.py does, by the name of the job; other names train as simulated."""

    def __init__(self) -> None:
        self._other = Simulated()

    def ends(self, course: Course) -> Ending | None:
        name = _name(course)
        if name in ("wait", "stubborn"):
            return None
        if name not in _EXITS:
            return self._other.ends(course)
        code, state = _EXITS[name]
        return Ending(at=course.began_at + timedelta(seconds=5), exit_code=code, state=state)

    def stops(self, course: Course, asked_at: datetime) -> Ending | None:
        match _name(course):
            case "wait":
                return Ending(at=asked_at + timedelta(seconds=1), exit_code=75, state="stopped")
            case "stubborn":
                return None
            case name if name in _EXITS:
                return self.ends(course)
            case _:
                return self._other.stops(course, asked_at)

    def begins(self, course: Course) -> Iterator[Write]:
        if not _is_named(course):
            yield from self._other.begins(course)
            return
        yield Write(at=course.began_at, path=None, data=f"training {_name(course)}\n".encode(), append=True)
        yield _status(course, course.began_at, "running")

    def writes(self, course: Course, after: datetime, until: datetime) -> Iterator[Write]:
        if not _is_named(course):
            yield from self._other.writes(course, after, until)

    def finishes(self, course: Course, ending: Ending) -> Iterator[Write]:
        if not _is_named(course):
            yield from self._other.finishes(course, ending)
            return
        if ending.state == "done":
            yield Write(at=ending.at, path="output/manifest.json", data=b"[]")
        yield _status(course, ending.at, ending.state)


class DirectApi:
    """The world without anything between: the fastest way to call it, for tests that call it very often."""

    def __init__(self, world: World) -> None:
        self._world = world

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return call(self._world, operation, json.loads(canonical(parameters)))

    def now(self) -> datetime:
        return self._world.now

    def sleep(self, seconds: float) -> None:
        self._world.advance(self._world.now + timedelta(seconds=seconds))


class Recorder:
    """An API in front of another one, which remembers what was sent through it."""

    def __init__(self, api: Api, sent: list[tuple[str, Mapping[str, Any]]]) -> None:
        self._api = api
        self._sent = sent

    def call(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        self._sent.append((operation, parameters))
        return self._api.call(operation, parameters)

    def now(self) -> datetime:
        return self._api.now()

    def sleep(self, seconds: float) -> None:
        self._api.sleep(seconds)


class SimHarness:
    provider_name = "sim"
    keeps_ended = False
    tells_training = True

    def __init__(self, home: Path, scenario: Scenario | None = None) -> None:
        self.scenario = scenario or Scenario()
        self._folder = home / "sim"
        self._clouds: list[SimCloud] = []
        self._calls: list[tuple[str, Mapping[str, Any]]] = []

    def provider(self) -> SimProvider:
        return SimProvider(self.scenario, Recorder(self.cloud(), self._calls))

    def cloud(self) -> SimCloud:
        """The cloud without anything in front of it, as another client opens it."""
        setup = Setup(scenario=self.scenario, speed=0)
        self._clouds.append(SimCloud(self._folder, setup, lambda: NOON, trainer=NamedTrainer()))
        return self._clouds[-1]

    def sent(self) -> Sequence[VendorRequest]:
        """A call that repeats another one makes nothing new: its token says so."""
        made = [call for call in self._calls if call[0] in _CREATES]
        once = [call for number, call in enumerate(made) if call not in made[:number]]
        return [VendorRequest(service="sim", operation=operation, parameters=given) for operation, given in once]

    def break_launch(self) -> None:
        self.script(operation="RunInstance", code="InsufficientCapacity", times=None)

    def break_listing(self) -> None:
        self.script(operation="ListInstances", where={"region": "sim-west"}, code="PlacementUnavailable", times=None)

    def lose_reply(self) -> None:
        self.script(operation="RunInstance", effect="lost_reply")

    def script(self, **fault: Any) -> None:
        """One more thing that goes wrong (trainplan.providers.sim.scenario.FaultRule)."""
        self.cloud().play(Script.model_validate({"faults": [fault]}))

    def ledger(self) -> dict[str, Any]:
        return self.cloud().ledger()

    def clean(self) -> None:
        for cloud in self._clouds:
            cloud.close()


def _name(course: Course) -> str:
    return str(json.loads(course.job_json)["name"])


def _is_named(course: Course) -> bool:
    return _name(course) in ("wait", "stubborn", *_EXITS)


def _status(course: Course, at: datetime, state: str) -> Write:
    return Write(at=at, path=f"attempts/{course.attempt}/status.json", data=json.dumps({"state": state}).encode())
