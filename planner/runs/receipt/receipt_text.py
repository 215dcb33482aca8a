"""A receipt as the terminal shows it: estimate beside what it took, and what is left of the run."""

from __future__ import annotations

from decimal import Decimal
from textwrap import wrap
from typing import Any

from trainplan.planner.datasets.storage_costs import stored_text
from trainplan.planner.report.run_answer import estimate_texts, rate_text, seconds_text, usd_text
from trainplan.planner.runs.receipt.receipt import Receipt, reported_text
from trainplan.pricing.money import Usd
from trainplan.workloads.accuracy_gap import accuracy_notes
from trainplan.workloads.wording import Command, Option

_GIB, _MB = 1024**3, 1e6
_WIDTH = 80


def receipt_text(receipt: Receipt) -> str:
    """The receipt as a person reads it: estimated against actual, side by side."""
    lines = [f"receipt of {receipt.job_name}, run {receipt.run_id}: {receipt.outcome}"]
    if receipt.simulated:
        lines.append("  simulated: nothing was rented, no net was trained, the times and the cost are invented")
    if receipt.message:
        lines.append(f"  {receipt.message}")
    lines.append(f"  {'':12}{'estimated':>14}{'actual':>14}")
    ends = receipt.estimated_low_seconds, receipt.estimated_high_seconds
    estimated, *within = estimate_texts(receipt.estimated_seconds, *ends)
    beside = f"   estimated {' to '.join(within)}" if None not in ends else ""
    lines.append(_line("time", estimated, seconds_text(receipt.actual_seconds)) + beside)
    lines += _cost_lines(receipt)
    if receipt.own_rate:
        lines.append(f"  {'list price':12}{usd_text(receipt.list_usd):>28}   own rate: {receipt.own_rate}")
    if receipt.credit_usd is not None:
        paid_usd = receipt.actual_usd - receipt.credit_usd
        lines.append(f"  {'credit':12}{usd_text(receipt.credit_usd):>28}   you pay {usd_text(paid_usd)}")
    rates = rate_text(receipt.estimated_images_per_second), rate_text(receipt.actual_images_per_second)
    basis = f"   estimate was {receipt.basis}" if receipt.basis else ""
    lines.append(_line("images/s", *rates) + basis)
    lines += _accuracy_lines(receipt)
    lines += _progress_lines(receipt)
    if receipt.interruptions:
        times = "once" if receipt.interruptions == 1 else f"{receipt.interruptions} times"
        lines.append(f"  interrupted {times}, {receipt.lost_steps} steps were trained again")
    lines += _placement_lines(receipt)
    if receipt.device:
        lines.append(f"  trained on  {receipt.device}, {receipt.framework}")
    if receipt.phase_seconds:
        phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in receipt.phase_seconds.items())
        lines.append(f"  seconds     {phases}")
    lines += _pilot_lines(receipt)
    if reported := reported_text(receipt.figures):
        lines.append(f"  {'reported':12}{reported}")
    if receipt.model_folder:
        lines.append(f"  model       {receipt.model_folder}")
    lines += _stored_lines(receipt)
    return "\n".join(lines)


def _progress_lines(receipt: Receipt) -> list[str]:
    """How far it came. Of a sweep the best trial and a share: its steps are those of several jobs."""
    of = f" of {receipt.total_steps}" if receipt.total_steps else ""
    attempts_text = f", {receipt.attempts} attempts" if receipt.attempts > 1 else ""
    early = f", ended early after epoch {receipt.early_end_epoch}" if receipt.early_end_epoch is not None else ""
    if not receipt.sweep:
        return [f"  {'steps':12}{receipt.steps}{of}{attempts_text}{early}"]
    share = f"{receipt.steps / receipt.total_steps:.0%} of all trials' epochs" if receipt.total_steps else "none"
    best = wrap(receipt.sweep, _WIDTH - 14)
    return [
        *(f"  {'' if number else 'best':12}{line}" for number, line in enumerate(best)),
        f"  {'trained':12}{share}{attempts_text}",
    ]


def _cost_lines(receipt: Receipt) -> list[str]:
    more = "   at most: when everything of it ended is not known" if receipt.at_most else ""
    lines = [_line("cost", usd_text(receipt.estimated_usd), usd_text(receipt.actual_usd)) + more]
    parts = [
        f"{name} {'at most ' if name in receipt.parts_at_most else ''}{usd_text(usd)}"
        for name, usd in receipt.usd_by_resource.items()
        if usd
    ]
    return [*lines, f"  {'billed':12}{', '.join(parts)}"] if len(parts) > 1 else lines


def _accuracy_lines(receipt: Receipt) -> list[str]:
    if receipt.accuracy is None:
        return []
    of = f"on {receipt.hold_out_images} test images{_more(receipt)}"
    lines = [f"  {'accuracy':12}{receipt.accuracy:>28.2%}   {of}"]
    notes = accuracy_notes(
        receipt.accuracy, receipt.most_frequent, receipt.training_accuracy, receipt.training_tested_accuracy
    )
    lines += [f"  {'':12}{line}" for note in notes for line in wrap(note, _WIDTH - 14)]
    if receipt.trained_on:
        which = "1 of them was" if receipt.trained_on == 1 else f"{receipt.trained_on:,} of them were"
        lines.append(f"  {'':12}{which} trained on too: what it is on new images is not known")
    return lines


def _pilot_lines(receipt: Receipt) -> list[str]:
    """What a pilot measured beside its rate."""
    texts = figure_texts(receipt.figures)
    return [f"  {'measured':12}{', '.join(texts)}"] if texts else []


def figure_texts(figures: dict[str, float]) -> list[str]:
    """What a pilot measured beside its rate, in words."""
    texts = []
    if (boot := figures.get("boot_seconds")) is not None:
        texts.append(f"boot with image {boot:.1f} s")
    if (rate := figures.get("data_images_per_second")) is not None:
        width = figures.get("data_half_width")
        texts.append(f"data {rate:,.0f} images/s{'' if width is None else f' ± {width:.1%}'}")
    if (peak := figures.get("peak_memory_bytes")) is not None:
        texts.append(f"peak memory {peak / _GIB:.2f} GiB")
    if (size := figures.get("checkpoint_bytes")) is not None:
        texts.append(f"checkpoint {size / _MB:,.1f} MB in {figures.get('checkpoint_seconds', 0):.1f} s")
    return texts


def _more(receipt: Receipt) -> str:
    top5 = f", top-5 {receipt.top5:.2%}" if receipt.top5 is not None else ""
    return top5 + (f", of epoch {receipt.best_epoch}: the best validation" if receipt.best_epoch is not None else "")


def _placement_lines(receipt: Receipt) -> list[str]:
    """Where a run that moved was, and what the whole job was estimated at there."""
    if receipt.attempts < 2 or not any(placement.get("estimated_usd") for placement in receipt.placements):
        return []
    lines = [_placement_line(placement) for placement in receipt.placements]
    return [*lines, "  the estimate above is that of these placements, by the steps that were trained at each"]


def _placement_line(placement: dict[str, Any]) -> str:
    seconds = (placement.get(f"estimated_{end}seconds") for end in ("", "low_", "high_"))
    estimated = f"{estimate_texts(*seconds)[0]}, {usd_text(placement.get('estimated_usd'))}"
    did = f"{placement.get('steps') or 0:,} steps, {usd_text(placement.get('actual_usd'))}"
    return f"  attempt {placement.get('attempt') or 0:<4}{placement['where']}: {did}; the whole job there: {estimated}"


def _stored_lines(receipt: Receipt) -> list[str]:
    """What goes on costing something, and what ends it."""
    run = receipt.stored_bytes, receipt.stored_usd_per_month, "stays", f"{Command('cleanup', Option.STORED)} removes it"
    data = receipt.data_stored_bytes, receipt.data_stored_usd_per_month, "data set", "plan data remove ends it"
    return [
        f"  {name:12}{stored_text(size, _as_usd(usd))}; {how}"
        for size, usd, name, how in (run, data)
        if size is not None
    ]


def _as_usd(value: float | None) -> Usd | None:
    return None if value is None else Usd(Decimal(str(value)))


def _line(name: str, estimated: str, actual: str) -> str:
    return f"  {name:12}{estimated:>14}{actual:>14}"
