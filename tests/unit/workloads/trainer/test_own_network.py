"""Networks of a person's own are trained as VGG nets are: resumed, shared between devices, kept as a plain Keras
model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import attempt, events, final_state, stopped_in_epoch_2, two_devices
from tests.unit.workloads.trainer.own_networks import MOBILE, RESIDUAL, own_job
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.model import build
from trainplan.workloads.trainer.own_model import own_network

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.train,
    pytest.mark.keras_3,
    pytest.mark.filterwarnings("default"),
    pytest.mark.usefixtures("tensorflow"),
]


@pytest.mark.parametrize("source", [RESIDUAL, MOBILE], ids=["residual", "mobile"])
def test_a_resumed_run_equals_an_uninterrupted_one(source: str, tmp_path: Path) -> None:
    job = own_job(source)
    attempt(job, tmp_path / "whole")
    stopped_in_epoch_2(job, tmp_path / "parts")
    attempt(job, tmp_path / "parts", 2)
    whole, parts = final_state(tmp_path / "whole"), final_state(tmp_path / "parts")
    assert len(whole) == len(parts)
    assert all(np.array_equal(one, other) for one, other in zip(whole, parts, strict=True))


def test_it_learns_and_is_kept_as_a_model_of_keras(tmp_path: Path, tensorflow: Any) -> None:
    job = own_job(RESIDUAL, epochs=4, precision="amp_bf16")
    attempt(job, tmp_path)
    metrics = json.loads((tmp_path / "output/metrics.json").read_text())
    assert metrics["hold_out_accuracy"] > 0.8
    assert (metrics["parameters"], metrics["moving_statistics"]) == (job.graph().parameters, job.graph().statistics)
    kept = tensorflow.keras.models.load_model(tmp_path / "output/model.keras", compile=False)
    scores = kept.predict(np.zeros((3, 8, 8, 1), np.uint8), verbose=0)
    assert scores.shape == (3, 10)
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
    assert kept.count_params() == job.graph().parameters + job.graph().statistics


def test_a_network_that_scales_its_images_is_given_them_unscaled(tmp_path: Path, tensorflow: Any) -> None:
    attempt(own_job(RESIDUAL.replace("block(image", "block(layers.Rescaling(1 / 255)(image)"), epochs=4), tmp_path)
    metrics = json.loads((tmp_path / "output/metrics.json").read_text())
    assert metrics["normalisation"] == {"scale": 1, "offset": 0}
    assert "given pixels from 0 to 255." in (tmp_path / "output/report.md").read_text()
    assert metrics["hold_out_accuracy"] > 0.8
    kept = tensorflow.keras.models.load_model(tmp_path / "output/model.keras", compile=False)
    (first,) = (layer for layer in kept.layers if type(layer).__name__ == "Rescaling")
    assert (first.scale, first.offset) == (1, 0)


@pytest.mark.check  # in make test a list of layers is shared (test_loop.py)
def test_several_devices_share_a_batch(tmp_path: Path) -> None:
    job = own_job(RESIDUAL, epochs=4)
    attempt(job, tmp_path, devices=two_devices)
    assert events(tmp_path, name="start")[0]["device_count"] == 2
    assert json.loads((tmp_path / "output/metrics.json").read_text())["hold_out_accuracy"] > 0.8


def test_a_softmax_at_the_end_changes_nothing(tmp_path: Path) -> None:
    for name, source in (("with", RESIDUAL), ("without", RESIDUAL.replace(', activation="softmax"', ""))):
        attempt(own_job(source, epochs=1), tmp_path / name)
    with_softmax, without = final_state(tmp_path / "with"), final_state(tmp_path / "without")
    assert all(np.array_equal(one, other) for one, other in zip(with_softmax, without, strict=True))


OWN_LAYER = """\
import keras

class Norm(keras.layers.Layer):
    def __init__(self, filters{more}):
        super().__init__()
        self.inside = [keras.layers.Conv2D(filters, 3), keras.layers.BatchNormalization()]

    def call(self, x):
        for layer in self.inside:
            x = layer(x)
        return x

def build(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    return keras.Model(image, keras.layers.Dense(classes)(keras.layers.Flatten()(Norm(4)(image))))
"""


def with_source(job: Any, source: str) -> Any:
    """The job, whose file has another content than the one that was read."""
    read = job.model.read.model_copy(update={"source": source})
    return job.model_copy(update={"model": job.model.model_copy(update={"read": read})})


def test_a_layer_that_cannot_be_kept_is_told_before_it_trains(tmp_path: Path) -> None:
    job = own_job(OWN_LAYER.format(more=""))
    with pytest.raises(BadInputError, match=r"could not be kept.*Norm.*get_config"):
        attempt(with_source(job, OWN_LAYER.format(more=", other=object()")), tmp_path)


ENDS = """\
import keras
from keras import layers, ops

class Small(keras.Model):
    def __init__(self):
        super().__init__()
        self.a, self.b = layers.Flatten(), layers.Dense(10, activation="softmax")

    def call(self, images):
        return self.b(self.a(images))

def nested(image):
    inner = keras.Sequential([keras.Input(image.shape[1:]), layers.Flatten(), layers.Dense(10, activation="softmax")])
    return inner(layers.RandomFlip()(image))

def operation(image):
    return ops.softmax(layers.Dense(10)(layers.Flatten()(image)))

def layer(image):
    return layers.Softmax()(layers.Dense(10)(layers.Flatten()(image)))

def build(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    return MADE
"""


@pytest.mark.parametrize(
    "made", ["Small()", *(f"keras.Model(image, {one}(image))" for one in ("nested", "operation", "layer"))]
)
def test_a_softmax_at_the_end_is_taken_off_wherever_it_stands(made: str) -> None:
    import keras

    network = own_network(own_job(ENDS.replace("MADE", made)))
    models = build(keras, network, 8, 0)
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 1), np.uint8)
    logits, probabilities = (model.predict(images, verbose=0) for model in (models.testing, models.serving))
    assert np.ptp(logits.sum(axis=1)) > 0.01
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), probabilities, rtol=1e-4)


AGAIN = "x, same = layers.Conv2D(8, 3)(image), layers.Conv2D(8, 3, padding='same'); x = same(same(x))"


def test_a_layer_that_is_applied_again_trains(tmp_path: Path) -> None:
    again = RESIDUAL.replace("x = block(block(image, 8, 1), 16, 2)", AGAIN)
    attempt(own_job(again, epochs=1), tmp_path)
    assert json.loads((tmp_path / "output/metrics.json").read_text())["parameters"] == 80 + 584 + 90


def test_a_layer_of_ones_own_with_batch_norm_trains_on_one_device(tmp_path: Path) -> None:
    job = own_job(OWN_LAYER.format(more=""), epochs=1)
    assert job.model.read.own_layers == ("Norm",)
    attempt(job, tmp_path / "one")
    with pytest.raises(BadInputError, match="one device"):
        attempt(job, tmp_path / "two", devices=two_devices)


def test_a_file_that_gives_another_network_each_time_is_told(tmp_path: Path) -> None:
    source = RESIDUAL.replace("16, 2", "16 + getattr(keras, 'built_before', 0), 2")
    job = own_job(source)
    changed = with_source(job, source.replace("def build", "keras.built_before = 8\n\n\ndef build"))
    try:
        with pytest.raises(BadInputError, match="hangs on more than"):
            attempt(changed, tmp_path)
    finally:
        import keras

        del keras.built_before
