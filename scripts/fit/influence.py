"""What each source moves: the figures of the report with and without the held-out predictions of its rows.

A source of few rows has a scatter of its own that nobody knows, and each card that it alone has measured is a fold like
any other in a median of folds: one invented row moved "unseen GPU" by 2.8 points. What a source of fewer than
`FEW_ROWS` rows moves is therefore bounded, and tests/unit/fit/test_influence.py fails above it: look at its rows, then
give it quality C, or find a second source that agrees. What it does to the predictions of other rows by being learned
from is not counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.fit.evaluate import Tested
    from scripts.fit.rows import Row

    Figures = Callable[[Sequence[Tested]], Mapping[str, float]]

FEW_ROWS = 10
MOST_MOVED = {"unseen GPU": 0.01, "unseen source": 0.02, "modelled width": 0.10}
"""By a source of few rows: shares of the mean error, and the ratio of high over low. Half of what the invented row
moved; a source whose rows scatter as the others do moves less (docs/accuracy.md)."""
HEADER = f"| source | rows | {' | '.join(MOST_MOVED)} |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """`by` is what each figure of `MOST_MOVED` is with the source's predictions, less what it is without them."""

    source: str
    rows: int
    by: Mapping[str, float]

    @property
    def too_far(self) -> tuple[str, ...]:
        """The figures that it moves further than a source of so few rows may."""
        if self.rows >= FEW_ROWS:
            return ()
        return tuple(name for name, most in MOST_MOVED.items() if abs(self.by[name]) > most)


def source_of(row: Row) -> str:
    """The source without its version: `timm` of `timm-5c33776`."""
    return row.measurement.source.partition("-")[0]


def influence(rows: Sequence[Row], tested: Sequence[Tested], figures: Figures) -> list[Moved]:
    """Each source, the one that moves "unseen GPU" most first; `figures` gives those of `MOST_MOVED`."""
    sources = {row.measurement.id: source_of(row) for row in rows}
    whole = figures(tested)
    moved_sources = []
    for source, count in Counter(sources.values()).items():
        without = figures([one for one in tested if sources[one.id] != source])
        by = {name: whole[name] - without[name] for name in MOST_MOVED}
        moved_sources.append(Moved(source=source, rows=count, by=by))
    first, *_ = MOST_MOVED
    return sorted(moved_sources, key=lambda moved: (-abs(moved.by[first]), moved.source))


def influence_lines(moved_sources: Sequence[Moved]) -> list[str]:
    """A table for the report."""
    lines = [HEADER, f"|---|---|{'---|' * len(MOST_MOVED)}"]
    for moved in moved_sources:
        figures = [f"{moved.by[name]:+{'.2f' if name.endswith('width') else '.1%'}}" for name in MOST_MOVED]
        lines.append(f"| {moved.source} | {moved.rows} | {' | '.join(figures)} |")
    return lines


def read_table(report: str) -> list[Moved]:
    """The table of a report, as `influence_lines` writes it."""
    _, _, after = report.partition(HEADER + "\n")
    moved_sources = []
    for line in after.splitlines()[1:]:
        if not line.startswith("| "):
            break
        source, rows, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        values = (round(float(cell.rstrip("%")) / (100 if cell.endswith("%") else 1), 4) for cell in cells)
        moved_sources.append(Moved(source=source, rows=int(rows), by=dict(zip(MOST_MOVED, values, strict=True))))
    return moved_sources
