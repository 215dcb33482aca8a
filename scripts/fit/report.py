"""Writes docs/accuracy.md from the held-out predictions."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from scripts.fit import folds as names
from scripts.fit.evaluate import Tested
from scripts.fit.report_text import BEGINNING, END, PUBLISHED, WHY
from scripts.fit.widths import crossed_half_widths, half_widths

if TYPE_CHECKING:
    from scripts.fit.rows import Row

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "accuracy.md"
PRICES = ROOT / "pricing" / "data" / "offers" / "aws.csv"
_EC2 = {"K80": "p2.xlarge", "M60": "g3s.xlarge", "T4": "g4dn.xlarge", "V100": "p3.2xlarge"}
_PRICE_REGION = "us-east-1"
_WORST = 12
Figure = Callable[[Sequence[Sequence[Tested]]], float]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One test against its target; `of` picks the figure that counts from a test's folds."""

    test: str
    title: str
    at_most: float | None
    figure: str
    of: Figure


def _pooled(parts: Sequence[Sequence[Tested]]) -> float:
    return mean(abs(row.error) for part in parts for row in part)


def _median(parts: Sequence[Sequence[Tested]]) -> float:
    return median(abs(row.error) for part in parts for row in part)


def _median_of_means(parts: Sequence[Sequence[Tested]]) -> float:
    return median(mean(abs(row.error) for row in part) for part in parts)


_MEAN_OF_FOLDS = "median of the folds' MAPE"
# Test, title, target, which figure, and how it is made of the test's folds.
_LINES: tuple[tuple[str, str, float | None, str, Figure], ...] = (
    (names.UNSEEN_NET, "unseen VGG, known GPU (EC2 data, VGG11/16/19)", 0.06, "MAPE", _pooled),
    (names.BETWEEN, "a VGG between two known ones", 0.045, "MAPE", _pooled),
    (names.CONFIGURATION, "held-out configuration", 0.025, "median error", _median),
    (names.CONFIGURATION_SEVERAL, "held-out configuration of several GPUs", None, "median error", _median),
    (names.SOURCE, "unseen source, known GPU", 0.25, _MEAN_OF_FOLDS, _median_of_means),
    (names.DEVICE, "unseen GPU", 0.20, _MEAN_OF_FOLDS, _median_of_means),
    (names.ARCHITECTURE, "unseen architecture", 0.25, "MAPE", _pooled),
    (names.SHARING, "several GPUs, one alone known", 0.15, "MAPE", _pooled),
    (names.SHARING_STRICT, "several GPUs, source and GPU unseen", None, "MAPE", _pooled),
    (names.DATA_PARALLEL, "several GPUs under `nn.DataParallel`", None, "MAPE", _pooled),
    (names.PRECISION, "known GPU, unseen precision", None, "MAPE", _pooled),
)
LINES = tuple(
    Line(test=test, title=title, at_most=most, figure=figure, of=of) for test, title, most, figure, of in _LINES
)


def figures(tested: Sequence[Tested]) -> dict[str, float]:
    """The figure of each test, for the model file."""
    return {line.test: round(line.of(_parts(tested, line.test)), 4) for line in LINES}


def write_report(rows: Sequence[Row], tested: Sequence[Tested], target: Path = TARGET) -> None:
    """The whole document, from the beginning."""
    widths = dict(zip(map(id, tested), crossed_half_widths(tested), strict=True))
    lines = [BEGINNING, "## The tests", "", *_headline(tested, widths), ""]
    lines += ["## Widths by what a prediction rests on", "", *_basis(tested, widths), ""]
    lines += ["## The decision", "", *_decision(rows, tested), ""]
    for test, title in (
        (names.UNSEEN_NET, "Leave one VGG out"),
        (names.SOURCE, "Leave one source out"),
        (names.DEVICE, "Leave one GPU out"),
        (names.ARCHITECTURE, "Leave one architecture out"),
        (names.SHARING, "Several GPUs: leave one (source, GPU) out, its single-GPU rows kept"),
        (names.SHARING_STRICT, "Several GPUs: all of a (source, GPU) out"),
        (names.DATA_PARALLEL, "`nn.DataParallel`"),
        (names.PRECISION, "Leave one precision of a GPU out"),
    ):
        lines += [f"## {title}", "", *_by_fold(rows, tested, test), ""]
    lines += ["## The worst rows, and why", "", *_worst(rows, tested), "", PUBLISHED, END]
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _parts(tested: Sequence[Tested], test: str) -> list[list[Tested]]:
    parts: dict[str, list[Tested]] = defaultdict(list)
    for row in tested:
        if row.test == test:
            parts[row.fold].append(row)
    return list(parts.values())


def _headline(tested: Sequence[Tested], widths: dict[int, float]) -> list[str]:
    lines = [
        "| test | figure | target | here | rows | folds | coverage of the 80 % interval |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in LINES:
        parts = _parts(tested, line.test)
        rows = [row for part in parts for row in part]
        covered = mean(abs(row.off) <= widths[id(row)] for row in rows)
        here = line.of(parts)
        verdict = "" if line.at_most is None else " (met)" if here <= line.at_most else " (**missed**)"
        target = "-" if line.at_most is None else f"{line.at_most:.1%}"
        lines.append(
            f"| {line.title} | {line.figure} | {target} | {here:.1%}{verdict} "
            f"| {len(rows)} | {len(parts)} | {covered:.0%} |"
        )
    return lines


def _basis(tested: Sequence[Tested], widths: dict[int, float]) -> list[str]:
    lines = ["| basis | median high / low | target | held-out predictions | covered |", "|---|---|---|---|---|"]
    for basis, target in (("measured", 1.15), ("scaled", 1.4), ("modelled", 2.0)):
        rows = [row for row in tested if row.basis == basis]
        width = median(math.exp(2 * widths[id(row)]) for row in rows)
        covered = mean(abs(row.off) <= widths[id(row)] for row in rows)
        lines.append(f"| {basis} | {width:.2f} | {target} | {len(rows)} | {covered:.0%} |")
    lines += ["", "| evidence | half width (factor) | held-out errors |", "|---|---|---|"]
    for kind, width in half_widths(tested).items():
        lines.append(f"| {kind} | {math.exp(width):.2f} | {sum(row.evidence == kind for row in tested)} |")
    return lines


def _decision(rows: Sequence[Row], tested: Sequence[Tested]) -> list[str]:
    """What it costs to rent the machine that held-out throughput makes the cheapest, instead of the cheapest."""
    prices = _prices()
    by_id = {row.measurement.id: row for row in rows}
    lines = ["| held out | choices | right | mean extra cost | worst |", "|---|---|---|---|---|"]
    for test in (names.UNSEEN_NET, names.DEVICE, names.SOURCE, names.CONFIGURATION):
        choices: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
        for row in tested:
            stated = by_id[row.id].measurement
            if row.test == test and stated.source == names.EC2:
                price = prices[_EC2[stated.device]]
                key = (stated.model, stated.image_size_px, stated.batch_per_device)
                rate = stated.images_per_second
                choices[key].append((price / (rate * math.exp(row.off)), price / rate))
        extra = [min(pairs)[1] / min(true for _, true in pairs) - 1 for pairs in choices.values() if len(pairs) > 1]
        if extra:
            right = sum(cost == 0 for cost in extra)
            lines.append(f"| {test} | {len(extra)} | {right} | {mean(extra):.1%} | {max(extra):.1%} |")
    listed = ", ".join(f"{device} {prices[kind]:.3f}" for device, kind in _EC2.items())
    return [*lines, "", f"On-demand prices of {_PRICE_REGION} in $/h: {listed}. Target: mean 3 %, worst 20 %."]


def _prices() -> dict[str, float]:
    with PRICES.open(newline="", encoding="utf-8") as file:
        return {
            row["instance_type"]: float(row["on_demand_usd_per_hour"])
            for row in csv.DictReader(file)
            if row["region"] == _PRICE_REGION and row["on_demand_usd_per_hour"]
        }


def _by_fold(rows: Sequence[Row], tested: Sequence[Tested], test: str) -> list[str]:
    by_id = {row.measurement.id: row for row in rows}
    lines = ["| left out | rows | MAPE | median error | bias | without a sibling |", "|---|---|---|---|---|---|"]
    parts = _parts(tested, test)
    for part in sorted(parts, key=lambda part: -mean(abs(row.error) for row in part)):
        errors = [abs(row.error) for row in part]
        alone = _alone(by_id[part[0].id], rows) if test == names.DEVICE else False
        lines.append(
            f"| {part[0].fold} | {len(part)} | {mean(errors):.1%} | {median(errors):.1%} "
            f"| {mean(row.error for row in part):+.1%} | {'yes' if alone else ''} |"
        )
    return lines


def _alone(row: Row, rows: Sequence[Row]) -> bool:
    """Whether no other device of this architecture was measured."""
    mine = row.setup
    return not any(
        other.setup.rates.architecture == mine.rates.architecture and other.setup.device != mine.device
        for other in rows
    )


def _worst(rows: Sequence[Row], tested: Sequence[Tested]) -> list[str]:
    by_id = {row.measurement.id: row.measurement for row in rows}
    worst: dict[tuple[str, str], Tested] = {}
    for row in sorted(tested, key=lambda row: -abs(row.off)):
        worst.setdefault((row.test, row.fold), row)
    lines = ["| row | what | left out | measured | predicted | why |", "|---|---|---|---|---|---|"]
    for row in list(worst.values())[:_WORST]:
        stated = by_id[row.id]
        what = f"{stated.model} {stated.image_size_px} px, batch {stated.batch_per_device}, {stated.precision}, "
        what += f"{stated.device_count} x {stated.device}"
        predicted = stated.images_per_second * math.exp(row.off)
        why = next((text for start, part, text in WHY if row.id.startswith(start) and part in row.fold), "")
        lines.append(f"| {row.id} | {what} | {row.fold} | {stated.images_per_second:.0f} | {predicted:.0f} | {why} |")
    return lines
