"""What a sweep takes on a rental, worked out by hand: all trials of all rungs, the slowest of them going on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.builders import a_job, a_rental, a_throughput
from trainplan.planner.forecast.allowances import START_SECONDS, allowances
from trainplan.planner.forecast.estimate import Workload, rented_time, trained_images
from trainplan.planner.forecast.memory import memory_need
from trainplan.planner.forecast.plan import Reason
from trainplan.planner.forecast.sweep import SweepWork
from trainplan.planner.throughput.values import Throughput
from trainplan.workloads.job import TrainingJob

RATES = {"optimizer.learning_rate": [0.1, 0.03, 0.01], "optimizer.momentum": [0.9, 0.5, 0.0]}
EPOCH = 390 * 128
NINE = a_job(epochs=9, sweep=RATES)


def test_images_are_those_of_all_rungs() -> None:
    assert trained_images(NINE) == Workload(NINE).images == 29 * EPOCH
    assert Workload(NINE, is_grid=True).images == 81 * EPOCH


def test_trials_that_train_alike_have_the_speed_of_the_job() -> None:
    work = SweepWork(NINE)
    asked: list[TrainingJob] = []

    def ask(job: TrainingJob) -> Throughput:
        asked.append(job)
        return a_throughput(1000.0)

    answer = work.throughput(ask)
    assert len(asked) == 1
    assert answer == a_throughput(1000.0)


def test_every_trial_of_a_rung_starts_a_process() -> None:
    around, throughput = allowances("aws", "gpu"), a_throughput(1000.0)
    job = a_job(epochs=9, sweep=RATES, data={"name": "synthetic", "images": 49_920}, model={
        "preset": "vgg16", "image_size": 64, "classes": 10,
    })  # fmt: skip
    sweep = rented_time(Workload(job), around, throughput)
    plain = rented_time(Workload(job.model_copy(update={"sweep": None})), around, throughput)
    # 9, 4 and 2 trials, and the output of the best; the first start is in the set-up of either.
    starts = timedelta(seconds=15 * around.start.expected)
    assert around.start == START_SECONDS
    assert sweep.setup == plain.setup
    assert sweep.train - starts > plain.train * 29 / 9
    assert sweep.train_low - starts < sweep.train - starts < sweep.train_high - starts


def test_the_slowest_go_on_where_trials_differ_in_speed() -> None:
    job = a_job(epochs=9, sweep={"model.batch_norm": [False, True], "optimizer.momentum": [0.9, 0.0]})
    work = SweepWork(job)
    assert len(work.kinds) == 2
    answer = work.throughput(lambda kind: a_throughput(100.0 if kind.model.batch_norm else 300.0))
    assert not isinstance(answer, Reason)
    # 4 trials to epoch 1, 2 to epoch 3, 1 to epoch 9: two of each speed first, then the slow ones.
    seconds = EPOCH * (2 / 300 + 2 / 100 + 2 * 2 / 100 + 6 / 100)
    assert answer.images_per_second == pytest.approx(EPOCH * (4 + 4 + 6) / seconds)
    assert work.throughput(lambda kind: Reason.NO_DEVICE_DATA if kind.model.batch_norm else a_throughput()) is (
        Reason.NO_DEVICE_DATA
    )


def test_memory_is_that_of_the_largest_trial() -> None:
    job = a_job(epochs=9, sweep={"global_batch_size": [64, 512]})
    largest = a_job(epochs=9, global_batch_size=512)
    rental = a_rental(device="cpu", memory_gib=64.0)
    need, alone = (memory_need(Workload(one), rental, {}, None) for one in (job, largest))
    assert need is not None
    assert alone is not None
    assert need.step == alone.step


def test_a_checkpoint_holds_the_states_of_those_that_may_go_on() -> None:
    alone = Workload(a_job(epochs=9))
    work = Workload(NINE)
    assert work.checkpoint_bytes == 5 * alone.checkpoint_bytes  # four go on to the second rung, and one is trained
    assert work.checkpoints == alone.checkpoints
