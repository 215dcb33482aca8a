"""The benchmark of absences: a few of its scenarios."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")


def test_an_absence_loses_nothing_and_its_receipt_is_within_a_hundredth_of_the_ledger_or_at_most() -> None:
    command = [sys.executable, "-m", "benchmarks.absences", "--scenarios", "8", "--seed", "7", "--provider", "sim"]
    ran = subprocess.run([*command, "--verbose"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert "leaked 0, doubled 0, destroyed 0, lost 0, paid twice 0, contradicts 0" in ran.stdout, ran.stderr
    assert "receipts beyond 1% in a part that do not say so: 0" in ran.stdout, ran.stderr
    within = next(line.split("|")[3:5] for line in ran.stdout.splitlines() if line.startswith("| sim "))
    receipts, exact = (int(cell) for cell in within)
    assert exact >= receipts - 1, ran.stdout
    assert ran.returncode == 0


@pytest.mark.e2e
def test_absences_at_each_double_lose_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.absences", "--scenarios", "30", "--seed", "7", "--verbose"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1_800, check=False)
    assert "leaked 0, doubled 0, destroyed 0, lost 0, paid twice 0, contradicts 0" in ran.stdout, ran.stderr
