"""The benchmark of receipts after absences: a few of its scenarios."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")


def test_receipts_after_an_absence_are_within_a_hundredth_of_the_ledger_or_at_most() -> None:
    command = [sys.executable, "-m", "benchmarks.absences", "--scenarios", "6", "--seed", "7", "--verbose"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert "receipts beyond 1% in a part that do not say so: 0" in ran.stdout, ran.stderr
    assert ran.returncode == 0
