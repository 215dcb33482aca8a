"""What the trainer wrote beside the model: the curves of whole epochs, and which class was taken for which.

The files came from a rented machine and lie in a folder of the person's: links are not followed, and nothing in them is
believed before it was checked.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trainplan.planner.runs.report.curves import OF_AN_EPOCH, thinned_epochs
from trainplan.providers.agent.plain_file import NotPlainError, plain_bytes
from trainplan.workloads.terminal_text import one_line

METRICS, CONFUSION = "metrics.csv", "confusion.csv"
MOST_CLASSES = 1_000
"""As the trainer has it (workloads/trainer/tester.py): beyond it pairs are not counted."""
_MOST_BYTES = 16_000_000
"""A thousand rows of a thousand figures with four digits, and names of a hundred letters."""
_MOST_NAME = 200
_COLUMNS = {"rate": "learning_rate"}
"""Columns of metrics.csv that a line of progress calls otherwise."""


def epochs_at_home(folder: Path) -> list[dict[str, Any]]:
    """The epochs of metrics.csv, as `Curves.by_epoch` has them; empty where there is no such file that can be read."""
    rows = _rows(folder / METRICS)
    head = [_COLUMNS.get(name, name) for name in next(rows, [])]
    if "epoch" not in head:
        return []
    epochs = []
    for row in rows:
        figures = {name: _figure(cell) for name, cell in zip(head, row, strict=False)}
        if figures.get("epoch") is not None:
            point = {name: figures.get(name) for name in OF_AN_EPOCH}
            whole = {name: None if (value := point[name]) is None else int(value) for name in ("epoch", "step")}
            epochs.append({"attempt": None, "at": None, **point, **whole})
    return thinned_epochs(epochs)


def classes_at_home(folder: Path) -> dict[str, Any] | None:
    """`classes` (name, images, right, accuracy, precision) and `confusion`, the pairs that occur as [class, taken for,
    images] with the numbers of both, of confusion.csv. None where there is no such file that makes sense.

    `accuracy` is the share of the images of a class that were named so, `precision` the share that were of it of those
    named so; None without any.
    """
    try:
        counts, names = _counts(list(_rows(folder / CONFUSION)))
    except ValueError:
        return None
    taken_for = [sum(column) for column in zip(*counts, strict=True)]
    classes = [
        {
            "name": name,
            "images": sum(row),
            "right": row[number],
            "accuracy": _share(row[number], sum(row)),
            "precision": _share(row[number], taken_for[number]),
        }
        for number, (name, row) in enumerate(zip(names, counts, strict=True))
    ]
    pairs = [[true, named, count] for true, row in enumerate(counts) for named, count in enumerate(row) if count]
    return {"classes": classes, "confusion": pairs}


def _counts(rows: Sequence[Sequence[str]]) -> tuple[list[list[int]], list[str]]:
    """The square of counts and the names of its rows. Raises ValueError."""
    size = len(rows) - 1
    if not 1 <= size <= MOST_CLASSES or any(len(row) != size + 1 for row in rows):
        raise ValueError("not a square")
    counts = [[int(cell) for cell in row[1:] if cell.isascii() and cell.isdigit()] for row in rows[1:]]
    if any(len(row) != size for row in counts):
        raise ValueError("not counts")
    return counts, [one_line(row[0])[:_MOST_NAME] for row in rows[1:]]


def _rows(path: Path) -> Iterator[list[str]]:
    """The rows of a CSV file; none where it cannot be read, or is larger than it can be."""
    try:
        data = plain_bytes(path, _MOST_BYTES + 1)
        if len(data) <= _MOST_BYTES:
            yield from csv.reader(io.StringIO(data.decode("utf-8"), newline=""))
    except (OSError, NotPlainError, ValueError, csv.Error):
        return


def _figure(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e15 else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
