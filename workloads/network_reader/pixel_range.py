"""Which values of pixels a network expects: decided once, when its file is read, and followed by the trainer."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from trainplan.workloads.network_reader.keras_trace import Step, weights_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Range = tuple[float, float]
RANGES: tuple[Range, ...] = ((-1.0, 1.0), (0.0, 1.0), (0.0, 255.0))
"""What images are scaled to in practice; the first is what a network without a preference is given."""
_WIDTH = 2.0
"""Of the values behind a network's own scaling, which is from -1 to 1, or a deviation to each side of the mean."""
_PROBES = (-1.0, 0.0, 128.0, 255.0)
_CLOSE = 1 / 128
"""Two steps of bfloat16, in which a file may have its layers compute."""
_Line = tuple[float, float]
"""Factor and offset."""


def pixel_range(keras: Any, steps: Sequence[Step], image: Any) -> Range:
    """The lowest and highest value of a pixel that the network expects.

    Images of one value each are sent through the operations that have no weights, up to the first that is no straight
    line. A layer on the way that names its `value_range` (RandomContrast, RandomBrightness, RandAugment) decides; else
    the range does that this scaling brings nearest to a width of 2 around 0.
    """
    shape = (1, *image.shape[1:])
    known = {id(image): [keras.ops.full(shape, probe, dtype=image.dtype) for probe in _PROBES]}
    for step in steps:
        given = [known[id(tensor)] for tensor in step.inputs if id(tensor) in known]
        if not given:
            continue
        line = _line(given[0])
        named = getattr(step.operation, "value_range", None)
        if named is not None and line == (1, 0):
            return float(min(named)), float(max(named))
        values = _through(keras, step, given) if len(given) == len(step.inputs) else None
        if values is None:
            return _nearest(line or (1, 0))
        known[id(step.outputs[0])] = values
    return RANGES[0]


def _nearest(line: _Line) -> Range:
    return min(RANGES, key=lambda one: _distance(*(line[0] * value + line[1] for value in one)))


def _distance(first: float, last: float) -> float:
    """How far a range is from one of the usual width that holds 0."""
    width = abs(last - first)
    if not width:
        return math.inf
    beside = max(min(first, last), -max(first, last), 0.0)
    return abs(math.log(width / _WIDTH)) + beside / width


def _line(values: list[Any]) -> _Line | None:
    """What became of the probes, at most of the places and channels; None where it is no straight line."""
    import numpy as np

    found = [float(np.median(np.asarray(value).astype(np.float32))) for value in values]
    close = _CLOSE * max(map(abs, found)) + 1e-9
    factor, offset = (found[-1] - found[1]) / _PROBES[-1], found[1]
    for line in ((1.0, 0.0), (factor, offset)):  # rounding makes no scaling of what changes nothing
        pairs = zip(_PROBES, found, strict=True)
        if all(abs(line[0] * probe + line[1] - value) <= close for probe, value in pairs):
            return line
    return None


def _through(keras: Any, step: Step, given: list[list[Any]]) -> list[Any] | None:
    """The output for each probe; None where the operation has weights, does not run, or is no straight line."""
    if weights_of(step.operation) or len(step.outputs) != 1:
        return None
    try:
        values = [_called(keras, step, list(inputs)) for inputs in zip(*given, strict=True)]
        return values if _line(values) is not None else None
    except Exception:  # noqa: BLE001 - the person's code may raise anything
        return None


def _called(keras: Any, step: Step, inputs: list[Any]) -> Any:
    rest = iter(inputs)
    flat = [next(rest) if isinstance(one, keras.KerasTensor) else one for one in keras.tree.flatten(step.arguments)]
    arguments = keras.tree.pack_sequence_as(step.arguments, flat)
    if "training" in inspect.signature(step.operation.call).parameters:
        arguments["training"] = False  # so that what changes images at random changes none
    return step.operation.call(**arguments)
