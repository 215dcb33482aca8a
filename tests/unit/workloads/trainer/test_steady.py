"""The windows of a pilot: what they tell of a rate, and when there are enough of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.workloads.trainer.clocks import FakeClock
from tests.unit.workloads.trainer.test_watch import Scene
from trainplan.workloads.trainer.steady import LEAST_STEPS, LEAST_WINDOWS, MOST_SECONDS, WINDOW_SECONDS, half_width
from trainplan.workloads.trainer.watch import StepsDone

MANY = 1_000_000


@pytest.fixture
def scene(tmp_path: Path, fake_clock: FakeClock) -> Scene:
    return Scene(tmp_path, fake_clock, max_steps=MANY, until_steady=True)


def test_the_half_width_is_that_of_students_interval() -> None:
    """Mean 100, standard deviation 10 of three values: 1.886 * 10 / sqrt(3) / 100."""
    assert half_width([90.0, 100.0, 110.0]) == pytest.approx(1.886 * 10 / 3**0.5 / 100)
    assert half_width([100.0] * 12) == 0
    assert half_width([90.0, 110.0]) is None


def test_steps_that_take_alike_are_enough_after_four_windows(scene: Scene) -> None:
    scene.steps(1, seconds=30.0)  # compiles
    with pytest.raises(StepsDone):
        scene.steps(MANY, seconds=0.5)
    windows = scene.watch.windows
    assert len(windows.rates) == LEAST_WINDOWS
    assert windows.images_per_second == pytest.approx(20.0)  # 10 images a step
    assert scene.watch.meter.steady_seconds == pytest.approx(4 * WINDOW_SECONDS)
    assert [row["images_per_second"] for row in scene.events("window")] == [20.0] * LEAST_WINDOWS


def test_the_first_window_is_left_out(scene: Scene) -> None:
    """Slow while kernels are tried out."""
    scene.steps(1)
    scene.steps(4, seconds=1.0)
    with pytest.raises(StepsDone):
        scene.steps(MANY, seconds=0.25)
    assert scene.watch.windows.images_per_second == pytest.approx(40.0)


def test_a_window_has_three_steps_at_least(scene: Scene) -> None:
    scene.steps(1)
    with pytest.raises(StepsDone):
        scene.steps(MANY, seconds=10.0)
    assert scene.watch.meter.steps == 1 + LEAST_STEPS * (LEAST_WINDOWS + 1)


def test_windows_that_disagree_take_more_of_them_and_not_for_ever(scene: Scene) -> None:
    scene.steps(1)
    with pytest.raises(StepsDone):
        _by_turns(scene)
    windows = scene.watch.windows
    width = half_width(windows.rates)
    assert width is not None
    assert len(windows.rates) > LEAST_WINDOWS
    assert scene.watch.meter.steady_seconds >= MOST_SECONDS
    assert scene.watch.meter.steady_seconds < MOST_SECONDS + 10


def _by_turns(scene: Scene) -> None:
    for number in range(MANY):
        scene.steps(8, seconds=0.5 if number % 2 else 0.9)


def test_its_steps_end_it_where_they_are_fewer(tmp_path: Path, fake_clock: FakeClock) -> None:
    scene = Scene(tmp_path, fake_clock, max_steps=20, until_steady=True)
    with pytest.raises(StepsDone):
        scene.steps(MANY, seconds=0.01)
    assert (scene.watch.step, scene.watch.windows.rates) == (20, [])
