"""What holds a container to its limits when nobody watches, on a real engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from providers.base import EndKind, InstanceState, RunId
from providers.local.api import ContainerSpec, ContainerStatus
from providers.local.engine import CliEngine
from providers.local.provider import LocalProvider
from tests.contract.conftest import engine
from tests.contract.harness import Ask, request, wait_for, wait_until_it_trains
from tests.contract.local import TINY_IMAGE, RealEngineHarness
from tests.doubles.waiting import until

__all__ = ["engine"]  # the fixture
pytestmark = pytest.mark.container

RUN = "e2e-limits"


@pytest.fixture
def provider(engine: CliEngine, tmp_path: Path) -> Iterator[LocalProvider]:
    made = RealEngineHarness(tmp_path, engine).provider()
    yield made
    for owned in made.list_owned(RunId(RUN)):
        made.delete(owned)


def test_a_kill_by_the_memory_limit_is_told_from_others(provider: LocalProvider) -> None:
    run = replace(request(provider, Ask(behaviour="greedy", run_id=RUN)), memory_gib=0.1)
    ended = wait_for(provider, provider.launch(run).ref, InstanceState.ENDED)
    assert ended.end is EndKind.OUT_OF_MEMORY


def test_a_kill_from_outside_is_no_want_of_memory(provider: LocalProvider, engine: CliEngine) -> None:
    run = request(provider, Ask(run_id=RUN))
    ref = provider.launch(run).ref
    wait_until_it_trains(provider, run)
    engine.signal(ref.id.partition(":")[2], "KILL")
    assert wait_for(provider, ref, InstanceState.ENDED).end is EndKind.KILLED


def test_it_ends_at_its_deadline_though_no_client_lives(provider: LocalProvider) -> None:
    ref = provider.launch(request(provider, Ask(run_id=RUN, lasting=timedelta(seconds=3)))).ref
    assert wait_for(provider, ref, InstanceState.ENDED).end is EndKind.DEADLINE


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such owner")
def test_its_files_are_the_persons(provider: LocalProvider) -> None:
    run = request(provider, Ask(behaviour="finish", run_id=RUN))
    wait_for(provider, provider.launch(run).ref, InstanceState.ENDED)
    run_dir = provider.here.folders(run.run_id).run_dir
    assert {path.stat().st_uid for path in run_dir.rglob("*")} == {os.getuid()}


@pytest.mark.parametrize(("network", "interfaces"), [(False, {"lo"}), (True, {"lo", "other"})])
def test_no_network_means_none(engine: CliEngine, network: bool, interfaces: set[str]) -> None:
    name = f"{RUN}-network"
    code = "import socket; print(*{n if n == 'lo' else 'other' for _, n in socket.if_nameindex()})"
    engine.create(ContainerSpec(name=name, image=TINY_IMAGE, command=("python", "-c", code), network=network))
    try:
        engine.start(name)
        until(lambda: _status(engine, name) is ContainerStatus.EXITED, "it looks at its network")
        assert set(engine.logs(name, 1)[0].split()) == interfaces
    finally:
        engine.remove(name)


def _status(engine: CliEngine, name: str) -> ContainerStatus | None:
    found = engine.container(name)
    return found.status if found else None
