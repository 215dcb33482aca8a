"""Writes docs/accuracy.md from the held-out predictions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from scripts import price_error
from scripts.fit import folds as names
from scripts.fit.decision import Decisions, decision_lines, decisions
from scripts.fit.evaluate import Tested
from scripts.fit.hosts import host_lines
from scripts.fit.influence import influence, influence_lines
from scripts.fit.memory import memory_lines, peak_lines
from scripts.fit.processors import processor_lines
from scripts.fit.report_text import (
    BEGINNING,
    BY_GPU,
    COVERAGE,
    DECISION,
    HOSTS,
    MEMORY,
    MOVES,
    PEAKS,
    PRICES,
    PRICES_READ,
    PUBLISHED,
    SEVERAL_MACHINES,
    SHARED_STEPS,
    SHARING,
    SHORTFALLS,
    WHOLE_RUN_PARTS,
    WHOLE_RUNS,
    WHOLE_RUNS_ASKED,
    WHY,
)
from scripts.fit.scaling import read_scaling, scaling_lines
from scripts.fit.shared_steps import shared_lines, shared_steps
from scripts.fit.sharing import sharing_lines
from scripts.fit.totals import total_lines
from scripts.fit.whole_runs import whole_run_lines
from scripts.fit.widths import crossed_half_widths, half_widths

if TYPE_CHECKING:
    from scripts.fit.rows import Row
    from scripts.fit.totals import Total

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "accuracy.md"
_BASES = (("measured", 1.15), ("scaled", 1.4), ("modelled", 2.0))
_BOUNDED = {names.DEVICE: "unseen GPU", names.SOURCE: "unseen source"}
_LEAST_COVERED, _MOST_COVERED = 0.75, 0.88
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
    (names.SOURCE, "unseen source, known GPU", 0.18, _MEAN_OF_FOLDS, _median_of_means),
    (names.DEVICE, "unseen GPU", 0.20, _MEAN_OF_FOLDS, _median_of_means),
    (names.ARCHITECTURE, "unseen architecture", 0.25, "MAPE", _pooled),
    (names.SHARING, "several GPUs, one alone known", 0.12, "MAPE", _pooled),
    (names.SHARING_STRICT, "several GPUs, source and GPU unseen", None, "MAPE", _pooled),
    (names.LIBRARY, "several GPUs, library unseen", None, "MAPE", _pooled),
    (names.DATA_PARALLEL, "several GPUs under `nn.DataParallel`", None, "MAPE", _pooled),
    (names.PRECISION, "known GPU, unseen precision", None, "MAPE", _pooled),
)
LINES = tuple(
    Line(test=test, title=title, at_most=most, figure=figure, of=of) for test, title, most, figure, of in _LINES
)


def figures(tested: Sequence[Tested]) -> dict[str, float]:
    """The figure of each test, for the model file."""
    return {line.test: round(line.of(_parts(tested, line.test)), 4) for line in LINES}


def write_report(rows: Sequence[Row], tested: Sequence[Tested], totals: Sequence[Total], target: Path = TARGET) -> None:
    """The whole document, from the beginning."""
    widths = dict(zip(map(id, tested), crossed_half_widths(tested), strict=True))
    decided = decisions(rows, tested)
    lines = [BEGINNING, "## The tests", "", *_headline(tested, widths), ""]
    lines += ["## Widths by what a prediction rests on", "", *_basis(tested, widths), ""]
    lines += ["## Links and libraries", "", SHARING, *sharing_lines(rows, tested), ""]
    moved = influence_lines(influence(rows, tested, moved_figures))
    lines += ["## What a source moves", "", MOVES, *moved, ""]
    lines += ["## The decision", "", DECISION, *decision_lines(decided), ""]
    lines += ["## GPU by GPU", "", BY_GPU, *_by_gpu(rows, tested), ""]
    lines += ["## The worst rows, and why", "", *_worst(rows, tested), "", PUBLISHED]
    lines += ["## Whole runs", "", WHOLE_RUNS, *total_lines(totals), "", WHOLE_RUN_PARTS]
    lines += [WHOLE_RUNS_ASKED, *whole_run_lines(), ""]
    lines += ["## Several GPUs with PyTorch", "", SHARED_STEPS, *shared_lines(shared_steps()), ""]
    lines += ["## Several machines", "", SEVERAL_MACHINES, *scaling_lines(read_scaling()), ""]
    lines += ["## Memory", "", MEMORY, *memory_lines(), "", PEAKS, *peak_lines(), ""]
    lines += ["## Hosts without accelerator", "", HOSTS, *host_lines(), "", *processor_lines(), ""]
    lines += ["## Prices", "", PRICES, *price_error.table().splitlines(), "", PRICES_READ]
    lines += ["## What is missing", "", *_missed(tested, widths), *_missed_decisions(decided), SHORTFALLS]
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def summary(tested: Sequence[Tested]) -> list[str]:
    """The tests and the widths as plain lines, for the terminal."""
    widths = dict(zip(map(id, tested), crossed_half_widths(tested), strict=True))
    missed = _missed(tested, widths)
    return [*_headline(tested, widths), "", *_basis(tested, widths)[: 2 + 2 * len(_BASES)], "", *missed]


def moved_figures(tested: Sequence[Tested]) -> dict[str, float]:
    """The figures that no single source of few rows may move far (scripts/fit/influence.py)."""
    by_test = {line.test: line.of(_parts(tested, line.test)) for line in LINES if line.test in _BOUNDED}
    widths = dict(zip(map(id, tested), crossed_half_widths(tested), strict=True))
    modelled = [row for row in _of_targets(tested) if row.basis == "modelled"]
    return {_BOUNDED[test]: figure for test, figure in by_test.items()} | {"modelled width": _width(modelled, widths)}


def _parts(tested: Sequence[Tested], test: str) -> list[list[Tested]]:
    parts: dict[str, list[Tested]] = defaultdict(list)
    for row in tested:
        if row.test == test:
            parts[row.fold].append(row)
    return list(parts.values())


def _headline(tested: Sequence[Tested], widths: dict[int, float]) -> list[str]:
    lines = [
        "| test | figure | target | here | rows | folds | coverage of the 80 % interval | each fold once |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in LINES:
        parts = _parts(tested, line.test)
        rows = [row for part in parts for row in part]
        here = line.of(parts)
        verdict = "" if line.at_most is None else " (met)" if here <= line.at_most else " (**missed**)"
        target = "-" if line.at_most is None else f"{line.at_most:.1%}"
        by_fold = mean(_covered(part, widths) for part in parts)
        lines.append(
            f"| {line.title} | {line.figure} | {target} | {here:.1%}{verdict} | {len(rows)} "
            f"| {len(parts)} | {_covered(rows, widths):.0%} | {by_fold:.0%} |"
        )
    return lines


def _covered(rows: Sequence[Tested], widths: dict[int, float]) -> float:
    return mean(abs(row.off) <= widths[id(row)] for row in rows)


def _width(rows: Sequence[Tested], widths: dict[int, float]) -> float:
    """The median of high over low."""
    return median(math.exp(2 * widths[id(row)]) for row in rows)


def _basis(tested: Sequence[Tested], widths: dict[int, float]) -> list[str]:
    lines = [
        "| basis | in | median high / low | target | held-out predictions | covered |",
        "|---|---|---|---|---|---|",
    ]
    of_targets = _of_targets(tested)
    for basis, target in _BASES:
        for title, group in (("tests with a target", of_targets), ("every test", tested)):
            rows = [row for row in group if row.basis == basis]
            width, covered = _width(rows, widths), _covered(rows, widths)
            lines.append(f"| {basis} | {title} | {width:.2f} | {target} | {len(rows)} | {covered:.0%} |")
    told = [
        f"{kind} {math.exp(width):.2f} ({sum(row.evidence == kind for row in tested)})"
        for kind, width in half_widths(tested).items()
    ]
    return [*lines, "", f"Half widths as factors, by evidence (held-out errors): {', '.join(told)}."]


def _of_targets(tested: Sequence[Tested]) -> list[Tested]:
    """Those of the tests that have a target."""
    tests = {line.test for line in LINES if line.at_most is not None}
    return [row for row in tested if row.test in tests]


def _missed(tested: Sequence[Tested], widths: dict[int, float]) -> list[str]:
    """One line for each target of error, of coverage and of width that is not met."""
    lines = []
    for line in LINES:
        here = line.of(_parts(tested, line.test))
        if line.at_most is not None and here > line.at_most:
            lines.append(f"- {line.title}: {line.figure} {here:.1%}, asked {line.at_most:.0%}.")
        rows = [row for row in tested if row.test == line.test]
        covered = _covered(rows, widths)
        if line.at_most is not None and not _LEAST_COVERED <= covered <= _MOST_COVERED:
            lines.append(
                f"- Coverage is asked to be 75 to 88 %; {line.title}: {covered:.0%}. {COVERAGE.get(line.test, '')}"
            )
    for title, group in (("tests with a target", _of_targets(tested)), ("every test", tested)):
        for basis, target in _BASES:
            rows = [row for row in group if row.basis == basis]
            if rows and (width := _width(rows, widths)) > target:
                lines.append(f"- The width of `{basis}` is asked to be {target}; over {title} it is {width:.2f}.")
    return [line.rstrip() for line in lines]


def _missed_decisions(decided: Sequence[Decisions]) -> list[str]:
    return [
        f"- The decision, {one.test}, {one.held_out} held out: {mean(one.extra):.1%} and not 3 % in the mean, "
        f"{max(one.extra):.0%} and not 20 % at worst."
        for one in decided
        if one.missed
    ]


def _by_gpu(rows: Sequence[Row], tested: Sequence[Tested]) -> list[str]:
    by_id = {row.measurement.id: row for row in rows}
    lines = ["| GPU | rows | MAPE | median error | bias |", "|---|---|---|---|---|"]
    for part in _worst_first(tested, names.DEVICE):
        errors = [abs(row.error) for row in part]
        name = part[0].fold + (" (alone)" if _alone(by_id[part[0].id], rows) else "")
        bias = mean(row.error for row in part)
        lines.append(f"| {name} | {len(part)} | {mean(errors):.1%} | {median(errors):.1%} | {bias:+.1%} |")
    return lines


def _worst_first(tested: Sequence[Tested], test: str) -> list[list[Tested]]:
    return sorted(_parts(tested, test), key=lambda part: -mean(abs(row.error) for row in part))


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
    once: dict[str, Tested] = {}
    for row in list(worst.values())[:_WORST]:
        once.setdefault(row.id, row)
    for row in once.values():
        stated = by_id[row.id]
        what = f"{stated.model} {stated.image_size_px} px, batch {stated.batch_per_device}, {stated.precision}, "
        what += f"{stated.device_count} x {stated.device}"
        predicted = stated.images_per_second * math.exp(row.off)
        why = next((text for start, part, text in WHY if row.id.startswith(start) and part in row.fold), "")
        lines.append(f"| {row.id} | {what} | {row.fold} | {stated.images_per_second:.0f} | {predicted:.0f} | {why} |")
    return lines
