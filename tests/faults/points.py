"""The points at which something can happen to a client: before and after each call and each write of the journal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from trainplan.planner.runs.journal.journal import Journal

if TYPE_CHECKING:
    import sqlite3


MOST_POINTS = 5_000
"""Of one client: whoever reaches more would go on for ever. Clients whose calls do not pass the harness end so."""
GOES_ON = "goes on after"


def nothing() -> None:
    """What happens at a point that is only counted."""


@dataclass
class Points:
    """Counts the points that one client reaches, and lets something happen at number `at` (from 0), or at each of
    `stops`, where `stopped` is told the number.

    `names` tells what each was; a client that comes to the same calls reaches the same points.
    """

    at: int | None = None
    happens: Callable[[], None] = nothing
    stops: frozenset[int] = frozenset()
    stopped: Callable[[int], None] = lambda _: None
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
        assert number < MOST_POINTS, f"a client {GOES_ON} {MOST_POINTS} points"
        self.names.append(name)
        if number == self.at:
            self.happens()
        if number in self.stops:
            self.stopped(number)


@dataclass(frozen=True)
class Pointed:
    """Something whose every call has its two points: a vendor's API, or a bucket."""

    inner: Any
    points: Points

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found) or name == "close":
            return found

        def asked(*arguments: Any, **options: Any) -> Any:
            with self.points.around(name):
                return found(*arguments, **options)

        return asked


class PointedJournal(Journal):
    """A journal whose every write has its two points."""

    points = Points()
    opened: ClassVar[WeakSet[PointedJournal]] = WeakSet()
    """Those of this process that may still be open."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self.opened.add(self)

    def close(self) -> None:
        self.opened.discard(self)
        super().close()

    def open_again(self) -> None:
        """With a connection of this process's own: its parent's must not be used after a fork."""
        self._db.close()
        self._db = Journal.open(self._path)._db

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
