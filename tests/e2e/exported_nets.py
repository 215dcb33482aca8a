"""Small trained nets for the proof of exports, and converters with a planted defect."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trainplan.workloads.job import Framework, TrainingJob
from trainplan.workloads.trainer.backend import load
from trainplan.workloads.trainer.data import digits, synthetic
from trainplan.workloads.trainer.exports import conversions
from trainplan.workloads.trainer.model import build

if TYPE_CHECKING:
    from trainplan.workloads.terms import ExportFormat
    from trainplan.workloads.trainer.images import Pixels


class Trained(NamedTuple):
    """A serving model and 1,000 images with their labels."""

    model: Any
    pixels: Any
    labels: Any


def keras() -> Any:
    return load(Framework.TENSORFLOW).keras


def all_digits() -> tuple[Any, Any]:
    split = digits()
    parts: Any = (split.train, split.hold_out)
    return np.concatenate([part.pixels for part in parts]), np.concatenate([part.labels for part in parts])


def a_job(**values: Any) -> TrainingJob:
    given = {"name": "net", "data": {"name": "digits"}, "epochs": 1, "global_batch_size": 32, **values}
    return TrainingJob.model_validate(given)


DIGITS_VGG = a_job(model={"layers": [16, 16, "M", 32, 32, "M"], "batch_norm": True, "dense": [64], "dropout": 0.2})
MNIST_CNN = a_job(model={"preset": "mnist-cnn", "image_size": 28, "classes": 10})
VGG11 = a_job(
    model={"preset": "vgg11", "batch_norm": True, "image_size": 64, "classes": 10, "dense": [512]},
    data={"name": "synthetic", "images": 640},
)
COLOURS = a_job(
    model={"layers": [16, "M", 32, "M"], "batch_norm": True, "dense": [32], "image_size": 16, "classes": 10},
    data={"name": "synthetic", "images": 640},
)


def of_job(job: TrainingJob, epochs: int, batch: int = 32, rate: float = 0.003) -> Trained:
    """The net of a job as the trainer builds and keeps it."""
    if job.data.name == "digits":
        pixels, labels = all_digits()
    else:
        split: Any = synthetic(job)
        pixels, labels = (
            np.concatenate([getattr(part, name)[:1_000] for part in (split.train, split.hold_out)])
            for name in ("pixels", "labels")
        )
    keras().utils.set_random_seed(0)
    models = build(keras(), job.net(), pixels.shape[1], 0)
    fitted(models.training, pixels[:1_280], labels[:1_280], epochs, from_logits=True, batch=batch, rate=rate)
    return Trained(models.serving, pixels[-1_000:], labels[-1_000:])


def fitted(
    model: Any, pixels: Any, labels: Any, epochs: int, *, from_logits: bool, batch: int = 32, rate: float = 0.003
) -> None:
    loss = keras().losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    model.compile(keras().optimizers.Adam(rate), loss, metrics=["accuracy"])
    model.fit(pixels, labels, epochs=epochs, batch_size=batch, verbose=0)


def of_layers(body: Callable[[Any, Any], Any], epochs: int) -> Trained:
    """A net on the digits; `body` takes Keras' layers and the scaled images, and gives a vector of each."""
    layers = keras().layers
    keras().utils.set_random_seed(0)
    pixels, labels = all_digits()
    images = keras().Input((8, 8, 1), dtype="uint8", name="image")
    scaled = layers.Rescaling(1 / 127.5, offset=-1.0, dtype="float32")(images)
    logits = layers.Dense(10)(body(layers, scaled))
    model = keras().Model(images, layers.Softmax(dtype="float32", name="probability")(logits))
    fitted(model, pixels[:1_280], labels[:1_280], epochs, from_logits=False)
    return Trained(model, pixels[-1_000:], labels[-1_000:])


def residual(layers: Any, value: Any) -> Any:
    value = _conv_norm(layers, value, 16)
    for filters, stride in ((16, 1), (32, 2)):
        path = _conv_norm(layers, value, filters, stride)
        path = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(path))
        if stride > 1:
            value = layers.BatchNormalization()(layers.Conv2D(filters, 1, strides=stride, use_bias=False)(value))
        value = layers.ReLU()(layers.Add()([value, path]))
    return layers.GlobalAveragePooling2D()(value)


def depthwise(layers: Any, value: Any) -> Any:
    value = _conv_norm(layers, value, 16)
    for filters in (32, 48):
        value = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(value)
        value = layers.ReLU(6.0)(layers.BatchNormalization()(value))
        value = layers.Conv2D(filters, 1, use_bias=False)(value)
        value = layers.ReLU(6.0)(layers.BatchNormalization()(value))
    return layers.GlobalAveragePooling2D()(value)


def _conv_norm(layers: Any, value: Any, filters: int, stride: int = 1) -> Any:
    value = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(value)
    return layers.ReLU()(layers.BatchNormalization()(value))


@cache
def net(name: str) -> Trained:
    match name:
        case "digits VGG":
            return of_job(DIGITS_VGG, 8)
        case "mnist-cnn":
            return of_job(MNIST_CNN, 3)
        case "VGG11 at 64 px":
            # Moving statistics forget a hundredth with each step: a few hundred steps, or a test sees the first ones.
            return of_job(VGG11, 4, batch=16, rate=0.0003)
        case "colours":
            return of_job(COLOURS, 4)
        case "residual":
            return of_layers(residual, 12)
        case "depthwise":
            return of_layers(depthwise, 20)
        case _:
            raise KeyError(name)


def without_scaling(kept: Any, model: Any, format: ExportFormat, folder: Path, calibration: Pixels) -> None:
    """The pixels go into the net as they are, from 0 to 255 in the place of from -1 to 1."""

    def cloned(layer: Any) -> Any:
        return type(layer).from_config(
            layer.get_config() | ({"scale": 1.0, "offset": 0.0} if "resc" in layer.name else {})
        )

    other = kept.models.clone_model(model, clone_function=cloned)
    other.set_weights(model.get_weights())
    other(calibration[:1])
    conversions.convert(kept, other, format, folder, calibration)


def channels_swapped(kept: Any, model: Any, format: ExportFormat, folder: Path, calibration: Pixels) -> None:
    """Blue, green, red: the kernels of the first convolution the other way round, as OpenCV would want them."""
    other = kept.models.clone_model(model)
    weights = model.get_weights()
    weights[0] = weights[0][:, :, ::-1]
    other.set_weights(weights)
    other(calibration[:1])
    conversions.convert(kept, other, format, folder, calibration)


def calibrated_on_noise(kept: Any, model: Any, format: ExportFormat, folder: Path, calibration: Pixels) -> None:
    """Numbers from 0 to 1, as they are shown in many places to quantize a model with."""
    noise = np.random.default_rng(0).random(calibration.shape).astype(np.uint8)
    conversions.convert(kept, model, format, folder, noise)


def calibrated_on_bright_noise(kept: Any, model: Any, format: ExportFormat, folder: Path, calibration: Pixels) -> None:
    noise = np.random.default_rng(0).integers(0, 256, calibration.shape).astype(np.uint8)
    conversions.convert(kept, model, format, folder, noise)
