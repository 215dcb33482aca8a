"""Several devices train as one: equal gradients, masks of their own, batches in parts, and models for one device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, events, two_devices
from trainplan.workloads.job import Framework, Precision, TrainingJob
from trainplan.workloads.trainer import tfdata
from trainplan.workloads.trainer.backend import _POLICIES, load
from trainplan.workloads.trainer.feed import Schedule
from trainplan.workloads.trainer.images import in_memory
from trainplan.workloads.trainer.replicas import Replicas, independent_dropout

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("tensorflow")]

# One convolution with batch norm and one dense layer; the rate is 1, so that a step moves each weight by its gradient.
NET = {"layers": [4, "M", "M"], "batch_norm": True, "dense": [8], "dropout": 0.0}
PLAIN_SGD = {"name": "sgd", "learning_rate": 1.0, "momentum": 0.0}


def one_step(**changes: Any) -> TrainingJob:
    """A run of one step: the batch is nearly all of the digits."""
    return a_job(**{"model": NET, "optimizer": PLAIN_SGD, "global_batch_size": 1_024, "epochs": 1} | changes)


def state(run_dir: Path) -> list[Any]:
    newest = sorted((run_dir / "checkpoints").iterdir())[-1]
    with np.load(newest / "state.npz") as saved:
        return [saved[name] for name in sorted(saved.files)]


@pytest.fixture(scope="module")
def in_float64() -> Iterator[None]:
    """So that a difference is one of arithmetic, not of rounding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(_POLICIES, Precision.FP32, "float64")
        yield


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, in_float64: None) -> Path:
    run_dir = tmp_path_factory.mktemp("one")
    attempt(one_step(), run_dir)
    return run_dir


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, in_float64: None) -> Path:
    run_dir = tmp_path_factory.mktemp("two")
    attempt(one_step(), run_dir, devices=two_devices)
    return run_dir


def assert_alike(here: list[Any], there: list[Any], tolerance: float) -> None:
    for left, right in zip(here, there, strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance * max(1.0, np.abs(left).max()))


def test_the_gradients_of_two_devices_are_those_of_one(one: Path, two: Path) -> None:
    """Of all weights after one step of rate 1, and of the moving statistics of batch norm."""
    assert_alike(state(two), state(one), 1e-6)
    losses = [events(run_dir, name="epoch")[0]["loss"] for run_dir in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_the_model_of_two_devices_is_read_by_keras_alone(two: Path, tensorflow: Any) -> None:
    """Nothing of the trainer and of several devices is in it."""
    model = tensorflow.keras.models.load_model(two / "output/model.keras")
    kinds = {type(layer).__module__.partition(".")[0] for layer in model.layers}
    assert kinds == {"keras"}
    norms = [layer for layer in model.layers if layer.name.startswith("norm")]
    assert [layer.synchronized for layer in norms] == [False]


def test_each_device_drops_other_activations(tensorflow: Any) -> None:
    keras = load(Framework.TENSORFLOW).keras
    devices = two_devices(load(Framework.TENSORFLOW))
    with devices.scope():
        dropout = independent_dropout(keras, Replicas(tensorflow=tensorflow))(0.5, seed=3)
        dropout.build((None, 64))

    @tensorflow.function  # type: ignore[untyped-decorator]
    def masks() -> Any:
        return devices.strategy.run(lambda: dropout(tensorflow.ones((8, 64)), training=True))

    first, second = (devices.strategy.experimental_local_results(masks()) for _ in range(2))
    drawn = [np.asarray(mask) for mask in (*first, *second)]
    for mask in drawn:
        assert set(np.unique(mask)) == {0.0, 2.0}
        assert 0.4 < (mask > 0).mean() < 0.6
    for number, mask in enumerate(drawn):
        for other in drawn[number + 1 :]:
            assert 0.35 < (mask == other).mean() < 0.65
    assert (np.asarray(dropout(tensorflow.ones((2, 2)), training=False)) == 1).all()


@pytest.mark.parametrize("precision", ["fp32", pytest.param("amp_fp16", marks=pytest.mark.check)])
@pytest.mark.keras_3
def test_a_batch_in_parts_on_two_devices_is_that_of_one(tmp_path: Path, precision: str) -> None:
    """Each part holds the same images as on one device, so that batch norm sees the same ones."""
    job = one_step(accumulate=4, precision=precision)
    attempt(job, tmp_path / "one")
    attempt(job, tmp_path / "two", devices=two_devices)
    models = [json.loads((tmp_path / name / "output/metrics.json").read_text()) for name in ("one", "two")]
    assert [model["steps"] for model in models] == [1, 1]
    one, two = (_weights(tmp_path / name) for name in ("one", "two"))
    assert_alike(two, one, 2e-5 if precision == "fp32" else 2e-2)


def _weights(run_dir: Path) -> list[Any]:
    import keras

    found: list[Any] = keras.models.load_model(run_dir / "output/model.keras").get_weights()
    return found


@pytest.mark.check
@pytest.mark.keras_3
def test_a_run_in_parts_on_two_devices_learns(tmp_path: Path) -> None:
    attempt(a_job(accumulate=2, epochs=3), tmp_path, devices=two_devices)
    assert events(tmp_path, name="end")[0]["hold_out_accuracy"] > 0.5
    assert [event["step"] for event in events(tmp_path, name="epoch")] == [22, 44, 66]


def test_parts_lie_where_each_device_finds_its_share(tensorflow: Any) -> None:
    images = in_memory(np.repeat(np.arange(16), 4).reshape(16, 2, 2), np.arange(16))
    whole = Schedule(batch_size=8, steps_per_epoch=2, epochs=1, seed=1)
    grouped = Schedule(batch_size=8, steps_per_epoch=2, epochs=1, seed=1, grouped=(2, 2))
    (first, _), (regrouped, _) = (
        [labels.tolist() for _, labels in tfdata.training_dataset(tensorflow, images, plan).as_numpy_iterator()]
        for plan in (whole, grouped)
    )
    assert regrouped == [*first[0:2], *first[4:6], *first[2:4], *first[6:8]]


@pytest.mark.parametrize("precision", ["amp_fp16", pytest.param("amp_bf16", marks=pytest.mark.check)])
@pytest.mark.keras_3
def test_a_model_trained_in_mixed_precision_is_kept_in_float32(tmp_path: Path, tensorflow: Any, precision: str) -> None:
    attempt(one_step(precision=precision), tmp_path)
    tensorflow.keras.mixed_precision.set_global_policy("float32")  # as where it is used
    model = tensorflow.keras.models.load_model(tmp_path / "output/model.keras")
    assert {layer.compute_dtype for layer in model.layers} <= {"float32", "uint8"}
    assert {str(weight.dtype) for weight in model.weights} == {"float32"}
    metrics = json.loads((tmp_path / "output/metrics.json").read_text())
    from trainplan.workloads.trainer.data import digits

    hold_out: Any = digits().hold_out
    right = model.predict(hold_out.pixels, verbose=0).argmax(axis=1) == hold_out.labels
    assert metrics["hold_out_accuracy"] == pytest.approx(right.mean(), abs=0.02)
    assert metrics["precision"] == precision
