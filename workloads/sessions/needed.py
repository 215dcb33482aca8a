"""How many sessions a run needs at a place that ends them."""

from __future__ import annotations

import math

STOP_BEFORE_SECONDS = 600.0
"""A session writes its last checkpoint so long before the place ends it: time to copy it to where it is kept."""


def useful_seconds(session_seconds: float, setup_seconds: float) -> float:
    """What a session trains: its length, less the setup (start, packages, data) and the end that is left free.

    Raises ValueError where nothing is left.
    """
    useful = session_seconds - STOP_BEFORE_SECONDS - setup_seconds
    if useful <= 0:
        raise ValueError(
            f"a session of {session_seconds:,.0f} s has no time to train: {setup_seconds:,.0f} s are setup, and the "
            f"last {STOP_BEFORE_SECONDS:,.0f} s are left free"
        )
    return useful


def sessions_needed(train_seconds: float, session_seconds: float, setup_seconds: float) -> int:
    """The sessions of this length that train so long, at least one.

    `session_seconds` is the mean where sessions end at random: the mean of many such runs is about half a session more
    (docs/export-to-places.md has the simulation). Raises ValueError where a session has no time to train.
    """
    return max(1, math.ceil(train_seconds / useful_seconds(session_seconds, setup_seconds)))
