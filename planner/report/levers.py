"""What one change of the job, or of the offer that is taken, would save: as data, as a table, and as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.planner.forecast.levers import job_levers, offer_levers
from trainplan.planner.forecast.script_work import up_to
from trainplan.planner.forecast.times import Interval
from trainplan.planner.report.compare import Figures, Pair, of_offer
from trainplan.planner.report.estimate_json import numbered
from trainplan.planner.report.page import Cell, Column, Page, Table, Tone
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import device_text, machines_text
from trainplan.pricing.free_places import free_providers
from trainplan.pricing.money import format_usd, format_usd_interval, from_micro
from trainplan.workloads.durations import format_estimate

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Group, Plan
    from trainplan.workloads.job import TrainingJob

NODES = (1, 2, 4)
"""The numbers of machines that are looked at."""
_MEASURES = ("total_seconds", "cost_usd")


def lever_rows(plan: Plan, plan_of: Callable[[TrainingJob, Sequence[int]], Plan]) -> list[dict[str, Any]]:
    """One object for each change (its keys: docs/output.md), by what it saves in dollars, same work first.

    `plan_of` plans a changed job, or the job in these numbers of machines of the provider that is first now, as `plan`
    was. Both need their prices.
    """
    if not plan.ranking:
        return []
    offers = list(numbered(plan.ranking))
    before = of_offer(plan, offers[0])
    rows = [
        _row((lever.name, lever.before, lever.after), Pair(before, of_offer(plan, offers[lever.rank - 1])))
        for lever in offer_levers(plan.ranking)
    ]
    rows += [
        _row(("machines", "1", str(group.machines)), Pair(before, _of_group(group)), reason=group.left_out)
        for group in _several(plan, plan_of)
        if group.rank == 1 and group.machines > 1
    ]
    for lever in job_levers(plan.job):
        other = plan_of(lever.job, ())
        after = of_offer(other, next(numbered(other.ranking))) if other.ranking else None
        why = "" if other.filtered_last is None else other.filtered_last.text
        words = lever.name, lever.before, lever.after
        rows.append(_row(words, Pair(before, after), is_same_work=lever.is_same_work, reason=why))
    return sorted(rows, key=_saving_first)


def _several(plan: Plan, plan_of: Callable[[TrainingJob, Sequence[int]], Plan]) -> Sequence[Group]:
    """The first offers in several machines; none of a sweep, and none where a session has one machine."""
    provider = plan.ranking[0].estimate.rental.provider
    return () if plan.job.sweep is not None or provider in free_providers() else plan_of(plan.job, NODES).groups


def _saving_first(row: Mapping[str, Any]) -> tuple[bool, bool, float]:
    difference = row["difference"]
    return not row["same_work"], difference is None, difference["cost_usd"]["absolute"] if difference else 0.0


def _of_group(group: Group) -> Figures | None:
    """Several machines together, as one side of a pair."""
    estimate, costs, rental = group.estimate, group.cost_micro_usd, group.rental
    if estimate is None or costs is None:
        return None
    return Figures(
        placement=f"{rental.provider} {group.region}",
        machine=machines_text(rental.instance_type, group.machines),
        device=device_text(rental.device, group.devices, float(rental.device_fraction), rental.vcpus),
        market=str(rental.market),
        seconds=estimate.time.seconds,
        usd=Interval(*(float(from_micro(cost)) for cost in costs)),
        usd_per_hour=Decimal(0),
        throughput=estimate.throughput,
        memory=None,
        row={
            **{"provider": rental.provider, "region": group.region, "instance_type": rental.instance_type},
            **{"machines": group.machines, "device": rental.device, "device_count": rental.device_count},
            "market": str(rental.market),
        },
    )


def _row(words: tuple[str, str, str], pair: Pair, *, is_same_work: bool = True, reason: str = "") -> dict[str, Any]:
    deltas, overlaps = pair.deltas, pair.overlaps
    name, before, after = words
    difference = {key: delta._asdict() for key in _MEASURES if (delta := deltas.get(key)) is not None}
    return {
        "lever": name,
        "from": before,
        "to": after,
        "same_work": is_same_work,
        "before": _side(pair.first),
        "after": _side(pair.second),
        "difference": difference or None,
        "within_noise": {key: overlaps[key] and not pair.is_same_machine for key in _MEASURES} if overlaps else None,
        "same_machine": pair.is_same_machine if overlaps else None,
        "reason": (reason or None) if pair.second is None else None,
    }


def _side(figures: Figures | None) -> dict[str, Any] | None:
    if figures is None:
        return None
    keys = ("provider", "region", "instance_type", "machines", "device", "device_count", "market")
    return {
        **{key: figures.row[key] for key in keys},
        "basis": figures.throughput.basis,
        **dict(zip(("total_seconds", "total_low_seconds", "total_high_seconds"), figures.seconds, strict=True)),
        **dict(zip(("cost_usd", "cost_low_usd", "cost_high_usd"), figures.usd, strict=True)),
    }


_COLUMNS = (
    Column("change", shrinks=True),
    Column("work"),
    Column("time", right=True),
    Column("cost", right=True),
    Column("noise"),
    Column("first offer then", rank_of_need=1),
)


def levers_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The objects of `lever_rows` as a table: a change each, with the new time and cost and by how much they differ."""
    return Table(_COLUMNS, [_cells(row) for row in rows if _is_felt(row)])


def unfelt_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """`7 changes make no difference, or leave no offer`; "" where each is in the table."""
    count = sum(not _is_felt(row) for row in rows)
    if not count:
        return ""
    what = "change that makes no difference or leaves" if count == 1 else "changes that make no difference or leave"
    return f"not shown: {count} {what} no offer"


_FELT_PERCENT = 0.5
"""Less is shown as equal."""


def _is_felt(row: Mapping[str, Any]) -> bool:
    """Whether another time or cost comes of the change."""
    if row["after"] is None or row["difference"] is None:
        return False
    percents = [row["difference"][key]["percent"] for key in _MEASURES]
    return any(percent is None or abs(percent) >= _FELT_PERCENT for percent in percents)


def _cells(row: Mapping[str, Any]) -> list[str | Cell]:
    before, after, difference = row["before"], row["after"], row["difference"]
    device = device_text(after["device"], after["device_count"], 1.0, None)
    is_moved = (after["device"], after["device_count"]) != (before["device"], before["device_count"])
    moved = f" ({device})" if is_moved and device not in row["to"] else ""
    first = [f"{row['lever']} {row['from']} -> {row['to']}{moved}", "same" if row["same_work"] else "other"]
    time = up_to(_time_text(after), after["basis"])
    cost = up_to(format_usd(Decimal(str(after["cost_usd"]))), after["basis"])
    machines = machines_text(after["instance_type"], after["machines"])
    offer = f"{machines} ({after['device']}) {after['provider']} {after['region']}"
    return [
        *first,
        f"{time} {_percent(difference['total_seconds'])}",
        f"{cost} {_percent(difference['cost_usd'])}",
        _noise(row),
        offer,
    ]


def _time_text(offer: Mapping[str, Any]) -> str:
    return format_estimate(*(offer[f"total_{end}seconds"] for end in ("", "low_", "high_")))[0]


def _percent(delta: Mapping[str, float | None]) -> str:
    """`+40 %`, in five places."""
    percent = delta["percent"]
    if percent is None or not delta["absolute"]:
        return "  = "
    return "  = " if abs(percent) < _FELT_PERCENT else f"{percent:+5.0f} %"


def _noise(row: Mapping[str, Any]) -> str | Cell:
    if row["same_machine"]:
        return "same machine"
    within = row["within_noise"]
    if within is None:  # nothing but a deadline is known
        return "-"
    if all(within.values()):
        return Cell("within", Tone.FAINT)
    if not any(within.values()):
        return "beyond"
    return Cell("time within" if within["total_seconds"] else "cost within", Tone.FAINT)


def levers_page(rows: Sequence[Mapping[str, Any]], job_line: str) -> Page:
    """What a terminal shows: the first offer as it is, the table, and what its words mean."""
    if not rows:
        return [job_line, "no offer fits, so there is nothing to compare a change with"]
    now = rows[0]["before"]
    cost = format_usd_interval(*(Decimal(str(now[key])) for key in ("cost_usd", "cost_low_usd", "cost_high_usd")))
    if now["basis"] == Basis.UNMEASURED:
        cost = up_to(format_usd(Decimal(str(now["cost_usd"]))), now["basis"])
    time = up_to(_time_text(now), now["basis"])
    market = now["market"].replace("_", " ")
    return [
        job_line,
        f"now: {now['instance_type']} {market} at {now['provider']} {now['region']}, {time}, {cost}",
        levers_table(rows),
        *filter(None, [unfelt_text(rows)]),
        *LINES,
    ]


LINES = (
    "other: another model comes out; within: the 80 % intervals overlap;",
    "same machine: errors in its speed cancel out, so differences are more certain",
)
