"""Which pilots are worth their cost: short runs on candidate machines, before the whole job is launched. Pure.

A pilot of a machine tells its true speed. It is worth what the job is then expected to cost less, since the choice is
made with the true speed in the place of an interval, over the chances of that interval (the expected value of sample
information; Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from decimal import Decimal
from itertools import combinations
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.throughput.values import Basis

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import RankedOffer
    from trainplan.planner.throughput.values import Throughput

MOST_PILOTS = 5
"""More would take longer than most people wait, and each has less to tell."""
TRY_SETTINGS_SECONDS = 120
"""What the tries of a pilot that tries settings take together at most (workloads/tries.py)."""
TRAIN_SECONDS = 40
"""What a pilot trains beyond its first step: windows of some seconds until their spread is small (assumed)."""
MOST_TRAIN_SECONDS = 120
"""After that a pilot ends with the spread that it has."""
LEAST_STEPS = 12
"""Four windows of three steps, the first of which warms up (workloads/trainer/steady.py)."""
LEFT_FACTOR = 1.07
"""How far the next run of a measured configuration is off, as a factor, at four times of five: what a pilot cannot
settle (planner/throughput/own.py has the same figure of the same thing)."""
UNKNOWN_FACTOR = 4.0
"""How far the speed of a script that nobody has measured may be off what its deadline stands for (assumed)."""
_P90 = NormalDist().inv_cdf(0.9)
_SCENARIOS = 2048
MOST_CONSIDERED = 8
"""Of the candidates that could become the cheapest, those that rank first: the rest is ever less likely to."""
# The generator of a lattice of that many points (Korobov, 1959): each share occurs once in each dimension.
_LATTICE = 1145


class Choice(NamedTuple):
    """One machine that the job can be launched on, as far as a pilot concerns it.

    `usd` is the whole job at the predicted speed and `fixed_usd` the part of it that does not depend on the speed;
    `spread` the standard deviation of the speed's logarithm that a pilot would settle (0: nothing). `pilot_usd` is
    what a pilot there is expected to cost (None: there can be none). `weight` is what its cost counts in the ranking
    (Candidate.ranked_micro_usd).
    """

    usd: float
    fixed_usd: float
    spread: float
    pilot_usd: float | None
    weight: float = 1.0

    def usd_at(self, deviations: float) -> float:
        """The cost of the job where the true speed is so many standard deviations below the predicted one."""
        return self.fixed_usd + (self.usd - self.fixed_usd) * math.exp(self.spread * deviations)

    @property
    def low_usd(self) -> float:
        """P10 of the cost, by the speed alone."""
        return self.usd_at(-_P90)

    @property
    def high_usd(self) -> float:
        """P90 of the cost, by the speed alone."""
        return self.usd_at(_P90)

    @property
    def mean_usd(self) -> float:
        """The expected cost: that of a log-normal lies above that at the predicted speed."""
        return self.fixed_usd + (self.usd - self.fixed_usd) * math.exp(self.spread**2 / 2)

    @property
    def settles(self) -> bool:
        """Whether there can be a pilot, and it would tell something."""
        return self.pilot_usd is not None and self.spread > 0

    def measured(self, times: float) -> Choice:
        """The choice once a pilot has found its speed to be so many times the predicted one."""
        usd = self.fixed_usd + (self.usd - self.fixed_usd) / times
        return self._replace(usd=usd, spread=0.0, pilot_usd=None)


class Pilots(NamedTuple):
    """The choices to pilot, by their place in the list, the most worthwhile first; what they are expected to save the
    job, and to cost. Without any, these are of the pilots that come nearest to being worth it."""

    indices: tuple[int, ...]
    saving_usd: float
    cost_usd: float

    @property
    def net_usd(self) -> float:
        """What is expected to be left of the saving."""
        return self.saving_usd - self.cost_usd


NO_PILOTS = Pilots((), 0.0, 0.0)


def worthwhile(choices: Sequence[Choice], most: int = MOST_PILOTS, cap_usd: float = math.inf) -> Pilots:
    """The pilots whose expected saving is the furthest above their expected cost, of at most `most` and within the cap.

    Choices come in the order of the ranking. A pilot that costs nothing is worth it wherever it settles something.
    """
    considered = [index for index in overlapping(choices) if choices[index].settles]
    free = [index for index in considered if not choices[index].pilot_usd][:most]
    paid = [index for index in considered if choices[index].pilot_usd]
    scenarios = _Scenarios(choices, overlapping(choices))
    best = Pilots(tuple(free), scenarios.saving_usd(free), 0.0) if free else NO_PILOTS
    tried = [
        Pilots(indices, scenarios.saving_usd(indices), cost_usd)
        for size in range(1, min(most - len(free), len(paid)) + 1)
        for others in combinations(paid, size)
        if (cost_usd := _cost_usd(choices, others)) <= cap_usd
        for indices in [(*free, *others)]
    ]
    nearest = max(tried, key=lambda pilots: pilots.net_usd, default=NO_PILOTS)
    if nearest.net_usd > best.net_usd + _LEAST * choices[0].usd:
        best = nearest
    if not best.indices:
        return nearest._replace(indices=())
    by_worth = sorted(best.indices, key=lambda index: _cost_usd(choices, [index]) - scenarios.saving_usd([index]))
    return best._replace(indices=tuple(by_worth))


def next_pilot(
    choices: Sequence[Choice], left: Collection[int], cap_usd: float = math.inf, *, without_first: bool = False
) -> int | None:
    """The pilot to run next, of those that are `left` of what was agreed to; None where none is worth its cost any
    more. The choices are as they are known now: what was measured may have changed their order. `without_first`: the
    machine that ranks first is measured by the run itself, which begins there."""
    known = [one if index in left else one._replace(pilot_usd=None) for index, one in enumerate(choices)]
    order = sorted(range(len(known)), key=lambda index: known[index].usd * known[index].weight)
    pilots = worthwhile([known[index] for index in order], len(left), cap_usd) if left else NO_PILOTS
    return next((order[index] for index in pilots.indices if index or not without_first), None)


def overlapping(choices: Sequence[Choice]) -> list[int]:
    """The first, and those that could turn out cheaper than it: whose interval reaches below the high end of its own.
    Of many, those that rank first."""
    if not choices:
        return []
    most = choices[0].high_usd * choices[0].weight
    return [index for index, one in enumerate(choices) if not index or one.low_usd * one.weight < most][
        :MOST_CONSIDERED
    ]


def _cost_usd(choices: Sequence[Choice], indices: Sequence[int]) -> float:
    return sum(choices[index].pilot_usd or 0.0 for index in indices)


class _Scenarios:
    """Costs under true speeds that are drawn evenly over their chances: the same for the same choices."""

    def __init__(self, choices: Sequence[Choice], considered: Sequence[int]) -> None:
        self._choices = choices
        self._considered = considered
        self._usd = {index: self._drawn(index, turn) for turn, index in enumerate(considered)}

    def _drawn(self, index: int, turn: int) -> list[float]:
        one, normal, step = self._choices[index], NormalDist(), pow(_LATTICE, turn, _SCENARIOS)
        shares = (((number * step) % _SCENARIOS + 0.5) / _SCENARIOS for number in range(_SCENARIOS))
        return [one.usd_at(normal.inv_cdf(share)) for share in shares]

    def saving_usd(self, piloted: Sequence[int]) -> float:
        """How much less the job is expected to cost where these are piloted.

        The choice is that of the plan: the lowest cost at the measured speed, else at the predicted one. What is not
        piloted costs what it is expected to, whatever it is chosen for.
        """
        choices = self._choices
        others = [index for index in self._considered if index not in piloted]
        other = min(others, key=lambda index: choices[index].usd * choices[index].weight, default=None)
        other_rank = math.inf if other is None else choices[other].usd * choices[other].weight
        first = self._considered[0]
        before = self._usd[first] if first in piloted else [choices[first].mean_usd] * _SCENARIOS
        other_usd = 0.0 if other is None else choices[other].mean_usd
        saved = []
        for number in range(_SCENARIOS):
            rank, usd = other_rank, other_usd
            for index in piloted:
                true_usd = self._usd[index][number]
                if true_usd * choices[index].weight < rank:
                    rank, usd = true_usd * choices[index].weight, true_usd
            saved.append(before[number] - usd)
        return fmean(saved)


_LEAST = 1e-9
"""Of the job's cost: what is saved below that is the rounding of the arithmetic."""


def train_seconds(throughput: Throughput, batch: int) -> float:
    """How long a pilot is expected to train beyond its first step."""
    if throughput.basis is Basis.UNMEASURED:
        return MOST_TRAIN_SECONDS
    return max(TRAIN_SECONDS, LEAST_STEPS * batch / throughput.images_per_second)


def pilot_seconds(ranked: RankedOffer, batch: int) -> float:
    """How long a pilot of a job of such a batch is expected to take at an offer, from the request to nothing being
    left."""
    estimate = ranked.candidate.estimate
    around = estimate.plain.setup.total_seconds() + estimate.around.end.expected
    return around + train_seconds(estimate.throughput, batch)


def choice_of(ranked: RankedOffer, pilot: Decimal | None) -> Choice:
    """A ranked offer as a choice; `pilot` is what a pilot there is expected to cost, in USD (None: there is none)."""
    estimate, usd = ranked.candidate.estimate, float(ranked.cost_usd)
    share = estimate.time.train / estimate.time.total if estimate.time.total else 0.0
    weight = ranked.candidate.ranked_micro_usd / ranked.candidate.cost_micro_usd if usd else 1.0
    return Choice(
        usd=usd,
        fixed_usd=usd - float(ranked.compute_usd) * share,
        spread=spread_of(estimate.throughput),
        pilot_usd=None if pilot is None else float(pilot),
        weight=weight,
    )


def spread_of(throughput: Throughput) -> float:
    """The standard deviation of the speed's logarithm that a pilot would settle: that of an 80 % interval, less what
    the next run of a measured configuration is off. Of a script that nobody has measured it is assumed: the ends of
    what is unknown lie a factor of four apart from the middle."""
    if throughput.basis is Basis.UNMEASURED:
        return math.log(UNKNOWN_FACTOR) / _P90
    half, left = math.log(throughput.high / throughput.low) / 2, math.log(LEFT_FACTOR)
    return math.sqrt(half**2 - left**2) / _P90 if half > left * _ROUNDED else 0.0


_ROUNDED = 1 + 1e-9
