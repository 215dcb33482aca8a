"""`make faults`: kill a launch at every call and every write, and count what is left from the provider's own ledger."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.faults.all_points import all_trials, named_points, some, summary, tell, undisturbed, verdicts
from tests.faults.cases import CASES
from tests.faults.sim import SimCloud

if TYPE_CHECKING:
    from tests.faults.trial import MakeCloud

CLOUDS: dict[str, MakeCloud] = {"sim": SimCloud}


def main(arguments: list[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    cloud = CLOUDS[asked.provider]
    cases = [case for case in CASES if not asked.case or case.name in asked.case]
    began = undisturbed(cases, cloud, asked.workers)
    trials = all_trials(began)
    if asked.share < 1:
        trials = some(trials, asked.share, asked.seed)
    found = [*began, *verdicts(trials, cloud, asked.workers)]
    tell(found, named_points(began))
    sys.stdout.write(f"{summary(found)}\n")
    return 0 if all(verdict.good for verdict in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--provider", default="sim", choices=list(CLOUDS))
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--share", type=float, default=1.0, help="of the points, drawn by --seed")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--workers", type=int, default=2)
    return parser


if __name__ == "__main__":
    sys.exit(main())
