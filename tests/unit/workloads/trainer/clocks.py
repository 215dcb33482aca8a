"""A clock that obeys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class FakeClock:
    """Seconds that pass only when told to."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now
