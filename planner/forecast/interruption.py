"""What being interrupted does to a run: expected wall time, billed time, interruptions and lost work, in closed form.

A spot placement is up and down in turn; the run waits in it while it is down, which bills nothing. Every up spell
begins with a restart (request to first step), then comes work, with a checkpoint after each interval; an interruption
loses what came after the last complete one. docs/adr/0008-spot-expectation.md derives the formulas and says what else
was tried. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Spells:
    """How long one state lasts: exponential with a short mean for a share of the spells, with a long one for the rest.

    Recorded spells are mostly short with a few very long ones, which no single exponential describes: who asks at a
    random moment is most likely in a long one. Raises ValueError on means that are not positive and finite.
    """

    short_share: float = 0.0
    short_seconds: float = 1.0
    long_seconds: float

    def __post_init__(self) -> None:
        means = (self.short_seconds, self.long_seconds)
        if not (0 <= self.short_share <= 1 and all(0 < mean < math.inf for mean in means)):
            raise ValueError(f"spells need a share from 0 to 1 and positive, finite means, not {self}")

    @property
    def mean_seconds(self) -> float:
        """The mean of the short and the long spells, by their shares."""
        return self.short_share * self.short_seconds + (1 - self.short_share) * self.long_seconds

    @property
    def variance(self) -> float:
        """Return the variance of one spell's length, in seconds squared."""
        short, long = self.short_seconds**2, self.long_seconds**2
        return 2 * (self.short_share * short + (1 - self.short_share) * long) - self.mean_seconds**2

    @property
    def short_share_of_time(self) -> float:
        """Probability that a random moment lies in a short spell."""
        return self.short_share * self.short_seconds / self.mean_seconds

    @property
    def mean_left_seconds(self) -> float:
        """Expected rest of the spell at a random moment; more than the mean, as long spells hold more moments."""
        share = self.short_share_of_time
        return share * self.short_seconds + (1 - share) * self.long_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPlacement:
    """Up and down spells of the placement that a run waits in.

    Good and bad weeks: in one run all outages are longer or shorter than expected by one factor, log-normal with mean
    1 and `drift` as its deviation. It widens what single runs take and leaves expectations as they are. 0.4 is what is
    left of the deviation between 4-day windows of the recorded traces (0.6 in zones up at least 60 % of the time) after
    what so few spells vary by themselves (0.45).
    """

    up: Spells
    down: Spells
    drift: float = 0.4

    @property
    def availability(self) -> float:
        """The share of time in which the placement has a machine."""
        return self.up.mean_seconds / (self.up.mean_seconds + self.down.mean_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptibleRun:
    """A run as interruptions see it, in seconds.

    `work_seconds` of progress, `restart_seconds` from a machine's request to its first step, a checkpoint that takes
    `checkpoint_seconds` after every `interval_seconds` of work; none after the last. Raises ValueError on figures that
    are negative, or an interval or work of nothing.
    """

    work_seconds: float
    interval_seconds: float
    checkpoint_seconds: float
    restart_seconds: float

    def __post_init__(self) -> None:
        if min(self.work_seconds, self.interval_seconds) <= 0 or min(self.checkpoint_seconds, self.restart_seconds) < 0:
            raise ValueError(f"work and interval must be positive, checkpoint and restart not negative: {self}")

    @property
    def checkpoints(self) -> int:
        """How many are written if nothing interrupts."""
        return checkpoint_count(self.work_seconds, self.interval_seconds)

    @property
    def plain_seconds(self) -> float:
        """Wall time without a wait or an interruption."""
        return self.plain_seconds_of(self.work_seconds)

    def plain_seconds_of(self, work_seconds: float) -> float:
        """The same for other work."""
        count = checkpoint_count(work_seconds, self.interval_seconds)
        return self.restart_seconds + work_seconds + count * self.checkpoint_seconds


def checkpoint_count(work_seconds: float, interval_seconds: float) -> int:
    """Checkpoints of uninterrupted work: one after each interval, none at the very end."""
    # Less a trifle: rounding must not add a checkpoint to work that ends with an interval.
    return max(0, math.ceil(work_seconds / interval_seconds - 1e-9) - 1)


class ExpectedRun(NamedTuple):
    """Expectations, in seconds; infinite where the run would practically never end.

    `wall_seconds` = `billed_seconds` + `waiting_seconds`; `lost_seconds` is work done twice, `restarting_seconds` is
    spent between a request and its first step.
    """

    wall_seconds: float
    billed_seconds: float
    interruptions: float
    lost_seconds: float
    restarting_seconds: float

    @property
    def waiting_seconds(self) -> float:
        """The time without a machine; infinite where the run is not expected to end."""
        return self.wall_seconds - self.billed_seconds if math.isfinite(self.wall_seconds) else math.inf


NEVER = ExpectedRun(math.inf, math.inf, math.inf, math.inf, math.inf)


def expected_run(run: InterruptibleRun, placement: SpotPlacement) -> ExpectedRun:
    """Expectations over a start at a random moment (up or down), waiting in the placement after every interruption.

    Exact under the model: the kind of spell (short, long) at the end of each checkpoint interval is a Markov chain of
    two states, whose sums over the intervals are geometric. Takes microseconds, however long the run.
    """
    count = run.checkpoints
    last = run.work_seconds - count * run.interval_seconds
    full = run.interval_seconds + run.checkpoint_seconds
    up = placement.up
    ending = _segment(up, last, run.restart_seconds)
    repeated = ending if count == 0 else _segment(up, full, run.restart_seconds)
    if ending is None or repeated is None:
        return NEVER
    up_now = placement.availability
    billed, stops, short = _begin(up, repeated, run.restart_seconds, up_now)
    if count > 0:
        shares, short = _repeat(repeated, short, count - 1)
        billed += _over(shares, repeated.billed)
        stops += _over(shares, repeated.stops)
        billed += _over((short, 1 - short), ending.billed)
        stops += _over((short, 1 - short), ending.stops)
    wait = (1 - up_now) * placement.down.mean_left_seconds + stops * placement.down.mean_seconds
    restarting = _restarting(up, run.restart_seconds, up_now, stops)
    lost_seconds = billed - restarting - run.work_seconds - count * run.checkpoint_seconds
    return ExpectedRun(billed + wait, billed, stops, max(0.0, lost_seconds), restarting)


class _Segment(NamedTuple):
    """Getting through one checkpoint interval; pairs are for an up spell that is short, or long, at its beginning.

    `fails`: probability that the spell ends first. `billed`, `stops`: expected up seconds and interruptions until the
    interval is done, retries counted. `fresh_*`: the same from a new spell, restart first. `short_after`: the
    probability that the spell which brought a retry through is a short one.
    """

    seconds: float
    fails: tuple[float, float]
    billed: tuple[float, float]
    stops: tuple[float, float]
    fresh_billed: float
    fresh_stops: float
    short_after: float


def _segment(up: Spells, seconds: float, restart_seconds: float) -> _Segment | None:
    """None: no spell is likely to last that long."""
    share, means = up.short_share, (up.short_seconds, up.long_seconds)
    whole = restart_seconds + seconds
    # expm1, since 1 - exp(-x) loses its digits where an interval is short beside a spell.
    short_misses, long_misses = -math.expm1(-whole / means[0]), -math.expm1(-whole / means[1])
    through_short = share * math.exp(-whole / means[0])
    through = through_short + (1 - share) * math.exp(-whole / means[1])
    if through < _HARDLY_EVER:
        return None
    fresh_billed = (share * short_misses * means[0] + (1 - share) * long_misses * means[1]) / through
    fresh_stops = (share * short_misses + (1 - share) * long_misses) / through
    fails = (-math.expm1(-seconds / means[0]), -math.expm1(-seconds / means[1]))
    return _Segment(
        seconds=seconds,
        fails=fails,
        billed=(fails[0] * (means[0] + fresh_billed), fails[1] * (means[1] + fresh_billed)),
        stops=(fails[0] * (1 + fresh_stops), fails[1] * (1 + fresh_stops)),
        fresh_billed=fresh_billed,
        fresh_stops=fresh_stops,
        short_after=through_short / through,
    )


_HARDLY_EVER = 1e-12


def _begin(up: Spells, first: _Segment, restart_seconds: float, up_now: float) -> tuple[float, float, float]:
    """The first interval: billed seconds, interruptions, and the probability that the spell after it is short."""
    share = up.short_share_of_time
    whole = restart_seconds + first.seconds
    misses = (-math.expm1(-whole / up.short_seconds), -math.expm1(-whole / up.long_seconds))
    missed = share * misses[0] + (1 - share) * misses[1]
    billed = share * misses[0] * up.short_seconds + (1 - share) * misses[1] * up.long_seconds
    short = share * (1 - misses[0]) + missed * first.short_after
    down_now = 1 - up_now
    return (
        up_now * (billed + missed * first.fresh_billed) + down_now * first.fresh_billed,
        up_now * missed * (1 + first.fresh_stops) + down_now * first.fresh_stops,
        up_now * short + down_now * first.short_after,
    )


def _repeat(segment: _Segment, short: float, times: int) -> tuple[tuple[float, float], float]:
    """How many of `times` intervals begin in a short and in a long spell, and the probability of a short one after."""
    after = segment.short_after
    leave_short, leave_long = segment.fails[0] * (1 - after), segment.fails[1] * after
    mixing = leave_short + leave_long
    if mixing <= 0:
        return (short * times, (1 - short) * times), short
    settled = leave_long / mixing
    remaining = math.exp(times * math.log1p(-mixing)) if mixing < 1 else float(times == 0)
    in_short = times * settled + (short - settled) * (1 - remaining) / mixing
    return (in_short, times - in_short), settled + (short - settled) * remaining


def _over(weights: tuple[float, float], values: tuple[float, float]) -> float:
    return weights[0] * values[0] + weights[1] * values[1]


def _restarting(up: Spells, restart_seconds: float, up_now: float, stops: float) -> float:
    """Up seconds between request and first step: in the spell met first, in every new one after it."""
    pair = (
        -up.short_seconds * math.expm1(-restart_seconds / up.short_seconds),
        -up.long_seconds * math.expm1(-restart_seconds / up.long_seconds),
    )
    share, met = up.short_share, up.short_share_of_time
    fresh = _over((share, 1 - share), pair)
    return up_now * _over((met, 1 - met), pair) + (stops + 1 - up_now) * fresh


class Ends(NamedTuple):
    """P10 and P90 of something, in seconds."""

    low: float
    high: float


def ends(run: InterruptibleRun, placement: SpotPlacement, expected: ExpectedRun, work: Ends) -> tuple[Ends, Ends]:
    """P10 and P90 of wall and of billed time, near enough and in microseconds; `work` holds those of the work itself.

    Two independent spreads: that of the work, in proportion to what the expectation grows by, and that of the
    interruptions, as if normal. No run takes less than an undisturbed one. How near it comes to
    trainplan.planner.forecast.simulate: docs/adr/0008-spot-expectation.md.
    """
    if not math.isfinite(expected.wall_seconds):
        never = Ends(math.inf, math.inf)
        return never, never
    up, down, stops = placement.up, placement.down, expected.interruptions
    again = (expected.billed_seconds - run.plain_seconds) / stops if stops > 0 else 0.0
    # Interruptions as they come in a renewal process, each after some part of an interval.
    scatter = stops * up.variance / up.mean_seconds**2
    # An interruption comes anywhere in an interval: the variance of an even spread is a twelfth of its square.
    within = stops * min(run.interval_seconds + run.checkpoint_seconds, run.work_seconds) ** 2 / 12
    waits = (
        stops * down.variance + _first_wait_variance(placement) + _drift_variance(placement, expected.waiting_seconds)
    )
    billed = _ends(run, expected.billed_seconds, scatter * again**2 + within, work)
    wall = _ends(run, expected.wall_seconds, scatter * (again + down.mean_seconds) ** 2 + within + waits, work)
    return wall, billed


def _ends(run: InterruptibleRun, expected: float, variance: float, work: Ends) -> Ends:
    slope = (expected - run.restart_seconds) / run.work_seconds
    spread = _Z80 * math.sqrt(variance)
    less, more = slope * (run.work_seconds - work.low), slope * (work.high - run.work_seconds)
    return Ends(
        max(run.plain_seconds_of(work.low), expected - math.hypot(less, spread)),
        max(run.plain_seconds_of(work.high), expected + math.hypot(more, spread)),
    )


_Z80 = 1.2815515655446004
"""Standard deviations from the middle to P90."""


def _first_wait_variance(placement: SpotPlacement) -> float:
    down, share = placement.down, placement.down.short_share_of_time
    second = 2 * (share * down.short_seconds**2 + (1 - share) * down.long_seconds**2)
    down_now = 1 - placement.availability
    return down_now * second - (down_now * down.mean_left_seconds) ** 2


def _drift_variance(placement: SpotPlacement, waiting_seconds: float) -> float:
    return waiting_seconds**2 * math.expm1(placement.drift**2)


def young_interval_seconds(checkpoint_seconds: float, mean_up_seconds: float) -> float:
    """Work between checkpoints that wastes least, first order: sqrt(2 C M) (Young, CACM 17(9), 1974)."""
    return math.sqrt(2 * checkpoint_seconds * mean_up_seconds)


def daly_interval_seconds(checkpoint_seconds: float, mean_up_seconds: float) -> float:
    """The same to higher order; the mean up time where a checkpoint takes more than twice that.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
    Computer Systems 22(3), 2006, equation 37.
    """
    if checkpoint_seconds >= 2 * mean_up_seconds:
        return mean_up_seconds
    ratio = checkpoint_seconds / (2 * mean_up_seconds)
    longer = 1 + math.sqrt(ratio) / 3 + ratio / 9
    return young_interval_seconds(checkpoint_seconds, mean_up_seconds) * longer - checkpoint_seconds
