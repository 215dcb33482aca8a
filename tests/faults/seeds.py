"""Which part of all points is tried: another one with each commit, the same one for the same commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

SEED_VARIABLE = "TRAINPLAN_FAULTS_SEED"
_HERE = Path(__file__).parent
_UNKNOWN = 20261121
"""Where there is neither a commit nor a wish."""


class Seed(NamedTuple):
    """`origin` says in words where the number is from."""

    number: int
    origin: str

    def __str__(self) -> str:
        return f"points are drawn with seed {self.number} ({self.origin}; {SEED_VARIABLE} or --seed sets another)"


def seed_now() -> Seed:
    """The seed that the environment names, else the commit's. Raises ValueError where that is no number."""
    wanted = os.environ.get(SEED_VARIABLE, "")
    if wanted and not wanted.isdecimal():
        raise ValueError(f"{SEED_VARIABLE} is {wanted!r}: a whole number is expected")
    return Seed(int(wanted), SEED_VARIABLE) if wanted else seed_of_commit(_head())


def seed_of_commit(commit: str) -> Seed:
    """The seed of a commit by its hash, "" for none."""
    return Seed(int(commit[:8], 16), f"commit {commit[:8]}") if commit else Seed(_UNKNOWN, "no commit is known")


def _head() -> str:
    command = ["git", "rev-parse", "HEAD"]
    try:
        ran = subprocess.run(command, cwd=_HERE, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""
