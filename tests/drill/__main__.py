"""The drill's part of `make faults`: a planted defect for each step; drills killed at every call and every write."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.drill.defects import missed, steps_of
from tests.drill.points import Killed, killed
from tests.drill.worlds import NAMES
from tests.faults import clouds
from tests.faults.seeds import seed_now


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--provider", default="sim", choices=clouds.NAMES)
    parser.add_argument("--share", type=float, default=1.0, help="of the points, drawn by --seed")
    parser.add_argument("--seed", type=int, help="the commit's, where neither this nor TRAINPLAN_FAULTS_SEED is given")
    asked = parser.parse_args(arguments)
    if asked.provider not in NAMES:
        # A drill rents machines of a cloud: TPUs are another way to those of gcp, and a cluster rents nothing.
        sys.stdout.write(f"plan drill knows no {asked.provider}\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="plan-drill-") as folder:
        told = {step: missed(asked.provider, step, Path(folder) / step) for step in steps_of(asked.provider)}
        seed = seed_now().number if asked.seed is None else asked.seed
        tried, wrong = points_of(asked.provider, Path(folder), asked.share, seed)
    lines = [f"defect of {step} not caught: {why}" for step, why in told.items() if why]
    sys.stdout.write(f"drill defects caught {len(told) - len(lines)} of {len(told)}\n")
    wrong += lines
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(f"drill points {tried}, wrong {len(wrong) - len(lines)}\n")
    return 1 if wrong else 0


def points_of(name: str, home: Path, share: float, seed: int) -> tuple[int, list[str]]:
    """How many points were tried, and what was wrong at which. At every fourth nobody comes back."""
    found = killed(name, home, share, seed, hear=_hear)
    return len(found), [f"drill {name}, {one.text}" for one in found if one.wrong]


def _hear(one: Killed) -> None:
    """How far it is, every hundredth point; what is wrong as it comes."""
    if one.wrong or one.number % 100 == 0:
        sys.stderr.write(f"at {one.text or 'well'}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
