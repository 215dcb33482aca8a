"""The shape of one image's part of a tensor of Keras."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainplan.workloads.graph import Shape
from trainplan.workloads.network_reader.errors import UnreadableError

if TYPE_CHECKING:
    from trainplan.workloads.network_reader.keras_trace import Step

RESHAPES = frozenset({"Flatten", "Reshape", "ExpandDims", "Squeeze", "Ravel"})


@dataclass(kw_only=True)
class Written:
    """What is known of tensors whose operators are in the graph: `positions` there and `folds` (`Step.fold`), by the
    tensor's id; `counted` are the ids of weights that an operator has."""

    positions: dict[int, int]
    folds: dict[int, int] = field(default_factory=dict)
    counted: set[int] = field(default_factory=set)


def sides(tensor: Any) -> tuple[int, ...]:
    """All sides but the batch's. Raises UnreadableError where one is not known beforehand."""
    found = list(tensor.shape)
    if None in found:
        found.remove(None)
    if None in found:
        raise UnreadableError(f"a tensor of {tensor.shape} has a size that is not known beforehand")
    return tuple(found)


def shape_of(step: Step, tensor: Any) -> Shape:
    """Of one image's part of a tensor. A row of vectors is an image of one pixel's height; what has more sides has them
    in its width."""
    try:
        found = sides(tensor)
    except UnreadableError:
        text = f"{step.name} ({step.kind}) gives {tensor.shape}, whose size is not known beforehand"
        raise UnreadableError(text) from None
    if step.fold > 1:
        found = (step.fold, *found) if len(found) < 3 else (step.fold * found[0], *found[1:])
    if len(found) == 3:
        return Shape(*found)
    return Shape(1, math.prod(found[:-1]), found[-1] if found else 1)


def fold_of(step: Step, written: Written) -> int:
    """How many rows along the batch's axis of the step's outputs are of one image."""
    folds = [written.folds.get(id(tensor), 1) for tensor in step.inputs]
    fold = max(folds, default=1)
    axis = getattr(step.operation, "axis", None)
    if step.kind in ("Concatenate", "Vstack") and isinstance(axis, int) and step.outputs[0].shape[axis] is None:
        return sum(folds)
    if step.kind not in RESHAPES or len(step.outputs) != 1 or None not in step.outputs[0].shape:
        return fold
    given = fold * math.prod(sides(step.inputs[0]))
    taken = math.prod(sides(step.outputs[0]))
    return given // taken if given % taken == 0 else fold
