"""What tests of a followed run share: its phases, the run as another process finds it, and a process that is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.builders import a_target
from trainplan.planner.runs.events import PhaseReached
from trainplan.planner.runs.run import Outcome, Phase, Run

if TYPE_CHECKING:
    from tests.doubles.desk import Desk
    from trainplan.planner.runs.targets import Target


HERE = ["local"]


def phases(desk: Desk) -> list[Phase]:
    return [event.phase for event in desk.events_of(PhaseReached)]


def two_placements() -> list[Target]:
    return [a_target(zone="a"), a_target(zone="b")]


def packed(run: Run) -> Run:
    """A run as the journal keeps it once it has its receipt: one that may go on by itself keeps its placements."""
    return run if run.outcome is Outcome.INTERRUPTED else replace(run, targets=())


def recorded(desk: Desk, run: Run) -> Run:
    """The run as another process finds it."""
    with desk.reopened() as journal:
        return journal.run(run.run_id)


# --- crashes -----------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone: nothing in it runs any more."""


class Fuse:
    """Blows at the n-th step, whatever that is, once."""

    def __init__(self, at: int) -> None:
        self.interrupts_left = at

    def burn(self, *_: object) -> None:
        self.interrupts_left -= 1
        if self.interrupts_left == 0:
            raise Crash


def placements(run: Run) -> list[str | None]:
    """Where each attempt went."""
    return [attempt.target.zone if attempt.target else None for attempt in run.attempts]
