"""How long a whole run takes: expected, low and high."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from trainplan.workloads.durations import format_estimate

ASSUMED_FACTOR = 1.5
"""How far what is assumed may be off, to either side. What was reported of boots and images has ranges of 1.2 to 1.4 to
either side of their middles (`forecast/allowances.py`); what nobody reported is taken to be known less well."""


class Interval(NamedTuple):
    """What is expected, with the ends of its 80 % interval."""

    expected: float
    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether some value is within both."""
        return max(self.low, other.low) <= min(self.high, other.high)


def assumed(seconds: float) -> Interval:
    """What nobody has measured, with the width of an assumption."""
    return Interval(seconds, seconds / ASSUMED_FACTOR, seconds * ASSUMED_FACTOR)


def measured(middle: float, values: Sequence[float]) -> Interval:
    """The middle of measured values, with their spread. Few show less of it than there is: the least width is that of
    an assumption after one value, and shrinks with each further one (after five a factor of 1.08)."""
    factor = ASSUMED_FACTOR ** (1 / len(values))
    return Interval(middle, min(*values, middle / factor), max(*values, middle * factor))


def joined(*parts: Interval) -> Interval:
    """The sum of parts that err independently: its ends are as far away as the root of the sum of squares."""
    expected = sum(part.expected for part in parts)
    less = math.hypot(*(part.expected - part.low for part in parts))
    more = math.hypot(*(part.high - part.expected for part in parts))
    return Interval(expected, expected - less, expected + more)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """How long the whole run takes: `setup` to the first step, `train` the epochs, `after` to the model at home.

    `train_low` and `train_high` come from the ends of the throughput's 80 % interval. `less` and `more` are how much
    shorter and longer setup and end may be together, by the same measure.
    """

    setup: timedelta
    train: timedelta
    train_low: timedelta
    train_high: timedelta
    after: timedelta
    less: timedelta = timedelta(0)
    more: timedelta = timedelta(0)

    @property
    def total(self) -> timedelta:
        """Setup, training, and what follows it."""
        return self.setup + self.train + self.after

    def with_train(self, train: timedelta, low: timedelta, high: timedelta) -> RunTime:
        """The same around another training time."""
        return replace(self, train=train, train_low=low, train_high=high)

    @property
    def texts(self) -> tuple[str, str, str]:
        """The whole run and both ends of its interval, with as many digits as its width bears."""
        return format_estimate(*self.seconds)

    @property
    def text(self) -> str:
        """The whole run, as it is written wherever it is shown."""
        return self.texts[0]

    @property
    def with_ends(self) -> str:
        """`10m (8m to 15m)`."""
        return "{} ({} to {})".format(*self.texts)

    def later(self, expected: timedelta, low: timedelta, high: timedelta) -> RunTime:
        """The run with a wait in its training time. Its ends are added to those of the run, whatever the wait: most
        runs wait for nothing, or for long."""
        aside = self.setup + self.after
        ends = self.low + low - aside, self.high + high - aside
        return replace(self.with_train(self.train + expected, *ends), less=timedelta(0), more=timedelta(0))

    @property
    def seconds(self) -> Interval:
        """The whole run in seconds."""
        return Interval(self.total.total_seconds(), self.low.total_seconds(), self.high.total_seconds())

    @property
    def low(self) -> timedelta:
        """The low end of the interval of the whole run: speed, setup and end err independently."""
        return self.total - _hypot(self.train - self.train_low, self.less)

    @property
    def high(self) -> timedelta:
        """The high end of the interval of the whole run."""
        return self.total + _hypot(self.train_high - self.train, self.more)


def _hypot(*spans: timedelta) -> timedelta:
    # Where one alone is not nothing it stays as it is, to the microsecond.
    spans = tuple(filter(None, spans))
    return spans[0] if len(spans) == 1 else timedelta(seconds=math.hypot(*(span.total_seconds() for span in spans)))
