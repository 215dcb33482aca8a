"""Validation in the estimate, worked out by hand: its time, its ranges, and what keeping the best weights writes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.builders import a_job, a_rental, a_throughput, some_rates
from trainplan.planner.forecast.advice import early_end_text
from trainplan.planner.forecast.allowances import allowances
from trainplan.planner.forecast.estimate import Workload, estimate, rented_time, run_usage
from trainplan.planner.forecast.whole_run import whole_run_half_width
from trainplan.planner.planning.this_machine import shape_of
from trainplan.workloads.job import TrainingJob


def validated(epochs: int = 20, **validation: Any) -> TrainingJob:
    return a_job(epochs=epochs, validation={"every_epochs": 2} | validation)


def seconds(job: TrainingJob) -> tuple[float, float, float]:
    """Of training: expected, low, high, at 1,000 images a second (500 to 2,000)."""
    time = rented_time(Workload(job), allowances("aws", "gpu"), a_throughput(1000.0))
    return time.train.total_seconds(), time.train_low.total_seconds(), time.train_high.total_seconds()


def test_each_validation_takes_a_third_of_a_step_for_each_held_out_image() -> None:
    """20 epochs of 49,920 images, and 10 validations on the 10,000 test images of CIFAR-10."""
    factor = math.exp(math.hypot(math.log(2), whole_run_half_width()))
    train = 998.4 + 33.333
    assert seconds(validated()) == pytest.approx((train, train / factor, train * factor), abs=0.01)


def test_a_job_that_asks_for_no_validation_is_tested_as_often_as_the_trainer_does() -> None:
    """The hold-out of CIFAR-10 after every second epoch, a folder's of a tenth after each, that of ImageNet never."""
    assert seconds(a_job(epochs=20)) == pytest.approx(seconds(validated()))
    own = {"data": {"path": "images", "images": 900}, "model": {"preset": "vgg11", "image_size": 32, "classes": 3}}
    job = a_job(**own, epochs=4, global_batch_size=100)
    assert seconds(job)[0] == pytest.approx((4 * 900 + 4 * 100 / 3) / 1000)
    assert Workload(a_job(data={"name": "imagenet"}, epochs=3)).validated_images == 0


def test_validation_costs_what_its_time_costs() -> None:
    fewer, more = (estimate(Workload(job), a_rental(), a_throughput(1000.0), some_rates("aws"))
                   for job in (validated(), validated(every_epochs=1)))  # fmt: skip
    assert more.billed_seconds[0] - fewer.billed_seconds[0] in (33, 34)


def test_of_a_persons_own_data_a_tenth_is_taken_to_be_held_out() -> None:
    own = {"data": {"path": "images", "images": 900}, "model": {"preset": "vgg11", "image_size": 32, "classes": 3}}
    job = a_job(**own, epochs=4, global_batch_size=100, validation={"every_epochs": 1})
    assert seconds(job)[0] == pytest.approx((4 * 900 + 4 * 100 / 3) / 1000)


def test_early_stopping_moves_the_lower_end_only() -> None:
    """The first validation, after epoch 2, and three more at the earliest: 8 of 20 epochs."""
    whole, early = seconds(validated()), seconds(validated(patience=3))
    assert early == pytest.approx((whole[0], whole[1] * 8 / 20, whole[2]))
    assert early_end_text(validated(patience=3)) == (
        "early stopping can end the run after epoch 8 of 20 (its first validation is the best, and 3 more are not "
        "better): the lower ends of time and cost are those of such a run, all else counts every epoch"
    )
    assert early_end_text(validated()) is None
    assert early_end_text(validated(patience=30)) is None


BEST: dict[str, Any] = {"every_epochs": 1, "keep_best": True}


@pytest.mark.parametrize("changes", [{"validation": BEST}, {"optimizer": {"ema": 0.9}}])
def test_weights_that_are_kept_are_in_every_checkpoint(changes: dict[str, Any]) -> None:
    plain, more = Workload(a_job()), Workload(a_job(**changes))
    assert more.checkpoint_bytes - plain.checkpoint_bytes == plain.model_bytes
    assert more.checkpoints.seconds == pytest.approx(1.5 * plain.checkpoints.seconds)
    grown = float(run_usage(a_job(**changes), "gpu").disk_gb - run_usage(a_job(), "gpu").disk_gb)
    assert grown == pytest.approx(2 * plain.model_bytes / 1e9, abs=0.1)


def test_a_measurement_with_validation_is_none_of_a_job_without() -> None:
    assert shape_of(validated()) != shape_of(a_job(epochs=20))
    assert shape_of(validated()) == shape_of(validated(patience=3))
