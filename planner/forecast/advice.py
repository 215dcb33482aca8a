"""Advice a friend would give: one line each, and only where the rows say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING

from trainplan.planner.forecast.accumulation import parts_text
from trainplan.planner.forecast.estimate import TPU_LEAST_MACS, device_kind
from trainplan.planner.forecast.free_sessions import free_line
from trainplan.planner.forecast.place_refusals import place_refusal
from trainplan.planner.forecast.plan import Candidate, Choice, MachineEstimate, row_numbers
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import cores_of
from trainplan.pricing.money import format_usd, from_micro, to_micro
from trainplan.providers.registry import THIS_MACHINE
from trainplan.workloads.terms import Objective, Precision
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.workloads.job import TrainingJob  # noqa: TC004  no annotation is looked at, and importing it takes long


# Someone who waits this long for nothing will not mind; beyond it, renting is worth a thought.
PATIENCE = timedelta(hours=1)
# Where the machine at hand takes at most this many times the best rental's time, its time is as good.
AS_GOOD = 1.5
# A change of the job is worth a line when it cuts the bill by at least this share.
WORTH_SAYING = Decimal("0.15")
# A TPU core works on batches in multiples of eight (Google's Cloud TPU performance guide).
TPU_BATCH_MULTIPLE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What advice is drawn from. `macs` is one image's forward multiply-accumulates; `on_same` gives a changed job on
    the cheapest candidate's machine and placement, None where it cannot run there; `in_parts` how many offers that the
    batch does not fit it would fit in so many parts, `retired` what was asked for and is refused as retired. `free` are
    the candidates of free places, which the choice leaves out."""

    job: TrainingJob
    macs: int
    choice: Choice
    machine: MachineEstimate | None
    on_same: Callable[[TrainingJob, Candidate], Candidate | None]
    in_parts: Mapping[int, int] = field(default_factory=dict)
    retired: str = ""
    free: tuple[Candidate, ...] = ()


def advice(findings: Findings) -> tuple[str, ...]:
    """The lines, the one that changes most first (a screen shows that alone); none where there is nothing to say.

    They name devices and rows as the table does. None contradicts another: what a job gains by a change is told of the
    change, never that the job is right as it is.
    """
    if findings.job.script is not None:
        return _of_script(findings)
    in_parts = parts_text(findings.in_parts, findings.choice.rejections, normed=findings.job.graph().statistics > 0)
    if not findings.choice.candidates:
        return tuple(line for line in (_free(findings), in_parts, findings.retired) if line)
    best = findings.choice.candidates[0]
    lines = [
        _this_machine(findings.machine, best) or _free(findings),
        _processor(best),
        _within_noise(findings.choice.candidates) if findings.job.objective is Objective.COST else None,
        *_cheaper_jobs(findings, best),
        _far_bucket(best),
        _input_bound(best),
        _tensor_unit(findings, best),
        in_parts,
        early_end_text(findings.job),
    ]
    return tuple(line for line in lines if line)


def _of_script(findings: Findings) -> tuple[str, ...]:
    """What is to be done where nobody has measured a script."""
    speeds = [candidate.estimate.throughput for candidate in findings.choice.candidates]
    speeds += [findings.machine.throughput] if findings.machine and findings.machine.throughput else []
    if any(speed.basis is not Basis.UNMEASURED for speed in speeds) or not speeds:
        return ()
    if findings.job.read_script is not None and not findings.job.read_script.may_report:
        return (
            "times and costs are those of the deadline; the script reports nothing, so no pilot can measure it: "
            "trainplan_run.report in its training loop does (docs/own-script.md)",
        )
    if findings.job.sweep is not None:
        return ("times and costs are those of the deadline; plan pilot measures a trial of a script that reports",)
    return (
        f"times and costs are those of the deadline; plan pilot (or {Option.PROVIDER(THIS_MACHINE)}) measures a script "
        "that reports",
    )


def early_end_text(job: TrainingJob) -> str | None:
    """What early stopping does to the ranges; None where there is none."""
    earliest, spec = job.validation.earliest_end(job.epochs), job.validation
    if earliest == job.epochs:
        return None
    return (
        f"early stopping can end the run after epoch {earliest} of {job.epochs} (its first validation is the best, and "
        f"{spec.patience} more are not better): the lower ends of time and cost are those of such a run, all else "
        "counts every epoch"
    )


def _this_machine(machine: MachineEstimate | None, best: Candidate) -> str | None:
    if machine is None or machine.time is None or machine.cost_usd is None:
        return None
    here, there = machine.time.total, best.estimate.time.total
    cheaper = machine.cost_usd <= from_micro(best.cost_micro_usd)
    if not cheaper or (here > PATIENCE and here > there * AS_GOOD):
        return None
    return (
        f"this machine is good enough: {machine.time.text} for {format_usd(machine.cost_usd)} here, "
        f"{best.estimate.time.text} on row 1"
    )


def _free(findings: Findings) -> str:
    """A free place that takes few sessions, where `plan export` takes the job there."""
    first = findings.free[:1]
    if not first or place_refusal(findings.job, first[0].estimate.rental.provider) is not None:
        return ""
    return free_line(findings.free, findings.macs)


def _processor(best: Candidate) -> str | None:
    if best.estimate.rental.device != "cpu":
        return None
    return f"no accelerator needed: row 1 has none ({best.estimate.rental.devices_text}) and is the cheapest that fits"


def _tensor_unit(findings: Findings, best: Candidate) -> str | None:
    """Whether a TPU is wrong for this job, or its batch for the TPU; says nothing where none is offered."""
    tpus = [one for one in findings.choice.candidates if device_kind(one.estimate.rental.device) == "tpu"]
    if not tpus:
        return None
    if findings.macs < TPU_LEAST_MACS:
        if tpus[0] is best:
            return None
        millions = findings.macs / 1e6
        return f"a TPU is wrong for this job: {millions:.0f} M multiply-accumulates an image are too few for it"
    first = tpus[0].estimate.rental
    cores = first.device_count * cores_of(first.device)
    if not findings.job.micro_batch_size % (cores * TPU_BATCH_MULTIPLE):
        return None
    return (
        f"on {tpus[0].estimate.rental.devices_text} make the batch a multiple of {cores * TPU_BATCH_MULTIPLE} "
        f"({TPU_BATCH_MULTIPLE} for each of {cores} cores); {findings.job.micro_batch_size} wastes part of it"
    )


def _input_bound(best: Candidate) -> str | None:
    row = best.estimate
    if not row.input_bound or row.feed is None:
        return None
    return (
        f"row 1 is input-bound: its host supplies {row.feed.images_per_second:,.0f} images/s, its device could train "
        f"{row.computed.images_per_second:,.0f}; more vCPUs or smaller images would help, a faster device would not"
    )


def _far_bucket(best: Candidate) -> str | None:
    """Where a bucket beside the machine would cut the bill."""
    estimate, placement = best.estimate, best.placement
    crossing = estimate.fixed(placement.region).between_regions
    if to_micro(crossing) < WORTH_SAYING * best.cost_micro_usd or not crossing:
        return None
    return (
        f"{format_usd(crossing)} of row 1 is for traffic with the bucket in {estimate.side.classes.bucket}: with "
        f'region = "{placement.region}" in [{estimate.rental.provider}] of the settings the bucket is made there'
    )


def _cheaper_jobs(findings: Findings, best: Candidate) -> list[str]:
    """What a change of the job itself would save on the cheapest offer."""
    job = findings.job
    changes = []
    if job.precision is Precision.FP32:
        mixed = job.model_copy(update={"precision": Precision.AMP_FP16})
        changes.append(("mixed precision (precision: amp_fp16)", mixed))
    bigger = job.model_copy(update={"global_batch_size": _bigger_batch(job, best)})
    changes.append((f"a batch of {bigger.global_batch_size} (learning rate to match)", bigger))
    lines: list[tuple[Decimal, str]] = []
    for text, changed in changes:
        candidate = findings.on_same(changed, best)
        saved = _saved(candidate, best)
        if candidate is not None and saved >= WORTH_SAYING:
            cost = format_usd(from_micro(candidate.cost_micro_usd))
            lines.append((saved, f"{text} cuts row 1 by {saved:.0%}, to {cost}"))
    return [line for _, line in sorted(lines, key=lambda one: -one[0])]


def _bigger_batch(job: TrainingJob, best: Candidate) -> int:
    """Twice the batch; on a TPU so much more that each core gets a multiple of TPU_BATCH_MULTIPLE."""
    rental = best.estimate.rental
    if device_kind(rental.device) != "tpu":
        return 2 * job.global_batch_size
    step = rental.device_count * cores_of(rental.device) * TPU_BATCH_MULTIPLE * job.accumulate
    return -(-2 * job.global_batch_size // step) * step


def _saved(candidate: Candidate | None, best: Candidate) -> Decimal:
    if candidate is None or not best.cost_micro_usd:
        return Decimal(0)
    return 1 - Decimal(candidate.cost_micro_usd) / best.cost_micro_usd


def _within_noise(candidates: Sequence[Candidate]) -> str | None:
    """The next one whose throughput is known as well or better, and whose cost lies within the first one's interval."""
    first = candidates[0]
    high = first.estimate.cost_micro_usd(first.placement[0], first.placement[1], 2)
    bases = (Basis.MEASURED, Basis.SCALED, Basis.ANCHORED, Basis.MODELLED)
    rows = ((row, one) for row, one in zip(row_numbers(candidates), candidates, strict=True) if "." not in row)
    for row, other in islice(rows, 1, 4):
        firmer = bases.index(other.estimate.throughput.basis) <= bases.index(first.estimate.throughput.basis)
        faster = other.estimate.time.total * AS_GOOD < first.estimate.time.total
        if firmer and faster and other.cost_micro_usd <= high and other.estimate.only_estimated is None:
            return (
                f"row {row} costs about as much as row 1 and takes {other.estimate.time.text} instead of "
                f"{first.estimate.time.text}"
            )
    return None
