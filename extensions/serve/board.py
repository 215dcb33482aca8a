"""What stands on the page, read from the journal without writing to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.journal.reader import read_only

if TYPE_CHECKING:
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.journal.rows import LoggedEvent, RunSummary
    from trainplan.planner.runs.money.spending import Month, Spending
    from trainplan.planner.runs.run import Run
    from trainplan.providers.base import RunId

EVENTS = 6
ENDED = 20
"""Rows of what happened lately, and of runs that have ended."""


class Board(NamedTuple):
    """Live runs, oldest first; what happened lately, newest first; ended runs, newest first; what could not be read."""

    live: Sequence[Run]
    events: Sequence[tuple[RunId, LoggedEvent]]
    ended: Sequence[RunSummary]
    problems: Sequence[str] = ()
    month: Month | None = None


NOTHING = Board((), (), ())


class Home:
    """The home whose journal is shown. It is the person's own folder and no link, when the server begins and later."""

    def __init__(self, folder: Path, spending: Callable[[Journal], Spending] | None = None) -> None:
        """`spending` gives what the month has cost, from a journal. Raises ThisMachineError for a folder that may be
        somebody else's."""
        self._spending = spending
        self.journal = folder / "journal.sqlite"
        self._folder = folder
        self._first = self._checked()

    def version(self) -> int:
        """Another one means that something has changed; -1 without a journal. Raises ThisMachineError."""
        if not self._is_there():
            return -1
        with read_only(self.journal) as journal:
            return journal.version()

    def board(self) -> Board:
        """What stands in the journal now. Raises ThisMachineError where it cannot be read."""
        if not self._is_there():
            return NOTHING
        problems: list[str] = []
        with read_only(self.journal) as journal:
            live = [run for run in journal.live(problems.append) if run.live]
            summaries = journal.summaries(problems.append, ENDED + len(live))
            ended = [run for run in summaries if run.outcome is not None][:ENDED]
            month = self._spending(journal).month(live) if self._spending is not None else None
            return Board(live, journal.newest_events(EVENTS), ended, sorted(set(problems)), month)

    def run(self, run_id: RunId) -> tuple[Run, int]:
        """A run of exactly this id and the number of its newest event. Raises KeyError, ThisMachineError."""
        if not self._is_there():
            raise KeyError(run_id)
        with read_only(self.journal) as journal:
            if not journal.has(run_id):
                raise KeyError(run_id)
            return journal.run(run_id), journal.newest_event(run_id)

    def _is_there(self) -> bool:
        """Raises ThisMachineError where the home is another folder than it was."""
        now = self._checked()
        if (now.st_dev, now.st_ino) != (self._first.st_dev, self._first.st_ino):
            raise ThisMachineError(f"{self._folder} was replaced by another folder", "start plan serve again")
        return self.journal.exists()

    def _checked(self) -> os.stat_result:
        """The folder as it is. Raises ThisMachineError."""
        for path in (self._folder, self.journal):
            if path.is_symlink():
                raise ThisMachineError(
                    f"{path} is a link, which may lead to somebody else's runs", "set PLAN_HOME to the folder itself"
                )
        return _own(self._folder)


def _own(folder: Path) -> os.stat_result:
    """The folder as it is. Raises ThisMachineError where there is none, or it is another user's."""
    try:
        status = folder.lstat()
    except OSError as error:
        raise ThisMachineError(
            f"cannot read {folder}: {error.strerror}", "set PLAN_HOME to a folder of yours"
        ) from None
    if os.name == "posix" and status.st_uid != os.geteuid():
        raise ThisMachineError(f"{folder} belongs to another user", "set PLAN_HOME to a folder of yours")
    return status
