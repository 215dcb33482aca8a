"""`make faults`: kill a launch at every call and every write, and count what is left from the provider's own ledger."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from tests.faults.all_points import (
    WORKERS,
    Spread,
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
from tests.faults.last_caught import caught_at, keep, names_of
from tests.faults.planted import ChosenDefect, against_defects, defects_of, tell_caught
from tests.faults.seeds import Seed, seed_now

if TYPE_CHECKING:
    from tests.faults.verdict import MakeCloud, Trial, Verdict


DRAWN = 0.1
"""Of the defects of a provider, where they are drawn as points are."""


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
    part = _part(trials, options)
    names = named_points(began)
    found = []
    for verdict in chain(began, verdicts(part, cloud, over)):
        tell(verdict, names)
        found.append(verdict)
    sys.stdout.write(f"{summary(found)}\n")
    return 0 if noticed and all(verdict.good for verdict in found) else 1


def _seed(options: argparse.Namespace) -> Seed:
    return seed_now() if options.seed is None else Seed(options.seed, "--seed")


def _part(trials: Sequence[Trial], options: argparse.Namespace) -> Sequence[Trial]:
    """The points that are tried; with which seed they were drawn is told on stderr."""
    if options.share >= 1:
        return trials
    seed = _seed(options)
    sys.stderr.write(f"{seed}\n")
    return some(trials, options.share, seed.number)


def _wanted(options: argparse.Namespace) -> list[ChosenDefect]:
    if options.defects not in (["all"], ["drawn"]):
        return [ChosenDefect.parse(text) for text in options.defects]
    every = [ChosenDefect(known.name) for known in defects_of(options.provider)]
    return every if options.defects == ["all"] else some(every, DRAWN, _seed(options).number)


def _notices(began: Sequence[Verdict], cloud: MakeCloud, options: argparse.Namespace, over: Spread) -> bool:
    """Whether the harness turns red for planted defects."""
    wanted = _wanted(options)
    names, kept, missed = names_of(began), [], 0
    for caught in against_defects(options.provider, wanted, began, cloud, over, everywhere=options.keep):
        tell_caught(caught)
        if caught.verdict is None:
            missed += 1
        else:
            trial = caught.verdict.trial
            kept.append(caught_at(options.provider, caught.defect, trial, names[trial.case.name]))
    if options.keep:
        keep(options.provider, kept)
    sys.stdout.write(f"defects caught {len(wanted) - missed} of {len(wanted)}\n")
    sys.stdout.flush()
    return missed == 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--provider", default="sim", choices=NAMES)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--share", type=float, default=1.0, help="of the points, drawn by --seed")
    parser.add_argument("--seed", type=int, help="the commit's, where neither this nor TRAINPLAN_FAULTS_SEED is given")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument(
        "--defects", nargs="+", default=[], help="all, drawn (a tenth), or names; 'name @ case': in that case only"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="try defects at every point, and write where they were noticed to last_caught.txt",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
