"""Charts of a page as SVG: points with intervals and lines, over axes that are linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trainplan.planner.report.html import Content, Markup, joined, tag

WIDTH, HEIGHT = 760, 420
"""The picture's own units; a browser scales it to the page."""
LEFT, RIGHT, TOP, BOTTOM = 74, 16, 32, 52
"""What of them is around the plane of the chart."""


class Axis(NamedTuple):
    """From `low` to `high`, in the unit of its title, with a text at each tick. On a logarithmic one all is above 0."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    is_log: bool = False

    def share(self, value: float) -> float:
        """Where a value is, from 0 (low) to 1 (high); beyond the ends: at the end."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return (at - low) / (high - low) if high > low else 0.5


class Spot(NamedTuple):
    """A point, with the ends of its intervals (None: none), and the text that hovering and the keyboard tell.

    `row` is the place of its row in the page's table `rows`, from 0; the script takes a text that is "" from there.
    `style` is a class of the page's style: front, other, actual, estimated, bad. `name` stands where it lies on
    no other name.
    """

    x: float
    y: float
    text: str
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    row: int | None = None
    style: str = "other"
    name: str = ""


class Line(NamedTuple):
    """Points joined by straight lines, or by steps; one with a name stands in the legend.

    `style` is a class as above, or series-1 to series-4.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: str = "series-1"
    is_step: bool = False


def axis_over(title: str, values: Iterable[float], ticks: Sequence[tuple[float, str]], *, is_log: bool = False) -> Axis:
    """An axis that holds all values with some room beside them, and those of the ticks that lie on it."""
    known = list(values)
    low, high = min(known), max(known)
    if is_log:
        room = max((high / low) ** 0.03, 1.05)
        low, high = low / room, high * room
    else:
        room = (high - low) * 0.03 or abs(high) * 0.1 or 1.0
        low, high = low - (room if low else 0), high + room
    return Axis(title, low, high, [(at, text) for at, text in ticks if low <= at <= high], is_log)


def chart(title: str, x: Axis, y: Axis, spots: Sequence[Spot] = (), lines: Sequence[Line] = ()) -> Markup:
    """The chart, with a line of text below it that tells the point under the pointer or the keyboard.

    With assets/chart.js the whole chart is one stop of the Tab key; arrow keys go from point to point, by x. Without a
    script each point tells its text as a tooltip.
    """
    drawn = sorted(spots, key=lambda spot: (spot.style != "other", -spot.x))
    planes = [
        _grid(x, y),
        *(_line(line, x, y) for line in lines),
        *(_spot(spot, name, x, y) for spot, name in zip(drawn, _names(drawn, x, y), strict=True)),
    ]
    picture = tag("svg", *planes, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="group", aria_label=title, class_="chart")
    caption = [title, *([" ", _legend(lines)] if any(line.name for line in lines) else [])]
    return tag("figure", picture, tag("p", class_="tip", role="status"), tag("figcaption", *caption))


def _x(axis: Axis, value: float) -> float:
    return round(LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT), 1)


def _y(axis: Axis, value: float) -> float:
    return round(HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM), 1)


def _grid(x: Axis, y: Axis) -> Markup:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts: list[Content] = []
    for index, (at, text) in enumerate(x.ticks):
        at_pixel = _x(x, at)
        parts.append(tag("path", d=f"M{at_pixel:g} {TOP}V{bottom}", class_="grid"))
        parts.append(tag("text", text, x=at_pixel, y=bottom + 18, class_=f"x{_minor(index)}"))
    for at, text in y.ticks:
        at_pixel = _y(y, at)
        parts.append(tag("path", d=f"M{LEFT} {at_pixel:g}H{right}", class_="grid"))
        parts.append(tag("text", text, x=LEFT - 8, y=at_pixel + 4, class_="y"))
    parts.append(tag("path", d=f"M{LEFT} {TOP}V{bottom}H{right}", class_="axis"))
    parts.append(tag("text", x.title, x=(LEFT + right) / 2, y=HEIGHT - 10, class_="x title"))
    parts.append(tag("text", y.title, x=4, y=14, class_="title"))  # above the axis: beside it are texts of any width
    return tag("g", *parts, aria_hidden="true")


def _minor(index: int) -> str:
    """Every second text on the x axis is left out on a narrow screen."""
    return " minor" if index % 2 else ""


def _line(line: Line, x: Axis, y: Axis) -> Markup:
    points = [(_x(x, at), _y(y, value)) for at, value in line.points if math.isfinite(at) and math.isfinite(value)]
    if not points:
        return Markup()
    steps = "".join(f"H{at:g}V{value:g}" if line.is_step else f"L{at:g} {value:g}" for at, value in points[1:])
    return tag("path", d=f"M{points[0][0]:g} {points[0][1]:g}{steps}", class_=f"line {line.style}")


_LETTER, _ABOVE, _BELOW = 7.0, 11.0, 3.0
"""Of a name, in units of the picture: the width of a letter, assumed, and what is above and below its base line."""
_BESIDE = [(right, down) for down in (-6, 16, -21, 31) for right in (7, -7)]
"""Where the name of a point may stand from it; to the left it ends there."""


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def _names(spots: Sequence[Spot], x: Axis, y: Axis) -> list[Content]:
    """The name of each point where it meets no other name and no named point; one without such a place has none, and
    hovering and the keyboard still tell it."""
    points = [(_x(x, spot.x), _y(y, spot.y)) for spot in spots]
    named = [point for point, spot in zip(points, spots, strict=True) if spot.name]
    names: list[Content] = []
    taken: list[_Box] = []
    for spot, (at, value) in zip(spots, points, strict=True):
        others = [_Box(one - 4, two - 4, one + 4, two + 4) for one, two in named if (one, two) != (at, value)]
        name: Content = None
        for right, down in _BESIDE if spot.name else ():
            width = _LETTER * len(spot.name)
            left = at + right - (width if right < 0 else 0)
            box = _Box(left, value + down - _ABOVE, left + width, value + down + _BELOW)
            is_inside = box.left >= LEFT and box.right <= WIDTH and box.top >= 0 and box.bottom <= HEIGHT - BOTTOM
            if is_inside and not any(map(box.meets, [*taken, *others])):
                taken.append(box)
                anchor = "end" if right < 0 else None
                name = tag("text", spot.name, x=at + right, y=value + down, text_anchor=anchor)
                break
        names.append(name)
    return names


def _spot(spot: Spot, name: Content, x: Axis, y: Axis) -> Markup:
    at, value = _x(x, spot.x), _y(y, spot.y)
    ends = ""
    if spot.x_ends is not None:
        ends += f"M{_x(x, spot.x_ends[0]):.0f} {value:g}H{_x(x, spot.x_ends[1]):.0f}"
    if spot.y_ends is not None:
        ends += f"M{at:g} {_y(y, spot.y_ends[0]):.0f}V{_y(y, spot.y_ends[1]):.0f}"
    return tag(
        "g",
        tag("title", spot.text) if spot.text else None,
        tag("path", d=ends) if ends else None,
        tag("circle", cx=at, cy=value, r=4),
        name,
        class_=f"spot {spot.style}",
        role="img" if spot.text else None,
        data_row=spot.row,
    )


def _legend(lines: Sequence[Line]) -> Markup:
    return joined((tag("span", line.name, class_=f"key {line.style}") for line in lines if line.name), " ")
