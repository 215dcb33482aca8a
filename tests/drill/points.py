"""Drills that are killed before or after one of their calls or writes; what is left is ended, and counted."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.drill.worlds import Table, a_cloud
from tests.faults.branches import put_aside
from tests.faults.cases import CASES
from tests.faults.clients import Desk
from tests.faults.forks import STOPPED, forked, result_of
from tests.faults.points import PointedJournal, Points
from trainplan.extensions.drill.drill import clean, drill
from trainplan.extensions.drill.ends import ours
from trainplan.planner.runs.cleanup.cleanup import Fate, end
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Phase

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.faults.harness import Ask, Lived

NEWBORN = timedelta(minutes=11)
NOBODY_COMES = timedelta(minutes=50)
"""After the last deadline of a drill and the grace of every timer."""


@dataclass
class Stopping(Points):
    """Stops where a death makes a difference, at a `share` of these points. `stopped` is told the number."""

    share: float = 1.0
    chance: Random = field(default_factory=Random)

    def _reach(self, name: str) -> None:
        only_time_passed = name.startswith("before ") and bool(self.names) and self.names[-1].startswith("before ")
        self.names.append(name)
        if not only_time_passed and self.chance.random() < self.share:
            self.stopped(len(self.names) - 1)


@dataclass(frozen=True, slots=True)
class Killed:
    """What was wrong after a drill was killed at its point `number`; `comes_back`: somebody types plan drill --clean
    and plan cleanup then, else the timers alone are left. `left` is what was there when it was killed."""

    number: int
    name: str
    comes_back: bool
    remaining: tuple[str, ...]
    wrong: str

    @property
    def text(self) -> str:
        then = "plan drill --clean, plan cleanup" if self.comes_back else "nobody comes back"
        return f"point {self.number} ({self.name}), {then}: {self.wrong}"


def killed(
    name: str,
    home: Path,
    share: float = 1.0,
    seed: int = 0,
    *,
    is_chosen: Callable[[str], bool] = lambda _: True,
    returns: Callable[[int], bool] = lambda number: number % 4 != 3,
    hear: Callable[[Killed], None] = lambda _: None,
) -> list[Killed]:
    """One drill in a process of its own, and what becomes of it where that is killed at a share of its points.

    At each the process stands still, the home folder is copied and the double put aside (tests/faults/branches.py):
    what is left of a process that has died is what is in the copies. Then the drill goes on to its next point.
    `wanted` points alone count, by name; `returns` says after which of them, from 0, somebody comes back.
    """
    home.mkdir(parents=True, exist_ok=True)
    table = Table(home, a_cloud(name))
    desk = Desk(home=home, case=CASES[0], cloud=table.cloud)
    found: list[Killed] = []

    def stopped(_: Connection, message: tuple[Any, ...]) -> None:
        number, at = message[1:]
        if is_chosen(at):
            comes_back = returns(len(found))
            with put_aside(desk):  # and in a process of its own: what it connects to is undone
                left, wrong = result_of(lambda: _after(table, comes_back=comes_back))
            found.append(Killed(number, at, comes_back, tuple(left), wrong))
            hear(found[-1])

    gc.collect()
    try:
        forked(lambda ask: _played(table, ask, share, Random(seed)), table.cloud.answer, stopped)
    finally:
        table.cloud.let_go()
    return found


def _played(table: Table, ask: Ask, share: float, chance: Random) -> None:
    """In the process of the drill."""
    points = Stopping(share=share, chance=chance)
    points.stopped = lambda number: ask((STOPPED, number, points.names[number]))
    with PointedJournal.open(table.settings.journal) as journal:
        PointedJournal.points = points
        drill(table.tools(journal, table.cloud.provider(ask, points)))


def _after(table: Table, *, comes_back: bool) -> tuple[list[str], str]:
    """What a drill that has been killed just now has left, and what is wrong in the end, in words; "" for nothing."""
    left = table.remaining()
    if not comes_back:
        return left, _left_alone(table)
    _clean(table)
    table.cloud.pass_time(table.cloud.now() + NEWBORN)
    _cleanup(table)
    wrong = [*(f"left: {row.id}" for row in table.rows() if row.remaining), *_doubled(table.rows()), *_live(table)]
    return left, ", ".join(wrong)


def _clean(table: Table) -> None:
    with Journal.open(table.settings.journal) as journal:
        clean(table.tools(journal))


def _cleanup(table: Table) -> None:
    with Journal.open(table.settings.journal) as journal:
        tools = table.tools(journal)
        found = ours(tools).resources
        end(
            tools.provider,
            [known.resource for known in found if known.fate in (Fate.ORPHAN, Fate.EXPIRED)],
            tools.clock,
        )


def _left_alone(table: Table) -> str:
    """What computes although every timer has had its time."""
    table.cloud.pass_time(table.cloud.now() + NOBODY_COMES)
    return ", ".join(f"bills: {row.id}" for row in table.rows() if row.machine and row.ended_at is None)


def _doubled(rows: Sequence[Lived]) -> list[str]:
    """A drill has two runs, of which one has two machines."""
    machines = [row for row in rows if row.machine]
    return [f"{len(machines)} machines"] if len(machines) > 3 else []


def _live(table: Table) -> list[str]:
    with Journal.open(table.settings.journal) as journal:
        return [f"run {run.run_id} is {run.phase}" for run in journal.runs() if run.phase is not Phase.DONE]
