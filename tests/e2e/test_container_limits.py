"""What holds a container to its limits when nobody watches, on a real engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from tests.contract.conftest import engine
from tests.contract.harness import Ask, request, wait_for, wait_until_it_trains
from tests.contract.local import TINY_IMAGE, RealEngineHarness
from tests.doubles.waiting import until
from trainplan.providers.agent.container import Exit
from trainplan.providers.agent.endings import judge_ending
from trainplan.providers.base import EndKind, InstanceState, RunId
from trainplan.providers.local.api import ContainerSpec, ContainerStatus
from trainplan.providers.local.containers import ContainerHost
from trainplan.providers.local.engine import CliEngine
from trainplan.providers.local.provider import LocalProvider

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


STARTS_ANOTHER = """\
import subprocess, sys
greedy = subprocess.run([sys.executable, "-c", "x = b'x' * 2**28"])
sys.exit(70 if greedy.returncode == -9 else 1)
"""
FILLS = """\
import mmap
with open("/dev/shm/x", "wb+") as file:
    file.truncate(2**30 + 2**22)
    space = mmap.mmap(file.fileno(), 0)
    for _ in range(1028): space.write(bytes(2**20))
"""


@pytest.mark.parametrize(
    ("code", "memory_gib", "shm_gib", "kind", "reason"),
    [
        # The kernel takes the largest process: a script of the trainer's, and not the trainer.
        (STARTS_ANOTHER, 0.1, None, EndKind.OUT_OF_MEMORY, "the memory limit was reached"),
        ("import sys; sys.exit(70)", 0.1, None, EndKind.FAILED, "training failed"),
        (FILLS, 4.0, 1, EndKind.FAILED, "shared memory"),
    ],
    ids=["child", "no want", "shared memory"],
)
def test_what_ended_a_container_is_named(
    provider: LocalProvider,
    engine: CliEngine,
    code: str,
    memory_gib: float,
    shm_gib: int | None,
    kind: EndKind,
    reason: str,
) -> None:
    run = replace(request(provider, Ask(run_id=RUN)), memory_gib=memory_gib)
    provider.here.make_room(run, run.job)
    spec = cast("ContainerHost", provider._hosts()[0])._spec(run)
    at = spec.command.index("python")
    engine.create(replace(spec, command=(*spec.command[: at + 1], "-c", code), shm_gib=shm_gib or spec.shm_gib))
    ended = wait_for(provider, provider.launch(run).ref, InstanceState.ENDED)
    assert ended.end is kind
    assert reason in (ended.reason or "")


@pytest.mark.parametrize(
    ("limit", "code", "reason"),
    [
        # Set within: rootful Podman in a container may not set it from outside.
        (
            (),
            "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n[*map(open, ['/dev/null'] * 100)]",
            "OPEN_FILE_LIMIT",
        ),
        (
            ("--pids-limit", "20"),
            "from threading import *\nfor _ in range(100): Thread(target=Event().wait, daemon=True).start()",
            "PROCESS_LIMIT",
        ),
        (
            ("--pids-limit", "20"),
            "import os, signal\nfor _ in range(100): os.fork() or signal.pause()",
            "PROCESS_LIMIT",
        ),
    ],
    ids=["files", "threads", "processes"],
)
def test_what_a_program_prints_at_a_limit_is_understood(
    engine: CliEngine, limit: tuple[str, ...], code: str, reason: str
) -> None:
    """What the kernel and this image's Python say, not what a test believes that they say."""
    words = [engine.name.value, "run", "--rm", *limit, TINY_IMAGE, "python", "-c", code]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    exited = Exit(ran.returncode, out_of_memory=False, error="")
    assert judge_ending(exited, None, "", ran.stdout + ran.stderr).reason == reason, ran.stderr


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
