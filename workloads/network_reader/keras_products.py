"""Layers and operations of Keras that multiply matrices: convolutions of any rank, products, attention, recurrent
layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainplan.workloads.graph import Kind, Shape
from trainplan.workloads.graph_builder import Window
from trainplan.workloads.network_reader.keras_shapes import shape_of, sides

if TYPE_CHECKING:
    from trainplan.workloads.graph_builder import Border, GraphBuilder
    from trainplan.workloads.network_reader.keras_trace import Step

_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
"""Products that a cell's state and input take part in."""
_SMALL_RANKS = (1, 2)


def elements(weights: list[Any]) -> int:
    """How many numbers they have together."""
    return sum(math.prod(weight.shape) for weight in weights)


def _row(sizes: Any, usual: int) -> tuple[int, int]:
    """Sizes of one or two directions as (height, width)."""
    numbers = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return (usual, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def window_of(layer: Any, kernel: Any) -> Window:
    """What a layer of one or two directions looks at."""
    size, dilation = _row(kernel, 1), _row(getattr(layer, "dilation_rate", 1), 1)
    border: Border = layer.padding
    if border == "causal":
        border = (0, 0, dilation[1] * (size[1] - 1), 0)
    return Window(size, _row(layer.strides, 1), border, dilation)


def convolution(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    """A convolution of one to three directions."""
    layer = step.operation
    groups, is_biased = layer.groups, layer.use_bias
    if layer.rank in _SMALL_RANKS and step.fold == 1:
        window = window_of(layer, layer.kernel_size)
        return builder.convolution(inputs[0], layer.filters, window, groups=groups, bias=is_biased)
    depth = math.prod(layer.kernel_size) * sides(step.inputs[0])[-1] // groups
    return _with_weights(builder, step, inputs[:1], depth)


def depthwise(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """A convolution of each channel on its own, with one over the channels behind it where it is separable."""
    layer, is_separable = step.operation, step.kind.startswith("Separable")
    if step.fold > 1:
        if is_separable:
            return None
        return _with_weights(builder, step, inputs, math.prod(layer.kernel_size))
    channels = builder.shape(inputs[0]).channels
    position = builder.convolution(
        inputs[0],
        channels * layer.depth_multiplier,
        window_of(layer, layer.kernel_size),
        groups=channels,
        bias=not is_separable and layer.use_bias,
    )
    return builder.convolution(position, layer.filters, 1, bias=layer.use_bias) if is_separable else position


def transposed(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    """A transposed convolution of one to three directions: where it is no usual one of two, the product, whose values
    are then put where they belong."""
    layer = step.operation
    if layer.rank in _SMALL_RANKS and layer.output_padding is None and step.fold == 1:
        window = window_of(layer, layer.kernel_size)
        return builder.transposed_convolution(inputs[0], layer.filters, window, bias=layer.use_bias)
    before = builder.shape(inputs[0])
    taken = math.prod(layer.kernel_size) * layer.filters
    position = builder.add_operator(
        Kind.PRODUCT,
        inputs[0],
        shape=Shape(1, before.height * before.width, taken),
        depth=before.channels,
        parameters=elements(step.weights),
    )
    return _rearranged(builder, step, position)


def bare_convolution(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """`keras.ops.conv` with a variable of the person's own."""
    kernel = step.arguments.get("kernel")
    if len(inputs) != 1 or kernel is None or step.operation.data_format == "channels_first":
        return None
    return _with_weights(builder, step, inputs, math.prod(kernel.shape[:-1]))


def einsum_dense(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """A dense layer over some of the axes, to any shape."""
    layer = step.operation
    terms, taken = layer.equation.replace(" ", "").split("->")
    letters, kernel = terms.split(",")[1], math.prod(layer.kernel.shape)
    depth = math.prod(size for letter, size in zip(letters, layer.kernel.shape, strict=True) if letter not in taken)
    units, bias = kernel // depth, 0 if layer.bias is None else math.prod(layer.bias.shape)
    before, after = builder.shape(inputs[0]), shape_of(step, step.outputs[0])
    if before.elements % depth or before.elements // depth * units != after.elements or bias not in (0, units):
        return _with_weights(builder, step, inputs, depth)
    flat = builder.add_operator(Kind.FLATTEN, inputs[0], shape=Shape(1, before.elements // depth, depth))
    return _shaped(builder, step, builder.dense(flat, units, bias=bias > 0))


def dense(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    """A dense layer over the last axis."""
    return builder.dense(inputs[0], step.operation.units, bias=step.operation.use_bias)


def matmul(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """`keras.ops.matmul`, of two images or of one and weights."""
    depth = int(step.arguments["x1"].shape[-1])
    if len(inputs) == 1:
        return _with_weights(builder, step, inputs, depth)
    *_, rows, columns = (1, *sides(step.outputs[0]))
    return _paired(builder, step, inputs, (rows, columns), depth)


def einsum(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """`keras.ops.einsum` of two operands."""
    operands = list(step.arguments.get("operands", ()))
    text = step.operation.subscripts.replace(" ", "")
    if len(operands) != 2 or "->" not in text or "." in text:
        return None
    terms, taken = text.split("->")
    first, second = terms.split(",")
    sizes: dict[str, int] = {}
    for letters, operand in ((first, operands[0]), (second, operands[1])):
        sizes |= {letter: size or 1 for letter, size in zip(letters, operand.shape, strict=True)}
    depth = math.prod(size for letter, size in sizes.items() if letter not in taken)
    if len(inputs) == 1:
        return _with_weights(builder, step, inputs, depth)
    rows, columns = (
        math.prod(sizes[one] for one in taken if one in mine and one not in other)
        for mine, other in ((first, second), (second, first))
    )
    return _paired(builder, step, inputs, (rows, columns), depth)


def dot(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """The layer Dot: products of vectors along an axis of two images."""
    axes = step.operation.axes
    axis = axes if isinstance(axes, int) else axes[0]
    depth = int(step.inputs[0].shape[axis])
    rows = builder.shape(inputs[0]).elements // depth
    whole = shape_of(step, step.outputs[0]).elements
    if whole % rows:
        return None
    return _paired(builder, step, inputs, (rows, whole // rows), depth)


def attention(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """`keras.ops.dot_product_attention`: (batch, places, heads, channels) of queries, keys and values."""
    (places, heads, channels), (others, *_) = sides(step.inputs[0]), sides(step.inputs[1])
    scores = Shape(heads * step.fold, places, others)
    position = builder.add_operator(Kind.PRODUCT, inputs[:2], shape=scores, depth=channels)
    position = builder.activation(position, "softmax")
    after = Shape(heads * step.fold, places, channels)
    position = builder.add_operator(Kind.PRODUCT, [position, inputs[2]], shape=after, depth=others)
    return _shaped(builder, step, position)


def recurrent(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """LSTM, GRU and SimpleRNN, their cells in RNN, ConvLSTM, and Bidirectional of any of them."""
    if step.fold > 1:
        return None
    if step.kind != "Bidirectional":
        return _ending(builder, step, _rows(builder, step.operation, step, inputs[0]), step.operation)
    layer = step.operation
    both = [_rows(builder, one, step, inputs[0]) for one in (layer.forward_layer, layer.backward_layer)]
    if None in both or layer.merge_mode is None:
        return None
    found = [position for position in both if position is not None]
    position = builder.concat(*found) if layer.merge_mode == "concat" else builder.add(*found)
    return _ending(builder, step, position, layer.forward_layer)


def _ending(builder: GraphBuilder, step: Step, position: int | None, layer: Any) -> int | None:
    if position is None or layer.return_sequences:
        return position
    return _rearranged(builder, step, position)


def _rows(builder: GraphBuilder, layer: Any, step: Step, position: int) -> int | None:
    """All values of a recurrent layer, one row after another."""
    cells = getattr(layer.cell, "cells", None) or [layer.cell]
    rounds = sides(step.inputs[0])[0]
    for cell in cells:
        gates = _GATES.get(type(cell).__name__.removesuffix("Cell").replace("Conv", ""))
        if gates is None or getattr(layer, "stateful", False):
            return None
        if type(cell).__name__.startswith("Conv"):
            position = _convolved(builder, cell, step, position, rounds)
            continue
        units, given = cell.units, builder.shape(position).channels
        state = Shape(1, rounds, units)
        position = builder.dense(position, gates * units, bias=cell.use_bias)
        rest = elements(cell.weights) - gates * units * (given + bool(cell.use_bias))
        position = builder.add_operator(
            Kind.PRODUCT, position, shape=state, depth=gates * units, parameters=rest, steps=rounds
        )
    return position


def _convolved(builder: GraphBuilder, cell: Any, step: Step, position: int, rounds: int) -> int:
    """The values of a cell of ConvLSTM: of all places, one row after another."""
    rank = len(sides(step.inputs[0])) - 2
    output = sides(step.outputs[0])
    places = rounds * math.prod(output[-rank - 1 : -1])
    gates, kernel = 4 * cell.filters, math.prod(cell.kernel_size)
    given = builder.shape(position).channels
    first = kernel * given * gates + gates * bool(cell.use_bias)
    position = builder.add_operator(
        Kind.PRODUCT, position, shape=Shape(1, places, gates), depth=kernel * given, parameters=first
    )
    return builder.add_operator(
        Kind.PRODUCT,
        position,
        shape=Shape(1, places, cell.filters),
        depth=kernel * gates,
        parameters=elements(cell.weights) - first,
        steps=rounds,
    )


def _with_weights(builder: GraphBuilder, step: Step, inputs: list[int], depth: int) -> int:
    """The step as a product with all its weights, of so many terms a sum."""
    weights = step.weights
    fixed = elements([weight for weight in weights if not getattr(weight, "trainable", True)])
    return builder.add_operator(
        Kind.PRODUCT,
        inputs,
        shape=shape_of(step, step.outputs[0]),
        depth=depth,
        parameters=elements(weights) - fixed,
        statistics=fixed,
    )


def _paired(builder: GraphBuilder, step: Step, inputs: list[int], sizes: tuple[int, int], depth: int) -> int | None:
    rows, columns = sizes
    whole = shape_of(step, step.outputs[0]).elements
    if whole % (rows * columns):
        return None
    shape = Shape(whole // (rows * columns), rows, columns)
    return _shaped(builder, step, builder.add_operator(Kind.PRODUCT, inputs[:2], shape=shape, depth=depth))


def _shaped(builder: GraphBuilder, step: Step, position: int) -> int:
    """The values there in the shape of the step's output."""
    shape = shape_of(step, step.outputs[0])
    return position if builder.shape(position) == shape else builder.add_operator(Kind.FLATTEN, position, shape=shape)


def _rearranged(builder: GraphBuilder, step: Step, position: int) -> int:
    shape = shape_of(step, step.outputs[0])
    return builder.add_operator(Kind.REARRANGE, position, shape=shape, function=step.kind)
