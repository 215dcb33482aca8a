"""The wait in a cluster's queue as the table, `--explain` and the JSON show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainplan.planner.forecast.queue_wait import explain_queue
from trainplan.workloads.durations import format_duration

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import Estimate, Plan, RankedOffer


def queue_text(plan: Plan) -> str:
    """A line for each row whose time has a wait in it: how long, and what it rests on. "" where no row has one."""
    return "\n".join(
        f"row {ranked.number}: queue {format_duration(wait.expected)} "
        f"({format_duration(wait.low)} to {format_duration(wait.high)}), counted in the time: {wait.ground}"
        for ranked in plan.candidates
        if (wait := ranked.candidate.estimate.queue) is not None
    )


def queue_lines(ranked: RankedOffer) -> list[str]:
    """The paragraph of `--explain`."""
    estimate = ranked.candidate.estimate
    if estimate.queue is None:
        return []
    total = f"total with the wait {estimate.time.text}"
    return [*explain_queue(estimate.queue), total]


def queue_json(estimate: Estimate) -> dict[str, Any] | None:
    """The value of `queue` of a candidate."""
    wait = estimate.queue
    if wait is None:
        return None
    return {
        "waiting_seconds": wait.expected.total_seconds(),
        "waiting_low_seconds": wait.low.total_seconds(),
        "waiting_high_seconds": wait.high.total_seconds(),
        "ground": wait.ground,
    }
