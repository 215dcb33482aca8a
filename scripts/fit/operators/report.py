"""What docs/accuracy.md says of networks of any kind."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import mean, median
from typing import TYPE_CHECKING

from scripts.fit.operators import folds as names
from scripts.fit.operators.beside import beside_lines
from scripts.fit.operators.beyond import beyond_lines
from scripts.fit.operators.widths import crossed, network_half_widths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scripts.fit.operators.folds import NetworkTested
    from trainplan.planner.throughput.values import Measurement

HEADING = "## Networks of any kind"
_ABOUT = """
The model of operators (ADR 42) is fitted to the rows of every network on one device, and MLPerf's on one machine. For
each fold its constants and effects are those without the rows left out; variances of the levels are those of all rows.
How it is blended with the model of VGG nets was chosen on these folds. Networks, families and devices of fewer than 8
rows are no fold of their own.
"""
# Test, what it is, and the goal for the median of the folds' MAPE.
_LINES: tuple[tuple[str, str, float | None], ...] = (
    (names.NETWORK, "a network, on known devices", 0.12),
    (names.FAMILY, "a family of networks, on known devices", 0.17),
    (names.ANCHORED, "VGG on a device of which ResNet-50 alone is known", 0.08),
    (names.ANCHORED_BY_ANY, "VGG on a device of which other networks alone are known", None),
    (names.DEVICE, "a device, all its rows", 0.12),
    (names.SOURCE, "VGG rows of a source, by this model alone", None),
    (names.SOURCE_ON_DEVICE, "all that a source measured on a device", None),
    (names.CONFIGURATION, "single configurations, in eight parts", None),
    (names.DEVICE_AND_FAMILY, "a device and a family together", None),
)
_LEAST_COVERED, _MOST_COVERED = 0.75, 0.88
_WORST = 10


def network_lines(tested: Sequence[NetworkTested], stated: Mapping[str, Measurement]) -> list[str]:
    """The whole section; `stated` are the measurements by id."""
    widths = dict(zip(map(id, tested), crossed(tested), strict=True))
    lines = [HEADING, _ABOUT.rstrip(), ""]
    lines += [
        "| left out | rows | folds | median of the folds' MAPE | goal | mean of the folds | median row | covered |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for test, title, goal in _LINES:
        lines.append(_line(title, goal, [row for row in tested if row.test == test], widths))
    lines += [
        "",
        "| evidence | half width (factor) | held-out predictions | covered | each fold once |",
        "|---|---|---|---|---|",
    ]
    for kind, width in network_half_widths(tested).items():
        rows = [row for row in tested if row.evidence == kind]
        by_fold = mean(_covered(part, widths) for part in _folds(rows).values())
        lines.append(f"| {kind} | {math.exp(width):.2f} | {len(rows)} | {_covered(rows, widths):.0%} | {by_fold:.0%} |")
    lines += [
        "",
        *_by_fold(tested),
        "",
        *_worst(tested, stated),
        "",
        *_coverage_lines(tested, widths),
        "",
        *beyond_lines(),
        "",
        *beside_lines(tested),
        "",
    ]
    return lines


def network_figures(tested: Sequence[NetworkTested]) -> dict[str, float]:
    """The figure of each test, for the model file."""
    return {test: round(_median_of_folds([row for row in tested if row.test == test]), 4) for test, _, _ in _LINES}


def _line(title: str, goal: float | None, rows: Sequence[NetworkTested], widths: dict[int, float]) -> str:
    folds = _folds(rows)
    here = _median_of_folds(rows)
    means = mean(mean(abs(row.error) for row in part) for part in folds.values())
    verdict = "-" if goal is None else f"{goal:.0%} ({'met' if here <= goal else '**missed**'})"
    middle = median(abs(row.error) for row in rows)
    return (
        f"| {title} | {len(rows)} | {len(folds)} | {here:.1%} | {verdict} | {means:.1%} | {middle:.1%} "
        f"| {_covered(rows, widths):.0%} |"
    )


def _folds(rows: Sequence[NetworkTested]) -> dict[tuple[str, str], list[NetworkTested]]:
    parts: dict[tuple[str, str], list[NetworkTested]] = defaultdict(list)
    for row in rows:
        parts[row.test, row.fold].append(row)
    return parts


def _median_of_folds(rows: Sequence[NetworkTested]) -> float:
    return median(mean(abs(row.error) for row in part) for part in _folds(rows).values())


def _covered(rows: Sequence[NetworkTested], widths: dict[int, float]) -> float:
    return mean(abs(row.off) <= widths[id(row)] for row in rows)


def _by_fold(tested: Sequence[NetworkTested]) -> list[str]:
    lines = []
    for test, title in (
        (names.FAMILY, "a family"),
        (names.DEVICE, "a device"),
    ):
        parts = [
            (name, len(part), mean(abs(row.error) for row in part), mean(row.error for row in part))
            for (_, name), part in _folds([row for row in tested if row.test == test]).items()
        ]
        parts.sort(key=lambda part: -part[2])
        told = ", ".join(f"{name} {error:.0%} ({bias:+.0%}, {count})" for name, count, error, bias in parts)
        lines.append(f"- Left out, {title}: MAPE (bias, rows): {told}.")
    return lines


def _worst(tested: Sequence[NetworkTested], stated: Mapping[str, Measurement]) -> list[str]:
    """The ten rows that are furthest off, each once."""
    lines = [
        "The ten rows that are furthest off:",
        "",
        "| row | what | left out | measured images/s | predicted |",
        "|---|---|---|---|---|",
    ]
    once: dict[str, NetworkTested] = {}
    for row in sorted(tested, key=lambda row: -abs(row.off)):
        once.setdefault(row.id, row)
    for row in list(once.values())[:_WORST]:
        one = stated[row.id]
        what = f"{one.model} {one.image_size_px} px, batch {one.batch_per_device}, {one.precision}, "
        what += f"{one.device_count} x {one.device}"
        rate = one.images_per_second
        lines.append(f"| {row.id} | {what} | {row.fold} | {rate:,.0f} | {rate * math.exp(row.off):,.0f} |")
    return lines


def _coverage_lines(tested: Sequence[NetworkTested], widths: dict[int, float]) -> list[str]:
    outside = []
    for kind in network_half_widths(tested):
        rows = [row for row in tested if row.evidence == kind]
        covered = _covered(rows, widths)
        if len(rows) >= _ENOUGH and not _LEAST_COVERED <= covered <= _MOST_COVERED:
            outside.append(f"{kind} {covered:.0%}")
    return [f"- Coverage is asked to be 75 to 88 %. Outside: {', '.join(outside)}."] if outside else []


_ENOUGH = 30


def replace_section(text: str, lines: Sequence[str]) -> str:
    """The document with this section in place of the one it has, or before what is missing."""
    before, found, rest = text.partition(f"{HEADING}\n")
    if not found:
        before, _, rest = text.partition(_NEXT)
        rest = _NEXT + rest
    else:
        rest = rest[rest.index("\n## ") + 1 :]
    return before + "\n".join(lines) + "\n" + rest


_NEXT = "## Whole runs\n"
