"""Checks an exported file against model.keras: `python -m trainplan.workloads.trainer.exports.check` answers a question
on stdin.

It runs in a process without Keras, and but for a SavedModel without TensorFlow: as whoever gets the file will use it.
The question is a JSON object (`Question`), the answer one on stdout (`Answer`); errors are one line on stderr.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from trainplan.workloads.exported.record import FILES, IS_FLOAT, MODULES, Output
from trainplan.workloads.terms import ExportFormat
from trainplan.workloads.trainer.exports.compare import REFERENCE, Comparison, compared, float_faults, int8_faults
from trainplan.workloads.trainer.exports.loaders import FileError, Model, clipped_share, open_file
from trainplan.workloads.trainer.exports.operations import float_tensors, input_scale, operations_of, output_scale
from trainplan.workloads.trainer.exports.replies import own_stdout

_BATCH = 32
_MOST_SECONDS = 2.0
_MOST_IMAGES = 50
_MOST_CLIPPED_IMAGES = 200
_BYTES = ("uint8", 1.0, 0)
"""The input that takes the bytes of an image as they are: type, scale, zero point."""
_DISTRIBUTIONS = {"ai_edge_litert": "ai-edge-litert"}


class Question(TypedDict):
    """`folder` has the file of the `format`, and its parent REFERENCE. `allowed_loss` is of top-1, as a share."""

    folder: str
    format: str
    allowed_loss: float


class Answer(TypedDict):
    """`figures` are those of trainplan.workloads.exported.record.Check; `faults` say why the file is not to be used."""

    figures: dict[str, float | None]
    output: dict[str, Any]
    operations: list[dict[str, Any]]
    versions: dict[str, str]
    faults: list[str]


def main() -> int:
    """Answer the question on stdin."""
    reply = own_stdout()
    question: Question = json.load(sys.stdin)
    try:
        reply(_answer(Path(question["folder"]), ExportFormat(question["format"]), question["allowed_loss"]))
    except ModuleNotFoundError as error:
        sys.stderr.write(f"error: {error.name} is not installed\n")
        return 2
    except (FileError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _answer(folder: Path, format: ExportFormat, allowed_loss: float) -> Answer:
    with np.load(folder.parent / REFERENCE) as reference:
        pixels, labels, expected = (reference[name] for name in ("pixels", "labels", "probabilities"))
    output = _output(folder, format, expected.shape[1])
    model = open_file(folder, format, output)
    given = np.concatenate([_given(model, pixels[begin : begin + _BATCH]) for begin in range(0, len(pixels), _BATCH)])
    comparison = compared(expected, given, labels)
    clipped = None if IS_FLOAT[format] else clipped_share(folder, pixels[:: -(-len(pixels) // _MOST_CLIPPED_IMAGES)])
    module = MODULES[format]
    return Answer(
        figures={
            "images": comparison.images,
            "top1_before": comparison.top1_before,
            "top1_after": comparison.top1_after,
            "agreement": comparison.agreement,
            "largest_difference": comparison.largest_difference,
            "milliseconds_per_image": _milliseconds(model, pixels),
            "clipped": clipped,
        },
        output=output.model_dump(),
        operations=[operation.model_dump() for operation in operations_of(folder, format)],
        versions={module: _version(module)},
        faults=[*_faults(folder, format, comparison, clipped, allowed_loss)],
    )


def _output(folder: Path, format: ExportFormat, classes: int) -> Output:
    if IS_FLOAT[format]:
        return Output(classes=classes)
    scale, zero_point = output_scale(folder / FILES[format])
    return Output(classes=classes, dtype="uint8", scale=scale, zero_point=zero_point)


def _given(model: Model, pixels: Any) -> Any:
    try:
        return model(pixels)
    # What runtimes raise of images that a file does not take is listed nowhere.
    except Exception as error:
        raise FileError(f"it does not take the images of the run: {' '.join(str(error).split())[:300]}") from error


def _faults(
    folder: Path, format: ExportFormat, comparison: Comparison, clipped: float | None, allowed_loss: float
) -> Iterator[str]:
    if IS_FLOAT[format]:
        yield from float_faults(comparison)
        return
    path = folder / FILES[format]
    if names := float_tensors(path):
        yield f"it is no full integer file: {len(names)} numbers are 32-bit floats, the first is {names[0]}"
    dtype, scale, zero_point = input_scale(path)
    if (dtype, scale, zero_point) != _BYTES:
        yield f"it takes {dtype} of scale {scale:g} and zero point {zero_point}, not the bytes of an image"
    yield from int8_faults(comparison, clipped, allowed_loss)


def _milliseconds(model: Model, pixels: Any) -> float:
    """The median of one image at a time."""
    seconds: list[float] = []
    for number in range(_MOST_IMAGES):
        image = pixels[number % len(pixels)][np.newaxis]
        began = time.perf_counter()
        model(image)
        seconds.append(time.perf_counter() - began)
        if sum(seconds) > _MOST_SECONDS:
            break
    return round(1000 * statistics.median(seconds), 4)


def _version(module: str) -> str:
    try:
        return importlib.metadata.version(_DISTRIBUTIONS.get(module, module))
    except importlib.metadata.PackageNotFoundError:  # TensorFlow has several names
        return str(importlib.import_module(module).__version__)


if __name__ == "__main__":
    raise SystemExit(main())
