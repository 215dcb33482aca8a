"""The newest sign of life of a machine, read from the run directory, and how long it may be silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.planner.runs.directory.run_directory import status_of
from trainplan.providers.agent.schema import instant

if TYPE_CHECKING:
    from trainplan.planner.runs.directory.progress import Story
    from trainplan.planner.runs.run import Attempt
    from trainplan.providers.base import Instance, RunStore

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
STOP_LIMIT = timedelta(minutes=10)
"""How long a machine that was told to stop may go on before the command that asked ends it.

The agent of a rented machine reads the wish within 15 s (providers/agent/watch.py), gives the trainer 110 s for its
checkpoint (providers/agent/container.py), and says from the first of these instants on that it is stopping. The rest is
grace: for a machine that still boots, and for a store that is away for some minutes.
"""
FAREWELL_LIMIT = SILENCE_LIMIT
"""How long it may take instead once it has said that it is stopping: it brings checkpoint and results home, and where
its store is away it tries for 30 min."""
FRESH = timedelta(minutes=5)
"""A progress line that is younger makes the status unnecessary: this saves a read in most looks."""
_STOPPING = "stopping"
_TRAINING_STATES = ("running", _STOPPING)


@dataclass(frozen=True, slots=True)
class Sign:
    """`at` is the newest instant that the machine itself wrote down; `trains`: training has begun; `stops`: it says
    that it is stopping."""

    at: datetime
    trains: bool
    stops: bool = False


def newest_sign(store: RunStore, attempt: int, story: Story, now: datetime, *, is_to_stop: bool = False) -> Sign | None:
    """The newest of the progress lines in `story` and of the heartbeat in status.json; None: neither is there.

    `is_to_stop`: the machine was told to stop, so that its status matters though it has just written a line. Raises
    ProviderError where the store does not answer.
    """
    line_at = story.last_at
    if line_at is not None and now - line_at < FRESH and not is_to_stop:
        return Sign(line_at, trains=True)
    status = status_of(store, attempt)
    instants = [at for at in (line_at, instant(status.get("time"))) if at is not None]
    trains = line_at is not None or status.get("state") in _TRAINING_STATES
    return Sign(max(instants), trains, stops=status.get("state") == _STOPPING) if instants else None


def silent_since(attempt: Attempt, instance: Instance, sign: Sign | None, now: datetime) -> str:
    """Say that an existing machine hangs or never booted; "" where it does not. `now` is the provider's.

    A request that waits in its provider's queue bills nothing and is not expected to say anything.
    """
    if not instance.bills:
        return ""
    starts = [
        at for at in (attempt.asked_at, attempt.sent_at, attempt.bills_from, instance.launched_at) if at is not None
    ]
    began_at = max(starts, default=now)
    if sign is None:
        minutes = BOOT_LIMIT.total_seconds() / 60
        return f"no sign of life within {minutes:.0f} minutes of the launch" if now - began_at > BOOT_LIMIT else ""
    if now - max(began_at, sign.at) <= SILENCE_LIMIT:
        return ""
    return f"no sign of life since {sign.at:%Y-%m-%d %H:%M} UTC: the machine hangs, or cannot reach its store"


def disobeys(told_at: datetime | None, *, is_stopping: bool, now: datetime) -> str:
    """Say that a machine goes on although it was told to stop at `told_at` (None: it was not); "" while it has time.

    `is_stopping`: it says that it is stopping, or what it says cannot be read. `now` is the provider's.
    """
    limit = FAREWELL_LIMIT if is_stopping else STOP_LIMIT
    if told_at is None or now - told_at <= limit:
        return ""
    return (
        f"the machine was told to stop at {told_at:%Y-%m-%d %H:%M} UTC and had not ended "
        f"{limit.total_seconds() / 60:.0f} minutes later: plan ended it, and what it had trained since its newest "
        "stored checkpoint is lost"
    )
