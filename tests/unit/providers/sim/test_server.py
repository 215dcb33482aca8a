"""The simulated cloud over HTTP, its time, and what it keeps on disk."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from providers.sim.api import ADMIN, API, SETUP, Address, DisconnectedError, HttpApi, RefusedError, exchange
from providers.sim.persistence import Keeper, WorldInUseError
from providers.sim.scenario import Scenario
from providers.sim.server import Host, SimServer
from providers.sim.world import World
from tests.contract.sim import SimHarness
from tests.doubles.clock import NOON
from tests.unit.providers.sim.worlds import Practice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SimHarness]:
    made = SimHarness(tmp_path)
    yield made
    made.clean()


class Steady:
    """Real seconds that only a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_call_is_answered_and_refused_over_http(harness: SimHarness) -> None:
    http = harness.http()
    assert http.call("GetIdentity", {}) == {"account": "practice"}
    with pytest.raises(RefusedError) as caught:
        http.call("DescribeInstance", {"region": "sim-east", "id": "i-1"})
    assert caught.value.code == "InstanceNotFound"


def test_a_lost_reply_is_a_broken_connection(harness: SimHarness) -> None:
    harness.script(effect="lost_reply")
    with pytest.raises(DisconnectedError):
        harness.http().call("GetIdentity", {})
    assert harness.http().call("GetIdentity", {})


@pytest.mark.parametrize("token", ["", "wrong"])
def test_who_does_not_know_the_token_is_shown_the_door(harness: SimHarness, token: str) -> None:
    port = harness.http()._find().port
    for path in (f"{API}GetIdentity", f"{ADMIN}ledger", SETUP, f"{ADMIN}stop"):
        with pytest.raises(RefusedError) as caught:
            exchange(Address(port=port, token=token), path, {})
        assert caught.value.code == "AccessDenied"


@pytest.mark.parametrize("path", ["/", f"{ADMIN}coffee", f"{ADMIN}advance", f"{ADMIN}script", f"{API}RunInstance"])
def test_a_request_that_is_wrong_is_refused_and_nothing_breaks(harness: SimHarness, path: str) -> None:
    with pytest.raises(RefusedError) as caught:
        harness.http().ask(path, {"faults": 3})
    assert caught.value.code == "InvalidParameter"
    assert harness.http().call("GetIdentity", {})


def test_time_stands_still_until_somebody_sleeps(harness: SimHarness) -> None:
    first, second = harness.http(), harness.http()
    assert first.now() == second.now() == NOON
    first.sleep(30)
    assert second.now() == NOON + timedelta(seconds=30)
    assert first.ask(f"{ADMIN}advance", {"seconds": 30})["now"] == (NOON + timedelta(minutes=1)).isoformat()


def test_time_passes_by_itself_at_its_speed() -> None:
    steady = Steady()
    host = Host(World(Scenario(), NOON), speed=60, steady=steady)
    steady.seconds += 10
    assert host.answer("/time", None)["now"] == (NOON + timedelta(minutes=10)).isoformat()
    host.answer(f"{ADMIN}advance", {"seconds": 3600})
    steady.seconds += 1
    assert host.answer("/time", None)["now"] == (NOON + timedelta(minutes=71)).isoformat()
    host.answer(SETUP, {"scenario": {}, "speed": 1})
    steady.seconds += 60
    assert host.answer("/time", None)["now"] == (NOON + timedelta(minutes=72)).isoformat()


def test_a_sleeper_waits_its_part_of_real_time(harness: SimHarness) -> None:
    http = harness.http()
    http.ask(SETUP, {"scenario": {}, "speed": 1_000_000})
    before = http.now()
    http.sleep(1000)
    assert http.now() - before >= timedelta(seconds=1000)


def test_it_is_idle_when_nobody_asks_and_nothing_runs() -> None:
    steady, practice = Steady(), Practice()
    host = Host(practice.world, speed=1, steady=steady)
    practice.launch(lasting=timedelta(hours=1))
    steady.seconds += 1200
    assert host.idle_seconds() == 0
    steady.seconds += 3600
    assert host.idle_seconds() == 4800
    host.answer("/time", None)
    assert host.idle_seconds() == 0


def test_time_that_stands_still_needs_no_server() -> None:
    steady, practice = Steady(), Practice()
    host = Host(practice.world, speed=0, steady=steady)
    practice.launch()
    steady.seconds += 1200
    assert host.idle_seconds() == 1200


def test_a_world_goes_on_where_it_was(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "world.sqlite")
    practice = Practice()
    practice.script(faults=[{"operation": "GetIdentity", "skip": 2}], incidents=[{"event": "crash", "after": "9m"}])
    machine = practice.launch(lasting=timedelta(hours=1))
    practice.call("GetIdentity")
    practice.wait(minutes=5)
    practice.read("attempts/1/status.json")
    keeper.save(practice.world.state)
    practice.call("DeleteObjects", run="r1", prefix="attempts")
    practice.call("GetIdentity")
    keeper.save(practice.world.state)
    keeper.close()

    again = Keeper(tmp_path / "world.sqlite")
    twin = Practice()
    twin.world = World(practice.world.scenario, NOON, state=again.load())
    again.close()
    assert (twin.world.now, twin.ledger, twin.paths()) == (practice.world.now, practice.ledger, practice.paths())
    for one in (practice, twin):
        with pytest.raises(Exception, match="GetIdentity"):
            one.call("GetIdentity")
        one.wait(minutes=8)
        assert one.row(machine)["why"] == "HostFailure"
    assert practice.ledger == twin.ledger
    assert practice.launch(lasting=timedelta(minutes=47)) == machine


def test_a_world_has_one_owner(tmp_path: Path) -> None:
    first = Keeper(tmp_path / "world.sqlite")
    with pytest.raises(WorldInUseError):
        Keeper(tmp_path / "world.sqlite")
    first.close()
    Keeper(tmp_path / "world.sqlite").close()


def test_another_scenario_counts_from_then_on(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "world.sqlite")
    world = World(Scenario.model_validate({"faults": [{"operation": "GetIdentity", "times": None}]}), NOON)
    host = Host(world, 0, keeper)
    changed: list[object] = []
    host.on_setup = changed.append
    told = host.answer(SETUP, {"scenario": {"stock": 0}, "speed": 0})
    assert told["scenario"]["stock"] == 0
    assert len(changed) == 1
    assert host.answer(f"{API}GetIdentity", {})
    keeper.close()


def test_a_server_can_be_asked_to_end() -> None:
    server = SimServer(Host(World(Scenario(), NOON), 0))
    server.start()
    api = HttpApi(lambda: Address(port=server.port, token=server.token))
    api.ask(f"{ADMIN}stop", {})
    assert server.stopped.wait(5)
    server.close()
    with pytest.raises(DisconnectedError):
        api.now()
