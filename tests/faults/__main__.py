"""`make faults`: kill a launch at every call and every write, and count what is left from the provider's own ledger."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from typing import TYPE_CHECKING

from tests.faults.all_points import (
    WORKERS,
    all_trials,
    named_points,
    some,
    spread,
    summary,
    tell,
    undisturbed,
    verdicts,
)
from tests.faults.cases import CASES
from tests.faults.clouds import NAMES, cloud_of
from tests.faults.planted import ChosenDefect, against_defects, defects_of, tell_caught

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.all_points import Spread
    from tests.faults.verdict import MakeCloud, Verdict

MOST_MISSED = 1
"""Of twenty defects."""


def main(arguments: list[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    cloud = cloud_of(asked.provider)
    with spread(cloud, asked.workers) as over:
        return _run(cloud, asked, over)


def _run(cloud: MakeCloud, options: argparse.Namespace, over: Spread) -> int:
    cases = [case for case in CASES if case.name in (options.case or cloud.cases)]
    began = undisturbed(cases, cloud, over)
    trials = all_trials(began)
    noticed = not options.defects or _notices(began, cloud, options, over)
    part = some(trials, options.share, options.seed) if options.share < 1 else trials
    names = named_points(began)
    found = []
    for verdict in chain(began, verdicts(part, cloud, over)):
        tell(verdict, names)
        found.append(verdict)
    sys.stdout.write(f"{summary(found)}\n")
    return 0 if noticed and all(verdict.good for verdict in found) else 1


def _notices(began: Sequence[Verdict], cloud: MakeCloud, options: argparse.Namespace, over: Spread) -> bool:
    """Whether the harness turns red for planted defects."""
    every = [ChosenDefect(known.name) for known in defects_of(options.provider)]
    wanted = every if options.defects == ["all"] else [ChosenDefect.parse(text) for text in options.defects]
    missed = 0
    for caught in against_defects(wanted, began, cloud, over):
        tell_caught(caught)
        missed += caught.verdict is None
    sys.stdout.write(f"defects caught {len(wanted) - missed} of {len(wanted)}\n")
    sys.stdout.flush()
    return missed * 20 <= MOST_MISSED * len(wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--provider", default="sim", choices=NAMES)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--share", type=float, default=1.0, help="of the points, drawn by --seed")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--defects", nargs="+", default=[], help="all, or names; 'name @ case': in that case only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
