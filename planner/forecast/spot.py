"""A rental on spot: how often it is interrupted according to whom, and what that makes of its time and cost."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.interruption import (
    Ends,
    ExpectedRun,
    InterruptibleRun,
    Spells,
    SpotPlacement,
    checkpoint_count,
    daly_interval_seconds,
    ends,
    expected_run,
)
from trainplan.planner.forecast.times import Interval
from trainplan.pricing.money import format_usd, from_micro
from trainplan.providers.registry import vendor
from trainplan.workloads.durations import format_duration

if TYPE_CHECKING:
    from trainplan.planner.forecast.times import RunTime

_HOUR = 3600.0
_MONTH = 730 * _HOUR


class RateBasis(StrEnum):
    """What an interruption rate rests on."""

    MEASURED = "measured"
    """Computed from recorded series."""
    REPORTED = "reported"
    """The vendor's own figure, turned into a rate."""
    JUDGEMENT = "judgement"
    """Nobody publishes it: a figure chosen between those that are known."""


class SpotRate(NamedTuple):
    """How often a kind of spot machine is taken away and for how long, and who says so.

    `notice_seconds` is what the vendor gives before; best effort, so nothing here counts on it.
    """

    placement: SpotPlacement
    basis: RateBasis
    source: str
    notice_seconds: int


# Mean outage: 0.5-1.8 h in the zones of the recorded traces that were up at least 60 % of the time (V100 and K80 on
# EC2, 2022-10 to 2023-04, skypilot-org/spot-traces). No vendor publishes it; one hour is the judgement between.
_OUTAGE = Spells(long_seconds=1 * _HOUR)
_OUTAGE_TEXT = "an outage of 1h: judgement, after 0.5-1.8h in recorded traces of 2022-23"

# Spot Advisor gives the share of instances reclaimed in the trailing month, as a bucket (under 5, 5-10, 10-15, 15-20,
# over 20 %; undocumented feed spot-advisor-data.json): the middle of the bucket, as a constant rate over 730 hours.
_ADVISOR_SHARES = (0.025, 0.075, 0.125, 0.175)
_ADVISOR_RANGES = ("under 5", "5-10", "10-15", "15-20")
# The last bucket has no upper end: 20 % a month is one in 3,270 hours, and the V100s that were traced in 2023 (all of
# them in this bucket) lasted 3-7 hours. The geometric mean of the two is about 120 hours.
_OPEN_BUCKET_HOURS = 120.0
# 4-11 recoveries in 82-106 hours of 7 jobs on spot TPUs (skypilot PR #1500, 2022-12): one per 8-27 hours. A recovery
# took 7.5-14.6 min all told, of which about 10 are set-up.
_TPU_HOURS = 15.0
_TPU_OUTAGE_SECONDS = 180.0
# Both spells of V100s on EC2 (4 zones up 72-88 % of the time, 2022-10 and 2023-02), fitted to the whole traces
# (the last lines of benchmarks/spot_replay.py).
_V100_PLACEMENT = SpotPlacement(
    up=Spells(short_share=0.67, short_seconds=0.81 * _HOUR, long_seconds=12.7 * _HOUR),
    down=Spells(short_share=0.73, short_seconds=0.42 * _HOUR, long_seconds=3.2 * _HOUR),
)
_TRACED_FAMILIES = frozenset(("aws", family) for family in ("p2", "p3", "p3dn"))


@cache
def spot_rate(provider: str, device: str, family: str, bucket: int | None = None) -> SpotRate:
    """The rate for a rental; `bucket` is the offer's Spot Advisor bucket (0-4), None where there is none.

    `device` is the canonical name. A provider that is not known gets the rate of the open bucket.
    """
    row = vendor(provider)
    notice_seconds = row.notice_seconds if row else 0
    if (provider, family) in _TRACED_FAMILIES:
        text = "availability of V100s on EC2 recorded in 2022-10 and 2023-02 (skypilot-org/spot-traces), scarce then"
        return SpotRate(placement=_V100_PLACEMENT, basis=RateBasis.MEASURED, source=text, notice_seconds=notice_seconds)
    if device.upper().startswith("TPU"):
        outage = Spells(long_seconds=_TPU_OUTAGE_SECONDS)
        text = "7 jobs on spot TPUs, 2022-12 (skypilot PR #1500): one interruption per 8-27h"
        return _rate(_TPU_HOURS * _HOUR, RateBasis.MEASURED, text, notice_seconds, outage)
    if row is not None and row.reclaim is not None:
        reclaim = row.reclaim
        basis = RateBasis.JUDGEMENT if reclaim.is_judged else RateBasis.REPORTED
        up_seconds = _mean_up(reclaim.share, reclaim.within_hours * _HOUR)
        return _rate(up_seconds, basis, f"{reclaim.source}; {_OUTAGE_TEXT}", notice_seconds)
    return _advised(bucket, notice_seconds, is_known=row is not None and row.has_advisor)


def _advised(bucket: int | None, notice_seconds: int, *, is_known: bool) -> SpotRate:
    """The rate of an offer's Spot Advisor bucket, where it has one; else that of the open bucket."""
    if bucket is not None and 0 <= bucket < len(_ADVISOR_SHARES):
        text = f"AWS Spot Advisor: {_ADVISOR_RANGES[bucket]} % interrupted in a month; {_OUTAGE_TEXT}"
        return _rate(_mean_up(_ADVISOR_SHARES[bucket], _MONTH), RateBasis.REPORTED, text, notice_seconds)
    if not is_known:
        text = f"nothing is published; {_OUTAGE_TEXT}"
        return _rate(_OPEN_BUCKET_HOURS * _HOUR, RateBasis.JUDGEMENT, text, notice_seconds)
    name = "AWS Spot Advisor: over 20 % interrupted in a month" if bucket is not None else "no Spot Advisor figure"
    text = f"{name}; one in 120h: judgement between that and traced V100s of 2023; {_OUTAGE_TEXT}"
    return _rate(_OPEN_BUCKET_HOURS * _HOUR, RateBasis.JUDGEMENT, text, notice_seconds)


def _rate(up_seconds: float, basis: RateBasis, source: str, notice_seconds: int, down: Spells = _OUTAGE) -> SpotRate:
    placement = SpotPlacement(up=Spells(long_seconds=up_seconds), down=down)
    return SpotRate(placement=placement, basis=basis, source=source, notice_seconds=notice_seconds)


def _mean_up(share: float, within_seconds: float) -> float:
    """Mean seconds between interruptions, if `share` of the machines meets one `within_seconds`."""
    return -within_seconds / math.log1p(-share)


class Checkpoints(NamedTuple):
    """What the job does: seconds of work between two, and seconds that writing one takes."""

    interval_seconds: float
    seconds: float


CHECKPOINT_BYTES_PER_SECOND = 100_000_000
"""To object storage over one connection: the same allowance as for fetching a data set."""


def checkpoint_seconds(model_bytes: int) -> float:
    """Writing a model of 4-byte weights with one optimizer slot each, training waiting for it meanwhile."""
    return 2 * model_bytes / CHECKPOINT_BYTES_PER_SECOND


def with_checkpoints(plain: RunTime, checkpoints: Checkpoints) -> RunTime:
    """`plain`, with the writing of checkpoints in its training time: the run without interruptions.

    As in `trainplan.planner.forecast.interruption`, what comes after the training counts as work.
    """
    every, each, after = checkpoints.interval_seconds, checkpoints.seconds, plain.after.total_seconds()
    train, low, high = (
        lasting + timedelta(seconds=each * checkpoint_count(lasting.total_seconds() + after, every))
        for lasting in (plain.train, plain.train_low, plain.train_high)
    )
    return plain.with_train(train, low, high)


class SpotTime(NamedTuple):
    """A run on spot: how long it takes in seconds, what of that is billed (waiting is not), and what interruptions do.

    Low and high are P10 and P90 with the throughput and the interruptions unsure: as `interruption.ends` has them, or,
    from `with_quantiles`, of simulated runs, of which `uninterrupted` is the share that met none.
    """

    rate: SpotRate
    wall: Interval
    billed: Interval
    expected: ExpectedRun
    uninterrupted: float | None = None

    @property
    def billed_durations(self) -> tuple[timedelta, timedelta, timedelta]:
        """Expected, low, high; ten years where it would be longer."""
        expected, low, high = (_duration(seconds) for seconds in self.billed)
        return expected, low, high

    def run_time(self, plain: RunTime) -> RunTime:
        """`plain`, with checkpoints, waiting, restarting and repeating in its training time, and the widths of setup
        and end in the ends of that."""
        rest = plain.setup + plain.after
        expected, low, high = (_duration(seconds) - rest for seconds in self.wall)
        return replace(plain.with_train(expected, low, high), less=timedelta(0), more=timedelta(0))


def spot_time(time: RunTime, rate: SpotRate, checkpoints: Checkpoints) -> SpotTime:
    """What interruptions make of a run that would take `time` without them and without writing checkpoints; the setup
    is what every restart repeats."""
    run = _run(time, checkpoints)
    expected = expected_run(run, rate.placement)
    after = time.after.total_seconds()
    work = Ends(time.train_low.total_seconds() + after, time.train_high.total_seconds() + after)
    wall, billed = ends(run, rate.placement, expected, work)
    return SpotTime(
        rate=rate,
        wall=_around(expected.wall_seconds, *wall, time, expected),
        billed=_around(expected.billed_seconds, *billed, time, expected),
        expected=expected,
    )


def with_quantiles(spot: SpotTime, time: RunTime, checkpoints: Checkpoints, seed: str) -> SpotTime:
    """The same with P10 and P90 of simulated runs, speed and interruptions drawn. Milliseconds: for rows shown."""
    from trainplan.planner.forecast.simulate import WorkRange, simulate  # only rows that are explained pay for it

    after = time.after.total_seconds()
    low, high = time.train_low.total_seconds() + after, time.train_high.total_seconds() + after
    work = WorkRange(time.train.total_seconds() + after, low, high)
    runs = simulate(_run(time, checkpoints), spot.rate.placement, seed, work)
    return spot._replace(
        wall=_around(spot.wall.expected, runs.wall.p10, runs.wall.p90, time, spot.expected),
        billed=_around(spot.billed.expected, runs.billed.p10, runs.billed.p90, time, spot.expected),
        uninterrupted=runs.uninterrupted,
    )


def _around(expected: float, low: float, high: float, time: RunTime, run: ExpectedRun) -> Interval:
    """An expectation may lie above the 90 % quantile, where few runs wait very long; the interval then reaches it. It
    is joined with the widths of setup and end, each restart being a setup that is off by as much as the first."""
    if not math.isfinite(expected):
        return Interval(expected, low, high)
    setup = time.setup.total_seconds()
    times = max(1.0, run.restarting_seconds / setup) if setup else 1.0
    less, more = time.less.total_seconds(), time.more.total_seconds() * times
    low, high = min(low, expected), max(high, expected)
    # No run takes less than an undisturbed one does: the low end is that of one setup.
    return Interval(expected, expected - math.hypot(expected - low, less), expected + math.hypot(high - expected, more))


def _run(time: RunTime, checkpoints: Checkpoints) -> InterruptibleRun:
    return InterruptibleRun(
        work_seconds=(time.train + time.after).total_seconds(),
        interval_seconds=checkpoints.interval_seconds,
        checkpoint_seconds=checkpoints.seconds,
        restart_seconds=time.setup.total_seconds(),
    )


_LONGEST_SECONDS = 10 * 365 * 86_400.0


def _duration(seconds: float) -> timedelta:
    """Ten years stand for longer and for never: any limit on time refuses them."""
    return timedelta(seconds=min(seconds, _LONGEST_SECONDS))


class CostAndTime(NamedTuple):
    """Expectations for the same job on the same machine in one market."""

    micro_usd: int
    seconds: float


LEAST_SAVING = 0.05
"""Judgement: what spot must save, for each time as long as on demand that it takes, to be worth the bother."""


def spot_worth_it(on_demand: CostAndTime, spot: CostAndTime) -> bool:
    """Whether spot saves at least 5 % if it takes no longer, 10 % if it takes twice as long, and so on."""
    return _saving(on_demand, spot) >= LEAST_SAVING * max(1.0, spot.seconds / max(on_demand.seconds, 1.0))


def _saving(on_demand: CostAndTime, spot: CostAndTime) -> float:
    return 1 - spot.micro_usd / on_demand.micro_usd if on_demand.micro_usd > 0 else 0.0


def spot_verdict(on_demand: CostAndTime, spot: CostAndTime) -> str:
    """Why spot is not worth it, in one line; empty where it is."""
    if spot_worth_it(on_demand, spot):
        return ""
    difference = spot.micro_usd - on_demand.micro_usd
    money = f"costs {format_usd(from_micro(difference))} more" if difference >= 0 else (
        f"saves {format_usd(from_micro(-difference))} ({_saving(on_demand, spot):.0%})"
    )  # fmt: skip
    later = spot.seconds - on_demand.seconds
    if later < 60:
        return f"spot is not worth it: it {money}"
    return f"spot is not worth it: it {money} and is expected {format_duration(_duration(later))} later"


class CheckpointAdvice(NamedTuple):
    """Another checkpoint interval, and the share of the expected billed time that it saves."""

    interval_seconds: float
    saves: float

    @property
    def text(self) -> str:
        """The advice as a line."""
        interval = format_duration(timedelta(seconds=round(self.interval_seconds)))
        return f"checkpoint_every: {interval} (Young/Daly) would cut the billed time on spot by {self.saves:.1%}"


# Mostly a job's interval is far from the best one and it does not matter (ADR 8): only a gain is worth a line.
LEAST_GAIN = 0.005


def checkpoint_advice(time: RunTime, rate: SpotRate, checkpoints: Checkpoints) -> CheckpointAdvice | None:
    """The Young/Daly interval, where the job's own is over twice or under half of it and that costs at least 0.5 %."""
    best = daly_interval_seconds(checkpoints.seconds, rate.placement.up.mean_seconds)
    work = (time.train + time.after).total_seconds()
    # Beyond its work a run has no checkpoint at all, and nothing to say about the interval.
    best = max(1.0, min(best, work))
    if 0.5 <= min(checkpoints.interval_seconds, work) / best <= 2:
        return None
    now = expected_run(_run(time, checkpoints), rate.placement).billed_seconds
    then = expected_run(_run(time, checkpoints._replace(interval_seconds=best)), rate.placement).billed_seconds
    saves = 1 - then / now if math.isfinite(now) else float(math.isfinite(then))
    return CheckpointAdvice(best, saves) if saves >= LEAST_GAIN else None


def explain_spot(spot: SpotTime, time: RunTime, checkpoints: Checkpoints) -> list[str]:
    """Where the figures of a row on spot come from, a line each."""
    placement, expected = spot.rate.placement, spot.expected
    lines = [
        f"one interruption in {_hours(placement.up.mean_seconds)} of availability, "
        f"{spot.rate.basis}: {spot.rate.source}",
        f"{expected.interruptions:.2g} interruptions expected; after each, the run waits "
        f"{_long(placement.down.mean_seconds)} for capacity (not billed), restarts in "
        f"{_long(time.setup.total_seconds())} and repeats the work since the last checkpoint "
        f"(every {_long(checkpoints.interval_seconds)}, {checkpoints.seconds:.1f} s each)",
        f"expected: {_long(expected.wall_seconds)}, of which billed {_long(expected.billed_seconds)}, waiting "
        f"{_long(expected.waiting_seconds)}, repeated work {_long(expected.lost_seconds)}",
    ]
    if spot.uninterrupted is not None:
        lines.append(f"{spot.uninterrupted:.0%} of simulated runs meet no interruption")
    if spot.rate.notice_seconds:
        lines.append(f"notice {spot.rate.notice_seconds} s, best effort: the estimate does not rely on it")
    return lines


def _long(seconds: float) -> str:
    return format_duration(_duration(seconds)) if math.isfinite(seconds) else "for ever"


def _hours(seconds: float) -> str:
    return f"{seconds / _HOUR:,.3g}h" if seconds < 1000 * _HOUR else f"{seconds / _HOUR:,.0f}h"
