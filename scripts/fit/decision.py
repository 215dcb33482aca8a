"""What it costs to rent the machine that held-out throughput makes the cheapest, instead of the cheapest."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from scripts.fit import folds as names

if TYPE_CHECKING:
    from scripts.fit.evaluate import Tested
    from scripts.fit.rows import Row

PRICES = Path(__file__).parents[2] / "pricing" / "data" / "offers" / "aws.csv"
EC2_TYPES = {"K80": "p2.xlarge", "M60": "g3s.xlarge", "T4": "g4dn.xlarge", "V100": "p3.2xlarge"}
_PRICE_REGION = "us-east-1"
_TESTS = (names.UNSEEN_NET, names.CONFIGURATION, names.DEVICE, names.ARCHITECTURE, names.SOURCE)
MOST_MEAN, MOST_WORST = 0.03, 0.20


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A machine for a configuration: dollars per image as held-out throughput says, and in truth."""

    device: str
    predicted: float
    true: float


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """The extra cost of rank 1 over the true best, for each choice of one test."""

    test: str
    held_out: str
    extra: tuple[float, ...]
    wrong: tuple[str, ...]

    @property
    def missed(self) -> bool:
        return mean(self.extra) > MOST_MEAN or max(self.extra) > MOST_WORST


def decisions(rows: Sequence[Row], tested: Sequence[Tested]) -> list[Decisions]:
    """For each test twice: with every candidate's throughput held out, and with one at a time, the others measured.

    A choice is a net, image size and batch that the EC2 source timed on at least two of its machines.
    """
    prices = list_prices()
    by_id = {row.measurement.id: row for row in rows}
    results = []
    for test in _TESTS:
        choices: dict[str, list[Candidate]] = defaultdict(list)
        for row in tested:
            stated = by_id[row.id].measurement
            if row.test == test and stated.source == names.EC2:
                dollars = prices[EC2_TYPES[stated.device]] / stated.images_per_second
                name = f"{stated.model} {stated.image_size_px} px batch {stated.batch_per_device}"
                predicted = dollars / math.exp(row.off)
                choices[name].append(Candidate(device=stated.device, predicted=predicted, true=dollars))
        several = [(name, candidates) for name, candidates in choices.items() if len(candidates) > 1]
        if several:
            results.append(decided(test, "every candidate", several))
            results.append(decided(test, "one candidate", one_at_a_time(several)))
    return results


def decided(test: str, held_out: str, choices: Iterable[tuple[str, list[Candidate]]]) -> Decisions:
    """What the cheapest by word costs more than the cheapest in truth, for each named choice."""
    extra, wrong = [], []
    for name, candidates in choices:
        choice = min(candidates, key=lambda one: one.predicted)
        best = min(candidates, key=lambda one: one.true)
        extra.append(choice.true / best.true - 1)
        if choice is not best:
            wrong.append(f"{name} ({choice.device} for {best.device})")
    return Decisions(test=test, held_out=held_out, extra=tuple(extra), wrong=tuple(wrong))


def one_at_a_time(choices: Iterable[tuple[str, list[Candidate]]]) -> Iterator[tuple[str, list[Candidate]]]:
    """Each choice as often as it has candidates: one of them as it is said to be, the others as they are."""
    for name, candidates in choices:
        for unseen in candidates:
            yield name, [one if one is unseen else replace(one, predicted=one.true) for one in candidates]


def decision_lines(results: Sequence[Decisions]) -> list[str]:
    """The table of choices between machines, in Markdown."""
    prices = list_prices()
    lines = ["| test | held out | choices | right | mean extra cost | worst |", "|---|---|---|---|---|---|"]
    for one in results:
        right = sum(cost == 0 for cost in one.extra)
        extra = f"{mean(one.extra):.1%} | {max(one.extra):.1%}"
        lines.append(f"| {one.test} | {one.held_out} | {len(one.extra)} | {right} | {extra} |")
    prices_text = ", ".join(f"{device} {prices[kind]:.3f}" for device, kind in EC2_TYPES.items())
    lines += ["", f"On-demand prices of {_PRICE_REGION} in $/h: {prices_text}. Target: mean 3 %, worst 20 %."]
    wrong = next((one.wrong for one in results if one.test == names.DEVICE and one.wrong), ())
    if wrong:
        lines += ["", f"Wrong with every GPU unseen: {'; '.join(wrong)}."]
    return lines


def list_prices() -> dict[str, float]:
    """Dollars an hour on demand in the region of these choices, by machine type."""
    with PRICES.open(newline="", encoding="utf-8") as file:
        return {
            row["instance_type"]: float(row["on_demand_usd_per_hour"])
            for row in csv.DictReader(file)
            if row["region"] == _PRICE_REGION and row["on_demand_usd_per_hour"]
        }
