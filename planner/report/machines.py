"""What `plan estimate --nodes` shows: the first offers in several numbers of machines, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainplan.planner.forecast.machines import advice_on_machines
from trainplan.planner.report.estimate_columns import speed_json, speed_text
from trainplan.planner.report.page import Column, Page, Table
from trainplan.pricing.devices import device_text
from trainplan.pricing.money import format_usd_interval, from_micro

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Group, Plan

LAUNCH_TEXT = (
    "a launch rents one machine; on your own Slurm cluster it takes as many as the job has `nodes`; rented at a cloud "
    "for another scheduler, several must be in one zone, and each costs as much as one"
)


_COLUMNS = (
    Column("row"),
    Column("machines", right=True),
    Column("instance", rank_of_need=2),
    Column("devices"),
    Column("images/s (80 %)", right=True, rank_of_need=1),
    Column("time", right=True),
    Column("cost (80 %)", right=True),
    Column("worth it"),
)


def machines_page(plan: Plan) -> Page:
    """The table with its heading and what follows of it; empty where several machines were not asked for."""
    if not plan.groups:
        return []
    lines: list[str | Table] = [
        "several machines, the batch divided over all their devices (computed, see docs/accuracy.md):"
    ]
    lines.append(Table(_COLUMNS, [_cells(group) for group in plan.groups]))
    lines += _reasons(plan.groups)
    lines += dict.fromkeys(
        f"{group.rental.instance_type}: {group.network.ground}" for group in plan.groups if _is_computed(group)
    )
    lines += [f"advice: {line}" for line in machines_advice(plan)]
    return [*lines, LAUNCH_TEXT]


def _reasons(groups: Sequence[Group]) -> list[str]:
    """Why numbers cannot be used, one line for each reason: `2 and 3 x p3.16xlarge: no: ...`."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        if group.left_out:
            numbers.setdefault((group.left_out, group.rental.instance_type), []).append(str(group.machines))
    return [f"{', '.join(counts)} x {name}: no: {reason}" for (reason, name), counts in numbers.items()]


def machines_advice(plan: Plan) -> list[str]:
    """What follows of them, in one line or none."""
    line = advice_on_machines(plan.groups, plan.ranking)
    return [line] if line else []


def _is_computed(group: Group) -> bool:
    return group.machines > 1 and group.estimate is not None


def _cells(group: Group) -> tuple[str, ...]:
    rental = group.rental
    devices = group.devices if rental.device != "cpu" else 1
    what = device_text(rental.device, devices, float(rental.device_fraction), (rental.vcpus or 0) * group.machines)
    first = (group.row, str(group.machines), rental.instance_type, what)
    if group.estimate is None or group.cost_micro_usd is None:
        return (*first, "-", "-", "-", "no")
    return (
        *first,
        speed_text(group.estimate.throughput),
        group.estimate.time.text,
        format_usd_interval(*(from_micro(cost) for cost in group.cost_micro_usd)),
        _WORTH[group.is_worth_it],
    )


_WORTH = {None: "", True: "yes", False: "no"}


def machines_json(plan: Plan) -> list[dict[str, Any]]:
    """One object for each offer and number; null for what is not known. Empty where several were not asked for."""
    return [_object(group) for group in plan.groups]


def _object(group: Group) -> dict[str, Any]:
    rental, estimate, cost = group.rental, group.estimate, group.cost_micro_usd
    speed = speed_json(estimate.throughput) if estimate is not None else _NO_SPEED
    seconds = estimate.time.seconds if estimate is not None else [None] * 3
    usd = [micro / 1_000_000 for micro in cost] if cost is not None else [None] * 3
    return {
        "row": group.row,
        "machines": group.machines,
        "devices": group.devices,
        "provider": rental.provider,
        "region": group.region,
        "instance_type": rental.instance_type,
        "market": str(rental.market),
        "network": group.network.ground,
        "network_gbit_per_second": group.network.gbit_per_second,
        **speed,
        **dict(zip(("total_seconds", "total_low_seconds", "total_high_seconds"), seconds, strict=True)),
        "cost_usd": usd[0],
        "cost_low_usd": usd[1],
        "cost_high_usd": usd[2],
        "is_worth_it": group.is_worth_it,
        "left_out": group.left_out or None,
    }


_NO_SPEED = dict.fromkeys(("images_per_second", "images_per_second_low", "images_per_second_high", "basis"))
