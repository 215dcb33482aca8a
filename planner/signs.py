"""The newest sign of life of a machine, read from the run directory, and how long it may be silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from planner.watch import status_of
from providers.agent.schema import instant

if TYPE_CHECKING:
    from planner.progress import Story
    from planner.run import Attempt
    from providers.base import Instance, RunStore

BOOT_LIMIT = timedelta(minutes=45)
"""How long an instance may take to its first sign of life. On a rented machine that is the agent's first status.json,
which comes before image and data set are fetched; fetching tells of itself and may take longer."""
SILENCE_LIMIT = timedelta(minutes=45)
"""How long a machine that has given a sign of life may be silent before it counts as hung.

The agent of a rented machine writes status.json every 20 s (providers/agent/status.py) while it fetches, prepares,
trains, sends a checkpoint or brings the results home. The longest gaps of a healthy machine are a restart after host
maintenance (the agent allows 30 min to be back at training) and a store that does not let the machine write
(permissions at Azure take up to 30 min to arrive; the agent waits 30 min for its store). The agent itself ends training
that has written nothing for 30 min. The limit lies above all of these, so that the machine acts first.
"""
FRESH = timedelta(minutes=5)
"""A progress line that is younger makes the status unnecessary: this saves a read in most looks."""
_TRAINING_STATES = ("running", "stopping")


@dataclass(frozen=True, slots=True)
class Sign:
    """`at` is the newest instant that the machine itself wrote down; `trains`: training has begun."""

    at: datetime
    trains: bool


def newest_sign(store: RunStore, attempt: int, story: Story, now: datetime) -> Sign | None:
    """The newest of the progress lines in `story` and of the heartbeat in status.json; None: neither is there.

    Raises ProviderError where the store does not answer.
    """
    line_at = story.last_at
    if line_at is not None and now - line_at < FRESH:
        return Sign(line_at, trains=True)
    status = status_of(store, attempt)
    known = [at for at in (line_at, instant(status.get("time"))) if at is not None]
    trains = line_at is not None or status.get("state") in _TRAINING_STATES
    return Sign(max(known), trains) if known else None


def silent_since(attempt: Attempt, seen: Instance, sign: Sign | None, now: datetime) -> str:
    """In words, that a machine which is there hangs or never booted; "" where it does not. `now` is the provider's.

    A request that waits in its provider's queue bills nothing and is not expected to say anything.
    """
    if not seen.bills:
        return ""
    starts = [at for at in (attempt.asked_at, attempt.sent_at, attempt.bills_from, seen.launched_at) if at is not None]
    began = max(starts, default=now)
    if sign is None:
        minutes = BOOT_LIMIT.total_seconds() / 60
        return f"no sign of life within {minutes:.0f} minutes of the launch" if now - began > BOOT_LIMIT else ""
    if now - max(began, sign.at) <= SILENCE_LIMIT:
        return ""
    return f"no sign of life since {sign.at:%Y-%m-%d %H:%M} UTC: the machine hangs, or cannot reach its store"
