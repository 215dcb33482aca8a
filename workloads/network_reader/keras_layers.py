"""One layer or operation of Keras as operators of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainplan.workloads.graph import Graph, Kind, Shape
from trainplan.workloads.graph_builder import Window
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.keras_trace import Step, weights_of

if TYPE_CHECKING:
    from trainplan.workloads.graph_builder import GraphBuilder

_ACTIVATIONS = {"silu": "swish", "hard_silu": "hard_swish", "relu": "relu"}
"""Names of Keras for what this project's graphs call otherwise."""
_ACTIVATION_OPS = frozenset(
    [
        "Relu",
        "Relu6",
        "Sigmoid",
        "Silu",
        "HardSilu",
        "HardSigmoid",
        "Tanh",
        "Gelu",
        "Elu",
        "Selu",
        "LeakyRelu",
        "Softplus",
        "Softsign",
        "Mish",
    ]
)
_ADDS = frozenset({"Add", "Subtract", "Average", "Maximum", "Minimum"})
_MULTIPLIES = frozenset({"Multiply", "Divide", "TrueDivide"})
_DROPOUTS = frozenset(
    [
        "Dropout",
        "SpatialDropout1D",
        "SpatialDropout2D",
        "GaussianDropout",
        "AlphaDropout",
        "GaussianNoise",
        "StochasticDepth",
    ]
)
_PASSED = frozenset({"ConvertToTensor", "Identity", "ActivityRegularization", "Masking", "Cast", "StopGradient"})
_RESHAPES = frozenset({"Flatten", "Reshape", "ExpandDims", "Squeeze"})

Adds = Callable[["GraphBuilder", Step, "list[int]"], "int | None"]
"""Adds the operators of a step to the builder; None where the step does something that no operator here does."""


def add_operation(builder: GraphBuilder, step: Step, positions: dict[int, int], counted: set[int]) -> None:
    """Add the operators of one step, and note in `positions` where its outputs are, in `counted` its weights: a layer
    that is applied again has none of its own. What no operator here does, or has weights of which none is known, is
    added as unknown, with its weights and bytes. Raises UnreadableError, GraphError.
    """
    inputs = [positions[id(tensor)] for tensor in step.inputs]
    before = len(builder.operators)
    weights = weights_of(step.operation)
    builder.freeze(frozen=bool(weights) and not _trainable(step.operation))
    position = _known(builder, step, inputs)
    if position is None or _count(builder, before) != _elements(weights):
        del builder.operators[before:]
        position = _unknown(builder, step, inputs, step.outputs[0])
    elif tuple(builder.shape(position)) != tuple(_shape(step, step.outputs[0])):
        raise UnreadableError(f"{step.name} ({step.kind}) gives {step.outputs[0].shape}, which was not foreseen")
    is_shared = bool(weights) and all(id(weight) in counted for weight in weights)
    counted.update(id(weight) for weight in weights)
    # By the layer's own name, which the person knows.
    added = [replace(one, name=step.name, shared=is_shared) for one in builder.operators[before:]]
    builder.operators[before:] = added
    positions[id(step.outputs[0])] = position
    for tensor in step.outputs[1:]:
        positions[id(tensor)] = builder.add_operator(
            Kind.UNKNOWN, position, shape=_shape(step, tensor), name=step.name, function=step.kind
        )


def _known(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    if len(step.outputs) != 1 or not inputs:
        return None
    if getattr(step.operation, "data_format", None) == "channels_first":
        raise UnreadableError(f"{step.name} is channels-first", "leave data_format out: images are channels-last")
    add = _LAYERS.get(step.kind) or _of_a_group(step)
    return None if add is None else add(builder, step, inputs)


def _of_a_group(step: Step) -> Adds | None:
    groups: list[tuple[frozenset[str], Adds]] = [
        (_PASSED, lambda _, __, inputs: inputs[0]),
        (_RESHAPES, _reshape),
        (_DROPOUTS, _dropout),
        (_ADDS, _add),
        (_MULTIPLIES, _multiply),
        (_ACTIVATION_OPS, lambda builder, step, inputs: builder.activation(inputs[0], _snake(step.kind))),
    ]
    return next((add for names, add in groups if step.kind in names), None)


def _unknown(builder: GraphBuilder, step: Step, inputs: list[int], tensor: Any) -> int:
    trained = list(getattr(step.operation, "trainable_variables", ()))
    weights = weights_of(step.operation)
    parameters = _elements(trained if _trainable(step.operation) else weights)
    return builder.add_operator(
        Kind.UNKNOWN,
        inputs or [builder.image],
        shape=_shape(step, tensor),
        name=step.name,
        function=step.kind,
        parameters=parameters,
        statistics=_elements(weights) - parameters,
    )


def _convolution(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    layer = step.operation
    if layer.rank != 2:
        return None
    position = builder.convolution(
        inputs[0],
        layer.filters,
        _window(layer, layer.kernel_size),
        groups=layer.groups,
        bias=layer.use_bias,
    )
    return _activated(builder, layer, position)


def _depthwise(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    layer = step.operation
    channels = builder.shape(inputs[0]).channels
    position = builder.convolution(
        inputs[0],
        channels * layer.depth_multiplier,
        _window(layer, layer.kernel_size),
        groups=channels,
        bias=layer.use_bias if step.kind == "DepthwiseConv2D" else False,
    )
    if step.kind == "SeparableConv2D":
        position = builder.convolution(position, layer.filters, 1, bias=layer.use_bias)
    return _activated(builder, layer, position)


def _transposed(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    layer = step.operation
    if layer.output_padding is not None:
        return None
    position = builder.transposed_convolution(
        inputs[0],
        layer.filters,
        _window(layer, layer.kernel_size),
        bias=layer.use_bias,
    )
    return _activated(builder, layer, position)


def _window(layer: Any, kernel: Any) -> Window:
    return Window(tuple(kernel), tuple(layer.strides), layer.padding, tuple(getattr(layer, "dilation_rate", (1, 1))))


def _dense(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    layer = step.operation
    return _activated(builder, layer, builder.dense(inputs[0], layer.units, bias=layer.use_bias))


def _activated(builder: GraphBuilder, layer: Any, position: int) -> int:
    name = _function(getattr(layer, "activation", None))
    return position if name == "linear" else builder.activation(position, name)


def _function(function: Any) -> str:
    """The name of an activation: that of a function of Keras, or of a layer that is called as one."""
    if function is None:
        return "linear"
    name = getattr(function, "__name__", None) or _snake(type(function).__name__)
    return _ACTIVATIONS.get(name, name)


def _snake(name: str) -> str:
    text = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return _ACTIVATIONS.get(text, text)


def _activation(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    return _activated(builder, step.operation, inputs[0])


def _relu(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    layer = step.operation
    name = "relu6" if layer.max_value == 6 else "leaky_relu" if layer.negative_slope else "relu"
    return builder.activation(inputs[0], name)


def _named_activation(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    return builder.activation(inputs[0], {"LeakyReLU": "leaky_relu", "ELU": "elu"}[step.kind])


def _softmax(builder: GraphBuilder, _: Step, inputs: list[int]) -> int:
    return builder.activation(inputs[0], "softmax")


def _norm(kind: Kind) -> Adds:
    def add(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
        layer = step.operation
        axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
        if [axis % len(step.inputs[0].shape) for axis in axes] != [len(step.inputs[0].shape) - 1]:
            return None
        groups = {"groups": layer.groups} if kind is Kind.GROUP_NORM else {}
        return builder.add_operator(
            kind,
            inputs[0],
            name=step.name,
            scale=layer.scale,
            bias=layer.center,
            epsilon=float(layer.epsilon),
            **groups,
        )

    return add


def _pool(*, average: bool) -> Adds:
    def add(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
        layer = step.operation
        return builder.pool(inputs[0], _window(layer, layer.pool_size), average=average)

    return add


def _global_pool(*, average: bool) -> Adds:
    return lambda builder, _, inputs: builder.global_pool(inputs[0], average=average)


def _mean(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """`keras.ops.mean` over both sides of the image."""
    axes = step.operation.axis if isinstance(step.operation.axis, (list, tuple)) else [step.operation.axis]
    rank = len(step.inputs[0].shape)
    if rank != 4 or None in axes or sorted(axis % rank for axis in axes) != [1, 2]:
        return None
    return builder.global_pool(inputs[0], average=step.kind == "Mean")


def _add(builder: GraphBuilder, _: Step, inputs: list[int]) -> int:
    return builder.add(*inputs) if len(inputs) > 1 else builder.add_operator(Kind.FIXED_SCALE, inputs)


def _multiply(builder: GraphBuilder, _: Step, inputs: list[int]) -> int:
    return builder.multiply(*inputs) if len(inputs) > 1 else builder.add_operator(Kind.FIXED_SCALE, inputs)


def _concat(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    rank = len(step.outputs[0].shape)
    return builder.concat(*inputs) if step.operation.axis % rank == rank - 1 else None


def _pad(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    (top, bottom), (left, right) = step.operation.padding
    return builder.pad(inputs[0], (top, bottom, left, right))


def _crop(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    (top, bottom), (left, right) = step.operation.cropping
    return builder.pad(inputs[0], (-top, -bottom, -left, -right))


def _up_sampling(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    layer = step.operation
    return builder.add_operator(
        Kind.UP_SAMPLING, inputs[0], stride=tuple(layer.size), function=str(layer.interpolation)
    )


def _reshape(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    return builder.add_operator(Kind.FLATTEN, inputs[0], shape=_shape(step, step.outputs[0]))


def _dropout(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    rate = next(
        (getattr(step.operation, name) for name in ("rate", "drop_path_rate") if hasattr(step.operation, name)), 0
    )
    return builder.dropout(inputs[0], min(float(rate), 0.999))


def _scale(builder: GraphBuilder, _: Step, inputs: list[int]) -> int:
    return builder.add_operator(Kind.SCALE, inputs[0])


def _fixed_scale(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    return builder.add_operator(Kind.FIXED_SCALE, inputs[0], statistics=_elements(weights_of(step.operation)))


_LAYERS: dict[str, Adds] = {
    "Conv2D": _convolution,
    "DepthwiseConv2D": _depthwise,
    "SeparableConv2D": _depthwise,
    "Conv2DTranspose": _transposed,
    "Dense": _dense,
    "Activation": _activation,
    "ReLU": _relu,
    "LeakyReLU": _named_activation,
    "ELU": _named_activation,
    "Softmax": _softmax,
    "BatchNormalization": _norm(Kind.BATCH_NORM),
    "LayerNormalization": _norm(Kind.LAYER_NORM),
    "GroupNormalization": _norm(Kind.GROUP_NORM),
    "MaxPooling2D": _pool(average=False),
    "AveragePooling2D": _pool(average=True),
    "GlobalAveragePooling2D": _global_pool(average=True),
    "GlobalMaxPooling2D": _global_pool(average=False),
    "Mean": _mean,
    "Max": _mean,
    "Concatenate": _concat,
    "ZeroPadding2D": _pad,
    "Cropping2D": _crop,
    "UpSampling2D": _up_sampling,
    "LayerScale": _scale,
    "Rescaling": _fixed_scale,
    "Normalization": _fixed_scale,
}


def _trainable(operation: Any) -> bool:
    return bool(getattr(operation, "trainable", True))


def _count(builder: GraphBuilder, before: int) -> int:
    """The weights of the operators that were added since."""
    added = builder.operators[before:]
    outside = list(dict.fromkeys(position for one in added for position in one.inputs if position < before))
    at = {position: number for number, position in enumerate(outside)}
    begin = [replace(builder.operators[0], shape=builder.shape(position)) for position in outside]
    moved = [
        replace(one, inputs=tuple(at[i] if i in at else i - before + len(outside) for i in one.inputs)) for one in added
    ]
    part = Graph(name="", operators=(*begin, *moved))
    return part.parameters + part.statistics


def _elements(weights: list[Any]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)


def _shape(step: Step, tensor: Any) -> Shape:
    """Of one image's part of a tensor. A row of vectors is an image of one pixel's height; what has more sides has them
    in its width."""
    sides = tuple(tensor.shape[1:])
    if None in sides:
        raise UnreadableError(f"{step.name} ({step.kind}) gives {tensor.shape}, whose size is not known beforehand")
    if len(sides) == 3:
        return Shape(*sides)
    return Shape(1, math.prod(sides[:-1]), sides[-1] if sides else 1)
