"""Time as something that is handed in, so that no test waits for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from trainplan.providers import interrupts


class Clock(Protocol):
    """Where commands get the time from, so that tests and the simulated cloud can have their own."""

    def now(self) -> datetime:
        """The instant, aware, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""


class SystemClock:
    """The computer's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251  the one place where the clock is read

    def sleep(self, seconds: float) -> None:
        interrupts.wait(seconds)
