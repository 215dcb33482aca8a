"""Asking a store again when it did not answer: every call to one is harmless to repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from providers.cloud.propagation import pause
from providers.errors import ThrottledError, TransientError

Answer = TypeVar("Answer")
PASSING: tuple[type[Exception], ...] = (ThrottledError, TransientError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Pauses double from the first to the longest; with these, a store may be away for 30 s."""

    attempts: int = 7
    first_seconds: float = 0.5
    longest_seconds: float = 30.0
    sleep: Callable[[float], None] = pause

    def __call__(self, action: Callable[[], Answer], on: tuple[type[Exception], ...] = PASSING) -> Answer:
        """What the action returns. Raises what it raises, and what is in `on` after the last attempt."""
        pause = self.first_seconds
        for _ in range(self.attempts - 1):
            try:
                return action()
            except on:
                self.sleep(pause)
                pause = min(2 * pause, self.longest_seconds)
        return action()
