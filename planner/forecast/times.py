"""How long a whole run takes: expected, low and high."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple


class Interval(NamedTuple):
    """What is expected, with the ends of its 80 % interval."""

    expected: float
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether some value is within both."""
        return max(self.low, other.low) <= min(self.high, other.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """How long the whole run takes: `setup` to the first step, `train` the epochs, `after` to the model at home.

    `train_low` and `train_high` come from the ends of the throughput's 80 % interval.
    """

    setup: timedelta
    train: timedelta
    train_low: timedelta
    train_high: timedelta
    after: timedelta

    @property
    def total(self) -> timedelta:
        """Setup, training, and what follows it."""
        return self.setup + self.train + self.after

    def with_train(self, train: timedelta, low: timedelta, high: timedelta) -> RunTime:
        """The same around another training time."""
        return RunTime(setup=self.setup, train=train, train_low=low, train_high=high, after=self.after)

    @property
    def seconds(self) -> Interval:
        """The whole run in seconds."""
        return Interval(self.total.total_seconds(), self.low.total_seconds(), self.high.total_seconds())

    @property
    def low(self) -> timedelta:
        """The low end of the interval of the whole run."""
        return self.setup + self.train_low + self.after

    @property
    def high(self) -> timedelta:
        """The high end of the interval of the whole run."""
        return self.setup + self.train_high + self.after
