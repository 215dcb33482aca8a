"""Two jobs side by side as a page: a column for each, the difference, and what of it is within the noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.planner.forecast.plan import Reason
from trainplan.planner.forecast.script_work import known_rate, up_to
from trainplan.planner.report.estimate_columns import speed_text
from trainplan.planner.report.estimate_page import named_lines
from trainplan.planner.report.page import Column, Page, Table, joined
from trainplan.pricing.money import format_usd, format_usd_interval, format_usd_per_hour
from trainplan.workloads.durations import format_duration, format_estimate
from trainplan.workloads.job_changes import differences_text
from trainplan.workloads.memory import GIB

if TYPE_CHECKING:
    from trainplan.planner.report.compare import Comparison, Delta, Figures, Pair, Side

_COLUMNS = (Column(""), Column("A", shrinks=True), Column("B", shrinks=True), Column("difference"))
_TITLES = {
    "cheapest": "cheapest offer",
    "fastest": "fastest offer",
    "same_offer": "first offer of A",
    "this_machine": "this machine",
}
_JUDGED_BY = {
    "cheapest": ("cost_usd",),
    "fastest": ("total_seconds",),
    "same_offer": ("total_seconds", "cost_usd"),
    "this_machine": ("total_seconds",),
}
"""Whose intervals tell whether a difference is within the noise."""
_WORDS = {"total_seconds": "time", "cost_usd": "cost"}
_NONE = "none fits"
_NOT_HERE = {"this_machine": "no", "same_offer": "not possible"}


def comparison_page(comparison: Comparison) -> Page:
    """Which jobs they are and in what they differ, the table, and sentences on it."""
    rows: list[Sequence[str]] = []
    for key, pair in comparison.pairs.items():
        if pair.first is not None or pair.second is not None:
            rows += [[""] * len(_COLUMNS)] if rows else []
            rows += [_repeated(key, pair)] if _is_repeated(key, comparison) else _section(key, pair)
    notes = [*_notes(comparison), *_named_lines(comparison), *_nothing_lines(comparison)]
    return joined([_heading(comparison), [Table(_COLUMNS, rows)] if rows else [], notes])


def _heading(comparison: Comparison) -> list[str]:
    first, second = comparison.first, comparison.second
    lines = [f"A: {_title(first)}", f"B: {_title(second)}"]
    if not comparison.changed:
        return [*lines, "no difference: A and B train the same, within the same limits"]
    return [*lines, f"A -> B: {differences_text(comparison.changed)}"]


def _title(side: Side) -> str:
    return f"{side.plan.job.name} ({side.source})"


def _is_repeated(key: str, comparison: Comparison) -> bool:
    """Whether a pair has nothing that does not stand under the cheapest offer."""
    pair, cheapest = comparison.pairs[key], comparison.cheapest
    if key == "cheapest" or pair.first is None or pair.first != cheapest.first:
        return False
    return pair.second is None or pair.second == cheapest.second


def _repeated(key: str, pair: Pair) -> Sequence[str]:
    return (_TITLES[key], "the cheapest", "the cheapest" if pair.second else _NOT_HERE.get(key, _NONE), "")


def _section(key: str, pair: Pair) -> list[Sequence[str]]:
    """The rows of one pair, under its title."""
    absent = _NOT_HERE.get(key, _NONE)
    deltas = pair.deltas
    rows: list[Sequence[str]] = [(_TITLES[key], "" if pair.first else absent, "" if pair.second else absent, "")]
    for label, cell, measure, as_text in _ROWS:
        texts = [cell(side) if side is not None else "" for side in (pair.first, pair.second)]
        if any(texts):
            rows.append((f"  {label}", *texts, _delta_text(deltas.get(measure), as_text)))
    return rows


def _delta_text(delta: Delta | None, as_text: Callable[[float], str]) -> str:
    """`+$0.12 (+40 %)`; empty where it is not known."""
    if delta is None:
        return ""
    if not delta.absolute:
        return "none"
    sign = "+" if delta.absolute > 0 else "-"
    share = "" if delta.percent is None else f" ({sign}{_percent(abs(delta.percent))} %)"
    return f"{sign}{as_text(abs(delta.absolute))}{share}"


def _percent(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _memory(figures: Figures) -> str:
    """`3.1 of 14.6 GiB`: what a step takes of one device, and what is usable of it."""
    need = figures.memory
    return "" if need is None else f"{need.step.allocated / GIB:.1f} of {need.usable.high_gib:.1f} GiB"


def _usd(value: float) -> str:
    return format_usd(Decimal(str(value)))


def _cost(figures: Figures) -> str:
    """Nothing where an hour costs nothing."""
    if not figures.usd_per_hour:
        return ""
    if known_rate(figures.throughput) is None:
        return up_to(_usd(figures.usd.expected), figures.throughput.basis)
    return format_usd_interval(*(Decimal(str(usd)) for usd in figures.usd))


_ROWS: Sequence[tuple[str, Callable[[Figures], str], str, Callable[[float], str]]] = (
    ("where", lambda one: one.placement, "", str),
    ("machine", lambda one: one.machine, "", str),
    ("device", lambda one: one.device, "", str),
    ("market", lambda one: one.market, "", str),
    (
        "time",
        lambda one: up_to(format_estimate(*one.seconds)[0], one.throughput.basis),
        "total_seconds",
        lambda seconds: format_duration(timedelta(seconds=seconds)),
    ),
    ("cost (80 %)", _cost, "cost_usd", _usd),
    (
        "price",
        lambda one: format_usd_per_hour(one.usd_per_hour) if one.usd_per_hour else "",
        "usd_per_hour",
        lambda usd: format_usd_per_hour(Decimal(str(round(usd, 6)))),
    ),
    (
        "images/s (80 %)",
        lambda one: speed_text(one.throughput),
        "images_per_second",
        lambda rate: f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}",
    ),
    ("memory", _memory, "memory_gib", lambda gib: f"{gib:.1f} GiB"),
)
"""Label, cell, the measure whose difference stands beside it ("": none), and how that is written."""


def _notes(comparison: Comparison) -> list[str]:
    """Whether the differences are more than the estimate's own uncertainty, and why B has no such offer."""
    lines = []
    for key, pair in comparison.pairs.items():
        if not _is_repeated(key, comparison):
            lines += _noise_lines(key, pair)
        if pair.reasons:
            why = "; or ".join(reason.text for reason in pair.reasons)
            lines.append(f"{_TITLES[key]}: not possible under B: {why}")
    return lines


def _noise_lines(key: str, pair: Pair) -> list[str]:
    deltas, overlaps = pair.deltas, pair.overlaps
    if not overlaps:
        return []
    judged = [measure for measure in _JUDGED_BY[key] if (delta := deltas.get(measure)) and delta.absolute]
    within = " and of the ".join(_WORDS[measure] for measure in judged if overlaps[measure])
    beyond = " and of the ".join(_WORDS[measure] for measure in judged if not overlaps[measure])
    lines = []
    if within:
        what = _ONE_MACHINE if pair.is_same_machine else _WITHIN_NOISE
        lines.append(f"{_TITLES[key]}: the 80 % intervals of the {within} overlap{what}")
    if beyond:
        lines.append(f"{_TITLES[key]}: the 80 % intervals of the {beyond} do not overlap")
    return lines


_WITHIN_NOISE = ": the difference is within the noise of the estimate"
_ONE_MACHINE = (
    "; but both use one machine type: errors in its speed cancel out, so the difference is more certain than that"
)


def _named_lines(comparison: Comparison) -> list[str]:
    """The devices that were asked for by name and that nobody rents out, under each job."""
    return [
        f"{name}: {line}"
        for name, side in (("A", comparison.first), ("B", comparison.second))
        for line in named_lines(side.plan)
    ]


def _nothing_lines(comparison: Comparison) -> list[str]:
    """For a job that nothing fits: which filter removed the last offers, and the advice of its estimate; for one that
    this machine alone cannot train, why."""
    lines = []
    for name, side in (("A", comparison.first), ("B", comparison.second)):
        plan, here = side.plan, side.plan.this_machine
        last = plan.filtered_last
        can_train_here = comparison.this_machine.first or comparison.this_machine.second
        if can_train_here and here is not None and here.time is None:
            lines.append(f"this machine cannot train {name}: {here.reason}")
        is_answered = here is not None and here.time is not None and last is Reason.PROVIDER
        is_answered = is_answered or any(device.time is not None for device in plan.named_devices)
        if not plan.ranking and not is_answered:
            why = f": {last.text}" if last is not None else ""
            lines.append(f"nothing fits {name}{why}")
            lines += [f"advice for {name}: {line}" for line in plan.advice]
    return lines
