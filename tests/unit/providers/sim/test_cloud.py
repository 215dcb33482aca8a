"""The simulated cloud of a home folder: it outlives its clients, its time passes, and it is whole after any of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.contract.harness import Ask, request
from tests.doubles.clock import NOON
from tests.unit.providers.sim.worlds import JOB
from trainplan.providers import registry
from trainplan.providers.base import InstanceState, ProviderSettings, RunId
from trainplan.providers.errors import MachineError
from trainplan.providers.sim.api import DisconnectedError, RefusedError
from trainplan.providers.sim.cloud import Setup, SimCloud
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario, Script

CLIENT = """
import os, signal, sys
from pathlib import Path
from tests.unit.providers.sim.test_cloud import make_provider
from tests.contract.harness import Ask, request
provider = make_provider(Path(sys.argv[1]))
provider.launch(request(provider, Ask(run_id="r1", behaviour="orphan")))
os.kill(os.getpid(), signal.SIGKILL)
"""


def make_provider(home: Path) -> SimProvider:
    """The provider as a newly started command makes it."""
    settings = ProviderSettings(home=home, options={"sim_speed": "0"}, environment={}, now=lambda: NOON)
    provider = registry.provider("sim", settings)
    assert isinstance(provider, SimProvider)
    return provider


class RealTime:
    """Real time that only a test and a pause let pass."""

    def __init__(self) -> None:
        self.unix_seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.unix_seconds

    def pause(self, seconds: float) -> None:
        self.unix_seconds += seconds


@pytest.fixture
def real() -> RealTime:
    return RealTime()


def a_cloud(folder: Path, real: RealTime, speed: float = 0, **scenario: Any) -> SimCloud:
    """A client of the cloud in this folder."""
    setup = Setup(scenario=Scenario.model_validate(scenario), speed=speed)
    return SimCloud(folder, setup, lambda: NOON, unix_seconds=real, pause=real.pause)


def test_a_machine_outlives_a_killed_client_and_ends_at_its_deadline(tmp_path: Path) -> None:
    there = os.environ | {"PYTHONPATH": str(ROOT)}
    client = subprocess.run([sys.executable, "-c", CLIENT, str(tmp_path)], env=there, check=False)
    assert client.returncode == -signal.SIGKILL
    provider = make_provider(tmp_path)
    provider.sleep(60)
    assert [owned.run_id for owned in provider.list_owned() if owned.instance] == ["r1"]
    provider.sleep(timedelta(hours=2).total_seconds())
    assert provider.list_owned() == []
    assert isinstance(provider.api, SimCloud)
    assert provider.api.ledger()["left"] == []


def test_two_clients_see_one_world(tmp_path: Path) -> None:
    first, second = make_provider(tmp_path), make_provider(tmp_path)
    run = replace(request(first, Ask(run_id="r1")), job=JOB)
    ref = first.launch(run).ref
    second.sleep(120)
    assert first.now() == second.now() == NOON + timedelta(seconds=120)
    assert second.get(ref).state is InstanceState.RUNNING
    assert second.launch(run).ref == ref
    assert second.store(RunId("r1")).list("attempts") == first.store(RunId("r1")).list("attempts") != []


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_only_its_user_may_open_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        make_provider(tmp_path).now()
    finally:
        os.umask(before)
    assert (tmp_path / "sim").stat().st_mode & 0o077 == 0


def test_time_passes_while_nobody_looks(tmp_path: Path, real: RealTime) -> None:
    a_cloud(tmp_path, real, speed=60).now()
    real.pause(10)
    later = a_cloud(tmp_path, real, speed=60)
    assert later.now() == NOON + timedelta(minutes=10)
    later.advance(3600)
    real.pause(1)
    assert later.now() == NOON + timedelta(minutes=71)
    real.unix_seconds -= 5
    assert later.now() == NOON + timedelta(minutes=71), "a clock that is set back is no time"


def test_what_passed_before_another_speed_passed_at_the_old_one(tmp_path: Path, real: RealTime) -> None:
    a_cloud(tmp_path, real, speed=60).now()
    real.pause(60)
    still = a_cloud(tmp_path, real, speed=0)
    assert still.now() == NOON + timedelta(hours=1)
    real.pause(60)
    assert still.now() == NOON + timedelta(hours=1)


def test_a_year_of_absence_at_the_highest_speed_is_no_error(tmp_path: Path, real: RealTime) -> None:
    a_cloud(tmp_path, real, speed=1_000_000).now()
    for _ in range(2):
        real.pause(timedelta(days=366).total_seconds())
        assert a_cloud(tmp_path, real, speed=1_000_000).now().year == 9000


def test_a_sleeper_waits_its_part_of_real_time(tmp_path: Path, real: RealTime) -> None:
    cloud = a_cloud(tmp_path, real, speed=100)
    began = real.unix_seconds
    cloud.sleep(1000)
    assert cloud.now() >= NOON + timedelta(seconds=1000)
    assert real.unix_seconds - began == pytest.approx(10)


def test_where_time_stands_still_a_sleeper_moves_it(tmp_path: Path, real: RealTime) -> None:
    first, second = a_cloud(tmp_path, real), a_cloud(tmp_path, real)
    first.sleep(30)
    assert second.now() == NOON + timedelta(seconds=30)


def test_a_call_is_answered_or_refused(tmp_path: Path, real: RealTime) -> None:
    cloud = a_cloud(tmp_path, real)
    assert cloud.call("GetIdentity", {}) == {"account": "practice"}
    with pytest.raises(RefusedError) as refusal:
        cloud.call("DescribeInstance", {"region": "sim-east", "id": "i-1"})
    assert refusal.value.code == "InstanceNotFound"
    with pytest.raises(RefusedError) as refusal:
        cloud.call("RunInstance", {"faults": 3})
    assert refusal.value.code == "InvalidParameter"


def test_a_lost_reply_is_no_answer_and_is_counted(tmp_path: Path, real: RealTime) -> None:
    cloud = a_cloud(tmp_path, real)
    cloud.play(Script.model_validate({"faults": [{"effect": "lost_reply"}]}))
    with pytest.raises(DisconnectedError):
        cloud.call("GetIdentity", {})
    assert a_cloud(tmp_path, real).call("GetIdentity", {})
    assert cloud.ledger()["calls"] == {"GetIdentity": 2}


def test_another_scenario_holds_from_the_first_call_of_its_client(tmp_path: Path, real: RealTime) -> None:
    refusing = a_cloud(tmp_path, real, faults=[{"operation": "GetIdentity", "times": None}])
    with pytest.raises(RefusedError):
        refusing.call("GetIdentity", {})
    a_cloud(tmp_path, real, stock=0).now()
    assert refusing.call("GetIdentity", {}), "a client that came before does not bring its rules back"


def test_a_signal_within_a_call_leaves_the_world_as_it_was(tmp_path: Path, real: RealTime) -> None:
    cloud = a_cloud(tmp_path, real)
    cloud.call("GetIdentity", {})

    def interrupted_call() -> None:
        with cloud._present() as world:
            world.state.counts["GetIdentity"] = 100
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_call()
    assert cloud.ledger()["calls"] == {"GetIdentity": 1}


@pytest.mark.parametrize("where", ["folder", "file"])
def test_what_it_says_when_it_cannot_be_used(tmp_path: Path, where: str) -> None:
    if where == "file":
        (tmp_path / "sim").mkdir()
        (tmp_path / "sim" / "world.sqlite").write_text("in the way " * 100)
    else:
        (tmp_path / "sim").write_text("in the way")
    with pytest.raises(MachineError) as failure:
        make_provider(tmp_path).now()
    assert str(tmp_path) in failure.value.message
    assert failure.value.hint
