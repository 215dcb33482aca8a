"""The page of an estimate (`plan estimate --html`), made from its JSON document alone: neither can say what the other
does not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from trainplan.planner.forecast.choose import LONGEST
from trainplan.planner.forecast.plan import Reason
from trainplan.planner.forecast.script_work import AS_MEASURED, NOT_MEASURED
from trainplan.planner.report.estimate_chart import Kind, cost_chart, kind_of
from trainplan.planner.report.estimate_columns import ESTIMATE_ONLY, market_cell, rounded
from trainplan.planner.report.html import (
    Content,
    Markup,
    bullets,
    document,
    figures,
    joined,
    pairs,
    paragraphs,
    section,
    table,
    tag,
)
from trainplan.planner.report.levers import levers_table, unfelt_text
from trainplan.planner.report.notebook_cell import cell
from trainplan.planner.report.page import Cell, Column, Table, Tone
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import device_text, machines_text
from trainplan.pricing.money import format_usd, format_usd_interval, to_micro, two_digits
from trainplan.workloads.durations import format_duration, format_estimate, parse_duration
from trainplan.workloads.script import argument_words
from trainplan.workloads.wording import Option

Row = dict[str, Any]
"""A candidate of the JSON (docs/estimate.md lists its keys)."""


def estimate_html(estimate: Mapping[str, Any]) -> str:
    """The whole page of an estimate's JSON document."""
    job, rows = estimate["job"], estimate["candidates"]
    title = f"{job['name']}: what training takes and costs"
    blocks: list[Content] = [
        figures(_figures(estimate)),
        tag("p", answer(estimate), class_="answer"),
        tag("p", _job_line(job), class_="muted"),
        tag("p", _sweep_line(estimate), class_="muted") if "sweep" in estimate else None,
        tag("p", f"changed: {_changes(estimate['changed'])}", class_="muted") if estimate["changed"] else None,
    ]
    grounds = _Grounds.of(rows)
    if rows:
        blocks += [
            section("Cost against time", _filters(estimate), cost_chart(rows)),
            section("Offers", tag("div", _offers(rows, grounds), class_="long"), _more(estimate), _why_not(rows)),
            _advice(estimate),
            section("What a change would save", *_levers(estimate)),
        ]
    else:
        blocks.append(_advice(estimate))
    blocks += [
        section("Several machines", _several(estimate["several_machines"])),
        section("What this estimate cannot see", bullets(estimate["cannot_see"])),
        None
        if not rows and _this_machine(estimate)
        else section("Offers that were rejected", _rejections(estimate["rejections"])),
        section("Where the figures come from", *_grounds(estimate, grounds)) if rows else None,
        section("How this page was made", _made(estimate)),
    ]
    return document(title, blocks, scripts=["rows.js", "chart.js"] if rows else [])


def estimate_cell(estimate: Mapping[str, Any], most_rows: int) -> str:
    """The first blocks of the page for the cell of a notebook, with the style of the page for these alone: the answer,
    the chart, the best placement of each of the first kinds of offers, and the advice. It runs no script."""
    rows = estimate["candidates"]
    first_of_kind: dict[Kind, Row] = {}
    for row in rows:
        first_of_kind.setdefault(kind_of(row), row)
    best = list(first_of_kind.values())[:most_rows]
    grounds = _Grounds.of(rows)
    blocks: list[Content] = [
        tag("p", answer(estimate), class_="answer"),
        tag("p", _job_line(estimate["job"]), class_="muted"),
        cost_chart(rows),
        _offers(best, grounds) if best else None,
        _advice(estimate),
    ]
    return cell(*blocks)


def answer(estimate: Mapping[str, Any]) -> str:
    """The estimate in a sentence."""
    rows, job = estimate["candidates"], estimate["job"]
    if not rows:
        return _this_machine(estimate) or f"No offer fits {job['name']}."
    first = rows[0]
    where = f"{device(first)} {_market(first)} at {first['provider']} in {first['region']}{_only(first)}"
    title = _FIRST.get(job["objective"], "First")
    if first["basis"] == Basis.UNMEASURED:
        return f"{title}: {where}, up to {duration(first)}, up to {usd(first['cost_usd'])}. {_UNKNOWN}"
    return (
        f"{title}: {where}, {duration(first)} for "
        f"{usd(first['cost_usd'])}. 80 % likely: {ends_of_time(first)}, {ends_of_cost(first)}."
    )


def _only(row: Row) -> str:
    """Behind where a row is: whether nothing is launched there from here."""
    return f" ({ESTIMATE_ONLY})" if ESTIMATE_ONLY in row["remarks"] else ""


def _figures(estimate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What one would show to others: cost, time and machine of the first offer, each with what it means."""
    rows = estimate["candidates"]
    if not rows:
        here = estimate["this_machine"]
        if not _this_machine(estimate):
            return []
        return [(duration(here), "on this machine"), (usd(here["cost_usd"] or 0), "to pay")]
    first = rows[0]
    place = f"{first['market'].replace('_', ' ')}, {first['provider']} {first['region']}{_only(first)}"
    if first["basis"] == Basis.UNMEASURED:
        cost, time = (f"up to {usd(first['cost_usd'])}", "the most"), (f"up to {duration(first)}", "")
    else:
        cost = usd(first["cost_usd"]), f"80 % likely: {ends_of_cost(first)}"
        time = duration(first), f"80 % likely: {ends_of_time(first)}"
    return [cost, time, (device(first), place)]


def _this_machine(estimate: Mapping[str, Any]) -> str:
    """The answer where this machine alone was asked for; "" elsewhere."""
    here = estimate["this_machine"]
    is_alone = all(one["reason"] in _BEFORE_THIS_MACHINE for one in estimate["rejections"])
    if here is None or here["total_seconds"] is None or not is_alone:
        return ""
    return f"This machine ({here['name']}): {_own(here)}."


_BEFORE_THIS_MACHINE = (Reason.RETIRED, Reason.NOT_OFFERED, Reason.PROVIDER)
"""Why offers are left out where only this machine was asked for."""

_FIRST = {"cost": "Cheapest", "time": "Fastest", "balanced": "Best by time and cost together"}


_UNKNOWN = "That is its deadline: nobody has measured it (plan pilot)."


def _times_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return format_estimate(*(row[f"total_{end}seconds"] for end in ("", "low_", "high_")))


def duration(row: Mapping[str, Any]) -> str:
    """`2d 01h`: how long a row takes."""
    return _times_of(row)[0]


def usd(value: float) -> str:
    """`$18.35`."""
    return format_usd(Decimal(str(value)))


def ends_of_time(row: Mapping[str, Any]) -> str:
    """`1d 06h to 3d 03h`: the 80 % interval."""
    return " to ".join(_times_of(row)[1:])


def ends_of_cost(row: Row) -> str:
    """`$12 to $35`: the 80 % interval."""
    return f"${two_digits(row['cost_low_usd'])} to ${two_digits(row['cost_high_usd'])}"


def device(row: Row) -> str:
    """`4 x TPU v5e`."""
    return device_text(row["device"], row["device_count"], row["device_fraction"], row["vcpus"])


def _market(row: Row) -> str:
    return "on spot" if row["market"] == "spot" else "on demand"


def _sweep_line(estimate: Mapping[str, Any]) -> str:
    sweep, is_of_script = estimate["sweep"], bool(estimate["job"].get("script"))
    work = f"{sweep['epochs']:,} epochs of the {sweep['grid_epochs']:,}"
    if is_of_script:
        trainings = sweep["epochs"] / sweep["rungs"][-1]["epochs"]
        work = f"{trainings:.3g} whole trainings of the {sweep['trials']}"
    text = f"a sweep of {sweep['trials']} trials: {work} of all trials"
    if is_of_script and sweep["grid_cost_usd"] is not None:
        text += f", {AS_MEASURED}"
    if sweep["grid_cost_usd"] is None:
        return text
    return f"{text}; all trials to their end would take {usd(sweep['grid_cost_usd'])} with the first offer"


def _budget(job: Mapping[str, Any]) -> Any:
    """The lower of the two that a job may have; None without any."""
    both = (job["constraints"].get("budget_usd"), (job.get("sweep") or {}).get("budget_usd"))
    return min((usd for usd in both if usd), default=None)


def _job_line(job: Mapping[str, Any]) -> str:
    if job.get("script"):
        words = " ".join((Path(job["script"]).name, *argument_words(job.get("args") or ())))
        return f"{words}, {job['framework']}"
    model, data = job["model"], job["data"]
    net = model.get("preset") or "a net of its own layers"
    size = f" at {model['image_size']} px" if model.get("image_size") else ""
    pieces = [
        f"{net} on {data.get('name') or data.get('path') or data.get('url') or 'its data'}{size}",
        f"{job['epochs']:,} epochs",
        f"batch {job['global_batch_size']:,}",
        str(job["precision"]),
        *(["xla"] if job["xla"] else []),
        *([f"in {job['accumulate']} parts"] if job.get("accumulate", 1) > 1 else []),
    ]
    limits = job["constraints"]
    pieces += [f"within {format_duration(parse_duration(limits['deadline']))}"] if limits.get("deadline") else []
    budget = _budget(job)
    pieces += [f"for {usd(budget)} at most"] if budget else []
    return ", ".join(pieces)


def _changes(changed: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{row['key']} {row['from']} → {row['to']}" for row in changed)


def _filters(estimate: Mapping[str, Any]) -> Markup:
    """The form; a script shows it, since without one it does nothing."""
    rows, limits = estimate["candidates"], estimate["job"]["constraints"]
    longest = parse_duration(limits["deadline"]) if limits.get("deadline") else LONGEST
    groups, kinds = estimate["device_groups"], _kinds(rows)
    devices = sorted({name for kind in kinds for name in (kind[1], groups.get(kind[1], kind[1]))}, key=str.lower)
    fields = [
        _select("cloud", "provider", sorted({row["provider"] for row in rows})),
        _select("market", "market", [name for name in ("on_demand", "spot") if any(r["market"] == name for r in rows)]),
        _select("device", "device", devices),
        _input("deadline", "for example 8h"),
        _input("budget", "for example $20"),
        tag("label", "every placement", tag("input", type="checkbox", name="every")),
        tag("button", "show all", type="reset"),
    ]
    told = [[*kind, groups.get(kind[1])] for kind in kinds]
    return tag(
        "div",
        tag(
            "form", *fields, id_="filters", hidden=True, data_longest=str(longest.total_seconds()),
            data_most=str(_budget(estimate["job"]) or ""), data_kinds=json.dumps(told),
            data_times=json.dumps(_times(rows)),
        ),
        tag("p", f"{len(rows):,} offers", id_="count", class_="muted", role="status"),
        class_="screen-only",
    )  # fmt: skip


def _select(label: str, name: str, values: Sequence[str]) -> Markup:
    options = [tag("option", "any", value=""), *(tag("option", value, value=value) for value in values)]
    return tag("label", label, tag("select", *options, name=name))


def _input(name: str, hint: str) -> Markup:
    return tag("label", name, tag("input", name=name, placeholder=hint, autocomplete="off", size="12"))


_COLUMNS = (
    Column("#", right=True),
    Column("where"),
    Column("device"),
    Column("market"),
    Column("time (80 %)", right=True),
    Column("cost (80 %)", right=True),
    Column("$/h", right=True),
    Column("price"),
    Column("images/s (80 %)", right=True),
    Column("speed"),
    Column("instance"),
)


def _offers(rows: Sequence[Row], grounds: _Grounds) -> Markup:
    kinds = {kind: index for index, kind in enumerate(_kinds(rows))}
    columns, cells = [*_COLUMNS], [_cells(row, grounds) for row in rows]
    if any(row["credit_usd"] for row in rows):
        columns.append(Column("you pay", right=True))
        cells = [[*those, usd(row["paid_usd"])] for those, row in zip(cells, rows, strict=True)]
    if any(row.get("launchable") for row in rows):
        columns.append(Column("launch"))
        cells = [[*those, _launch(row)] for those, row in zip(cells, rows, strict=True)]
    times = {time: index for index, time in enumerate(_times(rows))}
    values = [f"{times[row['total_seconds']]},{_micro(row)},{kinds[kind_of(row)]}" for row in rows]
    return table(Table(columns, cells), "Offers by rank", id_="rows", row_attributes=values)


def _launch(row: Row) -> str | Cell:
    """Whether the account could launch it, as far as it was asked."""
    judged = row.get("launchable")
    if judged is None:
        return "-"
    return Cell("no", Tone.BAD) if judged["state"] == "refused" else str(judged["state"])


def _why_not(rows: Sequence[Row]) -> Markup:
    """What stands in the way of launches, once for all rows that share it."""
    ranks: dict[str, list[str]] = {}
    for row in rows:
        judged = row.get("launchable")
        if judged and judged["reason"]:
            ranks.setdefault(judged["reason"], []).append(row["row"])
    return bullets([f"{_some(those, 10)}: {reason}" for reason, those in ranks.items()])


def _kinds(rows: Iterable[Row]) -> list[Kind]:
    return list(dict.fromkeys(kind_of(row) for row in rows))


def _times(rows: Iterable[Row]) -> list[float]:
    """The seconds of runs, each once: placements of a machine share them."""
    return list(dict.fromkeys(row["total_seconds"] for row in rows))


def _micro(row: Row) -> int:
    """The cost in millionths of a dollar."""
    return to_micro(Decimal(str(row["cost_usd"])))


def _cells(row: Row, grounds: _Grounds) -> list[Any]:
    speed = "not measured" if row["images_per_second"] is None else _speed(row)
    time = f"{duration(row)} ({'-'.join(_times_of(row)[1:])})"
    cost = format_usd_interval(*(Decimal(str(row[key])) for key in ("cost_usd", "cost_low_usd", "cost_high_usd")))
    if row["basis"] == Basis.UNMEASURED:
        time, cost = f"up to {duration(row)}", f"up to {usd(row['cost_usd'])}"
    return [
        row["row"],
        f"{row['provider']} {row['region']}",
        device(row),
        market_cell(row["market"], row["remarks"]),
        time,
        cost.replace(" ", "* ", 1) if row["unproven"] else cost,
        f"{row['planning_usd_per_hour']:.3f}",
        grounds.price_text(row),
        speed,
        grounds.speed_text(row),
        machines_text(row["instance_type"], row["machines"]),
    ]


def _speed(row: Mapping[str, Any]) -> str:
    """`8,770 (6,100-13,000)`."""
    ends = f"{two_digits(row['images_per_second_low'])}-{two_digits(row['images_per_second_high'])}"
    return f"{rounded(row['images_per_second'])} ({ends})"


def _more(estimate: Mapping[str, Any]) -> Markup:
    rows, count = estimate["candidates"], estimate["candidate_count"]
    lines: list[Content] = []
    if count > len(rows):
        lines.append(f"The first {len(rows):,} of {count:,} offers ({Option.LIMIT}).")
    if any(row["unproven"] for row in rows):
        lines.append("* ranked as if dearer: its image and driver are untested here.")
    lines.append(f"{estimate['prices'].capitalize()}.")
    on_paper = tag("span", " On paper: the first 20.", class_="print-only")
    return tag("p", joined(lines, " "), on_paper, class_="muted")


def _advice(estimate: Mapping[str, Any]) -> Markup:
    lines: list[Content] = [*estimate["own_prices"], *estimate["advice"]]
    here = estimate["this_machine"]
    is_answer = not estimate["candidates"] and _this_machine(estimate)
    if here is not None and not is_answer and (here["total_seconds"] or 0) <= LONGEST.total_seconds():
        lines.append(f"this machine ({here['name']}): {_own(here)}")
    lines += [f"{one['name']} of your own: {_own(one)}" for one in estimate["named_devices"]]
    return section("Advice", bullets(lines))


def _own(machine: Mapping[str, Any]) -> str:
    if machine["basis"] == Basis.UNMEASURED:
        return f"up to {duration(machine)}, {NOT_MEASURED}"
    if machine["total_seconds"] is None or machine["images_per_second"] is None:
        return f"no, {machine['reason']}"
    cost = machine.get("cost_usd")
    speed = f"{_speed(machine)} images/s, {machine['basis']}"
    load = f"; {machine['load']}" if machine.get("load") else ""
    time = f"{duration(machine)} ({ends_of_time(machine)})"
    return f"{time}{'' if cost is None else f', {usd(cost)}'} at {speed}{load}"


def _levers(estimate: Mapping[str, Any]) -> list[Content]:
    rows = estimate["levers"]
    if not rows:
        return []
    levers = levers_table(rows)
    # A browser has room for the change; what wraps is the offer, or why there is none.
    columns = [column._replace(shrinks=column is levers.columns[-1]) for column in levers.columns]
    shown = table(levers._replace(columns=columns), "What a change would save") if levers.rows else None
    more = unfelt_text(rows)
    return [shown, paragraphs([f"{LEVERS_TEXT} {more.capitalize()}." if more else LEVERS_TEXT])]


LEVERS_TEXT = (
    "Each line changes one thing and shows the offer that then comes first, against the first one now. Same work: the "
    "same model comes out. Other work: another one does. Noise: within, where the 80 % intervals overlap and the "
    "machines differ; same machine, where errors in its speed cancel out, so that the difference is more certain "
    "than the intervals suggest."
)


class _Grounds(NamedTuple):
    """What prices and speeds rest on, each told once: in the order in which rows come to it."""

    prices: dict[tuple[Any, ...], list[Row]]
    speeds: dict[tuple[Any, ...], list[Row]]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> _Grounds:
        prices: dict[tuple[Any, ...], list[Row]] = {}
        speeds: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            prices.setdefault(_price_key(row), []).append(row)
            speeds.setdefault(_speed_key(row), []).append(row)
        return cls(prices, speeds)

    def price_text(self, row: Row) -> str:
        """`listed 2026-07-20 P3`: the last is the mark of the ground below the table."""
        word = "own rate" if row["own_rate"] else row["price_grade"]
        return f"{word} {row['price_as_of'] or 'undated'} {_mark('P', self.prices, _price_key(row))}"

    def speed_text(self, row: Row) -> str:
        """`modelled S1`, likewise."""
        bound = ", input-bound" if row["input_bound"] else ""
        return f"{row['basis']}{bound} {_mark('S', self.speeds, _speed_key(row))}"


def _mark(letter: str, grounds: Mapping[tuple[Any, ...], Any], key: tuple[Any, ...]) -> str:
    return f"{letter}{list(grounds).index(key) + 1}"


def _price_key(row: Row) -> tuple[Any, ...]:
    return row["price_source"], row["price_grade"], row["planned_as"], row["own_rate"]


def _speed_key(row: Row) -> tuple[Any, ...]:
    return row["basis"], tuple(row["speed_evidence"])


def _grounds(estimate: Mapping[str, Any], grounds: _Grounds) -> list[Content]:
    measurements = {one["id"]: one for one in estimate["measurements"]}
    price_columns = (
        Column(""), Column("price"), Column("read"), Column("told by", shrinks=True), Column("planned as"),
        Column("rows", right=True),
    )  # fmt: skip
    prices = [_price_ground(index, *pair) for index, pair in enumerate(grounds.prices.items(), start=1)]
    speed_columns = (
        Column(""), Column("speed"), Column("devices", shrinks=True), Column("rests on", shrinks=True),
        Column("rows", right=True),
    )  # fmt: skip
    speeds = [_speed_ground(index, *pair, measurements) for index, pair in enumerate(grounds.speeds.items(), start=1)]
    return [
        table(Table(price_columns, prices), "Where prices come from"),
        tag("p", PRICE_TEXT, class_="muted"),
        table(Table(speed_columns, speeds), "Where speeds come from"),
        tag("p", SPEED_TEXT, class_="muted"),
    ]


PRICE_TEXT = (
    "observed: read from the market; listed: from the vendor's list; copied: from another project's copy of it; "
    "derived: computed from another placement; estimated: a share of the on-demand price that the vendor gives in "
    "steps; stale: too old, or without a date. Planned as listed: as the source says it; drifted: with what spot "
    "prices change by since; share: a share of the on-demand price; outlier: replaced by the lower quartile of the "
    "regions, since nobody had a machine at it."
)
SPEED_TEXT = (
    "measured: this net, device, precision and batch were measured; scaled: this device was measured in another "
    "configuration; anchored: this device was measured with other networks alone; modelled: this device was not "
    "measured. A and B: how fully the source states its measurement."
)


def _price_ground(index: int, key: tuple[Any, ...], rows: Sequence[Row]) -> list[Any]:
    source, grade, planned_as, own_rate = key
    days = sorted({row["price_as_of"] for row in rows if row["price_as_of"]})
    read = "undated" if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    word = f"own rate ({own_rate})" if own_rate else grade
    return [f"P{index}", word, read, source or "-", planned_as, f"{len(rows):,}"]


def _speed_ground(
    index: int, key: tuple[Any, ...], rows: Sequence[Row], measurements: Mapping[str, Mapping[str, Any]]
) -> list[Any]:
    basis, evidence = key
    devices = list(dict.fromkeys(row["device"] for row in rows))
    return [
        f"S{index}",
        basis,
        _some(devices, 6),
        "; ".join(_evidence_texts(evidence, measurements)),
        f"{len(rows):,}",
    ]


def _some(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return f"{', '.join(names[:most])}{f' and {more:,} more' if more > 0 else ''}"


def _evidence_texts(evidence: Iterable[str], measurements: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The measurements by source: `lambda_tf (A, 2020-11-01, github:...): lambda_tf-0216`; a sentence as it is."""
    by_source: dict[str, list[str]] = {}
    for id_ in evidence:
        one = measurements.get(id_)
        about = (
            f"{one['source']} ({one['quality']}, {one['measured_on'] or 'undated'}, {one['address']})" if one else ""
        )
        by_source.setdefault(about, []).append(id_)
    return [f"{about}: {_some(ids, 4)}" if about else ", ".join(ids) for about, ids in by_source.items()]


def _several(groups: Sequence[Mapping[str, Any]]) -> Markup | None:
    if not groups:
        return None
    columns = (
        Column("row", right=True), Column("machines", right=True), Column("instance"), Column("time", right=True),
        Column("cost (80 %)", right=True), Column("worth it"),
    )  # fmt: skip
    return table(Table(columns, [_group_cells(group) for group in groups]), "Several machines")


def _group_cells(group: Mapping[str, Any]) -> list[str]:
    first = [group["row"], str(group["machines"]), group["instance_type"]]
    if group["total_seconds"] is None:
        return [*first, "-", "-", f"no: {group['left_out']}"]
    cost = format_usd_interval(*(Decimal(str(group[key])) for key in ("cost_usd", "cost_low_usd", "cost_high_usd")))
    return [*first, duration(group), cost, {None: "", True: "yes", False: "no"}[group["is_worth_it"]]]


def _rejections(rejections: Iterable[Mapping[str, Any]]) -> Markup:
    counts: Counter[str] = Counter()
    for row in rejections:
        counts[row["reason"]] += row["count"]
    return bullets([f"{counts[reason]:,}: {reason.text}" for reason in Reason if counts[reason]])


def _made(estimate: Mapping[str, Any]) -> Markup:
    made = estimate["made_by"]
    return pairs(
        [
            ("command", tag("code", made["command"])),
            ("version", f"trainplan {made['version']}"),
            ("made", estimate["made_at"]),
            ("the same as data", f"the command with {Option.JSON} prints the document that this page was made from"),
        ]
    )
