"""Runs through drawn or recorded spells, one at a time: how far from its expectation a run may end. Seeded, pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trainplan.planner.forecast.interruption import InterruptibleRun, Spells, SpotPlacement

DRAWS = 300
"""The 90 % quantile of that many is one between the 88 % and the 92 % quantile, two times in three."""
MOST_SPELLS = 20_000
"""A run that has not ended after that many counts as one that never ends."""
_Z80 = 1.2815515655446004
"""Standard deviations that hold 80 %."""


class Spell(NamedTuple):
    """A time during which a spot machine is available (`up`) or not."""

    up: bool
    seconds: float


class OneRun(NamedTuple):
    """What one run took; infinite where it did not end within the spells given."""

    wall_seconds: float
    billed_seconds: float
    interruptions: int


def go_through(run: InterruptibleRun, spells: Iterable[Spell], work_seconds: float | None = None) -> OneRun:
    """The run in spells that follow each other from the moment it is asked for, until it is done.

    `work_seconds` stands in for the run's own.
    """
    remaining = run.work_seconds if work_seconds is None else work_seconds
    wall = billed = 0.0
    stops = 0
    full = run.interval_seconds + run.checkpoint_seconds
    for up, seconds in spells:
        if up:
            checkpoints = max(0, math.ceil(remaining / run.interval_seconds - 1e-9) - 1)
            need = run.restart_seconds + remaining + checkpoints * run.checkpoint_seconds
            if seconds >= need:
                return OneRun(wall + need, billed + need, stops)
            kept_count = min(checkpoints, max(0, math.floor((seconds - run.restart_seconds) / full)))
            remaining -= run.interval_seconds * kept_count
            billed += seconds
            stops += 1
        wall += seconds
    return OneRun(math.inf, math.inf, stops)


def drawn_spells(placement: SpotPlacement, random: Random) -> Iterator[Spell]:
    """Spells of the placement from a random moment on; the first one is what is left of the spell at that moment."""
    # Shifted by half the variance, so that the factor's mean is 1 and expectations stay as they are.
    outages = math.exp(random.gauss(-(placement.drift**2) / 2, placement.drift))
    up = random.random() < placement.availability
    first = placement.up if up else placement.down
    yield Spell(up, _drawn(first, first.short_share_of_time, random) * (1.0 if up else outages))
    for _ in range(MOST_SPELLS // 2):
        if up:
            yield Spell(False, _drawn(placement.down, placement.down.short_share, random) * outages)
        yield Spell(True, _drawn(placement.up, placement.up.short_share, random))
        up = True


def _drawn(spells: Spells, short_share: float, random: Random) -> float:
    mean = spells.short_seconds if random.random() < short_share else spells.long_seconds
    # One minus: random() may be 0, which has no logarithm, and is never 1.
    return -mean * math.log(1.0 - random.random())


class WorkRange(NamedTuple):
    """Seconds of work: expected, and the ends of the 80 % interval."""

    expected: float
    low: float
    high: float

    def at(self, deviations: float) -> float:
        """The work that many standard deviations out, log-normal on each side; higher takes longer."""
        end = self.high if deviations > 0 else self.low
        return self.expected * float((end / self.expected) ** (abs(deviations) / _Z80))


class Spread(NamedTuple):
    """Quantiles of simulated runs in seconds: one run in ten is below `p10`, one in ten above `p90`."""

    p10: float
    p50: float
    p90: float


class SimulatedRuns(NamedTuple):
    """Wall and billed seconds of many simulated runs."""

    wall: Spread
    billed: Spread
    uninterrupted: float
    """The share of runs that were never interrupted."""


def simulate(
    run: InterruptibleRun, placement: SpotPlacement, seed: str, work: WorkRange | None = None, draws: int = DRAWS
) -> SimulatedRuns:
    """Many runs started at random moments; the same seed gives the same runs.

    With `work`, how fast the machine really is is drawn as well, anew for every run.
    """
    random = Random(seed)
    ends = []
    for _ in range(draws):
        seconds = None if work is None else work.at(random.gauss(0.0, 1.0))
        ends.append(go_through(run, drawn_spells(placement, random), seconds))
    return SimulatedRuns(
        wall=spread([end.wall_seconds for end in ends]),
        billed=spread([end.billed_seconds for end in ends]),
        uninterrupted=sum(end.interruptions == 0 for end in ends) / draws,
    )


def spread(values: Sequence[float]) -> Spread:
    """The quantiles, each the smallest value that at least its share of the values does not exceed."""
    ordered = sorted(values)
    return Spread(*(ordered[max(0, math.ceil(len(ordered) * share) - 1)] for share in (0.1, 0.5, 0.9)))
