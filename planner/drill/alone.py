"""One drill at a time: a second one would take the machines of the first for what an earlier one has left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from planner.errors import ThisMachineError
from planner.runs.journal.locks import RunLocks
from providers.base import RunId

if TYPE_CHECKING:
    from planner.drill.tools import Tools


@contextmanager
def alone(tools: Tools) -> Iterator[None]:
    """Lock this provider against other drills of this home, and against sweeps of what a drill has left, until the
    block ends.

    Raises ThisMachineError where one does, StateError where the folder of the locks cannot be written.
    """
    name = tools.provider.name
    with RunLocks(tools.settings.home / "locks").holding(RunId(f"drill-{name}")) as mine:
        if not mine:
            raise ThisMachineError(
                f"another plan drill {name} of this computer is at work",
                "wait until it has ended, or press Ctrl-C there",
            )
        yield
