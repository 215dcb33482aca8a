"""Since when an attempt costs something, where its provider charges nothing for a request that waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from planner.run import Attempt
    from providers.base import Instance


class Meter:
    """What one process has seen of it, look by look. What it says is too much rather than too little: a provider tells
    the earliest instant, which is moved on to the last look that found nothing charged."""

    def __init__(self) -> None:
        self._free_until: dict[int, datetime] = {}

    def read(self, attempt: Attempt, seen: Instance | None, asked_at: datetime) -> Attempt:
        """The attempt after a look that was asked for at an instant; None: the provider knows of no instance."""
        if seen is not None and not seen.bills:
            self._free_until[attempt.number] = asked_at
            return replace(attempt, queued=True)
        if attempt.bills_from is not None:
            return attempt
        told = seen.bills_from if seen is not None else None
        known = [at for at in (self._free_until.get(attempt.number), told) if at is not None]
        return replace(attempt, queued=False, bills_from=max(known, default=None))
