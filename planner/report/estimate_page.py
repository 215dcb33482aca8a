"""What a person reads: the estimate with its table, and what was rejected and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.plan import ESTIMATE_ONLY_TEXT, MachineEstimate, Plan, RankedOffer, Reason
from trainplan.planner.forecast.price_notes import is_trusted, price_notes
from trainplan.planner.forecast.script_work import NOT_MEASURED
from trainplan.planner.forecast.spot import CostAndTime, spot_verdict
from trainplan.planner.planning.script_lacks import left_behind_lines, missing, missing_text
from trainplan.planner.report.estimate_columns import ESTIMATE_ONLY, UNPROVEN_MARK, speed_text, table_of
from trainplan.planner.report.front import front_chart
from trainplan.planner.report.page import Cell, Column, Page, Table, Tone, joined
from trainplan.planner.report.session_lines import session_lines
from trainplan.planner.report.sweep_lines import sweep_lines
from trainplan.planner.throughput.values import PRECISION_NOTES, Basis
from trainplan.pricing.devices import device_text
from trainplan.pricing.money import UsdPerHour, format_usd, format_usd_interval, format_usd_per_hour, to_micro
from trainplan.pricing.offers import LifecycleState
from trainplan.providers.cloud.images import table as table_of_images
from trainplan.providers.registry import CLOUDS, is_own, is_simulated
from trainplan.workloads.addresses import shown_address
from trainplan.workloads.durations import format_duration
from trainplan.workloads.pretrained import weights_text
from trainplan.workloads.terms import Framework, Objective
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.planning.check import Judged
    from trainplan.workloads.job import TrainingJob


class LeftOut(NamedTuple):
    """What of the answer a brief page has no room for: how many columns, lines beside those of the plan, the chart."""

    columns: int = 0
    lines: int = 0
    chart: bool = False


NOTHING_LEFT_OUT = LeftOut()


def brief_page(plan: Plan, checked: Mapping[str, Judged] | None = None, left_out: LeftOut = NOTHING_LEFT_OUT) -> Page:
    """What a terminal gets: the job, the ranking, this machine, one line of advice, and how to see the rest.

    A plan without candidates has its whole page: why there are none is the answer.
    """
    if not plan.candidates:
        return estimate_page(plan, checked)
    ranking = ranking_table(plan, checked)._replace(names_left_out=False)
    below = [
        *_tax_line(plan),
        *session_lines(plan),
        *mark_lines(plan),
        *_software_lines(plan),
        *_why_not(checked or {}),
        *plan.own_notes,
    ]
    if plan.this_machine:
        below.append(_brief_machine_line(plan.this_machine))
    below += named_lines(plan)
    below += [f"advice: {line}" for line in plan.advice[:1]]
    return joined(
        [
            [job_line(plan.job), *sweep_lines(plan), _limits(plan.job)],
            [ranking],
            [*below, Cell(_not_shown(plan, left_out), Tone.FAINT)],
        ]
    )


def _not_shown(plan: Plan, left_out: LeftOut) -> str:
    """`not shown: 118 rows (--limit N), 4 columns (--wide), chart, 15 notes (--notes)`."""
    parts = []
    rows = len(plan.ranking) - len(plan.candidates)
    if rows > 0:
        parts.append(f"{_counted(rows, 'row')} ({Option.LIMIT('N')})")
    if left_out.columns:
        parts.append(f"{_counted(left_out.columns, 'column')} ({Option.WIDE})")
    notes = len(_notes(plan)) + len(plan.advice[1:]) + bool(plan.rejections) + left_out.lines
    notes += len(_weights(plan.job)) + len(_own(plan.job))
    parts += ["chart"] if left_out.chart else []
    parts.append(f"{_counted(notes, 'note')} ({Option.NOTES})")
    return f"not shown: {', '.join(parts)}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def estimate_page(plan: Plan, checked: Mapping[str, Judged] | None = None) -> Page:
    """The whole answer: what is asked, the ranking, this machine, what was rejected and why.

    `checked` tells by number which rows the account could launch.
    """
    if not plan.candidates:
        heading = _heading(plan)
        return joined([heading[:-1] if _is_this_machine_alone(plan) else heading, _under(plan)])
    ranking: Page = [ranking_table(plan, checked), *front_chart(plan)]
    return joined([_heading(plan), ranking, _why_not(checked or {}), _under(plan)])


def ranking_table(plan: Plan, checked: Mapping[str, Judged] | None) -> Table:
    """The ranking, with a column for what credits leave to pay and one for what the account could launch."""
    ranking = table_of(plan.candidates, plan.made_at.date())
    columns, rows = list(ranking.columns), [list(row) for row in ranking.rows]
    if plan.credit_usd:
        columns.append(Column("you pay", right=True))
        paid_usd = [ranked.cost_usd - plan.credit_of(ranked) for ranked in plan.candidates]
        rows = [[*row, format_usd(usd)] for row, usd in zip(rows, paid_usd, strict=True)]
    if checked is not None:
        columns.append(Column("launch"))
        rows = [[*row, _launchable(checked.get(one.number))] for row, one in zip(rows, plan.candidates, strict=True)]
    return Table(columns, rows)


def _launchable(judged: Judged | None) -> str | Cell:
    if judged is None:
        return "-"
    word = _LAUNCHABLE[judged.state]
    return Cell(word, Tone.BAD) if judged.state == "refused" else word


def _why_not(checked: Mapping[str, Judged]) -> list[str]:
    """What stands in the way, once for all rows that share it."""
    rows: dict[str, list[str]] = {}
    for number, judged in checked.items():
        if judged.state != "ok":
            rows.setdefault(f"{_LAUNCHABLE[judged.state]}: {judged.why}", []).append(number)
    return [f"{'row' if len(numbers) == 1 else 'rows'} {', '.join(numbers)}: {text}" for text, numbers in rows.items()]


_LAUNCHABLE = {"ok": "ok", "refused": "no", "unknown": "unknown"}


def _heading(plan: Plan) -> list[str]:
    job = plan.job
    if job.script is not None:
        return [job_line(job), *sweep_lines(plan), _limits(job)]
    graph = job.graph()
    is_frozen = graph.trained_parameters < graph.parameters
    trained = f", {_millions(graph.trained_parameters)} of them trained" if is_frozen else ""
    size = f"{_millions(graph.parameters)} parameters{trained}, {_flops(2 * graph.macs)} forward"
    return [job_line(job, f" ({size})"), *_weights(job), *_own(job), *sweep_lines(plan), _limits(job)]


def _millions(count: int) -> str:
    """`33.6 M`; `34.4 G` of a count of ten thousand million and more, `61,706` of a small one."""
    if count < 100_000:
        return f"{count:,}"
    return f"{count / 1e6:.1f} M" if count < 10**10 else f"{count / 1e9:.1f} G"


def _flops(count: int) -> str:
    """`0.66 GFLOPs`, with another unit where that would show few digits or many."""
    for power, unit in ((12, "T"), (9, "G"), (6, "M")):
        if count >= 10**power * (10 if unit == "T" else 0.1):
            return f"{count / 10**power:.2f} {unit}FLOPs"
    return f"{count:,} FLOPs"


def job_line(job: TrainingJob, size: str = "") -> str:
    """The job in a line. With the `size` of its net all is said; without, TensorFlow goes without saying."""
    if job.script is not None:
        return _script_line(job)
    data = job.data.name or job.data.path or shown_address(str(job.data.url))
    framework = f", {job.framework}" if size or job.framework is not Framework.TENSORFLOW else ""
    return (
        f"{job.name}: {job.graph().name}{size} on {data} at {job.image_size} px, {_counted(job.epochs, 'epoch')}, "
        f"batch {job.global_batch_size:,}, {job.precision}{', xla' if job.xla else ''}{framework}"
    )


def _script_line(job: TrainingJob) -> str:
    words = job.script_words
    arguments = f" {' '.join(words)}" if words else ""
    of_what = "in all" if job.sweep is None else "in a whole training"
    work = f"{job.train_images:,} images {of_what}" if job.is_measured_script else NOT_MEASURED
    return f"{job.name}: {Path(str(job.script)).name}{arguments}, {job.framework}, {work}"


def _weights(job: TrainingJob) -> list[str]:
    text = weights_text(job)
    frozen = f", frozen up to and with {job.model.freeze}" if job.model.freeze else ""
    return [f"begins with {text}{frozen}"] if text else []


def _own(job: TrainingJob) -> tuple[str, ...]:
    return () if job.model.read is None else job.model.read.lines()


def _limits(job: TrainingJob) -> str:
    """What comes first, and within what: `ranked by cost, within 8h 00m, for $20.00 at most`."""
    limits = job.constraints
    parts = [_OBJECTIVES[job.objective]]
    parts += [f"within {format_duration(limits.deadline)}"] if limits.deadline is not None else []
    parts += [f"for {format_usd(job.budget_usd)} at most"] if job.budget_usd is not None else []
    return ", ".join(parts)


_OBJECTIVES = {
    Objective.COST: "ranked by cost",
    Objective.TIME: "ranked by time",
    Objective.BALANCED: "ranked by cost times time",
}


def _under(plan: Plan) -> list[str]:
    lines: list[str] = list(plan.own_notes)
    if plan.candidates:
        more = len(plan.ranking) - len(plan.candidates)
        if more > 0:
            lines.append(
                f"{more} more {'rows' if more > 1 else 'row'}: {Option.LIMIT('N')}, or {Option.ALL} for every offer "
                "of every placement"
            )
        lines += [*_tax_line(plan), *session_lines(plan), *mark_lines(plan), *_software_lines(plan), *_notes(plan)]
    if plan.this_machine:
        lines.append(f"this machine: {machine_line(plan.this_machine)}")
    lines.extend(named_lines(plan))
    lines.extend(f"advice: {line}" for line in plan.advice)
    counts = rejection_counts(plan)
    if counts and not _is_this_machine_alone(plan):
        lines.append(f"rejected, of {plan.offers_seen:,} offers:")
        lines.extend(f"  {count:>6,}  {reason.text} [{reason}]" for reason, count in counts)
    return lines


def _is_this_machine_alone(plan: Plan) -> bool:
    """Whether nothing but this machine was asked for, so that there is no ranking and nothing was rejected."""
    return (
        plan.filtered_last is Reason.PROVIDER and plan.this_machine is not None and plan.this_machine.time is not None
    )


def _notes(plan: Plan) -> list[str]:
    """What is to be known of the rows that are shown, a line each."""
    return [
        *_simulated_lines(plan),
        *price_notes(plan),
        *_data_lines(plan),
        *_import_lines(plan),
        *_spot_verdicts(plan),
        *_obtainability_lines(plan),
        *_unproven_lines(plan),
        *_tight_lines(plan),
        *_lifecycle_lines(plan),
        *_estimate_only_lines(plan),
    ]


def mark_lines(plan: Plan) -> list[str]:
    """What the mark behind a cost means, and `estimate only`, where a row has it."""
    estimates = [ranked.candidate.estimate for ranked in plan.candidates]
    lines = []
    if any(estimate.unproven for estimate in estimates):
        factor = table_of_images().unproven_cost_factor
        lines.append(f"{UNPROVEN_MARK} ranked as if {factor - 1:.0%} dearer: its image and driver are untested here")
    if any(estimate.only_estimated is not None for estimate in estimates):
        lines.append(
            f"{ESTIMATE_ONLY}: a launch does not rent it, so it comes after what a launch rents ({Option.NOTES})"
        )
    return [*lines, *_precision_lines(plan), *_wait_lines(plan)]


def _precision_lines(plan: Plan) -> list[str]:
    """The rows whose device does not compute in the precision that was asked for."""
    lines = []
    for note in PRECISION_NOTES:
        rows = [one.number for one in plan.candidates if note in one.candidate.estimate.throughput.note]
        lines += [f"row{'s' * (len(rows) > 1)} {', '.join(rows)}: {note}"] if rows else []
    return lines


def _wait_lines(plan: Plan) -> list[str]:
    """The rows of which a large part is an expected wait until a machine is obtained."""
    waits: dict[str, list[str]] = {}
    for ranked in plan.candidates:
        estimate = ranked.candidate.estimate
        if estimate.search is not None and estimate.search.waiting > _LONG_WAIT * estimate.time.total:
            waits.setdefault(format_duration(estimate.search.waiting), []).append(ranked.number)
    return [
        f"row{'s' * (len(rows) > 1)} {', '.join(rows)}: {wait} of the time is the expected wait for a machine"
        for wait, rows in waits.items()
    ]


_LONG_WAIT = 0.1
"""The share of a run's time from which on a wait is shown beside the table."""


def _tax_line(plan: Plan) -> list[str]:
    """What the first row costs with tax, where the settings have one: the table is before tax."""
    if not plan.tax_percent or not plan.candidates or not plan.candidates[0].cost_high_usd:
        return []
    first, factor = plan.candidates[0], 1 + plan.tax_percent / 100
    costs = (first.cost_usd * factor, first.cost_low_usd * factor, first.cost_high_usd * factor)
    return [f"row 1 with {plan.tax_percent:f} % tax: {format_usd_interval(*costs)}; the table is before tax"]


def _import_lines(plan: Plan) -> list[str]:
    """What a script imports and no rented machine has, and what it names that stays here."""
    if plan.job.container is not None or all(is_own(ranked.offer.provider) for ranked in plan.candidates):
        return []
    names = missing(plan.job, is_this_python=False)
    lines = [f"{missing_text(plan.job, names)}: write what installs it under requirements"] if names else []
    return [*lines, *left_behind_lines(plan.job)]


def _data_lines(plan: Plan) -> list[str]:
    """What is counted of data that is no known set."""
    if plan.job.data.name is not None or plan.job.script is not None:
        return []
    from trainplan.planner.datasets.transfer import data_line

    return [f"data: {data_line(plan.job)}"]


def _spot_verdicts(plan: Plan) -> list[str]:
    """The rows on spot that are not worth the bother, against on demand in the same placement.

    Only where the spot price is taken at its word: of the others nobody knows.
    """
    lines = []
    for ranked in plan.candidates:
        estimate, offer = ranked.candidate.estimate, ranked.offer
        rate = offer.on_demand_usd_per_hour
        if estimate.spot is None or rate is None or not is_trusted(offer):
            continue
        steady = estimate.steady.total
        on_demand = to_micro(estimate.side.uninterrupted(UsdPerHour(rate), steady, offer.region).total)
        here = CostAndTime(ranked.candidate.cost_micro_usd, estimate.time.total.total_seconds())
        verdict = spot_verdict(CostAndTime(on_demand, steady.total_seconds()), here)
        if verdict:
            lines.append(f"row {ranked.number}: {verdict} than on demand")
    return lines


def _obtainability_lines(plan: Plan) -> list[str]:
    """What the words beside the markets mean, where a row has one."""
    estimates = [ranked.candidate.estimate for ranked in plan.candidates]
    grades = sorted({str(estimate.obtainability.grade) for estimate in estimates if estimate.search is not None})
    if not grades:
        return []
    return [
        f"{', '.join(grades)}: it may not be obtained; waiting and a dearer region are counted; reason: "
        f"{Option.EXPLAIN('N')}"
    ]


def _software_lines(plan: Plan) -> list[str]:
    """What GPUs of an older generation train with, which is not what the others do."""
    rows: dict[str, list[str]] = {}
    for ranked in plan.candidates:
        chosen = ranked.candidate.estimate.software
        runtime = chosen.runtime if chosen is not None else None
        installs = plan.job.container is None and ranked.offer.provider in CLOUDS
        if installs and runtime is not None and runtime.driver is not None:
            rows.setdefault(runtime.software, []).append(ranked.number)
    return [
        f"{'row' if len(ranks) == 1 else 'rows'} {', '.join(ranks)}: an older GPU, for which {software} is installed"
        for software, ranks in rows.items()
    ]


def _unproven_lines(plan: Plan) -> list[str]:
    """Return one line for each reason, with its rows."""
    rows: dict[str, list[str]] = {}
    for ranked in plan.candidates:
        if ranked.candidate.estimate.unproven:
            rows.setdefault(unproven_text(ranked), []).append(ranked.number)
    return [f"{'row' if len(ranks) == 1 else 'rows'} {', '.join(ranks)}: {text}" for text, ranks in rows.items()]


TIGHT_TEXT = "memory is tight: the step takes more than 92 % of what is usable; a smaller batch is safer"


def _tight_lines(plan: Plan) -> list[str]:
    """The rows whose memory is all but full, in one line."""
    needs = [(ranked.number, ranked.candidate.estimate.memory) for ranked in plan.candidates]
    ranks = [rank for rank, need in needs if need is not None and need.is_tight]
    return [f"{'row' if len(ranks) == 1 else 'rows'} {', '.join(ranks)}: {TIGHT_TEXT}"] if ranks else []


def _lifecycle_lines(plan: Plan) -> list[str]:
    """What the words for the end of a machine type mean, where a row has one."""
    states = {ranked.offer.lifecycle.state for ranked in plan.candidates} - {LifecycleState.ACTIVE}
    words = ", ".join(sorted(states))
    return (
        [f"{words}: the vendor ends or replaces the machine type; {Option.EXPLAIN('N')} has when and by what"]
        if words
        else []
    )


SIMULATED_TEXT = "a simulated cloud on this computer: its machines, speeds and prices are made up, and nothing bills"


def _simulated_lines(plan: Plan) -> list[str]:
    """That what is shown of a provider is no offer of anybody."""
    providers = dict.fromkeys(ranked.offer.provider for ranked in plan.candidates)
    return [f"{name}: {SIMULATED_TEXT}" for name in providers if is_simulated(name)]


def _estimate_only_lines(plan: Plan) -> list[str]:
    """Why rows are there to compare with alone: a line for each provider, and for each other reason."""
    lines: dict[str, None] = {}
    for ranked in plan.candidates:
        text = ranked.candidate.estimate.estimate_only_text
        whose = ranked.offer.provider if text == ESTIMATE_ONLY_TEXT else ESTIMATE_ONLY
        if text:
            lines[f"{whose}: {text}"] = None
    return list(lines)


def unproven_text(ranked: RankedOffer) -> str:
    """Say that no run of the image and driver on this device is known, why, and what that does to the rank."""
    factor = table_of_images().unproven_cost_factor
    why = ranked.candidate.estimate.unproven
    return f"image and driver are untested on it, so it is ranked as if {factor - 1:.0%} dearer: {why}"


def named_lines(plan: Plan) -> list[str]:
    """`RTX 4090 of your own: 2h 10m at 812 (640-1,030) images/s, modelled`."""
    return [f"{device.name} of your own: {_own_device(device)}" for device in plan.named_devices]


def _own_device(device: MachineEstimate) -> str:
    if device.time is None or device.throughput is None:
        return f"no, {device.reason}"
    speed = f"{speed_text(device.throughput)} images/s, {device.throughput.basis}"
    return f"{device.time.with_ends} at {speed}"


def _brief_machine_line(machine: MachineEstimate) -> str:
    device = device_text(machine.device, machine.device_count, 1.0, None)
    if machine.time is None or machine.throughput is None or machine.cost_usd is None:
        return f"this machine ({device}): no, {machine.reason}"
    time, cost = machine.time.text, format_usd(machine.cost_usd)
    if machine.throughput.basis is Basis.UNMEASURED:
        return f"this machine ({device}): up to {time}, up to {cost}, {NOT_MEASURED}"
    speed = f"{speed_text(machine.throughput)} images/s, {machine.throughput.basis}"
    return f"this machine ({device}): {machine.time.with_ends}, {cost} at {speed}{_load_text(machine)}"


def _load_text(machine: MachineEstimate) -> str:
    return f"; {machine.load}" if machine.load else ""


def machine_line(machine: MachineEstimate) -> str:
    """What a job takes here, in one line."""
    what = f"{machine.name}, {device_text(machine.device, machine.device_count, 1.0, None)}"
    if machine.time is None or machine.throughput is None or machine.cost_usd is None:
        return f"{what}: no ({machine.reason})"
    if machine.throughput.basis is Basis.UNMEASURED:
        at = f"(at {format_usd_per_hour(machine.usd_per_hour)})"
        time, cost = machine.time.text, format_usd(machine.cost_usd)
        return f"{what}: {NOT_MEASURED}, up to {time}, up to {cost} {at}"
    return (
        f"{what}: {speed_text(machine.throughput)} images/s, {machine.throughput.basis}, "
        f"{machine.time.with_ends}, {format_usd(machine.cost_usd)} "
        f"(at {format_usd_per_hour(machine.usd_per_hour)}){_load_text(machine)}"
    )


def rejection_counts(plan: Plan) -> list[tuple[Reason, int]]:
    """Offers by the reason that ruled them out, in the order the filters come."""
    counts: Counter[Reason] = Counter()
    for key, count in plan.rejections.items():
        counts[key.reason] += count
    return [(reason, counts[reason]) for reason in Reason if counts[reason]]
