"""Opens an exported file as a function from images to probabilities: without Keras, and mostly without TensorFlow."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from trainplan.workloads.exported.record import FILES, Output
from trainplan.workloads.terms import ExportFormat
from trainplan.workloads.trainer.exports.operations import softmax_input

Model = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]
"""Takes (images, height, width, channels), 0 to 255; gives probabilities as (images, classes)."""


class FileError(Exception):
    """An exported file cannot be opened, or gives something else than its record says."""


def open_file(folder: Path, format: ExportFormat, output: Output) -> Model:
    """The model in the folder of an export, on one thread: what a phone's figure is compared with.

    Raises FileError; ModuleNotFoundError where its runtime is not installed.
    """
    path = folder / FILES[format]
    try:
        match format:
            case ExportFormat.SAVEDMODEL:
                return _saved_model(path)
            case ExportFormat.ONNX:
                return _onnx(path)
            case ExportFormat.TFLITE | ExportFormat.TFLITE_INT8:
                return _litert(path, output)
            case _:
                assert_never(format)
    except (ModuleNotFoundError, FileError):
        raise
    # What runtimes raise of a file that is none of theirs is listed nowhere.
    except Exception as error:
        raise FileError(f"{path} cannot be opened: {' '.join(str(error).split())[:300]}") from error


def _saved_model(path: Path) -> Model:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    tf: Any = importlib.import_module("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(str(path))
    return lambda pixels: np.asarray(loaded.serve(tf.constant(pixels)), np.float32)


def _onnx(path: Path) -> Model:
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (images,), (probabilities,) = session.get_inputs(), session.get_outputs()
    return lambda pixels: np.asarray(session.run([probabilities.name], {images.name: pixels})[0], np.float32)


def _litert(path: Path, output: Output) -> Model:
    interpreter: Any = importlib.import_module("ai_edge_litert.interpreter").Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    (images,), (probabilities,) = interpreter.get_input_details(), interpreter.get_output_details()
    _refuse_other_output(path, probabilities, output)

    def model(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """One image after another: the file has room for one."""
        rows = []
        for image in pixels:
            interpreter.set_tensor(images["index"], image[np.newaxis])
            interpreter.invoke()
            given = interpreter.get_tensor(probabilities["index"])[0].astype(np.float32)
            rows.append((given - output.zero_point) * output.scale)
        return np.stack(rows).astype(np.float32)

    return model


def clipped_share(folder: Path, pixels: npt.NDArray[np.uint8]) -> float | None:
    """Of what the softmax of an 8-bit file takes for these images, the share at an end of its range: there, one number
    stands for all beyond it. None where the file has no softmax."""
    path = folder / FILES[ExportFormat.TFLITE_INT8]
    index = softmax_input(path)
    if index is None:
        return None
    litert: Any = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        str(path),
        experimental_preserve_all_tensors=True,
        # A delegate would compute several operations as one, and show nothing of what lies between.
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    (images,) = interpreter.get_input_details()
    count = total = 0
    for image in pixels:
        interpreter.set_tensor(images["index"], image[np.newaxis])
        interpreter.invoke()
        values = interpreter.get_tensor(index)
        ends = np.iinfo(values.dtype)
        count += int(((values == ends.min) | (values == ends.max)).sum())
        total += values.size
    return count / total


def _refuse_other_output(path: Path, details: dict[str, Any], output: Output) -> None:
    dtype = np.dtype(details["dtype"]).name
    scale, zero_point = details["quantization"]
    if dtype != output.dtype or (dtype != "float32" and (scale, zero_point) != (output.scale, output.zero_point)):
        raise FileError(
            f"{path} gives {dtype} of scale {scale:g}, and export.json says {output.dtype} of {output.scale:g}"
        )
