"""Pictures of figures: `plan estimate --plot`, `plan throughput check --plot`. All axes are logarithmic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.home.files import persons_files
from trainplan.planner.throughput.check import Checked
from trainplan.planner.throughput.values import Throughput
from trainplan.pricing.money import format_usd
from trainplan.providers.registry import is_simulated
from trainplan.workloads.durations import format_duration
from trainplan.workloads.extras import install_hint

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Plan
    from trainplan.planner.report.front import Point

MOST_NAMES = 10
_COLOURS = {"measured": "tab:green", "scaled": "tab:blue", "anchored": "tab:purple", "modelled": "tab:orange"}
_HOUR, _DAY = 3_600, 86_400
_TIMES = (
    *(60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0),
    *(hours * _HOUR for hours in (1.0, 2.0, 4.0, 8.0)),
    *(days * _DAY for days in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)),
)
"""Seconds where the axis of the time has a line."""


def draw_front(plan: Plan, target: Path) -> None:
    """Write the picture of an estimate: cost against time with the ends of their intervals, devices of the front named.

    The size is 9 by 6 inches. Raises ThisMachineError without matplotlib, BadInputError where there is nothing to draw.
    """
    from trainplan.planner.report.front import front, near, points

    offers = points(plan)
    if not offers:
        raise BadInputError("no offer that costs something is left, so there is nothing to draw")
    shown, best = near(offers), front(offers)
    figure, axes = _figure((9, 6))
    rest = [point for point in shown if not point.is_front]
    _crosses(axes, rest, "tab:gray", f"{len(rest)} others")
    _crosses(axes, best, "tab:blue", f"{len(best)} on the front: no other offer is faster and cheaper")
    axes.step(
        [point.seconds.expected for point in best], [point.usd.expected for point in best], where="post",
        color="tab:blue", linewidth=0.8, alpha=0.6,
    )  # fmt: skip
    names = "\n".join(f"{point.row:>3}: {point.provider} {point.label}" for point in best)
    figure.legend([], [], title=f"on the front, by time\n{names}", loc="outside right upper", alignment="left")
    far = len(offers) - len(shown)
    simulated = " (simulated)" if any(is_simulated(point.provider) for point in offers) else ""
    axes.set(
        title=f"{plan.job.name}: cost against time{simulated}, estimated on {plan.made_at:%Y-%m-%d}",
        xlabel=f"time of the whole run{f'; {far} offers lie farther away' if far else ''}",
        ylabel="cost of the whole run, USD at list prices",
    )
    _words(axes.xaxis, _TIMES, lambda seconds: format_duration(timedelta(seconds=seconds)))
    _words(axes.yaxis, (), lambda usd: format_usd(Decimal(usd)))
    _name_points(figure, axes, [(point.seconds.expected, point.usd.expected, point.row) for point in best])
    _save(figure, axes, target)


def draw_check(checked: list[Checked], source: str, target: Path) -> None:
    """Write the picture of a check of `source`: predicted against measured with intervals, the MOST_NAMES devices that
    are farthest off named.

    Raises ThisMachineError without matplotlib, BadInputError where there is nothing to draw.
    """
    figure, axes = _figure((8, 7))
    drawn = [_basis(axes, checked, basis, colour) for basis, colour in _COLOURS.items()]
    if not any(drawn):
        raise BadInputError("no row could be predicted, so there is nothing to draw")
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color="black", linewidth=0.8, label="as measured")
    predicted = [row for row in checked if isinstance(row.answer, Throughput)]
    within = sum(row.covered for row in predicted) / len(predicted)
    axes.set(
        title=f"{source}: {sum(drawn)} of {len(checked)} rows predicted, {within:.0%} within their 80 % interval",
        xlabel="measured, images/s",
        ylabel="predicted, images/s (80 % interval)",
    )
    _name_devices(figure, axes, checked)
    _save(figure, axes, target)


def _figure(inches: tuple[int, int]) -> tuple[Any, Any]:
    """A figure and its logarithmic axes. Raises ThisMachineError as above."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ThisMachineError("--plot needs matplotlib", install_hint("plot")) from None
    figure = Figure(figsize=inches, layout="constrained")
    return figure, figure.add_subplot(xscale="log", yscale="log")


def _save(figure: Any, axes: Any, target: Path) -> None:
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
    try:
        with persons_files():
            figure.savefig(target, format="png", dpi=120)
    except OSError as error:
        raise ThisMachineError(f"cannot write {target}: {error.strerror}") from None


def _words(axis: Any, lines: Sequence[float], text: Callable[[float], str]) -> None:
    """Name the lines of an axis in words; with `lines`, these are the ones within its ends."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    within = [line for line in lines if low <= line <= high]
    axis.set_major_locator(FixedLocator(within) if within else LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def _crosses(axes: Any, points: Sequence[Point], colour: str, label: str) -> None:
    """Points with the ends of their intervals in both directions."""
    if not points:
        return
    seconds, usd = [point.seconds for point in points], [point.usd for point in points]
    axes.errorbar(
        [one.expected for one in seconds],
        [one.expected for one in usd],
        xerr=[[one.expected - one.low for one in seconds], [one.high - one.expected for one in seconds]],
        yerr=[[one.expected - one.low for one in usd], [one.high - one.expected for one in usd]],
        fmt="o", markersize=4, linewidth=0.6, alpha=0.8 if colour == "tab:blue" else 0.35, color=colour, label=label,
    )  # fmt: skip


def _name_points(figure: Any, axes: Any, names: Sequence[tuple[float, float, str]]) -> None:
    """Write each name beside its point, where it lies on no other name as far as there is such a place."""
    figure.draw_without_rendering()  # the places of the points on the picture are known from here on
    boxes: list[Any] = []
    for x, y, text in names:
        for distance, side in product((4, 14, 24, 34), ("left", "right")):
            across = 4 if side == "left" else -4
            note = axes.annotate(
                text, (x, y), xytext=(across, distance), textcoords="offset points", fontsize=8, ha=side
            )
            box = note.get_window_extent()
            if not any(box.overlaps(other) for other in boxes):
                break
            note.remove()
        else:
            note = axes.annotate(text, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8)
            box = note.get_window_extent()
        boxes.append(box.padded(2))  # points lie a pixel or so nearer to each other once the picture is laid out


def _name_devices(figure: Any, axes: Any, checked: Sequence[Checked]) -> None:
    """The names of the devices whose predictions are farthest off, beside the farthest of each."""
    farthest: dict[str, Checked] = {}
    for row in checked:
        if row.error is not None and abs(row.error) >= abs(farthest.get(row.device, row).error or 0.0):
            farthest[row.device] = row
    by_error = sorted(farthest.items(), key=lambda pair: -abs(pair[1].error or 0.0))
    names = [
        (row.images_per_second, row.answer.images_per_second, device)
        for device, row in by_error[:MOST_NAMES]
        if isinstance(row.answer, Throughput) and row.images_per_second is not None
    ]
    _name_points(figure, axes, names)


def _basis(axes: Any, checked: Sequence[Checked], basis: str, colour: str) -> int:
    """Draw the rows whose prediction has this basis; return how many there are."""
    points = [
        (row.images_per_second, row.answer)
        for row in checked
        if isinstance(row.answer, Throughput) and row.answer.basis == basis and row.images_per_second
    ]
    if points:
        below = [answer.images_per_second - answer.low for _, answer in points]
        above = [answer.high - answer.images_per_second for _, answer in points]
        axes.errorbar(
            [measured for measured, _ in points],
            [answer.images_per_second for _, answer in points],
            yerr=[below, above],
            fmt="o",
            markersize=3,
            linewidth=0.6,
            alpha=0.6,
            color=colour,
            label=f"{basis} ({len(points)})",
        )
    return len(points)
