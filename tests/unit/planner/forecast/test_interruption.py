"""The closed form: against simulated runs, at its limits, and that it moves the way the world does."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.calls import calls_of
from trainplan.planner.forecast.interruption import (
    ExpectedRun,
    InterruptibleRun,
    Spells,
    SpotPlacement,
    daly_interval_seconds,
    expected_run,
    young_interval_seconds,
)
from trainplan.planner.forecast.simulate import drawn_spells, go_through

HOUR = 3600.0


def a_run(hours: float = 12, every: float = 600, writing: float = 10, restart: float = 465) -> InterruptibleRun:
    return InterruptibleRun(
        work_seconds=hours * HOUR, interval_seconds=every, checkpoint_seconds=writing, restart_seconds=restart
    )


def a_placement(up: float = 4, down: float = 1, drift: float = 0.4) -> SpotPlacement:
    return SpotPlacement(up=Spells(long_seconds=up * HOUR), down=Spells(long_seconds=down * HOUR), drift=drift)


MIXED = SpotPlacement(
    up=Spells(short_share=0.7, short_seconds=0.5 * HOUR, long_seconds=12 * HOUR),
    down=Spells(short_share=0.8, short_seconds=0.4 * HOUR, long_seconds=4 * HOUR),
)


@pytest.mark.parametrize(
    ("run", "placement"),
    [
        pytest.param(a_run(), a_placement(), id="one exponential"),
        pytest.param(a_run(), MIXED, id="two exponentials"),
        pytest.param(a_run(hours=48), MIXED, id="long"),
        pytest.param(a_run(hours=4, every=3 * HOUR), MIXED, id="few checkpoints"),
        pytest.param(a_run(hours=1, every=2 * HOUR), MIXED, id="no checkpoint"),
        pytest.param(a_run(hours=1.03), MIXED, id="a rest after the last checkpoint"),
        pytest.param(a_run(hours=4, every=60, writing=30), MIXED, id="costly checkpoints"),
        pytest.param(a_run(hours=2, restart=1.5 * HOUR), MIXED, id="restart longer than most spells"),
        pytest.param(a_run(hours=2, restart=0), MIXED, id="no restart"),
        pytest.param(a_run(hours=4), a_placement(up=0.5, down=6), id="mostly down"),
    ],
)
def test_agrees_with_simulated_runs(run: InterruptibleRun, placement: SpotPlacement) -> None:
    random = Random("agreement")
    runs = [go_through(run, drawn_spells(placement, random)) for _ in range(4000)]
    expected = expected_run(run, placement)
    within_errors([one.wall_seconds for one in runs], expected.wall_seconds)
    within_errors([one.billed_seconds for one in runs], expected.billed_seconds)
    within_errors([float(one.interruptions) for one in runs], expected.interruptions)


def within_errors(values: list[float], expected: float, errors: float = 3.5) -> None:
    assert abs(statistics.fmean(values) - expected) <= errors * statistics.stdev(values) / math.sqrt(len(values))


def test_one_interval_is_the_formula_of_the_textbook() -> None:
    """(1/rate) (e^(rate (restart + work)) - 1), the expected up time of one piece that must come through whole."""
    run, placement = a_run(hours=2, every=3 * HOUR, restart=600), a_placement(up=1)
    rate, whole = 1 / HOUR, 2 * HOUR + 600
    expected = expected_run(run, placement)
    assert expected.billed_seconds == pytest.approx(math.expm1(rate * whole) / rate)
    # Every failed attempt is one interruption; e^(rate whole) attempts are needed.
    assert expected.interruptions == pytest.approx(math.expm1(rate * whole))


def test_two_kinds_of_spells_that_are_alike_are_one_kind() -> None:
    run, one = a_run(), a_placement()
    alike = replace(one, up=Spells(short_share=0.4, short_seconds=4 * HOUR, long_seconds=4 * HOUR))
    assert expected_run(run, alike) == pytest.approx(expected_run(run, one))


@pytest.mark.parametrize("hours", [0.1, 1 / 6, 1, 48.123])
@pytest.mark.parametrize("writing", [0.0, 30.0])
def test_a_placement_that_never_goes_down_is_a_plain_run(hours: float, writing: float) -> None:
    run = a_run(hours=hours, writing=writing)
    expected = expected_run(run, a_placement(up=1e9))
    assert expected.wall_seconds == pytest.approx(run.plain_seconds, rel=1e-6)
    assert expected.billed_seconds == pytest.approx(run.plain_seconds, rel=1e-6)
    assert expected.interruptions == pytest.approx(0, abs=1e-6)
    assert expected.lost_seconds == pytest.approx(0, abs=1e-2)


def test_the_parts_add_up() -> None:
    run = a_run()
    expected = expected_run(run, MIXED)
    written = run.checkpoints * run.checkpoint_seconds
    parts = run.work_seconds + written + expected.lost_seconds + expected.restarting_seconds
    assert expected.billed_seconds == pytest.approx(parts)
    waits = expected.interruptions * MIXED.down.mean_seconds
    begin = (1 - MIXED.availability) * MIXED.down.mean_left_seconds
    assert expected.waiting_seconds == pytest.approx(waits + begin)


def test_where_restarting_takes_longer_than_spells_last_most_is_restarting() -> None:
    expected = expected_run(a_run(hours=1, restart=3 * HOUR), a_placement(up=1))
    assert expected.restarting_seconds > 0.8 * expected.billed_seconds
    assert expected.interruptions > 20


def test_what_practically_never_ends_is_infinite() -> None:
    expected = expected_run(a_run(restart=100 * HOUR), a_placement(up=1))
    assert expected == ExpectedRun(*[math.inf] * 5)
    assert expected.waiting_seconds == math.inf


def test_half_an_interval_is_lost_at_each_interruption_where_they_are_rare() -> None:
    expected = expected_run(a_run(every=600, writing=0, restart=0), a_placement(up=200))
    assert expected.lost_seconds / expected.interruptions == pytest.approx(300, rel=0.02)


def test_a_random_moment_lies_in_a_long_spell() -> None:
    spells = Spells(short_share=0.9, short_seconds=100, long_seconds=9100)
    assert spells.mean_seconds == pytest.approx(1000)
    assert spells.short_share_of_time == pytest.approx(0.09)
    assert spells.mean_left_seconds == pytest.approx(8290)


positive = st.floats(min_value=0.05, max_value=100)
runs = st.builds(
    a_run,
    hours=st.floats(min_value=0.05, max_value=60),
    every=st.floats(min_value=60, max_value=7200),
    writing=st.floats(min_value=0, max_value=60),
    restart=st.floats(min_value=0, max_value=1800),
)
spells = st.builds(
    lambda share, short, longer: Spells(
        short_share=share, short_seconds=short * HOUR, long_seconds=short * longer * HOUR
    ),
    st.floats(min_value=0, max_value=1),
    st.floats(min_value=0.3, max_value=20),
    st.floats(min_value=1, max_value=30),
)
placements = st.builds(lambda up, down: SpotPlacement(up=up, down=down), spells, spells)


@given(runs, placements)
def test_never_below_a_plain_run_and_never_billed_for_waiting(run: InterruptibleRun, placement: SpotPlacement) -> None:
    expected = expected_run(run, placement)
    assert expected.billed_seconds >= run.plain_seconds * (1 - 1e-9)
    assert expected.wall_seconds >= expected.billed_seconds
    assert expected.lost_seconds >= 0
    assert expected.restarting_seconds >= run.restart_seconds * (1 - 1e-9)


@given(runs, placements, st.floats(min_value=1.001, max_value=3))
def test_more_work_or_a_longer_restart_takes_longer(
    run: InterruptibleRun, placement: SpotPlacement, more: float
) -> None:
    now = expected_run(run, placement)
    for longer in (
        replace(run, work_seconds=run.work_seconds * more),
        replace(run, restart_seconds=run.restart_seconds * more + 1),
    ):
        then = expected_run(longer, placement)
        assert then.billed_seconds >= now.billed_seconds * (1 - 1e-9)
        assert then.interruptions >= now.interruptions * (1 - 1e-9)
    written = expected_run(replace(run, checkpoint_seconds=run.checkpoint_seconds * more), placement)
    assert written.billed_seconds >= now.billed_seconds * (1 - 1e-9)


@given(runs, st.floats(min_value=0.3, max_value=50), st.floats(min_value=1.01, max_value=5))
def test_a_placement_that_lasts_longer_is_quicker_and_longer_outages_only_make_one_wait(
    run: InterruptibleRun, up: float, more: float
) -> None:
    now, better = expected_run(run, a_placement(up=up)), expected_run(run, a_placement(up=up * more))
    assert better.wall_seconds <= now.wall_seconds * (1 + 1e-9)
    assert better.interruptions <= now.interruptions * (1 + 1e-9)
    worse = expected_run(run, a_placement(up=up, down=more))
    assert worse.wall_seconds >= now.wall_seconds * (1 - 1e-9)


def test_the_interval_that_wastes_least_is_near_young_and_daly() -> None:
    placement, writing = a_placement(up=4), 20.0
    best = min(range(60, 7200, 20), key=lambda every: expected_run(a_run(48, every, writing), placement).billed_seconds)
    assert daly_interval_seconds(writing, 4 * HOUR) == pytest.approx(best, rel=0.15)
    extremes = [expected_run(a_run(48, every, writing), placement).billed_seconds for every in (30, best, 4 * HOUR)]
    assert extremes[1] < 0.8 * min(extremes[0], extremes[2])


@pytest.mark.parametrize(("mean_up_minutes", "minutes"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_dalys_own_examples(mean_up_minutes: float, minutes: float) -> None:
    """The captions of figures 3 to 5 of the paper: 5 min for a checkpoint."""
    assert daly_interval_seconds(300, mean_up_minutes * 60) / 60 == pytest.approx(minutes, rel=0.01)


def test_young_is_the_square_root_and_daly_stops_where_checkpoints_outlast_the_machine() -> None:
    assert young_interval_seconds(50, 10_000) == pytest.approx(1000)
    assert daly_interval_seconds(300, 150) == 150
    assert daly_interval_seconds(300, 100) == 100


@pytest.mark.parametrize(
    "figures",
    [
        {"work_seconds": 0.0},
        {"interval_seconds": 0.0},
        {"checkpoint_seconds": -1.0},
        {"restart_seconds": -1.0},
    ],
)
def test_refuses_figures_that_make_no_run(figures: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        replace(a_run(), **figures)


@pytest.mark.parametrize("figures", [{"long_seconds": 0.0}, {"long_seconds": math.inf}, {"short_share": 1.5}])
def test_refuses_spells_that_make_no_sense(figures: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positive, finite"):
        Spells(**{"long_seconds": 1.0, **figures})


def test_how_long_a_run_is_makes_no_difference_to_how_long_it_takes_to_say() -> None:
    """An hour in seconds steps or years: the sums are geometric, nothing loops over checkpoints."""
    short, long = (a_run(hours=hours, every=1) for hours in (1, 87_600))
    assert calls_of(lambda: expected_run(short, MIXED)) == calls_of(lambda: expected_run(long, MIXED)) < 1_000
