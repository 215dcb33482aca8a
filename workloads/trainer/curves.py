"""Loss and accuracy by epoch as a PNG, drawn with Pillow, which every trainer has."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from workloads.trainer.history import Epoch

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
