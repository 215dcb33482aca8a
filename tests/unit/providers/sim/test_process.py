"""The simulated cloud as the process that it is for a person: it outlives its clients, and its own end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from providers import registry
from providers.base import InstanceState, ProviderSettings, RunId
from providers.errors import MachineError
from providers.sim.api import ADMIN
from providers.sim.provider import SimProvider
from tests.conftest import ROOT
from tests.contract.harness import Ask, request
from tests.doubles.clock import NOON
from tests.doubles.waiting import until
from tests.unit.providers.sim.worlds import JOB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENT = """
import os, signal, sys
from pathlib import Path
from tests.unit.providers.sim.test_process import make_provider
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


def ask(provider: SimProvider, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
    return provider.api.ask(path, body)  # type: ignore[attr-defined, no-any-return]


def pid_of(home: Path) -> int:
    return int(json.loads((home / "sim" / "server.json").read_text())["pid"])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    if (tmp_path / "sim" / "server.json").exists():
        ask(make_provider(tmp_path), f"{ADMIN}stop", {})


def test_a_machine_outlives_a_killed_client_and_ends_at_its_deadline(home: Path) -> None:
    there = os.environ | {"PYTHONPATH": str(ROOT)}
    client = subprocess.run([sys.executable, "-c", CLIENT, str(home)], env=there, check=False)
    assert client.returncode == -signal.SIGKILL
    provider = make_provider(home)
    provider.sleep(60)
    assert [owned.run_id for owned in provider.list_owned() if owned.instance] == ["r1"]
    provider.sleep(timedelta(hours=2).total_seconds())
    assert provider.list_owned() == []
    assert ask(provider, f"{ADMIN}ledger")["left"] == []


def test_a_world_goes_on_in_another_process(home: Path) -> None:
    provider = make_provider(home)
    run = replace(request(provider, Ask(run_id="r1")), job=JOB)
    ref = provider.launch(run).ref
    provider.sleep(120)
    before = provider.now()
    pid = pid_of(home)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "the server is dead")
    assert provider.now() == before
    assert pid_of(home) != pid
    assert provider.get(ref).state is InstanceState.RUNNING
    assert provider.launch(run).ref == ref
    assert provider.store(RunId("r1")).list("attempts")


def test_there_is_one_server_and_only_this_user_may_drive_it(home: Path) -> None:
    clients = [make_provider(home) for _ in range(2)]
    assert clients[0].now() == clients[1].now() == NOON
    assert (home / "sim" / "server.json").stat().st_mode & 0o077 == 0
    again = subprocess.run(
        [sys.executable, "-m", "providers.sim", "serve", str(home / "sim")], cwd=ROOT, timeout=300, check=False
    )
    assert again.returncode == 0
    assert clients[0].now() == NOON


def test_what_it_says_when_it_cannot_begin(tmp_path: Path) -> None:
    (tmp_path / "sim").write_text("in the way")
    with pytest.raises(MachineError) as caught:
        make_provider(tmp_path).now()
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint
