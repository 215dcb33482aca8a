"""Single runs through given spells, and quantiles that are the same for the same seed."""

from __future__ import annotations

import itertools
import math
import statistics
from random import Random

import pytest

from trainplan.planner.forecast.interruption import InterruptibleRun, Spells, SpotPlacement
from trainplan.planner.forecast.simulate import OneRun, Spell, WorkRange, drawn_spells, go_through, simulate, spread

RUN = InterruptibleRun(work_seconds=1000, interval_seconds=300, checkpoint_seconds=10, restart_seconds=100)
"""Three checkpoints; 1130 s without an interruption."""
PLACEMENT = SpotPlacement(
    up=Spells(short_share=0.6, short_seconds=400, long_seconds=4000), down=Spells(long_seconds=500), drift=0.4
)


@pytest.mark.parametrize(
    ("spells", "expected"),
    [
        pytest.param([(True, 1130)], OneRun(1130, 1130, 0), id="just long enough"),
        pytest.param([(False, 50), (True, 2000)], OneRun(1180, 1130, 0), id="waits first, unbilled"),
        pytest.param(
            # 1129 s: 29 s short of the end all three checkpoints are there; the last 100 s are done again.
            [(True, 1129), (False, 60), (True, 200)], OneRun(1389, 1329, 1), id="one second short",
        ),
        pytest.param([(True, 409), (False, 1), (True, 1130)], OneRun(1540, 1539, 1), id="before the first checkpoint"),
        pytest.param([(True, 410), (False, 1), (True, 820)], OneRun(1231, 1230, 1), id="after the first checkpoint"),
        pytest.param([(True, 99), (True, 1), (True, 1130)], OneRun(1230, 1230, 2), id="during restart"),
        pytest.param([(True, 500), (False, 1)], OneRun(math.inf, math.inf, 1), id="the spells are at an end"),
    ],
)  # fmt: skip
def test_goes_through_given_spells(spells: list[tuple[bool, float]], expected: OneRun) -> None:
    assert go_through(RUN, [Spell(*spell) for spell in spells]) == expected


def test_work_given_stands_in_for_the_runs_own() -> None:
    assert go_through(RUN, [Spell(True, 5000)], work_seconds=300).wall_seconds == 400


def test_the_same_seed_gives_the_same_runs() -> None:
    work = WorkRange(1000, 900, 1200)
    assert simulate(RUN, PLACEMENT, "a", work) == simulate(RUN, PLACEMENT, "a", work)
    assert simulate(RUN, PLACEMENT, "a", work) != simulate(RUN, PLACEMENT, "b", work)


def test_seeds_mean_the_same_everywhere() -> None:
    """Python keeps what a seed draws; a change here would change every printed interval."""
    runs = simulate(RUN, PLACEMENT, "fixed")
    assert (round(runs.wall.p10), round(runs.wall.p90)) == (1130, 3458)


def test_without_interruptions_only_the_speed_spreads() -> None:
    steady = SpotPlacement(up=Spells(long_seconds=1e12), down=Spells(long_seconds=1))
    runs = simulate(RUN, steady, "steady", WorkRange(1000, 900, 1300), draws=4000)
    # Below its interval of 300 s, or above 1200 s, a run has one checkpoint fewer or more: 10 s.
    assert runs.wall.p10 == pytest.approx(900 + 100 + 20, rel=0.01)
    assert runs.wall.p90 == pytest.approx(1300 + 100 + 40, rel=0.01)
    assert runs.uninterrupted == 1.0
    assert simulate(RUN, steady, "steady").wall == (1130, 1130, 1130)


def test_spells_take_turns_and_last_as_long_as_the_placement_says() -> None:
    random = Random("lengths")
    drawn = [
        list(itertools.islice(drawn_spells(PLACEMENT, random), 1, 40)) for _ in range(400)
    ]  # the first is not a whole one
    for spells in drawn:
        assert all(one.up is not other.up for one, other in itertools.pairwise(spells))
    for up, mean in ((True, PLACEMENT.up.mean_seconds), (False, PLACEMENT.down.mean_seconds)):
        seconds = [one.seconds for spells in drawn for one in spells if one.up is up]
        assert statistics.fmean(seconds) == pytest.approx(mean, rel=0.05)


def test_a_random_moment_is_up_as_often_as_the_placement() -> None:
    random = Random("moments")
    first = [next(drawn_spells(PLACEMENT, random)) for _ in range(4000)]
    assert statistics.fmean(spell.up for spell in first) == pytest.approx(PLACEMENT.availability, abs=0.02)
    left = [spell.seconds for spell in first if spell.up]
    assert statistics.fmean(left) == pytest.approx(PLACEMENT.up.mean_left_seconds, rel=0.06)


def test_drift_widens_and_leaves_the_mean() -> None:
    waits = {}
    for drift in (0.0, 0.4):
        random = Random("drift")
        placement = SpotPlacement(up=PLACEMENT.up, down=PLACEMENT.down, drift=drift)
        waits[drift] = [
            sum(one.seconds for one in itertools.islice(drawn_spells(placement, random), 1, 60) if not one.up)
            for _ in range(3000)
        ]
    assert statistics.fmean(waits[0.4]) == pytest.approx(statistics.fmean(waits[0.0]), rel=0.03)
    assert statistics.stdev(waits[0.4]) > 1.5 * statistics.stdev(waits[0.0])


def test_spread_takes_values_that_occurred() -> None:
    assert spread([float(n) for n in range(1, 11)]) == (1, 5, 9)
    assert spread([7.0]) == (7, 7, 7)
    assert spread([1.0, math.inf]) == (1, 1, math.inf)
