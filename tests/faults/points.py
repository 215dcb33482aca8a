"""The points at which something can happen to a client: before and after each call and each write of the journal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.journal import Journal

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator


def nothing() -> None:
    """What happens at a point that is only counted."""


@dataclass
class Points:
    """Counts the points that one client reaches, and lets something happen at number `at` (from 0).

    `names` tells what each was; a client that comes to the same calls reaches the same points.
    """

    at: int | None = None
    happens: Callable[[], None] = nothing
    names: list[str] = field(default_factory=list)

    @contextmanager
    def around(self, what: str) -> Iterator[None]:
        """Two points. The second is not reached where the block raises: what the client got then is no answer of its
        own, and what it does next has a point of its own."""
        self._reach(f"before {what}")
        yield
        self._reach(f"after {what}")

    def _reach(self, name: str) -> None:
        number = len(self.names)
        self.names.append(name)
        if number == self.at:
            self.happens()


class PointedJournal(Journal):
    """A journal whose every write has its two points."""

    points = Points()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self.points.around(f"journal {_writer()}"), super()._write() as db:
            yield db


def _writer() -> str:
    """Which of the journal's methods writes."""
    frame = sys._getframe()
    while frame is not None and not (
        frame.f_code.co_filename.endswith("journal.py") and frame.f_code.co_name[0] != "_"
    ):
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_code.co_name if frame is not None else "write"
