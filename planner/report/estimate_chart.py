"""The chart of an estimate's page: cost against time, both logarithmic, with 80 % intervals, from rows of the JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from trainplan.planner.report.estimate_columns import ESTIMATE_ONLY
from trainplan.planner.report.html import Markup, tag
from trainplan.planner.report.html_chart import Line, Spot, axis_over, chart
from trainplan.pricing.devices import device_text

_TIMES = (
    *((60.0 * minutes, f"{minutes} min") for minutes in (1, 2, 5, 10, 30)),
    *((3_600.0 * hours, f"{hours} h") for hours in (1, 2, 4, 8)),
    *((86_400.0 * days, f"{days} d") for days in (1, 2, 4, 8, 16, 30)),
)
"""Where the axis of the time has a line, in seconds, and in words."""
_COSTS = tuple(float(f"{digit}e{power}") for power, digit in product(range(-4, 7), (1, 3)))
TITLE = (
    "Cost against time of the whole run, with 80 % intervals; both axes are logarithmic. Blue: no other offer is "
    "faster and cheaper."
)


def cost_chart(rows: Sequence[dict[str, Any]]) -> Markup:
    """Every offer that some deadline and budget put first among its kind, the front marked and joined.

    What costs nothing has no place on a logarithmic axis, and what nobody can launch is no answer.
    """
    drawn = [index for index in first_ones(rows) if _is_drawn(rows[index])]
    if not drawn:
        return Markup()
    front = set(front_of(rows, drawn))
    times = [rows[index][key] for index in drawn for key in ("total_low_seconds", "total_high_seconds")]
    costs = [rows[index][key] for index in drawn for key in ("cost_low_usd", "cost_high_usd")]
    x = axis_over("time of the whole run", times, _TIMES, is_log=True)
    y = axis_over("cost of the whole run", [cost for cost in costs if cost > 0], _usd_ticks(), is_log=True)
    spots = [_spot(rows[index], index, is_front=index in front) for index in drawn]
    joined = [(rows[index]["total_seconds"], rows[index]["cost_usd"]) for index in front_of(rows, drawn)]
    return tag("div", chart(TITLE, x, y, spots, [Line("", joined, "front", is_step=True)]), id_="front")


def first_ones(rows: Sequence[dict[str, Any]]) -> list[int]:
    """The rows, by their places, that stand first among their kind under some deadline and budget.

    A row that is no faster and no cheaper than one of its kind before it never does.
    """
    before: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    first: list[int] = []
    for index, row in enumerate(rows):
        kind = before.setdefault(kind_of(row), [])
        seconds, usd = row["total_seconds"], row["cost_usd"]
        if not any(other <= seconds and cost <= usd for other, cost in kind):
            kind.append((seconds, usd))
            first.append(index)
    return first


Kind = tuple[str, str, int, str]


def kind_of(row: dict[str, Any]) -> Kind:
    """What the estimate shows one row of: provider, device, number of devices, market."""
    return row["provider"], row["device"], row["device_count"], row["market"]


def front_of(rows: Sequence[dict[str, Any]], indices: Sequence[int]) -> list[int]:
    """Those of the places whose rows are cheaper than every faster one, the fastest first."""
    best: list[int] = []
    for index in sorted(indices, key=lambda index: (rows[index]["total_seconds"], rows[index]["cost_usd"])):
        if not best or rows[index]["cost_usd"] < rows[best[-1]]["cost_usd"]:
            best.append(index)
    return best


def _is_drawn(row: dict[str, Any]) -> bool:
    return row["cost_usd"] > 0 and ESTIMATE_ONLY not in row["remarks"]


def _spot(row: dict[str, Any], index: int, *, is_front: bool) -> Spot:
    what = device_text(row["device"], row["device_count"], row["device_fraction"], row["vcpus"])
    name = f"{what}{' spot' if row['market'] == 'spot' else ''}"
    return Spot(
        row["total_seconds"],
        row["cost_usd"],
        "",
        (row["total_low_seconds"], row["total_high_seconds"]),
        (row["cost_low_usd"], row["cost_high_usd"]),
        index,
        "front" if is_front else "other",
        name if is_front else "",
    )


def _usd_ticks() -> list[tuple[float, str]]:
    return [(cost, f"${cost:,.0f}" if cost >= 1 else f"${cost:g}") for cost in _COSTS]
