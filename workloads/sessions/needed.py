"""How many sessions a run needs where sessions end before it does."""

from __future__ import annotations

import math
from typing import NamedTuple

STOP_BEFORE_SECONDS = 600.0
"""A session writes its last checkpoint so long before it must end, to copy it to where it is kept. An allowance: a
checkpoint of a gigabyte takes seconds, its copy to Drive or to Kaggle's output minutes."""
_SHORTEST_STEP_SECONDS = 60.0
"""Checkpoints written more often change the expected number by less than a hundredth, and only cost time to sum."""


class SessionRules(NamedTuple):
    """What a session takes from the training, in seconds.

    A session ends after `longest` at the latest. Where `mean` is less, it ends at random before, with that mean
    (exponential, cut at `longest`: nobody publishes more than that). `setup` is its start, packages and data. A
    session that ends at random loses what was trained since the last checkpoint; one is written every `checkpoint`
    seconds.
    """

    longest: float
    mean: float
    setup: float
    checkpoint: float

    @property
    def ends_at_random(self) -> bool:
        """Whether sessions end before their longest, nobody knows when."""
        return self.mean < self.longest

    @property
    def useful(self) -> float:
        """What a session trains: its mean, less the setup and the end that is left free. Raises ValueError where
        nothing is left."""
        useful = self.mean - STOP_BEFORE_SECONDS - self.setup
        if useful <= 0:
            raise ValueError(
                f"a session of {self.mean:,.0f} s has no time to train: {self.setup:,.0f} s are setup, and the last "
                f"{STOP_BEFORE_SECONDS:,.0f} s are left free"
            )
        return useful

    @property
    def each_further(self) -> float:
        """What every session but the first adds: its setup, and half of what is trained between two checkpoints where
        the one before ended at random."""
        return self.setup + (min(self.checkpoint, self.mean) / 2 if self.ends_at_random else 0.0)


def sessions_needed(train_seconds: float, rules: SessionRules) -> int:
    """The sessions that train so long, at least one: the mean of many such runs, rounded, where sessions end at random.

    Raises ValueError where a session has no time to train.
    """
    useful = rules.useful
    if not rules.ends_at_random:
        return max(1, math.ceil(train_seconds / useful))
    return max(1, round(min(_mean_sessions(train_seconds, rules), _mean_within_one(train_seconds, rules))))


def further_sessions(left_seconds: float, session_left_seconds: float, rules: SessionRules) -> int:
    """How many sessions a run needs after the one that trains now, of which so much is left at most.

    Raises ValueError where a session has no time to train.
    """
    beyond = left_seconds - session_left_seconds
    if not rules.ends_at_random:
        return 0 if beyond <= 0 else sessions_needed(beyond, rules)
    # What ends at random has no memory: the session that runs is expected to last as long as a new one.
    return max(1 if beyond > 0 else 0, sessions_needed(left_seconds, rules) - 1)


def _mean_within_one(train_seconds: float, rules: SessionRules) -> float:
    """The mean where nothing is kept, so that one session has to train it all (infinity where none is so long). What is
    kept makes it fewer, and where checkpoints are farther apart than the training is long, nothing is.
    """
    together = rules.setup + train_seconds
    return math.exp(together / rules.mean) if together <= rules.longest - STOP_BEFORE_SECONDS else math.inf


def _mean_sessions(train_seconds: float, rules: SessionRules) -> float:
    """The mean of the number of sessions, by renewal theory: `work / mean + second moment / (2 mean squared)` of what
    one session trains. The second term is about 1 for ends at random, where rounding up equal sessions adds half of
    one: the session that is trained in when the run is done is longer than others (Feller, An Introduction to
    Probability Theory and Its Applications II, XI.3).
    """
    most = rules.longest - STOP_BEFORE_SECONDS - rules.setup
    step = max(rules.checkpoint, _SHORTEST_STEP_SECONDS)
    kept = [*(number * step for number in range(1, int(most // step) + 1)), most]
    mean = second = before = 0.0
    for trained in kept:
        likely = math.exp(-(rules.setup + trained) / rules.mean)
        mean += (trained - before) * likely
        second += (trained**2 - before**2) * likely
        before = trained
    return train_seconds / mean + second / (2 * mean**2)
