"""From a Keras model to a file of each format, by Keras' own `model.export`; needs TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from trainplan.workloads.exported.record import FILES
from trainplan.workloads.terms import ExportFormat

if TYPE_CHECKING:
    from trainplan.workloads.trainer.images import Pixels


def convert(keras: Any, model: Any, format: ExportFormat, folder: Path, calibration: Pixels) -> None:
    """Write the model into the folder. `calibration` are images (n, height, width, channels), 0 to 255, that tell the
    ranges of 8-bit numbers. Raises what Keras and its converters raise, which is listed nowhere."""
    path = str(folder / FILES[format])
    match format:
        case ExportFormat.SAVEDMODEL:
            _as_tested(keras, model).export(path, format="tf_saved_model", verbose=False)
        case ExportFormat.ONNX:
            _as_tested(keras, model).export(path, format="onnx", verbose=False)
        case ExportFormat.TFLITE:
            _litert(model, path)
        case ExportFormat.TFLITE_INT8:
            _litert_int8(keras, model, path, calibration)
        case _:
            assert_never(format)


def _as_tested(keras: Any, model: Any) -> Any:
    """The model as it runs in a test. With a Resizing layer in it, Keras 3.15.1 takes a call that does not say
    `training` for one of training, and would write batch norms that take the statistics of each batch."""
    images = keras.Input(model.inputs[0].shape[1:], dtype=model.inputs[0].dtype, name="image")
    tested = keras.Model(images, model(images, training=False))
    tested(np.zeros((1, *images.shape[1:]), np.uint8))  # Keras writes no ONNX of a model that was never called
    return tested


def _litert(model: Any, path: str) -> None:
    import tensorflow as tf

    # Else Keras lets operations of TensorFlow in, which the runtimes of phones lack.
    spec = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    model.export(path, format="litert", verbose=False, input_signature=_one_image(tf, model), target_spec=spec)


def _litert_int8(keras: Any, model: Any, path: str, calibration: Pixels) -> None:
    """The model takes floats here, and the converter makes bytes of them: the conversion of bytes to floats, with which
    a kept model begins, would stay as an operation on floats before all others."""
    import tensorflow as tf

    images = keras.Input(model.inputs[0].shape[1:], dtype="float32", name="image")
    floats = keras.models.clone_model(model, input_tensors=images)
    floats.set_weights(model.get_weights())
    floats.export(
        path,
        format="litert",
        verbose=False,
        input_signature=_one_image(tf, floats),
        optimizations=[tf.lite.Optimize.DEFAULT],
        representative_dataset=lambda: _representative(calibration),
        target_spec={"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]},
        inference_input_type=tf.uint8,
        inference_output_type=tf.uint8,
        # One scale for a dense layer, not one a unit: TensorFlow has done the latter since 2024, and runtimes of before
        # read it wrongly (https://github.com/tensorflow/tflite-micro/pull/2602).
        _experimental_disable_per_channel_quantization_for_dense_layers=True,
    )


def _one_image(tf: Any, model: Any) -> list[Any]:
    (given,) = model.inputs
    return [tf.TensorSpec((1, *given.shape[1:]), given.dtype, name="image")]


def _representative(calibration: Pixels) -> Iterator[list[Any]]:
    """One pixel each of the lowest and the highest value, so that the bytes of an image are taken as they are."""
    for number, image in enumerate(calibration):
        floats = image[np.newaxis].astype(np.float32)
        if number == 0:
            floats[0, 0, 0], floats[0, 0, -1] = 0, 255
        yield [floats]
