"""A provider's clock, as the `Date` of its HTTP answers tells it, beside the clock of this computer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

TOLERANCE = timedelta(minutes=2)
"""Two clocks that differ by less agree: an answer may be a minute on its way."""


def applied(offset: timedelta | None) -> timedelta:
    """What of a provider's offset is added to this computer's clock: all of it, or nothing where the two agree."""
    return offset if offset is not None and abs(offset) > TOLERANCE else timedelta(0)


@dataclass
class ServerClock:
    """`here` is this computer's clock. A `Date` (RFC 9110, section 6.6.1) has whole seconds."""

    here: Callable[[], datetime]
    offset: timedelta | None = None
    """How far the provider's clock is ahead, by its newest answer; None: no answer has told it."""

    def read_date(self, date: str | None) -> None:
        """The `Date` of an answer that has just come; what is missing or cannot be read changes nothing."""
        from email.utils import parsedate_to_datetime  # kept out of commands that ask no provider

        try:
            told_at = parsedate_to_datetime(date) if date else None
        except ValueError:
            return
        if told_at is not None:
            aware = told_at if told_at.tzinfo is not None else told_at.replace(tzinfo=UTC)
            self.offset = aware - self.here()

    def now(self) -> datetime:
        """Return this computer's time, corrected by the provider's where the two are known to differ."""
        return self.here() + applied(self.offset)
