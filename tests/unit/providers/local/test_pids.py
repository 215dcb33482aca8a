"""What tells processes apart, and how much memory there is, on systems without /proc: asked of psutil, on Linux too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.doubles.waiting import until
from trainplan.providers.hardware import installed_memory_bytes, memory_bytes
from trainplan.providers.local import pids
from trainplan.providers.local.pids import created_at, process, this_process

PROGRAM = [sys.executable, "-c", "input()"]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system that is not Linux, as far as trainplan.providers.local.pids can see."""
    monkeypatch.setattr(pids, "birth", created_at)


@pytest.mark.usefixtures("elsewhere")
def test_a_process_has_one_birth_for_as_long_as_it_lives() -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE) as child:
        known = process(child.pid)
        assert known.alive
        assert known.birth == created_at(child.pid) == repr(psutil.Process(child.pid).create_time())
        child.kill()
        until(lambda: not known.alive, "the child ends")  # also while it waits to be reaped
    assert created_at(child.pid) is None


@pytest.mark.usefixtures("elsewhere")
def test_a_later_process_of_the_same_pid_gets_no_signal() -> None:
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE) as child:
        earlier = pids.Process(pid=child.pid, birth=this_process().birth)
        earlier.kill()
        assert child.poll() is None
        process(child.pid).kill()
        assert child.wait(60) != 0


def test_memory_is_that_of_the_whole_machine() -> None:
    assert installed_memory_bytes() == psutil.virtual_memory().total
    assert installed_memory_bytes() >= memory_bytes() > 0


def test_linux_asks_nobody_for_it() -> None:
    """psutil is installed outside Linux alone."""
    code = (
        "import sys; from trainplan.providers.local.pids import this_process; "
        "from trainplan.providers.hardware import memory_bytes; "
        "assert this_process().alive and memory_bytes(); assert 'psutil' not in sys.modules"
    )
    if sys.platform == "linux":
        subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=Path(os.sep))
