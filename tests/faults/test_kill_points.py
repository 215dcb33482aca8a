"""A tenth of `make faults`, another one with each commit: a launch killed at each of its calls and writes, and what is
left then. And every planted defect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")

NOTHING_WRONG = "leaked 0, doubled 0, unrecorded 0, destroyed 0, kept 0"
_CAUGHT = re.compile(r"defects caught (\d+) of (\d+)")


def faults(*arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout, and stderr. Its own process: it forks, and threads of other tests would be in it."""
    command = [sys.executable, "-m", "tests.faults", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


@cache
def tenth(provider: str) -> tuple[list[str], str]:
    """What a tenth of the points and all defects give, in one run of the harness: its doubles start but once."""
    _, lines, errors = faults("--provider", provider, "--share", "0.1", "--defects", "all")
    return lines, errors


def test_a_tenth_of_all_points_leaves_nothing_and_is_recorded() -> None:
    assert_nothing_wrong("sim", least=250)


def test_the_harness_turns_red_for_every_planted_defect() -> None:
    assert_all_caught("sim", least=30)


def assert_nothing_wrong(provider: str, *, least: int) -> None:
    lines, errors = tenth(provider)
    assert lines, errors
    points, _, wrong = lines[-1].removeprefix("points ").partition(", ")
    assert wrong == NOTHING_WRONG, f"{lines[-1]}\n{errors}"
    assert int(points) > least, "the points are enumerated: where have they gone?"


def assert_all_caught(provider: str, *, least: int) -> None:
    """The harness tries each where it was noticed last (tests/faults/last_caught.txt), then elsewhere."""
    lines, errors = tenth(provider)
    match = _CAUGHT.fullmatch(lines[0]) if lines else None
    assert match, errors
    assert match[1] == match[2], errors
    assert int(match[1]) >= least


def test_a_defect_that_is_none_is_not_caught() -> None:
    code, lines, _ = faults("--share", "0", "--defects", "nothing is wrong", "--case", "failover")
    assert (code, lines[0]) == (1, "defects caught 0 of 1")
