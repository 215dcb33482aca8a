"""A script that is a trial of a sweep: where it pauses, and what it has reported of itself by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.workloads.sweep import SURVIVING_SHARE
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.rung_result import RungResult

if TYPE_CHECKING:
    from trainplan.workloads.trainer.script_reports import Reports
    from trainplan.workloads.trainer.watch import Limits

_ENOUGH_REPORTS = 50


def cannot_be_ranked(limits: Limits, reports: Reports) -> bool:
    """Whether a trial has trained far enough to know that no sweep can rank it: it never says of how many steps it has
    done some, or has trained three times as far as it should without the figure."""
    share = limits.until_share
    if share is None or share == 1:
        return False
    if reports.total_steps is None:
        return reports.count >= _ENOUGH_REPORTS
    return not reports.told_figure and reports.step >= SURVIVING_SHARE * share * reports.total_steps


def result_of(limits: Limits, reports: Reports, *, has_ended: bool) -> RungResult:
    """What the trial was worth when it paused, or ended by itself. Raises BadInputError where it cannot be ranked."""
    share, total = limits.until_share or 1, reports.total_steps
    if total is None and share != 1:
        raise BadInputError(
            "the script reports no total_steps, and a sweep has to know when a part of them is done: "
            "trainplan_run.report(step, images, total_steps)"
        )
    if not reports.told_figure:
        name = limits.figure
        call = f"{name}=..." if name.isidentifier() else f'**{{"{name}": ...}}'
        others = ", ".join(sorted(reports.names)) or "no figure at all"
        raise BadInputError(
            f"the script never reported {name!r}, which ranks the trials of its sweep; it reported {others}. "
            f"Report it after each epoch (trainplan_run.figures({call})), or name another in the job"
        )
    reached = 1.0 if has_ended or total is None else min(1.0, reports.step / total)
    if not has_ended and total is not None and reports.step < share * total:
        raise BadInputError("the script ended with exit code 75 before its trial was to pause, and nobody had asked it")
    if reports.value is None:
        return RungResult(reached=reached, failure=f"{limits.figure} is no number")
    return RungResult(figure=reports.value, reached=reached)
