"""The curves of a run: what the trainers of its attempts have said over time, in few enough points to draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainplan.workloads.secret_rules import without_secrets

if TYPE_CHECKING:
    from trainplan.planner.runs.directory.progress import Line

MOST_POINTS = 400
"""Of a curve over time: more than a page has pixels for one line."""
MOST_EPOCHS = 1_000
_OF_A_STEP = ("step", "loss", "accuracy", "images_per_second")
OF_AN_EPOCH = (
    "epoch", "step", "loss", "accuracy", "validation_loss", "validation_accuracy", "validation_top5", "learning_rate",
    "seconds",
)  # fmt: skip
"""Figures of an epoch, as a line of progress names them."""


class Thinned:
    """At most about `most` of any number of points, evenly spread, the newest always among them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[dict[str, Any]] = []
        self._stride = 1
        self._count = 0
        self._newest: dict[str, Any] | None = None

    def add(self, point: dict[str, Any]) -> None:
        """Take in the next point."""
        if self._count % self._stride == 0:
            self._kept.append(point)
        self._count += 1
        self._newest = point
        if len(self._kept) >= 2 * self._most:
            self._kept, self._stride = self._kept[::2], 2 * self._stride

    def points(self) -> list[dict[str, Any]]:
        """The points that are kept, in the order in which they came."""
        step = -(-len(self._kept) // self._most) or 1
        kept = self._kept[::step]
        return kept if self._newest is None or (kept and kept[-1] is self._newest) else [*kept, self._newest]


@dataclass(slots=True)
class Curves:
    """Lines of progress as points. An epoch that was trained again after an interruption counts as it was last trained;
    steps are kept as they came."""

    warnings: list[str] = field(default_factory=list)
    _steps: Thinned = field(default_factory=lambda: Thinned(MOST_POINTS))
    _epochs: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, attempt: int, line: Line) -> None:
        """Take in the next line of an attempt."""
        match line["event"]:
            case "step":
                point = {name: line.get(name) for name in _OF_A_STEP}
                self._steps.add({"attempt": attempt, "at": line.get("time"), **point})
            case "epoch" if isinstance(line.get("epoch"), int):
                if len(self._epochs) < 100 * MOST_EPOCHS:  # a rented machine writes these lines
                    point = {name: line.get(name) for name in OF_AN_EPOCH}
                    self._epochs[line["epoch"]] = {"attempt": attempt, "at": line.get("time"), **point}
            case "warning" if len(self.warnings) < _MOST_WARNINGS:
                self.warnings.append(without_secrets(str(line["message"])))
            case _:
                pass

    def by_time(self) -> list[dict[str, Any]]:
        """Steps that were reported, over all attempts."""
        return self._steps.points()

    def by_epoch(self) -> list[dict[str, Any]]:
        """Whole epochs in order."""
        return thinned_epochs([self._epochs[number] for number in sorted(self._epochs)])


_MOST_WARNINGS = 50


def thinned_epochs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most about MOST_EPOCHS of the rows, the last one among them."""
    return _through(Thinned(MOST_EPOCHS), rows)


def _through(thinned: Thinned, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        thinned.add(row)
    return thinned.points()
