"""A batch trained in parts: the same weights as in one piece, the same steps, and clear words where it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, events, stopped_in_epoch_2
from trainplan.workloads.job import OptimizerSpec, TrainingJob
from trainplan.workloads.trainer.devices import DeviceKind, Devices
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.feed import Schedule, training_batches
from trainplan.workloads.trainer.images import in_memory
from trainplan.workloads.trainer.optimizer import make_optimizer

STEPS_PER_EPOCH = 1437 // 64
# No batch norm, which sees the part and not the batch, and no dropout, which draws for each part.
PLAIN = {"layers": [4, "M", 8, "M"], "batch_norm": False, "dense": [16], "dropout": 0.0}
SGD = {"name": "sgd", "learning_rate": 0.02, "momentum": 0.9, "weight_decay": 0.001}
ADAM = {"name": "adam", "learning_rate": 0.003, "weight_decay": 0.01}
RMSPROP = {"name": "rmsprop", "learning_rate": 0.001, "momentum": 0.5}


def plain_job(**changes: Any) -> TrainingJob:
    return a_job(**{"model": PLAIN, "optimizer": SGD, "epochs": 1} | changes)


def weights(tensorflow: Any, run_dir: Path) -> list[Any]:
    found: list[Any] = tensorflow.keras.models.load_model(run_dir / "output/model.keras").get_weights()
    return found


def assert_alike(one: list[Any], other: list[Any]) -> None:
    for left, right in zip(one, other, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-3, atol=2e-4)


def differ(one: list[Any], other: list[Any]) -> bool:
    return any(np.abs(left - right).max() > 0.01 for left, right in zip(one, other, strict=True))


@pytest.mark.train
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("optimizer", [SGD, ADAM, RMSPROP], ids=["sgd", "adam", "rmsprop"])
def test_the_parts_of_a_batch_give_the_weights_of_the_whole(
    tmp_path: Path, tensorflow: Any, optimizer: dict[str, Any]
) -> None:
    """Rate, momentum, decay and Adam's correction count steps of the whole batch; a batch of a part is another run."""
    runs: dict[str, dict[str, Any]] = {"whole": {}, "parts": {"accumulate": 4}, "small": {"global_batch_size": 16}}
    for name, changes in runs.items():
        attempt(plain_job(optimizer=optimizer, **changes), tmp_path / name)
    whole, parts, small = (weights(tensorflow, tmp_path / name) for name in runs)
    assert_alike(parts, whole)
    assert differ(small, whole)
    for name in ("whole", "parts"):
        (start,), (end,) = (events(tmp_path / name, name=event) for event in ("start", "end"))
        assert (start["total_steps"], end["step"]) == (STEPS_PER_EPOCH, STEPS_PER_EPOCH)


@pytest.mark.train
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("changes", [{"precision": "amp_bf16"}, {"precision": "amp_fp16"}, {"xla": True}])
def test_parts_in_mixed_precision_and_compiled(tmp_path: Path, tensorflow: Any, changes: dict[str, Any]) -> None:
    del tensorflow
    attempt(plain_job(accumulate=2, epochs=2, **changes), tmp_path)
    first, second = events(tmp_path, name="epoch")
    assert 0 < second["loss"] < min(2.2, first["loss"])  # ten classes at random: 2.3


@pytest.mark.train
@pytest.mark.filterwarnings("default")
def test_a_run_in_parts_goes_on_where_it_was_stopped(tmp_path: Path, tensorflow: Any) -> None:
    job = plain_job(accumulate=4, epochs=2)
    stopped_in_epoch_2(job, tmp_path / "cut")
    attempt(job, tmp_path / "cut", 2)
    attempt(job, tmp_path / "whole")
    assert events(tmp_path / "cut", 2, "start")[0]["resumed_from_step"] == STEPS_PER_EPOCH + 1
    assert events(tmp_path / "cut", 2, "end")[0]["step"] == 2 * STEPS_PER_EPOCH
    assert_alike(weights(tensorflow, tmp_path / "cut"), weights(tensorflow, tmp_path / "whole"))


def test_parts_show_the_same_images_in_the_same_order() -> None:
    images = in_memory(np.zeros((40, 2, 2), np.uint8), np.arange(40))
    whole = Schedule(batch_size=8, steps_per_epoch=5, epochs=2, seed=3, first_step=1)
    parts = Schedule(batch_size=8, steps_per_epoch=5, epochs=2, seed=3, first_step=1, accumulate=4)
    seen = [[labels for _, labels in training_batches(images, schedule)] for schedule in (whole, parts)]
    assert {len(labels) for labels in seen[1]} == {2}
    assert np.concatenate(seen[0]).tolist() == np.concatenate(seen[1]).tolist()


def test_each_part_has_to_split_over_the_devices() -> None:
    four = Devices(kind=DeviceKind.GPU, name="T4", count=4, strategy_name="MirroredStrategy")
    four.check_batch(32, 8)
    with pytest.raises(BadInputError, match="32 in 16 parts does not divide over 4 devices; write a multiple of 64"):
        four.check_batch(32, 16)


class _OldKeras:
    """Keras 2 has no such argument."""

    class optimizers:
        class SGD:
            def __init__(self, learning_rate: float, momentum: float, weight_decay: float | None) -> None: ...


def test_keras_2_says_that_it_cannot() -> None:
    assert make_optimizer(_OldKeras, OptimizerSpec())
    with pytest.raises(BadInputError, match="accumulate: 2 needs Keras 3"):
        make_optimizer(_OldKeras, OptimizerSpec(), accumulate=2)
