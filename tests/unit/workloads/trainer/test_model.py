"""The Keras model is the net that trainplan.workloads.layers counts, and the one that is kept ends in a softmax."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import a_job
from trainplan.workloads.job import Framework, OptimizerSpec, TrainingJob
from trainplan.workloads.layers import moving_statistics, parameters
from trainplan.workloads.terms import LAYER_LISTS
from trainplan.workloads.trainer.backend import load
from trainplan.workloads.trainer.model import Models, build, compile_for_training
from trainplan.workloads.trainer.optimizer import make_optimizer

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]

IMAGENET = {"name": "imagenet"}
# Presets at their own size; batch norm, other sizes, heads and lists where the dense layers cost no memory.
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **{preset: ({"preset": preset}, IMAGENET) for preset in ("vgg11", "vgg13", "vgg16", "vgg19")},
    **{
        f"{preset} with batch norm": (
            {"preset": preset, "batch_norm": True, "image_size": 48, "dense": [32], "classes": 7},
            {"name": "cifar10"},
        )
        for preset in ("vgg11", "vgg13", "vgg16", "vgg19")
    },
    "mnist-cnn": ({"preset": "mnist-cnn"}, {"name": "mnist"}),
    "mnist-cnn, twice the image": ({"preset": "mnist-cnn", "image_size_multiplier": 2.0}, {"name": "mnist"}),
    "a list": ({"layers": [8, "M", 16], "batch_norm": True, "dense": [], "dropout": 0.0}, {"name": "digits"}),
}


@pytest.fixture(scope="module")
def keras(tensorflow: Any) -> Any:
    return load(Framework.TENSORFLOW).keras


def built(keras: Any, job: TrainingJob, stored_size: int | None = None) -> Models:
    return build(keras, job.net(), stored_size or job.image_size, job.seed)


@pytest.mark.parametrize("name", MODELS)
def test_keras_counts_what_the_arithmetic_counts(keras: Any, name: str) -> None:
    model, data = MODELS[name]
    job = a_job(model=model, data=data)
    # Weights of the large ones take a processor seconds; Keras 2 counts none without them.
    shapes = keras.StatelessScope(initialize_variables=False) if hasattr(keras, "StatelessScope") else nullcontext()
    with shapes:
        models = built(keras, job)
    counted = parameters(job.net()) + moving_statistics(job.net())
    assert models.training.count_params() == models.serving.count_params() == counted
    assert sum(int(np.prod(weight.shape)) for weight in models.training.trainable_weights) == parameters(job.net())
    assert tuple(models.serving.output_shape) == (None, job.classes)
    keras.backend.clear_session()


def test_every_preset_that_is_a_list_of_layers_is_counted() -> None:
    assert {model["preset"] for model, _ in MODELS.values() if "preset" in model} == LAYER_LISTS


def test_the_model_that_is_kept_gives_probabilities_of_raw_images(keras: Any, tmp_path: Path) -> None:
    models = built(keras, a_job(model={"layers": [8, "M"], "image_size": 16, "dense": [16]}), stored_size=8)
    models.serving.save(tmp_path / "model.keras")
    kept = keras.models.load_model(tmp_path / "model.keras")
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1)).astype(np.uint8)
    probabilities = kept.predict(images, verbose=0)
    assert probabilities.sum(axis=1) == pytest.approx([1.0] * 5, abs=1e-5)
    logits = models.training.predict(images, verbose=0)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert probabilities == pytest.approx(exponentials / exponentials.sum(axis=1, keepdims=True), abs=1e-5)


def test_the_seed_sets_the_weights(keras: Any) -> None:
    one, again, other = (built(keras, a_job(seed=seed)).training.get_weights() for seed in (1, 1, 2))
    assert all((left == right).all() for left, right in zip(one, again, strict=True))
    assert any((left != right).any() for left, right in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("name", "momentum", "factor"), [("sgd", 0.0, 0.95), ("sgd", 0.5, 0.9), ("adam", 0.9, 0.95), ("rmsprop", 0.0, 0.95)]
)
def test_weight_decay_shrinks_kernels_and_spares_the_rest(
    keras: Any, name: str, momentum: float, factor: float
) -> None:
    """With a gradient of nothing only the decay is left, for sgd times 1 / (1 - momentum)."""
    fields = {"name": name, "learning_rate": 0.1, "momentum": momentum, "weight_decay": 0.5}
    spec = OptimizerSpec.model_validate(fields)
    model = built(keras, a_job(model={"layers": [4], "batch_norm": True, "dense": [8]})).training
    compile_for_training(keras, model, make_optimizer(keras, spec), xla=False)
    before = model.trainable_weights[0].numpy(), [weight.numpy() for weight in model.trainable_weights[1:3]]
    nothing = [np.zeros(weight.shape, np.float32) for weight in model.trainable_weights]
    apply = getattr(model.optimizer, "apply", None)
    if apply is None:
        model.optimizer.apply_gradients(zip(map(keras.backend.constant, nothing), model.trainable_weights, strict=True))
    else:
        apply(nothing, model.trainable_weights)
    assert model.trainable_weights[0].numpy() == pytest.approx(before[0] * factor, rel=1e-5)
    for weight, was in zip(model.trainable_weights[1:3], before[1], strict=True):
        assert (weight.numpy() == was).all()


def test_the_loss_stays_finite_where_a_softmax_would_not(keras: Any) -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert float(loss(np.array([1]), np.array([[500.0, -500.0]], np.float32))) == pytest.approx(1_000)
