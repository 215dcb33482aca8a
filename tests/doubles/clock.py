"""A clock that only a test moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class FakeClock:
    """`sleep` advances it and waits for nothing; `at_sleep` holds what happens during the n-th sleep, from 1."""

    def __init__(self, now: datetime = NOON) -> None:
        self._now = now
        self.sleeps: list[float] = []
        self.at_sleep: dict[int, Callable[[], None]] = {}

    def now(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self._now += timedelta(seconds=seconds)
        if happens := self.at_sleep.get(len(self.sleeps)):
            happens()

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def ctrl_c() -> None:
    """What the person does."""
    raise KeyboardInterrupt
