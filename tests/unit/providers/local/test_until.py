"""The script that is the first process of a container, run by a plain sh."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trainplan.providers.local

SCRIPT = (Path(trainplan.providers.local.__path__[0]) / "data" / "until.sh").read_text(encoding="utf-8")
WAITS = """
import signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
print("up", flush=True)
while not stop.wait(0.05):
    pass
sys.exit(75)
"""
pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not shutil.which("timeout"), reason="needs sh and coreutils, as every image has"
)


def until(seconds: float, *command: str, grace: int = 5) -> subprocess.Popen[str]:
    words = ["sh", "-c", SCRIPT, "until", str(int(time.time() + seconds)), str(grace), *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("code", [0, 1, 65, 70, 75, 76])
def test_exit_codes_come_through(code: int) -> None:
    with until(100, "sh", "-c", f"exit {code}") as process:
        assert process.wait(10) == code


def test_a_deadline_that_has_passed_starts_nothing(tmp_path: Path) -> None:
    with until(-1, "touch", str(tmp_path / "started")) as process:
        assert process.wait(10) == 76
    assert not (tmp_path / "started").exists()


def test_a_command_that_is_not_there() -> None:
    with until(100, "/no/such/command") as process:
        assert process.wait(10) == 127


def test_term_reaches_the_command_and_its_exit_code_comes_back() -> None:
    with until(100, sys.executable, "-c", WAITS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 75


def test_the_deadline_ends_the_command() -> None:
    with until(2, sys.executable, "-c", WAITS) as process:
        assert process.wait(10) == 124


def test_what_ignores_the_deadline_is_killed() -> None:
    stubborn = "import signal, threading; signal.signal(15, signal.SIG_IGN); threading.Event().wait(60)"
    with until(1, sys.executable, "-c", stubborn, grace=1) as process:
        assert process.wait(15) in (124, 137)
