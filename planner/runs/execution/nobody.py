"""What a run does where nobody is there to answer its questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.runs.execution.executor import CtrlC
from trainplan.planner.runs.run import Phase
from trainplan.providers.registry import is_here
from trainplan.workloads.job import OnSlow

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run

_NOTHING_RUNS = (Phase.PLANNED, Phase.INTERRUPTED)


class Nobody:
    """Nobody is there to ask: a run on this machine stops at Ctrl-C, a rented one is left running, or to a later
    command that fetches and deletes what there is. A run that has no machine stops.

    The third Ctrl-C always leaves the run running and ends the command.
    """

    def pressed_ctrl_c(self, run: Run, times: int) -> CtrlC:
        if is_here(run.provider):
            return {1: CtrlC.STOP, 2: CtrlC.END_NOW}.get(times, CtrlC.DETACH)
        return CtrlC.STOP if run.phase in _NOTHING_RUNS and times == 1 else CtrlC.DETACH

    def runs_slow(self, run: Run, text: str) -> OnSlow:  # noqa: ARG002  what it would be asked
        """Continue: deadline and budget hold in any case."""
        return OnSlow.CONTINUE
