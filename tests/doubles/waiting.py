"""Waiting for another process in a test: until something holds, and no longer than it may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_SECONDS = 300.0
"""What hangs is told after so long. A computer that is slow and busy comes nowhere near it, and nobody waits for it
when all is well."""


def until(
    holds: Callable[[], bool], what: str, *, seconds: float = PATIENCE_SECONDS, pause_seconds: float = 0.02
) -> None:
    """Look again until it holds; a failure of the test when it does not in time."""
    never, start = threading.Event(), time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds, f"not within {seconds:.0f} s: {what}"
        never.wait(pause_seconds)
