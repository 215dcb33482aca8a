"""Chance that is the same every time: a draw depends on the seed and on what it is for, never on what came before."""

from __future__ import annotations

import hashlib
import math

_RANGE = 2**64


def draw(seed: int, *what: object) -> float:
    """A number in [0, 1) for this purpose."""
    text = "\n".join(map(str, (seed, *what)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / _RANGE


def between(seed: int, low: float, high: float, *what: object) -> float:
    """A number in [low, high), even."""
    return low + (high - low) * draw(seed, *what)


def waiting_hours(seed: int, per_hour: float, *what: object) -> float:
    """Hours until the first of events that come at random at this rate (above 0)."""
    return -math.log1p(-draw(seed, *what)) / per_hour
