"""Fifty launches at once from as many processes, against one simulated cloud and one journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")
def test_fifty_launches_at_once_lose_nothing(tmp_path: Path) -> None:
    """No lost update, no deadlock, one machine and one receipt each."""
    command = [sys.executable, "-m", "tests.faults.many", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout) == (0, "runs 50, wrong 0\n"), ran.stderr
