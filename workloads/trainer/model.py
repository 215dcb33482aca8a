"""From a Net to a Keras model: one to train, which ends in logits, and one to keep, which ends in a softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from workloads.layers import Conv, Dense, Flatten, Layer, MaxPool, Net


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Two views of the same weights. `training` gives logits (float32), `serving` probabilities.

    Both take uint8 images of shape (batch, size, size, channels), 0 to 255.
    """

    training: Any
    serving: Any


def build(keras: Any, net: Net, stored_size: int, seed: int) -> Models:
    """Build `net` for images stored at `stored_size` px a side; they are scaled and resized on the device.

    Keras' count_params() of either is workloads.layers' parameters + moving_statistics of the net.
    """
    images = keras.Input((stored_size, stored_size, net.channels), dtype="uint8", name="image")
    # Scaling stays in float32: half precision cannot hold 256 steps between -1 and 1 exactly.
    value = keras.layers.Rescaling(1 / 127.5, offset=-1.0, dtype="float32")(images)
    if stored_size != net.image_size:
        value = keras.layers.Resizing(net.image_size, net.image_size, dtype="float32")(value)
    for number, layer in enumerate(net.layers):
        for part in _parts(keras, layer, number, seed + number):
            value = part(value)
    probabilities = keras.layers.Softmax(dtype="float32", name="probability")(value)
    return Models(
        training=keras.Model(images, value, name=_name(net)),
        serving=keras.Model(images, probabilities, name=_name(net)),
    )


def compile_for_training(keras: Any, model: Any, optimizer: Any, *, xla: bool) -> None:
    """Cross-entropy on logits, which stays finite where a softmax would underflow."""
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=xla,
    )
    model.optimizer.build(model.trainable_variables)


def _name(net: Net) -> str:
    return net.name.replace("-", "_").replace(".", "_")


def _parts(keras: Any, layer: Layer, number: int, seed: int) -> list[Any]:
    match layer:
        case Conv():
            return _conv(keras, layer, number, seed)
        case Dense():
            return _dense(keras, layer, number, seed)
        case MaxPool():
            return [keras.layers.MaxPooling2D(layer.size, layer.stride, name=f"pool_{number}")]
        case Flatten():
            return [keras.layers.Flatten(name=f"flatten_{number}")]
        case _:
            assert_never(layer)


def _conv(keras: Any, layer: Conv, number: int, seed: int) -> list[Any]:
    convolution = keras.layers.Conv2D(
        layer.filters,
        layer.kernel,
        strides=layer.stride,
        padding=layer.padding.value,
        use_bias=layer.bias,
        kernel_initializer=keras.initializers.HeNormal(seed=seed),
        name=f"conv_{number}",
    )
    return [convolution, *_norm(keras, layer, number), keras.layers.ReLU(name=f"relu_{number}")]


def _dense(keras: Any, layer: Dense, number: int, seed: int) -> list[Any]:
    initializers = keras.initializers
    dense = keras.layers.Dense(
        layer.units,
        use_bias=layer.bias,
        kernel_initializer=initializers.GlorotUniform(seed=seed) if layer.softmax else initializers.HeNormal(seed=seed),
        name=f"dense_{number}",
    )
    if layer.softmax:
        # The softmax belongs to the serving model; the logits leave in float32 for the loss.
        return [dense, *_norm(keras, layer, number), keras.layers.Activation("linear", dtype="float32", name="logits")]
    parts = [dense, *_norm(keras, layer, number), keras.layers.ReLU(name=f"relu_{number}")]
    if layer.dropout:
        parts.append(keras.layers.Dropout(layer.dropout, seed=seed, name=f"dropout_{number}"))
    return parts


def _norm(keras: Any, layer: Conv | Dense, number: int) -> list[Any]:
    if not layer.batch_norm:
        return []
    return [keras.layers.BatchNormalization(scale=layer.batch_norm_scale, name=f"norm_{number}")]
