"""The time of day that nobody can set: for deadlines that a process holds by itself. Standard library alone."""

from __future__ import annotations

import time
from collections.abc import Callable


def steady_seconds() -> float:
    """Seconds from anywhere, never set; where the system tells (Linux), they go on while the computer sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def anchored(
    wall: Callable[[], float] = time.time, steady: Callable[[], float] = steady_seconds
) -> Callable[[], float]:
    """Seconds since 1970 as the wall clock has them now, and from then on as steady time passes."""
    offset = wall() - steady()
    return lambda: offset + steady()
