"""What pilots save over held-out measurements: the cost of the chosen machine over the best one, without and with them.

The folds of docs/accuracy.md are predicted as `python -m scripts.fit` does; the true speeds are the measured ones. A
choice is a net, image size and batch that one source timed on at least two GPUs of EC2. Its job is as long as it takes
to cost so many dollars on the machine that ranks first. A pilot costs what `plan pilot` expects at the list price.

`python -m benchmarks.pilot_regret [--workers N] [--tests unseen_gpu ...]` prints a Markdown table, in minutes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from scripts.fit import folds as names
from scripts.fit.decision import EC2_TYPES, list_prices
from scripts.fit.evaluate import run_folds
from scripts.fit.folds import folds
from scripts.fit.others import other_arrays, read_others
from scripts.fit.pairs import read_pairs
from scripts.fit.rows import arithmetic, read_rows
from trainplan.planner.forecast.allowances import allowances
from trainplan.planner.forecast.pilots import LEFT_FACTOR, TRAIN_SECONDS, Choice, next_pilot, worthwhile
from trainplan.planner.throughput.model import load_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.fit.evaluate import Tested
    from scripts.fit.rows import Row

TESTS = (names.UNSEEN_NET, names.CONFIGURATION, names.DEVICE, names.ARCHITECTURE, names.SOURCE)
JOBS_USD = (2.0, 10.0, 50.0)
MOST = 3
_P90 = 1.2815515655446004


class Machine(NamedTuple):
    """A machine for a configuration: dollars per image as held out and in truth, the half width of its interval, in
    logarithms, and what a pilot costs there."""

    predicted: float
    true: float
    half_width: float
    pilot_usd: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One choice: the extra cost over the best machine before and after pilots, which are paid; dollars of them, and of
    what they saved; the high end of the chosen machine's interval over its low end, before and after."""

    before: float
    after: float
    spent_usd: float
    saved_usd: float
    width_before: float
    width_after: float


def machines(rows: Sequence[Row], tested: Sequence[Tested], test: str) -> list[list[Machine]]:
    """The machines of each choice of a test."""
    prices, model = list_prices(), load_model()
    around = allowances("aws", "gpu")
    hours = (around.before_training.expected + TRAIN_SECONDS + around.end.expected) / 3600
    by_id = {row.measurement.id: row.measurement for row in rows}
    choices: dict[tuple[object, ...], list[Machine]] = defaultdict(list)
    for one in tested:
        stated = by_id[one.id]
        if one.test != test or stated.source != names.EC2:
            continue
        price = prices[EC2_TYPES[stated.device]]
        true = price / 3600 / stated.images_per_second
        width = one.near.half_width(model.half_widths, model.sharing_scales)
        key = stated.model, stated.image_size_px, stated.batch_per_device
        choices[key].append(Machine(true / math.exp(one.off), true, width, price * hours))
    return [several for several in choices.values() if len(several) > 1]


def outcome(several: Sequence[Machine], job_usd: float) -> Outcome:
    """What becomes of a job that costs so much on the machine that ranks first."""
    ranked = sorted(several, key=lambda one: one.predicted)
    images = job_usd / ranked[0].predicted
    choices = [Choice(images * one.predicted, 0.0, _spread(one.half_width), one.pilot_usd) for one in ranked]
    left, spent = set(worthwhile(choices, MOST).indices), 0.0
    while (index := next_pilot(choices, left)) is not None:
        left.discard(index)
        spent += ranked[index].pilot_usd
        choices[index] = choices[index].measured(ranked[index].predicted / ranked[index].true)
    chosen = min(range(len(choices)), key=lambda index: choices[index].usd)
    best = min(one.true for one in ranked)
    before, after = ranked[0].true, ranked[chosen].true
    return Outcome(
        before=before / best - 1,
        after=(after + spent / images) / best - 1,
        spent_usd=spent,
        saved_usd=images * (before - after),
        width_before=math.exp(2 * ranked[0].half_width),
        width_after=LEFT_FACTOR**2
        if not choices[chosen].settles and spent
        else math.exp(2 * ranked[chosen].half_width),
    )


def _spread(half_width: float) -> float:
    left = math.log(LEFT_FACTOR)
    return math.sqrt(max(0.0, half_width**2 - left**2)) / _P90


def line(test: str, job_usd: float, outcomes: Sequence[Outcome]) -> str:
    """A row of the table."""
    piloted = [one for one in outcomes if one.spent_usd]
    spent, saved = sum(one.spent_usd for one in outcomes), sum(one.saved_usd for one in outcomes)
    cells = (
        test,
        f"{job_usd:.0f}",
        str(len(outcomes)),
        str(len(piloted)),
        f"{fmean(one.before for one in outcomes):.1%}",
        f"{fmean(one.after for one in outcomes):.1%}",
        f"{max(one.before for one in outcomes):.0%}",
        f"{max(one.after for one in outcomes):.0%}",
        f"{saved / spent:.1f}" if spent else "-",
        f"{median(one.width_before for one in piloted):.2f}" if piloted else "-",
        f"{median(one.width_after for one in piloted):.2f}" if piloted else "-",
    )
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| test | job, $ | choices | with pilots | extra cost without | with, pilots paid | worst without | worst with "
    "| $ saved per $ | width before | after |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> int:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--tests", nargs="+", choices=TESTS, default=list(TESTS))
    asked = options.parse_args()
    rows = read_rows()
    ec2 = {row.measurement.id for row in rows if row.measurement.source == names.EC2}
    wanted = [fold for fold in folds(rows) if fold.test in asked.tests and fold.tested & ec2]
    sys.stderr.write(f"{len(wanted)} folds\n")
    tested = run_folds(arithmetic(rows), read_pairs(), other_arrays(read_others()), wanted, asked.workers)
    sys.stdout.write(f"{HEAD}\n")
    for test in asked.tests:
        choices = machines(rows, tested, test)
        for job_usd in JOBS_USD if choices else ():
            sys.stdout.write(f"{line(test, job_usd, [outcome(several, job_usd) for several in choices])}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
