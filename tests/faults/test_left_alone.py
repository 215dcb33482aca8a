"""The benchmark of launches that are left alone: a few of its scenarios, and what it counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")


def test_launches_that_are_left_alone_come_to_a_good_end() -> None:
    script = Path(ROOT) / "benchmarks/left_alone.py"
    command = [sys.executable, str(script), "--scenarios", "12", "--verbose"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    zeros = "leaked 0, doubled 0, unrecorded 0, destroyed 0, kept 0, broken down 0"
    assert f"scenarios 12, {zeros}" in ran.stdout, ran.stderr
    assert ran.returncode == 0
