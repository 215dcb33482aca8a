"""Random sequences over the double of each real cloud: a few of `make soak PROVIDER=`, and planted defects there."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.faults.clouds import REAL, Row
from tests.faults.sequences import Sequence, played, template

UNTIL_NOTICED = 250

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks of one process")


def soak(*arguments: str) -> tuple[int, str, str]:
    """Exit code, last line of stdout, and stderr. Its own process: whoever is signed in there is not signed in here."""
    command = [sys.executable, "-m", "tests.faults.soak", "--workers", "1", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    return ran.returncode, (ran.stdout.splitlines() or [""])[-1], ran.stderr


@pytest.mark.parametrize("row", REAL, ids=lambda row: row.name)
def test_whatever_happens_nothing_is_forgotten(row: Row) -> None:
    code, line, errors = soak("--provider", row.name, "--sequences", str(row.sequences))
    assert (code, line) == (0, f"sequences {row.sequences}, failed 0"), errors


@pytest.mark.parametrize(
    ("provider", "defect", "noticed"),
    [
        ("azure", "azure: each create has a group of its own", r"2 machines of \S+ at once"),
        ("azure", "azure: a list that did not come is taken as empty", "left: "),
        ("azure", "azure: rights are not listed", "cleanup finds "),
        ("tpu", "tpu: disks are not listed", "cleanup finds "),
        ("slurm", "slurm: jobs that wait are not listed", "cleanup finds "),
    ],
)
def test_a_planted_defect_turns_a_sequence_red(provider: str, defect: str, noticed: str) -> None:
    code, line, errors = soak("--provider", provider, "--defect", defect, "--sequences", str(UNTIL_NOTICED))
    assert (code, line.rpartition(", ")[2]) == (1, "failed 1"), errors
    assert re.search(rf"seed \d+: AssertionError: {noticed}", errors), errors


def test_the_same_seed_gives_the_same_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    import trainplan.providers.azure.listing as listing

    # The sequences change it: afterwards it is as it was.
    monkeypatch.setattr(listing, "_WORKERS", listing._WORKERS)
    with template() as empty:
        first, second = (_history(played(8, empty, "azure")) for _ in range(2))
    assert first == second


def _history(sequence: Sequence) -> object:
    world = sequence.cloud.world  # type: ignore[attr-defined]
    return sequence.messages, world.now, [(call["method"], call["path"], call["at"]) for call in world.calls]
