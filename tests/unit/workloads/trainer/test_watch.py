"""Around every step: at most two in flight, a report a second, checkpoints by time, and the ends of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.trainer.clocks import FakeClock
from trainplan.workloads.processor_time import ProcessorTime
from trainplan.workloads.trainer.errors import DeadlineReached, TrainerError, TrainingStopped
from trainplan.workloads.trainer.feed import Schedule
from trainplan.workloads.trainer.progress import Clock, Progress
from trainplan.workloads.trainer.watch import Limits, StepsDone, StopRequest, TrainingWatch, epoch_of

SCHEDULE = Schedule(batch_size=10, steps_per_epoch=50, epochs=4, seed=0)


class Loss:
    """A loss that is still being computed until somebody asks for it."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.is_read = False

    def __float__(self) -> float:
        self.is_read = True
        return self.value


class Scene:
    """A watch, the clock it looks at, and what came of it."""

    def __init__(self, folder: Path, clock: FakeClock, schedule: Schedule = SCHEDULE, **limits: Any) -> None:
        self.folder = folder
        self.clock = clock
        self.saved: list[int] = []
        self.losses: list[Loss] = []
        clocks = Clock(wall=clock, monotonic=clock)
        bounds = Limits(**{"checkpoint_every_seconds": 600.0} | limits)
        self.watch = TrainingWatch(schedule, bounds, Progress(folder, clocks), clocks, self.saved.append)

    def steps(self, count: int, seconds: float = 0.125, loss: float = 0.5) -> None:
        for _ in range(count):
            self.clock.now += seconds
            self.losses.append(Loss(loss))
            self.watch.batch_end({"loss": self.losses[-1], "accuracy": 0.25})

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / "progress.jsonl").read_text(encoding="utf-8").splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "status.json").read_text(encoding="utf-8"))
        return found


def test_what_others_had_of_the_processors_counts_from_the_first_step(tmp_path: Path, fake_clock: FakeClock) -> None:
    """The first step compiles; behind it, one of the processor's four seconds was neither idle nor ours."""
    readings = iter([ProcessorTime(0, 10.0, 4.0), ProcessorTime(4, 13.0, 6.0)])
    clocks = Clock(wall=fake_clock, monotonic=fake_clock, processors=lambda: next(readings))
    watch = TrainingWatch(
        SCHEDULE, Limits(checkpoint_every_seconds=600.0), Progress(tmp_path, clocks), clocks, lambda _: None
    )
    assert watch.others_share() is None
    for _ in range(2):
        watch.batch_end({"loss": 0.5, "accuracy": 0.25})
    assert watch.others_share() == pytest.approx(0.25 / (os.cpu_count() or 1))


MakeScene = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path, fake_clock: FakeClock) -> MakeScene:
    return lambda **options: Scene(tmp_path, fake_clock, **options)


def test_the_last_two_steps_are_not_waited_for(scene: MakeScene) -> None:
    made = scene()
    made.steps(6, seconds=0.01)
    assert [loss.is_read for loss in made.losses] == [True, True, True, True, False, False]


def test_progress_is_told_about_once_a_second(scene: MakeScene) -> None:
    made = scene()
    made.steps(100)
    told = made.events("step")
    assert len(told) == 12
    assert [(event["epoch"], event["step"]) for event in told[:2]] == [(1, 9), (1, 17)]
    assert told[1]["images_per_second"] == pytest.approx(80)
    assert told[1]["loss"] == 0.5
    assert made.status() == {**made.status(), "state": "running", "epoch": 2, "step": told[-1]["step"]}


def test_the_first_step_is_told_as_compiling_and_left_out_of_the_rate(scene: MakeScene) -> None:
    made = scene()
    made.steps(1, seconds=30)
    made.steps(40, seconds=0.5)
    made.watch.checkpoint()
    assert made.events("phase")[0] == {**made.events("phase")[0], "name": "compile", "seconds": 30.0}
    assert made.watch.meter.images_per_second == pytest.approx(20)
    assert made.watch.meter.train_seconds == pytest.approx(50)


def test_tests_between_epochs_and_checkpoints_are_left_out_of_the_rate(scene: MakeScene) -> None:
    made = scene()
    made.steps(1)
    made.steps(40, seconds=0.5)
    made.watch.test_begin()
    made.clock.now += 1_000
    made.watch.test_end()
    made.steps(40, seconds=0.5)
    made.watch.checkpoint()
    assert made.watch.meter.images_per_second == pytest.approx(20)


def test_what_comes_after_the_last_step_is_left_out_of_the_rate(scene: MakeScene) -> None:
    """A run of 26 s with 7 s of a last test and of writing the model told 38.5 images/s where 50 were trained."""
    made = scene()
    made.steps(1)
    made.steps(40, seconds=0.5)
    made.watch.training_end()
    made.clock.now += 1_000
    assert made.watch.meter.images_per_second == pytest.approx(20)
    assert made.watch.meter.train_seconds == pytest.approx(20.125)


def test_a_checkpoint_in_a_test_is_one_pause(scene: MakeScene) -> None:
    made = scene()
    made.steps(1)
    made.steps(40, seconds=0.5)
    made.watch.test_begin()
    made.clock.now += 1_000
    made.watch.checkpoint()
    assert made.watch.meter.images_per_second == pytest.approx(20)


def test_checkpoints_come_by_time(scene: MakeScene) -> None:
    made = scene(checkpoint_every_seconds=2.0)
    made.steps(65)
    assert made.saved == [16, 32, 48, 64]


def test_a_checkpoint_is_never_taken_of_steps_still_in_flight(scene: MakeScene) -> None:
    made = scene(checkpoint_every_seconds=2.0)
    made.steps(16)
    assert all(loss.is_read for loss in made.losses)


def test_a_signal_ends_after_a_checkpoint(scene: MakeScene) -> None:
    stop = StopRequest()
    made = scene(stop=stop)
    made.steps(7)
    stop.signal_name = "SIGTERM"
    with pytest.raises(TrainingStopped, match="SIGTERM"):
        made.steps(1)
    assert made.saved == [8]
    assert made.status()["state"] == "stopping"


def test_a_signal_while_the_hold_out_is_tested_ends_too(scene: MakeScene) -> None:
    stop = StopRequest()
    made = scene(stop=stop)
    made.steps(7)
    made.watch.test_begin()
    made.watch.test_batch_end()
    stop.signal_name = "SIGINT"
    with pytest.raises(TrainingStopped, match="SIGINT"):
        made.watch.test_batch_end()
    assert made.saved == [7]


def test_the_deadline_leaves_time_for_the_checkpoint(scene: MakeScene, fake_clock: FakeClock) -> None:
    made = scene(deadline_unix=fake_clock.now + 5)
    with pytest.raises(DeadlineReached):
        made.steps(100)
    assert fake_clock.now <= 1_000_000.0 + 5
    assert made.saved == [made.watch.step]


def test_a_measuring_run_ends_after_its_steps_without_a_checkpoint(scene: MakeScene) -> None:
    made = scene(max_steps=12, checkpoint_every_seconds=0.1)
    with pytest.raises(StepsDone):
        made.steps(100)
    assert made.watch.step == made.watch.meter.steps == 12
    assert made.saved == []


def test_a_measuring_run_ends_after_its_seconds_which_the_first_step_is_not_among(scene: MakeScene) -> None:
    made = scene(max_steps=1000, max_seconds=2.0)
    made.steps(1, seconds=30.0)
    with pytest.raises(StepsDone):
        made.steps(100, seconds=0.25)
    # A step counts once it is waited for, with two handed over meanwhile.
    assert made.watch.step == made.watch.meter.steps == 9
    assert made.watch.meter.images_per_second == pytest.approx(40.0)
    assert made.saved == []


def test_a_measuring_run_of_slow_steps_has_two_that_a_rate_can_come_from(scene: MakeScene) -> None:
    made = scene(max_steps=1000, max_seconds=2.0)
    with pytest.raises(StepsDone):
        made.steps(100, seconds=10.0)
    assert made.watch.meter.images_per_second == pytest.approx(1.0)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_training_and_is_never_saved(scene: MakeScene, loss: float) -> None:
    made = scene(checkpoint_every_seconds=1.0)
    made.steps(5)
    with pytest.raises(TrainerError, match=r"lower optimizer\.learning_rate") as caught:
        made.steps(30, loss=loss)
    assert caught.value.exit_code == 70
    assert made.saved == []


def test_the_counter_goes_on_from_where_the_last_attempt_was(scene: MakeScene) -> None:
    made = scene(schedule=Schedule(batch_size=10, steps_per_epoch=50, epochs=4, seed=0, first_step=120))
    made.steps(12)
    assert made.events("step")[0]["epoch"] == 3
    assert made.events("step")[0]["step"] == 129


def test_an_epoch_is_told_with_the_hold_out_where_it_was_tested(scene: MakeScene) -> None:
    made = scene()
    made.watch.epoch_begin()
    made.steps(50)
    made.watch.epoch_end(0, {"loss": 0.5, "accuracy": 0.75, "val_loss": 0.25, "val_accuracy": 0.875}, 0.01)
    told = made.events("epoch")[0]
    assert told == {
        **told,
        "epoch": 1,
        "step": 50,
        "loss": 0.5,
        "accuracy": 0.75,
        "validation_loss": 0.25,
        "validation_accuracy": 0.875,
        "learning_rate": 0.01,
        "seconds": 6.25,
        "train_seconds": 6.25,
    }


@pytest.mark.parametrize(("step", "epoch"), [(0, 1), (1, 1), (50, 1), (51, 2), (100, 2), (101, 3)])
def test_a_step_belongs_to_an_epoch(step: int, epoch: int) -> None:
    assert epoch_of(step, 50) == epoch
