"""Time as something that is handed in."""

from __future__ import annotations

import time
from datetime import datetime, timezone


class Clock:
    """The machine's own. `now` is in seconds since 1970, `steady` in seconds from anywhere, never set back."""

    def now(self) -> float:
        return time.time()

    def steady(self) -> float:
        """Seconds, for durations."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
        time.sleep(seconds)  # noqa: TID251  the one place of the agent that waits


def stamp(unix: float) -> str:
    """ISO 8601 in UTC, as everything in the run directory has it."""
    return datetime.fromtimestamp(unix, tz=timezone.utc).isoformat(timespec="milliseconds")


def unix(text: str) -> float:
    """Seconds since 1970 of an aware ISO 8601 instant. Raises ValueError."""
    instant = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    if instant.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return instant.timestamp()
