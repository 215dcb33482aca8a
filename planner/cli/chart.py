"""A chart of characters: points over two logarithmic axes, those with a name marked with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.planner.report.page import Chart

LEAST_WIDTH = 60
"""Characters below which no chart is drawn."""
_MOST_WIDTH = 100
_HEIGHT = 12


def drawn(chart: Chart, width: int) -> str:
    """The chart as lines of at most `width` characters: title, points between the axes, the ends of the time below.

    A name that would write over another stands nowhere; its point stays.
    """
    low, high = chart.y_ends
    margin = max(len(low), len(high))
    columns = min(width, _MOST_WIDTH) - margin - 2
    grid = [[" "] * columns for _ in range(_HEIGHT)]
    cells = list(
        zip(
            _positions([mark.x for mark in chart.marks], columns),
            [_HEIGHT - 1 - row for row in _positions([mark.y for mark in chart.marks], _HEIGHT)],
            [mark.text for mark in chart.marks],
            strict=True,
        )
    )
    for column, row, text in sorted(cells, key=lambda cell: bool(cell[2])):
        grid[row][column] = "o" if text else "."
    for column, row, text in cells:
        if text:
            _name(grid[row], column, text)
    labels = [high, *[""] * (_HEIGHT - 2), low]
    lines = [f"{label:>{margin}} |{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)]
    first, last = chart.x_ends
    below = f"{'':{margin}} +{'-' * (columns - 1)}", f"{'':{margin}}  {first}{last:>{columns - len(first) - 1}}"
    return "\n".join([chart.title, *lines, *below])


def _positions(values: Sequence[float], cells: int) -> list[int]:
    """The cell of each value, from the smallest in the first to the largest in the last, by their logarithms."""
    low, high = math.log(min(values)), math.log(max(values))
    span = (high - low) or 1.0
    return [round((math.log(value) - low) / span * (cells - 1)) for value in values]


def _name(row: list[str], column: int, text: str) -> None:
    """Write a name beside its point, to the right or else to the left, where nothing but dots is there."""
    for start in (column + 2, column - 1 - len(text)):
        cells = range(start - 1, start + len(text) + 1)
        inside = start >= 0 and start + len(text) <= len(row)
        if inside and all(row[cell] in " ." for cell in cells if 0 <= cell < len(row) and cell != column):
            row[start : start + len(text)] = text
            return
