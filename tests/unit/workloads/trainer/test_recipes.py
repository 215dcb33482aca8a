"""Schedules and optimizers: the rate of each step, what each key does, and that a run goes on as if undisturbed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job, attempt, events, final_state, stopped_in_epoch_2
from trainplan.workloads.recipe import OptimizerSpec
from trainplan.workloads.trainer.averages import Averages
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.optimizer import make_optimizer
from trainplan.workloads.trainer.rates import RunSteps

TINY = {"layers": [4, "M"], "batch_norm": True, "dense": [], "dropout": 0.0}
RUN = RunSteps(steps_per_epoch=10, epochs=6)
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]


def rates(tensorflow: Any, *, accumulate: int = 1, **schedule: Any) -> list[float]:
    """Of every step of RUN."""
    spec = OptimizerSpec(learning_rate=0.4, schedule=schedule)
    optimizer = make_optimizer(tensorflow.keras, spec, RUN, accumulate=accumulate)
    optimizer.build([tensorflow.keras.Variable([0.0])])
    found = []
    for step in range(RUN.total):
        optimizer._iterations.assign(step * accumulate)
        found.append(float(optimizer.learning_rate))
    return found


@pytest.mark.keras_3
def test_a_warm_up_rises_to_the_rate(tensorflow: Any) -> None:
    found = rates(tensorflow, warmup_epochs=0.4)
    assert found[:4] == pytest.approx([0.08, 0.16, 0.24, 0.32])
    assert found[4:] == pytest.approx([0.4] * 56)


@pytest.mark.keras_3
def test_steps_fall_after_their_epochs(tensorflow: Any) -> None:
    found = rates(tensorflow, name="step", at_epochs=[2, 5], factor=0.5)
    assert found == pytest.approx([0.4] * 20 + [0.2] * 30 + [0.1] * 10)


@pytest.mark.keras_3
def test_a_cosine_falls_from_the_warm_up_to_the_end(tensorflow: Any) -> None:
    found = rates(tensorflow, name="cosine", warmup_epochs=1, final_share=0.25)
    assert found[9] < 0.4
    turns = np.arange(50) / 50
    assert found[10:] == pytest.approx(0.4 * (0.25 + 0.75 * (1 + np.cos(np.pi * turns)) / 2))


@pytest.mark.parametrize("schedule", [{"name": "step", "at_epochs": [2]}, {"name": "cosine", "warmup_epochs": 2}])
@pytest.mark.keras_3
def test_parts_of_a_batch_are_no_steps(tensorflow: Any, schedule: dict[str, Any]) -> None:
    assert rates(tensorflow, accumulate=4, **schedule) == pytest.approx(rates(tensorflow, **schedule))


def one_step(tensorflow: Any, spec: dict[str, Any], gradients: list[float]) -> list[float]:
    """A weight that begins at 1 after each of these gradients."""
    weight = tensorflow.keras.Variable([1.0])
    optimizer = make_optimizer(tensorflow.keras, OptimizerSpec.model_validate({"learning_rate": 0.1} | spec), RUN)
    optimizer.build([weight])
    found = []
    for gradient in gradients:
        optimizer.apply([tensorflow.constant([gradient])], [weight])
        found.append(float(weight[0]))
    return found


@pytest.mark.keras_3
def test_nesterov_looks_ahead(tensorflow: Any) -> None:
    """Sutskever et al. 2013: v = m v - rate g, and the weight moves by m v - rate g."""
    assert one_step(tensorflow, {"nesterov": True, "momentum": 0.5}, [1.0, 1.0]) == pytest.approx([0.85, 0.675])
    assert one_step(tensorflow, {"momentum": 0.5}, [1.0, 1.0]) == pytest.approx([0.9, 0.75])


@pytest.mark.keras_3
def test_gradients_are_clipped_together(tensorflow: Any) -> None:
    first, second = tensorflow.keras.Variable([0.0]), tensorflow.keras.Variable([0.0])
    optimizer = make_optimizer(tensorflow.keras, OptimizerSpec(learning_rate=1, momentum=0, clip_norm=1), RUN)
    optimizer.build([first, second])
    optimizer.apply([tensorflow.constant([3.0]), tensorflow.constant([4.0])], [first, second])
    assert [float(first[0]), float(second[0])] == pytest.approx([-0.6, -0.8])


@pytest.mark.keras_3
def test_adamw_decays_apart_from_its_gradient(tensorflow: Any) -> None:
    """Loshchilov and Hutter, arXiv:1711.05101: without a gradient only rate * decay * weight is left."""
    assert one_step(tensorflow, {"name": "adamw", "weight_decay": 0.5}, [0.0]) == pytest.approx([0.95])


@pytest.mark.keras_3
def test_averages_stand_in_for_the_weights_and_go_again(tensorflow: Any) -> None:
    keras = tensorflow.keras
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(make_optimizer(keras, OptimizerSpec(learning_rate=0.1, momentum=0, ema=0.5), RUN))
    weight = model.trainable_variables
    model.optimizer.build(weight)
    for _ in range(2):
        model.optimizer.apply([tensorflow.constant([[1.0]])], weight)
    averages = Averages(keras, model)
    model.optimizer.finalize_variable_values(weight)  # as Keras does after each call of fit
    trained = weight[0].numpy().copy()
    assert trained == pytest.approx(0.8)
    for _ in range(2):
        averages.show()
        assert weight[0].numpy() == pytest.approx(0.85)
    for _ in range(2):
        averages.hide()
        assert weight[0].numpy() == trained


def test_a_recipe_needs_keras_3() -> None:
    class OldKeras:
        class optimizers:
            SGD = dict

    with pytest.raises(BadInputError, match="needs Keras 3"):
        make_optimizer(OldKeras, OptimizerSpec(nesterov=True), RUN)


@pytest.mark.parametrize(
    "optimizer",
    [
        {
            "name": "sgd", "learning_rate": 0.05, "nesterov": True, "weight_decay": 1e-4, "clip_norm": 2.0, "ema": 0.9,
            "schedule": {"name": "cosine", "warmup_epochs": 1},
        },
        {"name": "adamw", "learning_rate": 0.003, "weight_decay": 0.01, "schedule": {"name": "step", "at_epochs": [1]}},
    ],
    ids=["sgd", "adamw"],
)  # fmt: skip
@pytest.mark.keras_3
def test_a_run_with_a_recipe_goes_on_bit_for_bit(tmp_path: Path, tensorflow: Any, optimizer: dict[str, Any]) -> None:
    """It is stopped within an epoch; schedule, momentum and averages go on."""
    del tensorflow
    job = a_job(model=TINY, optimizer=optimizer, global_batch_size=256, epochs=3)
    attempt(job, tmp_path / "whole")
    stopped_in_epoch_2(job, tmp_path / "cut")
    attempt(job, tmp_path / "cut", 2)
    assert events(tmp_path / "cut", 2, "start")[0]["resumed_from_step"] % 5
    for gone_on, undisturbed in zip(final_state(tmp_path / "cut"), final_state(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(gone_on, undisturbed)
    accuracies = [events(tmp_path / name, number, "end")[0]["hold_out_accuracy"] for name, number in
                  (("whole", 1), ("cut", 2))]  # fmt: skip
    assert accuracies[0] == accuracies[1]
