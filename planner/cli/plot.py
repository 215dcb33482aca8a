"""A picture of `plan throughput check`: predicted against measured, with intervals, both axes logarithmic."""

from __future__ import annotations

from pathlib import Path

from planner.errors import BadInputError, ThisMachineError
from planner.home.files import persons_files
from planner.throughput.check import Checked
from planner.throughput.values import Throughput

_COLOURS = {"measured": "tab:green", "scaled": "tab:blue", "modelled": "tab:orange"}


def draw(checked: list[Checked], target: Path) -> None:
    """Write the picture. Raises ThisMachineError without matplotlib, BadInputError where there is nothing to draw."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ThisMachineError("--plot needs matplotlib", "pip install 'trainplan[plot]'") from None
    figure = Figure(figsize=(8, 7), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log")
    drawn = [_basis(axes, checked, basis, colour) for basis, colour in _COLOURS.items()]
    if not any(drawn):
        raise BadInputError("no row could be predicted, so there is nothing to draw")
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color="black", linewidth=0.8, label="as measured")
    axes.set(xlabel="measured, images/s", ylabel="predicted, images/s (80 % interval)")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    try:
        with persons_files():
            figure.savefig(target, format="png", dpi=120)
    except OSError as error:
        raise ThisMachineError(f"cannot write {target}: {error.strerror}") from None


def _basis(axes: object, checked: list[Checked], basis: str, colour: str) -> int:
    points = [
        (row.images_per_second, row.answer)
        for row in checked
        if isinstance(row.answer, Throughput) and row.answer.basis == basis and row.images_per_second
    ]
    if points:
        below = [answer.images_per_second - answer.low for _, answer in points]
        above = [answer.high - answer.images_per_second for _, answer in points]
        axes.errorbar(  # type: ignore[attr-defined]  # matplotlib has no types of its own
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
