"""A seeded tenth of `make faults`: a launch killed at each of its calls and writes, and what is left then."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")

NOTHING_WRONG = "leaked 0, doubled 0, unrecorded 0"
DEFECTS = (
    "no token: each create is a new one @ lost reply",
    "the next attempt is launched before the last is cleared @ unclear",
    "a delete is not looked after @ throttled",
    "a settled run gets no receipt @ plain",
    "the machine's own timer is not armed @ machine's timer",
    "sweep ends what another computer made @ swept",
)


def faults(*arguments: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout, and stderr. Its own process: it forks, and threads of other tests would be in it."""
    command = [sys.executable, "-P", "-m", "tests.faults", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


def test_a_tenth_of_all_points_leaves_nothing_and_is_recorded() -> None:
    code, lines, errors = faults("--share", "0.1")
    assert lines, errors
    points, _, wrong = lines[-1].removeprefix("points ").partition(", ")
    assert (code, wrong) == (0, NOTHING_WRONG), f"{lines[-1]}\n{errors}"
    assert int(points) > 250, "the points are enumerated: where have they gone?"


def test_the_harness_turns_red_for_planted_defects() -> None:
    assert_caught(*DEFECTS)


def assert_caught(*defects: str, arguments: Sequence[str] = ()) -> None:
    """One run of the harness for all of them: it starts but once, and tries two at a time."""
    cases = [f"--case={case}" for case in {defect.partition(" @ ")[2] for defect in defects}]
    code, lines, errors = faults(*arguments, "--share", "0", *cases, "--defects", *defects)
    assert (code, lines[:1]) == (0, [f"defects caught {len(defects)} of {len(defects)}"]), errors


def test_a_defect_that_is_none_is_not_caught() -> None:
    code, lines, _ = faults("--share", "0", "--defects", "nothing is wrong", "--case", "failover")
    assert (code, lines[0]) == (1, "defects caught 0 of 1")
