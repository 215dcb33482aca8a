"""The shape of an operator's output from its inputs, and what holds of every graph."""

from __future__ import annotations

from collections.abc import Sequence

from trainplan.workloads.graph import (
    BROADCASTS,
    GLOBAL_POOLS,
    MATRIX_KINDS,
    NORM_KINDS,
    WINDOW_POOLS,
    Graph,
    GraphError,
    ImageTooSmallError,
    Kind,
    Operator,
    Shape,
)

MAX_OPERATORS = 20_000
MAX_NUMBER = 2**26
"""More than any size, kernel or count of channels of a network that anybody trains."""
_PAIRS = ("kernel", "stride", "dilation")
_ANY_SHAPE = frozenset({Kind.INPUT, Kind.PRODUCT, Kind.REARRANGE, Kind.REDUCE, Kind.UNKNOWN})
_SEVERAL_INPUTS = BROADCASTS | {Kind.CONCAT}
_SAME_SHAPE = NORM_KINDS | {Kind.ACTIVATION, Kind.SOFTMAX, Kind.SCALE, Kind.FIXED_SCALE, Kind.DROPOUT}


def check(graph: Graph) -> None:
    """Hold every operator to what its inputs and attributes give. Raises GraphError."""
    if not 2 <= len(graph.operators) <= MAX_OPERATORS:
        raise GraphError(f"a graph has 2 to {MAX_OPERATORS:,} operators, this one {len(graph.operators):,}")
    shapes: list[Shape] = []
    for position, operator in enumerate(graph.operators):
        _check_numbers(operator, position)
        if (operator.kind is Kind.INPUT) != (not operator.inputs) or (position == 0) > (operator.kind is Kind.INPUT):
            raise GraphError(f"{operator.name}: a graph begins with its input, and each other operator has inputs")
        found = inferred_shape(operator, [shapes[before] for before in operator.inputs])
        if found != operator.shape:
            raise GraphError(f"{operator.name}: its output is {tuple(found)}, not {tuple(operator.shape)}")
        shapes.append(found)


def _check_numbers(operator: Operator, position: int) -> None:
    pairs = (*operator.kernel, *operator.stride, *operator.dilation)
    positive = (*operator.shape, *pairs, operator.groups, operator.steps)
    counts = (operator.parameters, operator.statistics, operator.depth)
    numbers = (*positive, *counts, *operator.padding, *operator.inputs)
    if not all(type(number) is int for number in numbers) or not isinstance(operator.name, str):
        raise GraphError(f"operator {position}: sizes are whole numbers, and its name is text")
    if not all(len(getattr(operator, key)) == 2 for key in _PAIRS) or len(operator.padding) != 4:
        raise GraphError(f"{operator.name}: kernel, stride and dilation have two numbers, padding has four")
    largest = max(map(abs, (*positive, operator.depth, *operator.padding)))
    if min(positive) < 1 or largest > MAX_NUMBER or min(counts) < 0:
        raise GraphError(f"{operator.name}: a size is out of bounds")
    if any(not 0 <= before < position for before in operator.inputs):
        raise GraphError(f"{operator.name}: its inputs are not operators before it")
    if any(type(one) not in (int, float) or not 0 <= one < 1 for one in (operator.rate, operator.epsilon)):
        raise GraphError(f"{operator.name}: rate and epsilon are from 0 to below 1")
    truths = (operator.bias, operator.scale, operator.frozen)
    if not all(type(one) is bool for one in truths) or not isinstance(operator.function, str):
        raise GraphError(f"{operator.name}: bias, scale and frozen are true or false, function is text")


def inferred_shape(operator: Operator, inputs: Sequence[Shape]) -> Shape:
    """The shape of the output by the operator's kind, attributes and inputs. `operator.shape` is read only where they
    do not tell it: the channels of matrix operators, and the whole shape of
    inputs, products, a flatten and what is rearranged, reduced or unknown.

    Raises ImageTooSmallError where nothing is left of the image, GraphError for inputs that do not fit.
    """
    kind = operator.kind
    if kind in _ANY_SHAPE:
        return operator.shape
    if not inputs or (len(inputs) > 1 and kind not in _SEVERAL_INPUTS):
        raise GraphError(f"{operator.name}: {kind} has one input, not {len(inputs)}")
    first = inputs[0]
    if kind in _SAME_SHAPE:
        return first
    if kind in MATRIX_KINDS or kind in WINDOW_POOLS:
        return _windowed(operator, first)
    if kind in GLOBAL_POOLS:
        return Shape(1, 1, first.channels)
    return _rearranged(operator, inputs)


def _windowed(operator: Operator, before: Shape) -> Shape:
    channels = before.channels if operator.kind in WINDOW_POOLS else operator.shape.channels
    if operator.kind is Kind.DENSE:
        return Shape(before.height, before.width, channels)
    if operator.kind in MATRIX_KINDS and (before.channels % operator.groups or channels % operator.groups):
        raise GraphError(
            f"{operator.name}: {operator.groups} groups do not divide {before.channels} and {channels} channels"
        )
    sides = [
        _side(operator, axis, side, operator.padding[2 * axis] + operator.padding[2 * axis + 1])
        for axis, side in enumerate((before.height, before.width))
    ]
    return Shape(sides[0], sides[1], channels)


def _side(operator: Operator, axis: int, side: int, padding: int) -> int:
    reach = operator.dilation[axis] * (operator.kernel[axis] - 1) + 1
    if operator.kind is Kind.TRANSPOSED_CONVOLUTION:
        left = (side - 1) * operator.stride[axis] + reach - padding
    elif side + padding < reach:
        left = 0
    else:
        left = (side + padding - reach) // operator.stride[axis] + 1
    if left < 1:
        raise ImageTooSmallError(f"the image is {side} px a side when it reaches {operator.name}, which needs {reach}")
    return left


def _rearranged(operator: Operator, inputs: Sequence[Shape]) -> Shape:
    first = inputs[0]
    match operator.kind:
        case Kind.ADD | Kind.MULTIPLY:
            return _broadcast(operator, inputs)
        case Kind.CONCAT:
            if any(one[:2] != first[:2] for one in inputs):
                raise GraphError(f"{operator.name}: images of {_sizes(inputs)} px cannot be joined")
            return Shape(first.height, first.width, sum(one.channels for one in inputs))
        case Kind.UP_SAMPLING:
            return Shape(first.height * operator.stride[0], first.width * operator.stride[1], first.channels)
        case Kind.PADDING:
            top, bottom, left, right = operator.padding
            found = Shape(first.height + top + bottom, first.width + left + right, first.channels)
            if min(found) < 1:
                raise ImageTooSmallError(f"nothing is left of the image of {_sizes([first])} px after {operator.name}")
            return found
        case _:
            if operator.shape.elements != first.elements:
                raise GraphError(f"{operator.name}: {first.elements} values do not fill {tuple(operator.shape)}")
            return operator.shape


def _broadcast(operator: Operator, inputs: Sequence[Shape]) -> Shape:
    most = Shape(*(max(sides) for sides in zip(*inputs, strict=True)))
    if any(side not in (1, whole) for one in inputs for side, whole in zip(one, most, strict=True)):
        shapes = " and ".join(str(tuple(one)) for one in inputs)
        raise GraphError(f"{operator.name}: shapes {shapes} do not go together")
    return most


def _sizes(shapes: Sequence[Shape]) -> str:
    return " and ".join(f"{one.height} x {one.width}" for one in shapes)
