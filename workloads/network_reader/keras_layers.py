"""One layer or operation of Keras as operators of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainplan.workloads.graph import Graph, GraphError, Kind, Shape
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.keras_products import (
    attention,
    bare_convolution,
    convolution,
    dense,
    depthwise,
    dot,
    einsum,
    einsum_dense,
    elements,
    matmul,
    recurrent,
    transposed,
    window_of,
)
from trainplan.workloads.network_reader.keras_shapes import RESHAPES, Written, fold_of, shape_of

if TYPE_CHECKING:
    from trainplan.workloads.graph_builder import GraphBuilder
    from trainplan.workloads.network_reader.keras_trace import Step

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
_ELEMENT_OPS = frozenset(
    [
        *("Absolute", "Celu", "Clip", "Cos", "Erf", "Exp", "Expm1", "HardShrink", "HardTanh", "Log", "Log1p"),
        *("LogicalNot", "LogSigmoid", "LogSoftmax", "Negative", "NanToNum", "Normalize", "Power", "Reciprocal"),
        *("Round", "Floor", "Rsqrt", "SaturateCast", "Sign", "Sin", "SoftShrink", "SparsePlus", "SparseSigmoid"),
        *("Sqrt", "Square", "Squareplus", "TanhShrink", "Threshold", "Tril", "Triu", "UnitNormalization"),
    ]
)
_ADDS = frozenset(
    [
        *("Add", "Subtract", "Average", "Maximum", "Minimum", "Where", "LogicalAnd", "LogicalOr"),
        "CustomScaleLayer",  # of InceptionResNetV2 in keras.applications: one input, and another times a fixed number
        *("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual"),
    ]
)
_MULTIPLIES = frozenset({"Multiply", "Divide", "TrueDivide", "DivideNoNan", "FloorDivide", "Mod"})
_DROPOUTS = frozenset(
    [
        "Dropout",
        "SpatialDropout1D",
        "SpatialDropout2D",
        "SpatialDropout3D",
        "GaussianDropout",
        "AlphaDropout",
        "GaussianNoise",
        "StochasticDepth",
    ]
)
_PASSED = frozenset({"ConvertToTensor", "Identity", "ActivityRegularization", "Masking", "Cast", "StopGradient"})
_REARRANGED = frozenset(
    [
        *("ArraySplit", "BroadcastTo", "Concatenate", "Crop", "CropImages", "Cropping1D", "Cropping3D", "DepthToSpace"),
        *("Embedding", "ExtractPatches", "Flip", "Fliplr", "Flipud", "GetItem", "Glu", "Hsplit", "Hstack", "Moveaxis"),
        *("Pad", "PadImages", "Permute", "Repeat", "RepeatVector", "Resize", "Resizing", "Roll", "Rot90", "Slice"),
        *("SpaceToDepth", "Split", "Stack", "Swapaxes", "Take", "TakeAlongAxis", "Tile", "Transpose", "Unfold"),
        *("Unstack", "UpSampling1D", "UpSampling3D", "Vsplit", "Vstack", "ZeroPadding1D", "ZeroPadding3D"),
        *("OnesLike", "ZerosLike"),
    ]
)
_REDUCED = frozenset(
    [
        *("Amax", "Amin", "Argmax", "Argmin", "Average", "Logsumexp", "Max", "Mean", "Median", "Min", "Moments"),
        *("Norm", "Prod", "Quantile", "Std", "Sum", "Var", "CountNonzero"),
        *("AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D"),
        *("GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D"),
        *("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "AveragePool", "MaxPool"),
        *("AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D"),
        *("AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D"),
    ]
)

Adds = Callable[["GraphBuilder", "Step", "list[int]"], "int | None"]
"""Adds the operators of a step to the builder; None where the step does something that no operator here does."""


def add_operation(builder: GraphBuilder, step: Step, written: Written) -> None:
    """Add the operators of one step, and note where its outputs are and which weights it has: a layer that is applied
    again has none of its own. What no operator here does, or has weights of which none is known, is added as unknown,
    with its weights, its bytes and the products that it takes at least. Raises UnreadableError, GraphError.
    """
    step = replace(step, fold=fold_of(step, written))
    inputs = [written.positions[id(tensor)] for tensor in step.inputs]
    before = len(builder.operators)
    weights = step.weights
    builder.freeze(frozen=bool(weights) and not _trainable(step.operation))
    position = _known(builder, step, inputs)
    shape = shape_of(step, step.outputs[0])
    if position is None or _count(builder, before) != elements(weights) or builder.shape(position) != shape:
        del builder.operators[before:]
        position = _unknown(builder, step, inputs)
    is_shared = bool(weights) and all(id(weight) in written.counted for weight in weights)
    written.counted.update(id(weight) for weight in weights)
    written.positions[id(step.outputs[0])] = position
    is_known = builder.operators[position].kind is not Kind.UNKNOWN
    for tensor in step.outputs[1:]:
        kind = Kind.REARRANGE if is_known else Kind.UNKNOWN
        shape = shape_of(step, tensor)
        written.positions[id(tensor)] = builder.add_operator(kind, position, shape=shape, function=step.kind)
    written.folds |= dict.fromkeys(map(id, step.outputs), step.fold)
    # By the layer's own name, which the person knows.
    added = [replace(one, name=step.name, shared=is_shared) for one in builder.operators[before:]]
    builder.operators[before:] = added


def _known(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    if not inputs or (len(step.outputs) != 1 and step.kind not in _SEVERAL_OUTPUTS):
        return None
    if getattr(step.operation, "data_format", None) == "channels_first":
        raise UnreadableError(f"{step.name} is channels-first", "leave data_format out: images are channels-last")
    add = _LAYERS.get(step.kind)
    for one in (add, _of_a_group(step)):
        if one is None:
            continue
        before = len(builder.operators)
        try:
            position = one(builder, step, inputs)
        except (GraphError, AttributeError, LookupError, TypeError, ValueError):
            position = None  # a use of the layer that was not foreseen
        if position is not None:
            return position
        del builder.operators[before:]
    return None


def _of_a_group(step: Step) -> Adds | None:
    groups: list[tuple[frozenset[str], Adds]] = [
        (_PASSED, lambda _, __, inputs: inputs[0]),
        (RESHAPES, _reshape),
        (_DROPOUTS, _dropout),
        (_ADDS, _add),
        (_MULTIPLIES, _multiply),
        (_ACTIVATION_OPS, lambda builder, step, inputs: builder.activation(inputs[0], _snake(step.kind))),
        (_ELEMENT_OPS, lambda builder, step, inputs: builder.activation(inputs[0], _snake(step.kind))),
        (_REARRANGED, _moved(Kind.REARRANGE)),
        (_REDUCED, _moved(Kind.REDUCE)),
    ]
    return next((add for names, add in groups if step.kind in names), None)


def _unknown(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    weights = step.weights
    trained = [weight for weight in weights if _is_trained(weight)] if _trainable(step.operation) else weights
    parameters = elements(trained)
    shape = shape_of(step, step.outputs[0])
    return builder.add_operator(
        Kind.UNKNOWN,
        inputs or [builder.image],
        shape=shape,
        function=step.kind,
        parameters=parameters,
        statistics=elements(weights) - parameters,
        depth=_least_products(builder, weights, inputs, shape) // shape.elements,
    )


def _least_products(builder: GraphBuilder, weights: list[Any], inputs: list[int], after: Shape) -> int:
    """Products that the weights of an unknown layer take at least: those that look like matrices from its channels or
    to them, once at each place."""
    if not inputs:
        return 0
    before = builder.shape(inputs[0])
    places = min(before.height * before.width, after.height * after.width)
    matrices = [
        math.prod(weight.shape)
        for weight in weights
        if len(weight.shape) > 1 and (weight.shape[-2] == before.channels or weight.shape[-1] == after.channels)
        if math.prod(weight.shape) not in (before.elements, after.elements)  # added or multiplied, value by value
    ]
    return places * int(sum(matrices))


def _layer(add: Adds) -> Adds:
    """The same with the layer's own activation behind it."""

    def activated(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
        position = add(builder, step, inputs)
        return None if position is None else _activated(builder, step.operation, position)

    return activated


def _moved(kind: Kind) -> Adds:
    """What rearranges values, or reduces them to fewer; its weights are those of an embedding."""

    def add(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
        shape = shape_of(step, step.outputs[0])
        parameters = elements(step.weights)
        return builder.add_operator(kind, inputs, shape=shape, function=step.kind, parameters=parameters)

    return add


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
        if step.kind == "RMSNormalization":
            return builder.add_operator(kind, inputs[0], bias=False, epsilon=float(layer.epsilon))
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
    def add(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
        layer = step.operation
        if step.fold > 1:
            return None
        return builder.pool(inputs[0], window_of(layer, layer.pool_size), average=average)

    return add


def _global_pool(*, average: bool) -> Adds:
    return lambda builder, step, inputs: builder.global_pool(inputs[0], average=average) if step.fold == 1 else None


def _mean(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """`keras.ops.mean` over both sides of the image."""
    axes = step.operation.axis if isinstance(step.operation.axis, (list, tuple)) else [step.operation.axis]
    rank = len(step.inputs[0].shape)
    if rank != 4 or step.fold > 1 or None in axes or sorted(axis % rank for axis in axes) != [1, 2]:
        return None
    return builder.global_pool(inputs[0], average=step.kind == "Mean")


def _add(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    return builder.add(*inputs) if len(inputs) > 1 else _scaled(builder, step, inputs)


def _multiply(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    return builder.multiply(*inputs) if len(inputs) > 1 else _scaled(builder, step, inputs)


def _scaled(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    """Values with numbers that are learned or fixed, added or multiplied one by one."""
    if builder.shape(inputs[0]) != shape_of(step, step.outputs[0]):
        return _moved(Kind.REARRANGE)(builder, step, inputs)
    learned = elements([weight for weight in step.weights if _is_trained(weight)])
    fixed = elements(step.weights) - learned
    kind = Kind.SCALE if learned else Kind.FIXED_SCALE
    return builder.add_operator(kind, inputs, parameters=learned, statistics=fixed)


def _concat(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    rank = len(step.outputs[0].shape)
    is_whole = len(inputs) > 1 and step.operation.axis % rank == rank - 1
    return builder.concat(*inputs) if is_whole else None


def _pad(builder: GraphBuilder, step: Step, inputs: list[int]) -> int | None:
    (top, bottom), (left, right) = step.operation.padding
    if step.fold > 1:
        return _moved(Kind.REARRANGE)(builder, step, inputs)
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
    return builder.add_operator(Kind.FLATTEN, inputs[0], shape=shape_of(step, step.outputs[0]))


def _dropout(builder: GraphBuilder, step: Step, inputs: list[int]) -> int:
    rate = next(
        (getattr(step.operation, name) for name in ("rate", "drop_path_rate") if hasattr(step.operation, name)), 0
    )
    return builder.dropout(inputs[0], min(float(rate), 0.999))


_RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Bidirectional")
_SEVERAL_OUTPUTS = frozenset({*_RECURRENT, "ArraySplit", "Hsplit", "Moments", "Split", "Unstack", "Vsplit"})
_LAYERS: dict[str, Adds] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _layer(convolution)),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D"), _layer(depthwise)),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), _layer(transposed)),
    "Conv": bare_convolution,
    "Dense": _layer(dense),
    "EinsumDense": _layer(einsum_dense),
    "Matmul": matmul,
    "Einsum": einsum,
    "Dot": dot,
    "DotProductAttention": attention,
    **dict.fromkeys(_RECURRENT, recurrent),
    "Activation": _activation,
    "ReLU": _relu,
    "LeakyReLU": _named_activation,
    "ELU": _named_activation,
    "Softmax": _softmax,
    "BatchNormalization": _norm(Kind.BATCH_NORM),
    "LayerNormalization": _norm(Kind.LAYER_NORM),
    "GroupNormalization": _norm(Kind.GROUP_NORM),
    "RMSNormalization": _norm(Kind.LAYER_NORM),
    "MaxPooling1D": _pool(average=False),
    "MaxPooling2D": _pool(average=False),
    "AveragePooling1D": _pool(average=True),
    "AveragePooling2D": _pool(average=True),
    "GlobalAveragePooling1D": _global_pool(average=True),
    "GlobalAveragePooling2D": _global_pool(average=True),
    "GlobalAveragePooling3D": _global_pool(average=True),
    "GlobalMaxPooling1D": _global_pool(average=False),
    "GlobalMaxPooling2D": _global_pool(average=False),
    "GlobalMaxPooling3D": _global_pool(average=False),
    "Mean": _mean,
    "Max": _mean,
    "Concatenate": _concat,
    "ZeroPadding2D": _pad,
    "Cropping2D": _crop,
    "UpSampling2D": _up_sampling,
    "LayerScale": _scaled,
    "PReLU": _scaled,
    "Beside": _scaled,
    "Rescaling": _scaled,
    "Normalization": _scaled,
}


def _trainable(operation: Any) -> bool:
    return bool(getattr(operation, "trainable", True))


def _is_trained(weight: Any) -> bool:
    return bool(getattr(weight, "trainable", True))


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
