"""Repeats calls to a store that did not answer. All calls to stores are safe to repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from trainplan.providers.cloud.propagation import pause
from trainplan.providers.errors import ThrottledError, TransientError

Answer = TypeVar("Answer")
PASSING: tuple[type[Exception], ...] = (ThrottledError, TransientError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often a call is repeated. Pauses double from the first to the longest; by default they are 31.5 s
    together."""

    attempts: int = 7
    first_seconds: float = 0.5
    longest_seconds: float = 30.0
    sleep: Callable[[float], None] = pause

    def __call__(self, action: Callable[[], Answer], on: tuple[type[Exception], ...] = PASSING) -> Answer:
        """Return the result of `action`. Errors in `on` are raised after the last attempt only, others at once."""
        pause = self.first_seconds
        for _ in range(self.attempts - 1):
            try:
                return action()
            except on:
                self.sleep(pause)
                pause = min(2 * pause, self.longest_seconds)
        return action()
