"""What a person reads beside the model: metrics.csv, confusion.csv, report.md and curves.png."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trainplan.workloads.accuracy_gap import accuracy_notes
from trainplan.workloads.trainer.history import Epoch

if TYPE_CHECKING:
    from trainplan.workloads.trainer.counts import Confusion
    from trainplan.workloads.trainer.tester import HoldOutResult

REPORT = "report.md"
_MOST_ROWS = 20
"""Classes whose whole table fits a page; of more, the ones with the lowest recall are named."""
_MOST_MISTAKES = 10


def report_files(
    title: str,
    epochs: Sequence[Epoch],
    tested: HoldOutResult,
    class_names: Sequence[str],
    sentence: str,
    usage: Sequence[str] = (),
) -> dict[str, bytes]:
    """Files by name. `sentence` says on what was tested, with which weights; `usage` are lines on how to use them."""
    files = {"metrics.csv": _csv([list(Epoch.model_fields), *[list(row.model_dump().values()) for row in epochs]])}
    picture = curves(epochs, title)
    if picture is not None:
        files["curves.png"] = picture
    names = _names(class_names, tested.confusion)
    lines = [f"# {_plain(title)}", "", sentence, "", *_figure_lines(epochs, tested)]
    if picture is not None:
        lines += ["![loss and accuracy by epoch](curves.png)", ""]
    if tested.confusion is not None:
        rows = [[name, *map(int, row)] for name, row in zip(names, tested.confusion, strict=True)]
        files["confusion.csv"] = _csv([["class", *names], *rows])
        lines += _class_lines(tested.confusion, names) + _mistake_lines(tested.confusion, names)
    lines += usage
    files[REPORT] = ("\n".join(lines) + "\n").encode()
    return files


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _names(class_names: Sequence[str], confusion: Confusion | None) -> list[str]:
    count = 0 if confusion is None else len(confusion)
    return list(class_names) if len(class_names) == count else [str(label) for label in range(count)]


def _figure_lines(epochs: Sequence[Epoch], tested: HoldOutResult) -> list[str]:
    lines = ["| figure | value |", "|---|---|", f"| top-1 accuracy | {tested.accuracy:.2%} |"]
    if tested.top5 is not None:
        lines.append(f"| top-5 accuracy | {tested.top5:.2%} |")
    lines += [f"| loss | {tested.loss:.4f} |", f"| whole epochs | {len(epochs)} |", ""]
    notes = accuracy_notes(tested.accuracy, tested.most_frequent, tested.training, tested.training_tested)
    for note in notes:
        lines += [f"**Top-1 accuracy: {note}.**", ""]
    return lines


def _class_lines(confusion: Confusion, names: list[str]) -> list[str]:
    """Recall is the share of a class that was found, precision the share that was right of what was taken for it."""
    right, true, predicted = np.diagonal(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    labels = list(range(len(names)))
    head = "## Classes"
    if len(names) > _MOST_ROWS:
        recalls = [right[label] / true[label] if true[label] else 2.0 for label in labels]
        labels = sorted(labels, key=lambda label: (recalls[label], label))[:_MOST_ROWS]
        head = f"## The {_MOST_ROWS} of {len(names)} classes with the lowest recall"
    lines = [head, "", "| class | images | recall | precision |", "|---|---|---|---|"]
    for label in labels:
        recall, precision = _share(right[label], true[label]), _share(right[label], predicted[label])
        lines.append(f"| {_plain(names[label])} | {true[label]:,} | {recall} | {precision} |")
    return [*lines, ""]


def _mistake_lines(confusion: Confusion, names: list[str]) -> list[str]:
    wrong = confusion * (1 - np.eye(len(confusion), dtype=np.int64))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_MISTAKES]
    pairs = [(int(flat) // len(names), int(flat) % len(names)) for flat in order]
    rows = [
        f"| {_plain(names[true])} | {_plain(names[predicted])} | {wrong[true, predicted]:,} |"
        for true, predicted in pairs
        if wrong[true, predicted]
    ]
    if not rows:
        return []
    head = ["## The most frequent mistakes", "", "| class | taken for | images |", "|---|---|---|"]
    return [*head, *rows, "", "All pairs of classes: confusion.csv.", ""]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _plain(text: str) -> str:
    """Names of folders may hold anything; in a table they hold no bars and no tags."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


_WIDTH, _HEIGHT = 960, 384
_MARGIN = 56
_TOP, _BOTTOM = 56, _HEIGHT - 48
_INK, _GRID = (40, 40, 40), (220, 220, 220)
_TRAINED, _VALIDATED = (31, 119, 180), (214, 39, 40)
_MOST_POINTS = 2_000
_FAR = 10.0
"""From so many times the smallest value on, the axis is logarithmic: one bad epoch would flatten the rest."""
_MOST_TITLE = 100


class Scale(NamedTuple):
    """An axis of values: its ends, the values with a line, and whether it is logarithmic."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one."""
        low, high, here = (math.log(one) if self.is_logarithmic else one for one in (self.low, self.high, value))
        return (here - low) / (high - low)


def scale_of(values: Sequence[float], *, whole: bool = False) -> Scale:
    """An axis that holds all values between two of its ticks, which are round figures (`whole`: no fractions).

    Logarithmic where the largest is _FAR times the smallest, or more, and none is 0 or less. What is not finite is
    left out.
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    if not whole and low > 0 and high >= _FAR * low:
        return _logarithmic(low, high)
    step = _round_step((high - low) / 4 or abs(high) / 4 or 0.25)
    step = max(1.0, step) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    ticks = tuple(number * step for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks)


def _logarithmic(low: float, high: float) -> Scale:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    # Of many decades each has a line, of few also what is between.
    steps = (1.0, 2.0, 5.0) if high < 1_000 * low else (1.0,)
    lines = [step * 10.0**decade for decade in decades for step in steps]
    first = max((line for line in lines if line <= low), default=lines[0])
    last = min((line for line in lines if line >= high), default=lines[-1])
    return Scale(first, last, tuple(line for line in lines if first <= line <= last), is_logarithmic=True)


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= least * (1 - 1e-9))


class _Panel(NamedTuple):
    """One diagram: its title, the fields drawn in it, and its left and right edge in pixels."""

    title: str
    fields: tuple[tuple[str, tuple[int, int, int]], ...]
    left_px: int
    right_px: int


_PANELS = (
    _Panel("loss", (("loss", _TRAINED), ("validation_loss", _VALIDATED)), _MARGIN, _WIDTH // 2 - 16),
    _Panel(
        "accuracy",
        (("accuracy", _TRAINED), ("validation_accuracy", _VALIDATED)),
        _WIDTH // 2 + _MARGIN,
        _WIDTH - 16,
    ),
)


def curves(epochs: Sequence[Epoch], title: str = "") -> bytes | None:
    """None without an epoch, or without Pillow. `title` stands above both diagrams."""
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        return None
    if not epochs:
        return None
    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    points = epochs[:: -(-len(epochs) // _MOST_POINTS)]
    # The letters of Pillow's own font: others would be boxes, or an error.
    draw.text((_MARGIN, 8), title[:_MOST_TITLE].encode("ascii", "replace").decode(), fill=_INK)
    for panel in _PANELS:
        _panel(draw, panel, points)
    draw.text((_MARGIN, _HEIGHT - 18), "training", fill=_TRAINED)
    draw.text((_MARGIN + 80, _HEIGHT - 18), "validation", fill=_VALIDATED)
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _panel(draw: Any, panel: _Panel, epochs: Sequence[Epoch]) -> None:
    lines = {colour: _points(epochs, name) for name, colour in panel.fields}
    values = scale_of([value for points in lines.values() for _, value in points])
    numbers = scale_of([float(epoch.epoch) for epoch in epochs], whole=True)

    def at(epoch: float, value: float) -> tuple[float, float]:
        across = panel.left_px + numbers.share(epoch) * (panel.right_px - panel.left_px)
        return across, _BOTTOM - values.share(value) * (_BOTTOM - _TOP)

    heading = f"{panel.title}{' (logarithmic)' if values.is_logarithmic else ''} by epoch"
    draw.text((panel.left_px, 32), heading, fill=_INK)
    for tick in values.ticks:
        height = at(numbers.low, tick)[1]
        draw.line([(panel.left_px, height), (panel.right_px, height)], fill=_GRID)
        draw.text((panel.left_px - 44, height - 6), f"{tick:.4g}", fill=_INK)
    for tick in numbers.ticks:
        draw.text((at(tick, values.low)[0] - 6, _BOTTOM + 4), f"{tick:.0f}", fill=_INK)
    for colour, points in lines.items():
        pixels = [at(epoch, value) for epoch, value in points if math.isfinite(value)]
        draw.line(pixels, fill=colour, width=2)
        for across, height in pixels if len(pixels) <= 50 else []:
            draw.ellipse([(across - 2, height - 2), (across + 2, height + 2)], fill=colour)


def _points(epochs: Sequence[Epoch], name: str) -> list[tuple[int, float]]:
    return [(epoch.epoch, getattr(epoch, name)) for epoch in epochs if getattr(epoch, name) is not None]
