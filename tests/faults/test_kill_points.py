"""A seeded tenth of `make faults`: a launch killed at each of its calls and writes, and what is left then."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")

NOTHING_WRONG = "leaked 0, doubled 0, unrecorded 0, destroyed 0, kept 0"
DEFECTS = (
    "no token: each create is a new one @ lost reply",
    "the next attempt is launched before the last is cleared @ unclear",
    "a delete is not looked after @ throttled",
    "a settled run gets no receipt @ plain",
    "the machine's own timer is not armed @ machine's timer",
    "sweep ends what another computer made @ swept",
    "concludes from age @ absent",
    "second launch ignores a live run @ absent",
    "a question holds the lock @ hung",
    "same client id in two homes @ absent",
    "retry begins at the top @ tail",
    "replays a forgotten token @ forgotten token",
    "a wish to stop has no limit @ left hung",
)


def faults(*arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout, and stderr. Its own process: it forks, and threads of other tests would be in it."""
    command = [sys.executable, "-P", "-m", "tests.faults", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


@cache
def tenth(provider: str, *defects: str) -> tuple[list[str], str]:
    """What a tenth of the points and these defects give, in one run of the harness: its doubles start but once."""
    _, lines, errors = faults("--provider", provider, "--share", "0.1", "--defects", *defects)
    return lines, errors


def test_a_tenth_of_all_points_leaves_nothing_and_is_recorded() -> None:
    assert_nothing_wrong("sim", *DEFECTS, least=250)


def test_the_harness_turns_red_for_planted_defects() -> None:
    assert_caught("sim", *DEFECTS)


def assert_nothing_wrong(provider: str, *defects: str, least: int) -> None:
    lines, errors = tenth(provider, *defects)
    assert lines, errors
    points, _, wrong = lines[-1].removeprefix("points ").partition(", ")
    assert wrong == NOTHING_WRONG, f"{lines[-1]}\n{errors}"
    assert int(points) > least, "the points are enumerated: where have they gone?"


def assert_caught(provider: str, *defects: str) -> None:
    lines, errors = tenth(provider, *defects)
    assert lines[:1] == [f"defects caught {len(defects)} of {len(defects)}"], errors


def test_a_defect_that_is_none_is_not_caught() -> None:
    code, lines, _ = faults("--share", "0", "--defects", "nothing is wrong", "--case", "failover")
    assert (code, lines[0]) == (1, "defects caught 0 of 1")
