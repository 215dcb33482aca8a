"""Loss and accuracy by epoch as a PNG, drawn with Pillow, which every trainer has."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workloads.trainer.history import Epoch

_WIDTH, _HEIGHT = 960, 360
_MARGIN = 48
_INK, _GRID = (40, 40, 40), (220, 220, 220)
_TRAINED, _VALIDATED = (31, 119, 180), (214, 39, 40)
_MOST_POINTS = 2_000


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


def curves(epochs: Sequence[Epoch]) -> bytes | None:
    """None without an epoch, or without Pillow."""
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        return None
    if not epochs:
        return None
    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    points = epochs[:: -(-len(epochs) // _MOST_POINTS)]
    for panel in _PANELS:
        _panel(draw, panel, points)
    draw.text((_MARGIN, _HEIGHT - 18), "training", fill=_TRAINED)
    draw.text((_MARGIN + 80, _HEIGHT - 18), "validation", fill=_VALIDATED)
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _panel(draw: Any, panel: _Panel, epochs: Sequence[Epoch]) -> None:
    lines = {colour: _points(epochs, name) for name, colour in panel.fields}
    values = [value for points in lines.values() for _, value in points]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    high = high if high > low else low + 1
    first, last = epochs[0].epoch, max(epochs[-1].epoch, epochs[0].epoch + 1)
    top, bottom = 32, _HEIGHT - _MARGIN

    def at(epoch: int, value: float) -> tuple[float, float]:
        across = (epoch - first) / (last - first)
        return panel.left_px + across * (panel.right_px - panel.left_px), bottom - (value - low) / (high - low) * (
            bottom - top
        )

    draw.text((panel.left_px, 8), panel.title, fill=_INK)
    for part in range(5):
        value = low + (high - low) * part / 4
        height = at(first, value)[1]
        draw.line([(panel.left_px, height), (panel.right_px, height)], fill=_GRID)
        draw.text((panel.left_px - 40, height - 6), f"{value:.3g}", fill=_INK)
    for epoch in sorted({first, epochs[-1].epoch}):
        draw.text((at(epoch, low)[0] - 6, bottom + 4), str(epoch), fill=_INK)
    for colour, points in lines.items():
        places = [at(epoch, value) for epoch, value in points]
        draw.line(places, fill=colour, width=2)
        for across, height in places if len(places) <= 50 else []:
            draw.ellipse([(across - 2, height - 2), (across + 2, height + 2)], fill=colour)


def _points(epochs: Sequence[Epoch], name: str) -> list[tuple[int, float]]:
    return [(epoch.epoch, getattr(epoch, name)) for epoch in epochs if getattr(epoch, name) is not None]
