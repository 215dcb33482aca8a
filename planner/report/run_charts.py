"""The charts of a run's page: loss, accuracy and learning rate by epoch; images/s and dollars over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from trainplan.planner.report.html_chart import Axis, Line, Spot, axis_over, chart
from trainplan.planner.report.run_answer import RunDocument, estimated, usd_text

if TYPE_CHECKING:
    from trainplan.planner.report.html import Markup

MOST_SPOTS = 60
"""Points of a line that hovering and the keyboard tell; more would lie on each other."""
_FAR = 10.0
"""From so many times the smallest value on an axis is logarithmic."""
_UNITS = ((1, "seconds", 180), (60, "minutes", 7_200), (3_600, "hours", 259_200), (86_400, "days", math.inf))
"""Units of the axis of time: seconds of each, its name, and up to how many seconds a run is told in it."""
Row = dict[str, Any]
Point = tuple[float, float]


def epoch_charts(document: RunDocument) -> list[Markup]:
    """One for each figure that some epoch has; a learning rate that never changed is told in words."""
    rows = document["epochs"]
    drawn = [
        _by_epoch("Loss by epoch", "loss", rows, (("loss", "training"), ("validation_loss", "test images"))),
        _by_epoch(
            "Accuracy by epoch", "accuracy", rows,
            (("accuracy", "training"), ("validation_accuracy", "test images"), ("validation_top5", "top-5")),
        ),
        _by_epoch("Learning rate by epoch", "learning rate", rows, (("learning_rate", "learning rate"),))
        if len(learning_rates(document)) > 1 else None,
    ]  # fmt: skip
    return [one for one in drawn if one is not None]


def learning_rates(document: RunDocument) -> set[float]:
    """The learning rates that the epochs ended with, to four digits."""
    return {float(f"{row['learning_rate']:.4g}") for row in document["epochs"] if row["learning_rate"] is not None}


def time_charts(document: RunDocument) -> list[Markup]:
    """Images/s and dollars over the hours since the run was first asked for; those of which there are figures."""
    starts = [attempt["asked_at"] for attempt in document["attempts"] if attempt["asked_at"]]
    if not starts:
        return []
    time = _Time(min(starts), document["run"]["until"])
    return [one for one in (_speed(document, time), _dollars(document, time)) if one is not None]


class _Time:
    """Hours since the beginning of the run, or minutes or days, whichever suits its length."""

    def __init__(self, began: str, until: str) -> None:
        self._began = datetime.fromisoformat(began)
        seconds = max(1.0, (datetime.fromisoformat(until) - self._began).total_seconds())
        self._unit, self.name = next((unit, name) for unit, name, most in _UNITS if seconds <= most)
        self.last = seconds / self._unit

    def of(self, instant: str) -> float:
        """Where an instant is on the axis."""
        return max(0.0, (datetime.fromisoformat(instant) - self._began).total_seconds()) / self._unit

    def axis(self) -> Axis:
        return axis_over(f"{self.name} since the request", [0.0, self.last], ticks([0.0, self.last], number_text))


def _speed(document: RunDocument, time: _Time) -> Markup | None:
    rows = [row for row in document["progress"] if row["images_per_second"] and row["at"]]
    if not rows:
        return None
    points = [(time.of(row["at"]), float(row["images_per_second"])) for row in rows]
    expected = estimated(document, "images_per_second")
    lines = [Line("measured", points)]
    if expected:
        lines.append(Line("estimated", [(0.0, expected), (time.last, expected)], "estimated"))
    values = [0.0, *(value for _, value in points), *([expected] if expected else [])]
    spots = [
        Spot(at, value, f"{value:,.0f} images/s after {at:.1f} {time.name}", style="actual")
        for at, value in _some(points)
    ]
    y = axis_over("images/s", values, ticks(values, number_text))
    return chart("Images per second over time", time.axis(), y, spots, lines)


def _dollars(document: RunDocument, time: _Time) -> Markup | None:
    rows = document["dollars"]
    if not rows or not any(row["usd"] for row in rows):
        return None
    points = [(time.of(row["at"]), row["usd"]) for row in rows]
    expected = estimated(document, "usd")
    values = [0.0, *(usd for _, usd in points), *([expected] if expected else [])]
    lines = [Line("billed", points, "actual")]
    if expected:
        lines.append(Line("estimated in all", [(0.0, expected), (time.last, expected)], "estimated"))
    spots = [
        Spot(at, usd, f"{usd_text(usd)} after {at:.1f} {time.name}", style="actual") for at, usd in _some(points, 20)
    ]
    for stop in document["interruptions"]:
        if stop["at"]:
            at = time.of(stop["at"])
            usd = max((usd for when, usd in points if when <= at), default=0.0)
            text = f"attempt {stop['attempt']} ended ({stop['end']}) after {at:.1f} {time.name}"
            spots.append(Spot(at, usd, text, style="bad"))
    y = axis_over("USD", values, ticks(values, lambda value: f"${number_text(value)}"))
    return chart("Dollars over time", time.axis(), y, spots, lines)


def _by_epoch(title: str, unit: str, rows: Sequence[Row], fields: Sequence[tuple[str, str]]) -> Markup | None:
    lines, spots, values = [], [], []
    for number, (field, name) in enumerate(fields, start=1):
        points = [(float(row["epoch"]), float(row[field])) for row in rows if row[field] is not None]
        if not points:
            continue
        lines.append(Line(name, points, f"series-{number}"))
        values += [value for _, value in points]
        spots += [
            Spot(epoch, value, f"epoch {epoch:.0f}: {name} {number_text(value)}") for epoch, value in _some(points)
        ]
    if not lines:
        return None
    epochs = [float(row["epoch"]) for row in rows]
    x = axis_over("epoch", epochs, ticks(epochs, number_text, is_whole=True))
    is_log = unit != "accuracy" and min(values) > 0 and max(values) >= _FAR * min(values)
    marks = log_ticks(values) if is_log else ticks(values, number_text)
    return chart(title, x, axis_over(unit, values, marks, is_log=is_log), spots, lines)


def _some(points: Sequence[Point], most: int = MOST_SPOTS) -> list[Point]:
    """At most about so many of the points, evenly along the axis, the first and the last among them."""
    if not points:
        return []
    apart = (points[-1][0] - points[0][0]) / most
    kept = [points[0]]
    for point in points[1:-1]:
        if point[0] - kept[-1][0] >= apart and points[-1][0] - point[0] >= apart:
            kept.append(point)
    return kept if len(points) == 1 else [*kept, points[-1]]


def ticks(values: Iterable[float], text: Callable[[float], str], *, is_whole: bool = False) -> list[tuple[float, str]]:
    """Five to ten round values (1, 2 or 5 times a power of ten apart) that hold the ends of `values` between them."""
    known = list(values)
    low, high = min(known), max(known)
    least = (high - low) / 9 or abs(high) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(least))
    step = next(size * power for size in (1.0, 2.0, 5.0, 10.0) if size * power >= least * (1 - 1e-9))
    step = max(1.0, step) if is_whole else step
    first, last = math.floor(low / step), math.ceil(high / step)
    return [(number * step, text(number * step)) for number in range(first, last + 1)]


def log_ticks(values: Iterable[float]) -> list[tuple[float, str]]:
    """Powers of ten between the ends of `values`, and 2 and 5 times them where there are few."""
    known = list(values)
    low, high = min(known), max(known)
    sizes = (1.0, 2.0, 5.0) if high < 1_000 * low else (1.0,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [(size * 10.0**power, number_text(size * 10.0**power)) for power in powers for size in sizes]


def number_text(value: float) -> str:
    """Four significant digits at most, with commas from a thousand on."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
