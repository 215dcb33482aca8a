"""Rates and their sources, what spot makes of a run's time, and whether it is worth it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.rows import each_row
from trainplan.planner.forecast.interruption import Spells, SpotPlacement
from trainplan.planner.forecast.spot import (
    Checkpoints,
    CostAndTime,
    RateBasis,
    SpotRate,
    checkpoint_advice,
    checkpoint_seconds,
    explain_spot,
    spot_rate,
    spot_time,
    spot_verdict,
    spot_worth_it,
    with_checkpoints,
    with_quantiles,
)
from trainplan.planner.forecast.times import RunTime

HOURS = 3600.0
TIME = RunTime(
    setup=timedelta(seconds=465),
    train=timedelta(hours=12),
    train_low=timedelta(hours=10),
    train_high=timedelta(hours=15),
    after=timedelta(seconds=60),
)
JOB = Checkpoints(600.0, 5.5)


def a_rate(up: float, down: float = 1) -> SpotRate:
    placement = SpotPlacement(up=Spells(long_seconds=up * HOURS), down=Spells(long_seconds=down * HOURS))
    return SpotRate(placement=placement, basis=RateBasis.JUDGEMENT, source="made up", notice_seconds=30)


@pytest.mark.parametrize(
    ("bucket", "hours"),
    [(0, 28_834), (1, 9_364), (2, 5_467), (3, 3_795), (4, 120), (None, 120)],
)
def test_advisor_buckets_become_hours_between_interruptions(bucket: int | None, hours: float) -> None:
    rate = spot_rate("aws", "T4", "g4dn", bucket)
    assert rate.placement.up.mean_seconds / HOURS == pytest.approx(hours, rel=0.001)


@pytest.mark.parametrize(
    ("provider", "device", "family", "basis", "hours"),
    [
        ("gcp", "T4", "n1", RateBasis.REPORTED, 228),
        ("gcp", "TPU v3", "tpu", RateBasis.MEASURED, 15),
        ("azure", "T4", "NCasT4_v3", RateBasis.JUDGEMENT, 39.5),
        ("aws", "V100", "p3", RateBasis.MEASURED, 4.7),
        ("aws", "T4", "g4dn", RateBasis.JUDGEMENT, 120),
        ("elsewhere", "T4", "x", RateBasis.JUDGEMENT, 120),
    ],
)
def test_every_provider_has_a_rate_that_says_what_it_rests_on(
    provider: str, device: str, family: str, basis: RateBasis, hours: float
) -> None:
    rate = spot_rate(provider, device, family)
    assert rate.basis is basis
    assert rate.source
    assert rate.placement.up.mean_seconds / HOURS == pytest.approx(hours, rel=0.02)


def test_a_worse_bucket_is_never_the_longer_lived() -> None:
    means = [spot_rate("aws", "T4", "g4dn", bucket).placement.up.mean_seconds for bucket in range(5)]
    assert means == sorted(means, reverse=True)


def test_waiting_counts_as_time_and_is_not_billed() -> None:
    spot = spot_time(TIME, a_rate(up=4, down=2), JOB)
    assert spot.wall.expected - spot.billed.expected == pytest.approx(spot.expected.waiting_seconds)
    assert spot.expected.waiting_seconds > 3 * HOURS
    time = spot.run_time(TIME)
    assert time.total.total_seconds() == pytest.approx(spot.wall.expected)
    assert (time.setup, time.after) == (TIME.setup, TIME.after)
    assert time.low < time.total < time.high
    assert spot.billed_durations[0].total_seconds() == pytest.approx(spot.billed.expected)


def test_a_placement_that_stays_up_changes_nothing_but_the_checkpoints() -> None:
    spot = spot_time(TIME, a_rate(up=1e9), Checkpoints(600.0, 0.0))
    assert spot.run_time(TIME).total.total_seconds() == pytest.approx(TIME.total.total_seconds(), rel=1e-6)
    assert spot.wall.low == pytest.approx(TIME.low.total_seconds(), rel=1e-6)
    assert spot.billed.high == pytest.approx(TIME.high.total_seconds(), rel=1e-6)


def test_a_run_that_never_ends_takes_ten_years() -> None:
    stuck = replace(TIME, setup=timedelta(hours=200))
    spot = spot_time(stuck, a_rate(up=1), JOB)
    assert spot.run_time(stuck).total == timedelta(days=3650)
    assert spot.billed_durations == (timedelta(days=3650),) * 3
    assert "for ever" in "\n".join(explain_spot(spot, stuck, JOB))


def test_simulated_ends_hold_the_expectation_and_are_the_same_again() -> None:
    rate = a_rate(up=6)
    spot = spot_time(TIME, rate, JOB)
    ends = with_quantiles(spot, TIME, JOB, "aws p3.2xlarge")
    assert ends == with_quantiles(spot, TIME, JOB, "aws p3.2xlarge")
    assert ends.wall.low <= ends.wall.expected == spot.wall.expected <= ends.wall.high
    assert ends.billed.low <= ends.billed.expected <= ends.billed.high < ends.wall.high
    assert ends.wall.high > spot.wall.high * 0.9
    assert ends.uninterrupted is not None
    # Never interrupted: asked for while up (6 of 7 times), then up for a bit over 12 hours.
    assert ends.uninterrupted == pytest.approx(math.exp(-12.2 / 6), abs=0.06)


RATES = {
    "bucket 0": spot_rate("aws", "T4", "g4dn", 0),
    "bucket 4": spot_rate("aws", "T4", "g4dn", 4),
    "gcp": spot_rate("gcp", "T4", "n1"),
    "tpu": spot_rate("gcp", "TPU v3", "tpu"),
    "azure": spot_rate("azure", "T4", "x"),
    "traced V100": spot_rate("aws", "V100", "p3"),
}


@each_row("rate", RATES.values(), ids=RATES.keys())
@each_row("hours", [2, 12, 60])
@each_row(("low", "high"), [(0.93, 1.08), (0.75, 1.35)], ids=["sure", "unsure"])
def test_the_ends_of_a_row_are_those_of_simulated_runs(rate: SpotRate, hours: int, low: float, high: float) -> None:
    """What every row shows is worked out in microseconds; it is the simulation's P10 and P90, near enough."""
    train = timedelta(hours=hours)
    time = replace(TIME, train=train, train_low=train * low, train_high=train * high)
    spot = spot_time(time, rate, JOB)
    runs = with_quantiles(spot, time, JOB, f"{rate.source} {hours}")
    assert spot.billed.low == pytest.approx(runs.billed.low, rel=0.07)
    assert spot.billed.high == pytest.approx(runs.billed.high, rel=0.07)
    assert spot.wall.low == pytest.approx(runs.wall.low, rel=0.12)
    # Rare waits that are long against the run put P90 too high, never far too low.
    assert spot.wall.high == pytest.approx(runs.wall.high, rel=0.25)
    assert spot.wall.high > 0.9 * runs.wall.high


def test_interruptions_widen_the_cost_of_a_run_whose_speed_is_known() -> None:
    sure = replace(TIME, train_low=TIME.train, train_high=TIME.train)
    steady, often = (spot_time(sure, a_rate(up=hours), JOB).billed for hours in (1e9, 3))
    assert steady.low == pytest.approx(steady.high, rel=1e-4)
    assert often.high - often.expected > 1200
    assert steady.expected < often.low < often.expected


def test_checkpoints_take_time_without_interruptions_too() -> None:
    """12 h and a minute of work: 72 checkpoints; 10 h and 15 h: 60 and 90."""
    steady = with_checkpoints(TIME, JOB)
    assert steady.train - TIME.train == timedelta(seconds=72 * 5.5)
    assert steady.train_low - TIME.train_low == timedelta(seconds=60 * 5.5)
    assert steady.train_high - TIME.train_high == timedelta(seconds=90 * 5.5)
    assert (steady.setup, steady.after) == (TIME.setup, TIME.after)
    never_down = spot_time(TIME, a_rate(up=1e9, down=1e-3), JOB)
    assert never_down.wall.expected == pytest.approx(steady.total.total_seconds(), rel=1e-5)


def test_the_interval_holds_an_expectation_that_few_long_waits_make() -> None:
    short = replace(TIME, train=timedelta(hours=2), train_low=timedelta(hours=2), train_high=timedelta(hours=2))
    rate = a_rate(up=200, down=10)
    ends = with_quantiles(spot_time(short, rate, JOB), short, JOB, "few wait")
    assert ends.wall.high == ends.wall.expected > 2.5 * HOURS
    assert ends.wall.low < 2.4 * HOURS


@pytest.mark.parametrize(
    ("spot", "worth"),
    [
        pytest.param(CostAndTime(400, 1000), True, id="less than half, no later"),
        pytest.param(CostAndTime(949, 1000), True, id="just over 5 %"),
        pytest.param(CostAndTime(951, 1000), False, id="just under 5 %"),
        pytest.param(CostAndTime(890, 2000), True, id="over 10 %, twice as long"),
        pytest.param(CostAndTime(910, 2000), False, id="under 10 %, twice as long"),
        pytest.param(CostAndTime(1100, 900), False, id="dearer"),
        pytest.param(CostAndTime(100, 30_000), False, id="thirty times as long"),
    ],
)
def test_worth_it_takes_a_saving_that_grows_with_the_delay(spot: CostAndTime, worth: bool) -> None:
    on_demand = CostAndTime(1000, 1000)
    assert spot_worth_it(on_demand, spot) is worth
    assert (spot_verdict(on_demand, spot) == "") is worth


def test_nothing_is_worth_it_where_on_demand_costs_nothing() -> None:
    assert not spot_worth_it(CostAndTime(0, 0), CostAndTime(0, 0))


def test_the_verdict_says_how_much_and_how_late() -> None:
    on_demand = CostAndTime(10_000_000, 10 * HOURS)
    assert spot_verdict(on_demand, CostAndTime(9_800_000, 14 * HOURS)) == (
        "spot is not worth it: it saves $0.20 (2%) and is expected 4h 00m later"
    )
    assert spot_verdict(on_demand, CostAndTime(12_000_000, 10 * HOURS)) == ("spot is not worth it: it costs $2.00 more")


def test_advice_where_the_interval_is_far_off_and_it_matters() -> None:
    rate = a_rate(up=4)
    rarely = checkpoint_advice(TIME, rate, Checkpoints(3 * HOURS, 5.5))
    assert rarely is not None
    assert rarely.interval_seconds == pytest.approx(math.sqrt(2 * 5.5 * 4 * HOURS), rel=0.05)
    assert rarely.saves > 0.2
    assert rarely.text.startswith("checkpoint_every: 6m ")
    often = checkpoint_advice(TIME, rate, Checkpoints(20.0, 5.5))
    assert often is not None
    assert often.saves == pytest.approx(0.2, abs=0.08)


@pytest.mark.parametrize(
    ("rate", "job"),
    [
        pytest.param(a_rate(up=4), Checkpoints(600.0, 5.5), id="within twice the best"),
        pytest.param(a_rate(up=3000), Checkpoints(900.0, 1.0), id="far off, and it does not matter"),
        pytest.param(a_rate(up=3000), Checkpoints(40 * HOURS, 1.0), id="rarely interrupted, no checkpoint at all"),
    ],
)
def test_no_advice_where_it_would_not_help(rate: SpotRate, job: Checkpoints) -> None:
    assert checkpoint_advice(TIME, rate, job) is None


def test_advice_is_what_it_says() -> None:
    rate, job = a_rate(up=4), Checkpoints(3 * HOURS, 5.5)
    advice = checkpoint_advice(TIME, rate, job)
    assert advice is not None
    now = spot_time(TIME, rate, job).billed.expected
    then = spot_time(TIME, rate, job._replace(interval_seconds=advice.interval_seconds)).billed.expected
    assert 1 - then / now == pytest.approx(advice.saves)


def test_explains_the_rate_its_basis_and_what_it_leads_to() -> None:
    rate = spot_rate("aws", "T4", "g4dn", 3)
    lines = explain_spot(with_quantiles(spot_time(TIME, rate, JOB), TIME, JOB, "x"), TIME, JOB)
    assert lines[0] == (
        "one interruption in 3,795h of availability, reported: AWS Spot Advisor: 15-20 % interrupted in a month; "
        "an outage of 1h: judgement, after 0.5-1.8h in recorded traces of 2022-23"
    )
    assert "0.0032 interruptions expected" in lines[1]
    assert lines[-1] == "notice 120 s, best effort: the estimate does not rely on it"
    assert any("meet no interruption" in line for line in lines)


def test_a_checkpoint_of_vgg16_takes_seconds() -> None:
    """138 M parameters, 4 bytes each, and as much again for the optimizer, at 100 MB/s."""
    assert checkpoint_seconds(4 * 138_357_544) == pytest.approx(11.07, rel=0.001)


def test_interruptions_follow_the_rate() -> None:
    often, rarely = (spot_time(TIME, a_rate(up=hours), JOB).expected.interruptions for hours in (5, 50))
    assert often == pytest.approx(10 * rarely, rel=0.15)
