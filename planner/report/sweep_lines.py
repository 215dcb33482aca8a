"""What an estimate says of a sweep: what its rungs train, and what the full grid would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.forecast.sweep import SweepWork
from pricing.money import format_usd, from_micro
from workloads.durations import format_duration
from workloads.sweep import planned_epochs, rungs_of

if TYPE_CHECKING:
    from planner.forecast.plan import Plan
    from workloads.job import TrainingJob
    from workloads.sweep import Rung


def sweep_lines(plan: Plan) -> list[str]:
    """A line on what is trained, and one on the full grid where a row says what it costs; none without a sweep."""
    job = plan.job
    if job.sweep is None:
        return []
    rungs, trials = _rungs(job), len(job.trials)
    drawn = "" if trials == job.sweep.combinations else f", drawn of {job.sweep.combinations:,}"
    steps = ", ".join(f"{rung.trials} to epoch {rung.epochs}" for rung in rungs)
    lines = [
        f"sweep of {', '.join(sorted(job.sweep.values))}: {trials} trials{drawn}; {steps}: "
        f"{planned_epochs(rungs):,} epochs of the {trials * job.epochs:,} of all trials"
    ]
    if plan.grid is not None:
        first = plan.ranking[0]
        kinds = len(SweepWork(job).kinds)
        most = f", at most where the slowest of {kinds} kinds of trials go on" if kinds > 1 else ""
        lines.append(
            f"row 1 takes {format_usd(from_micro(first.cost_micro_usd))}{most}; all trials to their end would take "
            f"{format_usd(from_micro(plan.grid.cost_micro_usd))} and {format_duration(plan.grid.estimate.time.total)}"
        )
    return lines


def sweep_json(plan: Plan) -> dict[str, Any]:
    """The same for programs; the grid's figures are null where no row says them."""
    job, rungs = plan.job, _rungs(plan.job)
    grid = plan.grid
    return {
        "trials": len(job.trials),
        "rungs": [rung._asdict() for rung in rungs],
        "epochs": planned_epochs(rungs),
        "grid_epochs": len(job.trials) * job.epochs,
        "grid_cost_usd": None if grid is None else float(from_micro(grid.cost_micro_usd)),
        "grid_seconds": None if grid is None else grid.estimate.time.total.total_seconds(),
    }


def _rungs(job: TrainingJob) -> tuple[Rung, ...]:
    return rungs_of(job.epochs, len(job.trials))
