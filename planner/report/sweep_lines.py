"""What an estimate says of a sweep: what its rungs train, and what the full grid would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainplan.planner.forecast.script_work import assumption
from trainplan.planner.forecast.sweep import SweepWork
from trainplan.pricing.money import format_usd, from_micro
from trainplan.workloads.sweep import planned_epochs, rungs_for, whole_trainings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.forecast.plan import Plan
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.sweep import Rung


def sweep_lines(plan: Plan) -> list[str]:
    """A line on what is trained, and one on the full grid where a row says what it costs; none without a sweep. Of a
    script, what its figures rest on."""
    job = plan.job
    if job.sweep is None:
        return []
    rungs, trials = _rungs(job), len(job.trials)
    drawn = "" if trials == job.sweep.combinations else f", drawn of {job.sweep.combinations:,}"
    lines = [f"sweep of {', '.join(sorted(job.sweep.values))}: {trials} trials{drawn}; {_steps_text(job, rungs)}"]
    if plan.grid is not None:
        first = plan.ranking[0]
        kinds = len(SweepWork(job).kinds)
        most = f", at most where the slowest of {kinds} kinds of trials go on" if kinds > 1 else ""
        most += assumption(job, first.estimate.throughput)
        lines.append(
            f"row 1 takes {format_usd(from_micro(first.cost_micro_usd))}{most}; all trials to their end would take "
            f"{format_usd(from_micro(plan.grid.cost_micro_usd))} and {plan.grid.estimate.time.text}"
        )
    return lines


def _steps_text(job: TrainingJob, rungs: Sequence[Rung]) -> str:
    if job.script is None:
        steps = ", ".join(f"{rung.trials} to epoch {rung.epochs}" for rung in rungs)
        return f"{steps}: {planned_epochs(rungs):,} epochs of the {len(job.trials) * job.epochs:,} of all trials"
    whole = rungs[-1].epochs
    parts = ", ".join(f"{rung.trials} to {rung.epochs}/{whole}" for rung in rungs[:-1])
    of_all = f"{whole_trainings(rungs):.3g} whole trainings of the {len(job.trials)} of all trials"
    return f"{parts}, {rungs[-1].trials} to the end: {of_all}"


def sweep_json(plan: Plan) -> dict[str, Any]:
    """The same for programs; the grid's figures are null where no row says them."""
    job, rungs = plan.job, _rungs(plan.job)
    grid = plan.grid
    return {
        "trials": len(job.trials),
        "rungs": [rung._asdict() for rung in rungs],
        "epochs": planned_epochs(rungs),
        "grid_epochs": len(job.trials) * rungs[-1].epochs,
        "grid_cost_usd": None if grid is None else float(from_micro(grid.cost_micro_usd)),
        "grid_seconds": None if grid is None else grid.estimate.time.total.total_seconds(),
    }


def _rungs(job: TrainingJob) -> tuple[Rung, ...]:
    return rungs_for(job)
