"""One node of an ONNX graph as operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trainplan.workloads.graph import GraphError, Kind, Shape
from trainplan.workloads.graph_builder import Window
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.workloads.graph_builder import GraphBuilder

_ACTIVATIONS = {
    "Relu": "relu", "LeakyRelu": "leaky_relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish", "Elu": "elu", "Selu": "selu", "Gelu": "gelu", "Softplus": "softplus", "Mish": "mish",
    "Celu": "celu", "Softsign": "softsign",
}  # fmt: skip
_ELEMENTS = frozenset(
    {
        "Abs",
        "Ceil",
        "Cos",
        "Erf",
        "Exp",
        "Floor",
        "Log",
        "Neg",
        "Not",
        "Pow",
        "Reciprocal",
        "Round",
        "Sign",
        "Sin",
        "Sqrt",
    }
)
"""One value from one, at each place."""
_REARRANGED = frozenset(
    {
        "Concat", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Pad", "Resize", "Slice",
        "SpaceToDepth", "Split", "Tile", "Transpose", "Trilu", "Upsample",
    }
)  # fmt: skip
_REDUCED = frozenset(
    {
        "ArgMax", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReduceL1", "ReduceL2",
        "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
    }
)  # fmt: skip
_PASSED = frozenset({"Identity", "Cast"})
_RESHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
_OF_SHAPES = frozenset({"Shape", "Constant", "ConstantOfShape", "Range"})
"""Nodes that give numbers about the network, not values of an image."""
_CHANNELS_FIRST = [0, 3, 1, 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with its attributes in Python's values."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    domain: str = ""
    """Whose operator it is; "" for ONNX's own."""

    @staticmethod
    def of(onnx: Any, proto: Any) -> Node:
        """The node of ONNX's own kind; an attribute that is no number, text or list of them is left out."""
        kinds = (
            onnx.AttributeProto.FLOAT,
            onnx.AttributeProto.INT,
            onnx.AttributeProto.INTS,
            onnx.AttributeProto.STRING,
        )
        found = {one.name: onnx.helper.get_attribute_value(one) for one in proto.attribute if one.type in kinds}
        values = {
            key: value.decode(errors="replace") if isinstance(value, bytes) else value for key, value in found.items()
        }
        return Node(
            kind=str(proto.op_type),
            name=str(proto.name or next(iter(proto.output), proto.op_type)),
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=values,
            domain="" if proto.domain == "ai.onnx" else str(proto.domain),
        )


@dataclass(kw_only=True)
class Values:
    """What is known of each value by its name: its shape with the batch, the shape of a weight, the operator that gives
    it. `used` are the weights that an operator has."""

    onnx: Any
    shapes: dict[str, tuple[int, ...]]
    weights: dict[str, tuple[int, ...]]
    small: dict[str, Any]
    positions: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    is_channels_last: bool = False

    def numbers(self, name: str) -> list[float] | None:
        """A small constant's; None for what is none."""
        tensor = self.small.get(name)
        if tensor is None:
            return None
        return [float(number) for number in self.onnx.numpy_helper.to_array(tensor).reshape(-1)]

    def shape(self, node: Node, output: int = 0) -> Shape:
        """Of a node's output, for one image. What an image is cut into may lie along the batch's axis. Raises
        UnreadableError where it is not known."""
        sides = self.shapes.get(node.outputs[output])
        if sides is None or 0 in sides:
            domain = f"{node.domain}." if node.domain else ""
            raise UnreadableError(
                f"the size of what node {node.name} gives is not known beforehand: its operator is {domain}{node.kind}",
                "export the network with operators of ONNX itself, and its shapes written out; "
                f"{Option.MODEL} with a Keras "
                "file or a preset is estimated without ONNX",
            )
        if len(sides) == 4 and sides[0] == 1:
            return Shape(sides[2], sides[3], sides[1])
        return Shape(1, math.prod(sides[:-1]), sides[-1] if sides else 1)

    def trained(self, node: Node) -> list[str]:
        """The node's weights."""
        return [name for name in node.inputs if name in self.weights]


Adds = Callable[["GraphBuilder", Node, Values, "list[int]"], "int | None"]
"""Adds the operators of a node; None where the node does something that no operator here does."""


def add_node(builder: GraphBuilder, node: Node, values: Values) -> None:
    """Add the operators of one node, and note where its outputs are. What no operator here does is added as unknown,
    with its weights and bytes. Raises UnreadableError, GraphError.
    """
    inputs = [values.positions[name] for name in node.inputs if name in values.positions]
    if not inputs or node.kind in _OF_SHAPES or not node.outputs:
        _note_constant(node, values)
        return
    before = len(builder.operators)
    position = _known(builder, node, values, inputs)
    if position is None:
        del builder.operators[before:]
        parameters = sum(math.prod(values.weights[name]) for name in values.trained(node))
        position = builder.add_operator(
            Kind.UNKNOWN, inputs, shape=values.shape(node), function=node.kind, parameters=parameters
        )
    values.positions[node.outputs[0]] = position
    for number, name in enumerate(node.outputs[1:], 1):
        if values.shapes.get(name):
            values.positions[name] = builder.add_operator(
                Kind.REARRANGE, position, shape=values.shape(node, number), function=node.kind
            )
    weights = sorted(values.trained(node), key=lambda name: math.prod(values.weights[name]))
    is_shared = bool(weights) and weights[-1] in values.used
    values.used.update(weights)
    added = [replace(one, name=node.name, shared=is_shared) for one in builder.operators[before:]]
    builder.operators[before:] = added


def _note_constant(node: Node, values: Values) -> None:
    if node.kind == "Constant" and node.outputs:
        shape = values.shapes.get(node.outputs[0], ())
        values.weights[node.outputs[0]] = shape


def _known(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    """The operator that gives the node's first output; None where none here does what it does."""
    before = len(builder.operators)
    for add in (_NODES.get(node.kind), _of_a_group(node)):
        if add is None:
            continue
        with suppress(GraphError):  # a rounding of sizes, say, that operators here do not have
            position = add(builder, node, values, inputs)
            if position is not None and builder.shape(position) == values.shape(node):
                return position
        del builder.operators[before:]
    return None


def _of_a_group(node: Node) -> Adds | None:
    if node.kind in _ACTIVATIONS:
        return lambda builder, _, __, inputs: builder.activation(inputs[0], _ACTIVATIONS[node.kind])
    if node.kind in _ELEMENTS:
        return lambda builder, _, __, inputs: builder.activation(inputs[0], node.kind.lower())
    if node.kind in _PASSED:
        return lambda _, __, ___, inputs: inputs[0]
    kinds = {Kind.FLATTEN: _RESHAPES, Kind.REARRANGE: _REARRANGED, Kind.REDUCE: _REDUCED}
    kind = next((kind for kind, names in kinds.items() if node.kind in names), None)
    return None if kind is None else _moved(kind)


def _moved(kind: Kind) -> Adds:
    def add(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int:
        given = inputs[:1] if kind is Kind.FLATTEN else inputs
        return builder.add_operator(kind, given, shape=values.shape(node), function=node.kind)

    return add


def _pair(node: Node, name: str) -> tuple[int, int]:
    first, second = node.attributes.get(name) or (1, 1)
    return int(first), int(second)


def _border(node: Node) -> Any:
    """The border of a window: ONNX has (top, left, bottom, right)."""
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto == "SAME_UPPER":
        return "same"
    if auto != "NOTSET":
        return "valid" if auto == "VALID" else None
    pads = node.attributes.get("pads") or (0, 0, 0, 0)
    if len(pads) != 4:
        return None
    top, left, bottom, right = pads
    return int(top), int(bottom), int(left), int(right)


def _convolution(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    weight, border = values.weights.get(node.inputs[1], ()), _border(node)
    groups, bias = int(node.attributes.get("group", 1)), len(node.inputs) > 2
    before = values.shapes.get(node.inputs[0], ())
    is_image = len(weight) == 4 and len(before) == 4 and before[0] == 1 and border is not None
    has_more = groups != 1 or any(node.attributes.get("output_padding", ()))
    if not is_image or (node.kind != "Conv" and has_more):
        return _other_convolution(builder, node, values, inputs)
    window = Window((weight[2], weight[3]), _pair(node, "strides"), border, _pair(node, "dilations"))
    if node.kind == "Conv":
        return builder.convolution(inputs[0], weight[0], window, groups=groups, bias=bias)
    return builder.transposed_convolution(inputs[0], weight[1], window, bias=bias)


def _other_convolution(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    """One of one or three directions, or a transposed one in groups: as a product."""
    weight, before = values.weights.get(node.inputs[1], ()), values.shapes.get(node.inputs[0], ())
    if not weight or not before:
        return None
    parameters = sum(math.prod(values.weights[name]) for name in values.trained(node))
    after = values.shape(node)
    if node.kind == "Conv":
        depth = math.prod(weight[1:])
        return builder.add_operator(Kind.PRODUCT, inputs, shape=after, depth=depth, parameters=parameters)
    groups = int(node.attributes.get("group", 1))
    taken = Shape(1, math.prod(before) // before[1], math.prod(weight[1:]) * groups)
    depth = before[1] // groups
    position = builder.add_operator(Kind.PRODUCT, inputs[:1], shape=taken, depth=depth, parameters=parameters)
    return builder.add_operator(Kind.REARRANGE, position, shape=after, function=node.kind)


def _dense(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    weight = values.weights.get(node.inputs[1], ())
    if len(inputs) == 2 and node.kind == "MatMul":
        return _paired(builder, node, values, inputs)
    if len(weight) != 2 or node.attributes.get("transA"):
        return None
    is_turned = node.kind == "Gemm" and node.attributes.get("transB")
    units, depth = (weight[0], weight[1]) if is_turned else (weight[1], weight[0])
    bias = node.kind == "Gemm" and len(node.inputs) > 2
    rows = _rows(builder, inputs[0], depth)
    return _shaped(builder, values.shape(node), builder.dense(rows, units, bias=bias))


def _paired(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    depth, sides = values.shapes.get(node.inputs[0], ())[-1:], values.shapes.get(node.outputs[0], ())
    if not depth or len(sides) < 2:
        return None
    shape = Shape(math.prod(sides[:-2]), sides[-2], sides[-1])
    position = builder.add_operator(Kind.PRODUCT, inputs, shape=shape, depth=depth[0])
    return _shaped(builder, values.shape(node), position)


def _recurrent(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    """LSTM, GRU and RNN: (rounds, batch, values) in, (rounds, directions, batch, units) out."""
    weight, state = (values.weights.get(name, ()) for name in node.inputs[1:3])
    before = values.shapes.get(node.inputs[0], ())
    if len(weight) != 3 or len(state) != 3 or len(before) != 3 or not node.outputs[0]:
        return None
    directions, gates, _ = weight
    rounds, units = before[1 if node.attributes.get("layout") else 0], state[2]
    after = Shape(1, before[0] * before[1], directions * units)
    rows = _rows(builder, inputs[0], before[2])
    position = builder.dense(rows, directions * gates, bias=False)
    rest = [math.prod(values.weights[name]) for name in values.trained(node)[1:]]
    position = builder.add_operator(
        Kind.PRODUCT, position, shape=after, depth=gates, parameters=sum(rest),
        steps=directions * rounds,
    )  # fmt: skip
    return _shaped(builder, values.shape(node), position)


def _rows(builder: GraphBuilder, position: int, channels: int) -> int:
    """The values there as rows of so many."""
    before = builder.shape(position)
    if before.channels == channels:
        return position
    return _shaped(builder, Shape(1, before.elements // channels, channels), position)


def _shaped(builder: GraphBuilder, shape: Shape, position: int) -> int:
    return position if builder.shape(position) == shape else builder.add_operator(Kind.FLATTEN, position, shape=shape)


def _norm(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    if node.kind == "BatchNormalization":
        return builder.batch_norm(inputs[0], epsilon=epsilon)
    if node.kind in ("InstanceNormalization", "GroupNormalization"):
        groups = int(node.attributes.get("num_groups", builder.shape(inputs[0]).channels))
        return builder.add_operator(Kind.GROUP_NORM, inputs[0], bias=True, groups=groups, epsilon=epsilon)
    weight = values.weights.get(node.inputs[1], ())
    if len(weight) != 1:
        return None
    rows = _rows(builder, inputs[0], weight[0])
    position = builder.add_operator(Kind.LAYER_NORM, rows, bias=len(node.inputs) > 2, epsilon=epsilon)
    return _shaped(builder, values.shape(node), position)


def _pool(builder: GraphBuilder, node: Node, _: Values, inputs: list[int]) -> int | None:
    border = _border(node)
    if border is None:
        return None
    window = Window(_pair(node, "kernel_shape"), _pair(node, "strides"), border, _pair(node, "dilations"))
    return builder.pool(inputs[0], window, average=node.kind == "AveragePool")


def _global_pool(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    if node.kind.startswith("Reduce"):
        axes = node.attributes.get("axes") or (values.numbers(node.inputs[1]) if len(node.inputs) > 1 else None)
        if sorted(int(axis) % 4 for axis in axes or ()) != [2, 3]:
            return None
    return builder.global_pool(inputs[0], average=node.kind in ("GlobalAveragePool", "ReduceMean"))


def _arithmetic(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    is_sum = node.kind in ("Add", "Sub", "Sum")
    if len(inputs) > 1:
        return builder.add(*inputs) if is_sum else builder.multiply(*inputs)
    weights = [values.weights[name] for name in node.inputs if name in values.weights]
    elements = math.prod(weights[0]) if weights else 1
    if elements == 1:
        return builder.add_operator(Kind.FIXED_SCALE, inputs)
    before = builder.operators[inputs[0]]
    if (
        is_sum
        and elements == before.shape.channels
        and before.kind in (Kind.DENSE, Kind.CONVOLUTION)
        and not before.bias
        and inputs[0] == len(builder.operators) - 1
    ):
        builder.operators[inputs[0]] = replace(before, bias=True)
        return inputs[0]
    return builder.add_operator(Kind.SCALE, inputs, parameters=elements)


def _concat(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    rank = len(values.shapes.get(node.outputs[0], ()))
    channels = 1 if rank == 4 else rank - 1
    if len(inputs) != len(node.inputs) or int(node.attributes.get("axis", 0)) % max(rank, 1) != channels:
        return None
    return builder.concat(*inputs)


def _clip(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    low, high = (
        [node.attributes.get(name, limit)] if len(node.inputs) <= at else values.numbers(node.inputs[at])
        for at, name, limit in ((1, "min", -math.inf), (2, "max", math.inf))
    )
    if low != [0.0]:
        return None
    return builder.activation(inputs[0], "relu6" if high and math.isfinite(high[0]) else "relu")


def _softmax(builder: GraphBuilder, _: Node, __: Values, inputs: list[int]) -> int:
    return builder.activation(inputs[0], "softmax")


def _dropout(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int:
    ratio = node.attributes.get("ratio")
    if ratio is None:
        ratio = (values.numbers(node.inputs[1]) or [0.5])[0] if len(node.inputs) > 1 else 0.5
    return builder.dropout(inputs[0], min(max(float(ratio), 0.0), 0.999))


def _pad(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    pads = node.attributes.get("pads") or (values.numbers(node.inputs[1]) if len(node.inputs) > 1 else None)
    if pads is None or len(pads) != 8 or any(pads[at] for at in (0, 1, 4, 5)):
        return None
    return builder.pad(inputs[0], (int(pads[2]), int(pads[6]), int(pads[3]), int(pads[7])))


def _resize(builder: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    before, after = builder.shape(inputs[0]), values.shape(node)
    if after.height % before.height or after.width % before.width:
        return None
    factors = (after.height // before.height, after.width // before.width)
    how = "bilinear" if node.attributes.get("mode") == "linear" else "nearest"
    return builder.add_operator(Kind.UP_SAMPLING, inputs[0], stride=factors, function=how)


def _transpose(_: GraphBuilder, node: Node, values: Values, inputs: list[int]) -> int | None:
    """An image that comes with its channels last is turned once, at the beginning."""
    is_turned = values.is_channels_last and inputs[0] == 0 and list(node.attributes.get("perm", ())) == _CHANNELS_FIRST
    return inputs[0] if is_turned else None


def _choice(builder: GraphBuilder, _: Node, __: Values, inputs: list[int]) -> int:
    """One of two values at each place."""
    return builder.add(*inputs) if len(inputs) > 1 else builder.add_operator(Kind.FIXED_SCALE, inputs)


_NODES: dict[str, Adds] = {
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "Gemm": _dense,
    "MatMul": _dense,
    "BatchNormalization": _norm,
    "LayerNormalization": _norm,
    "InstanceNormalization": _norm,
    "GroupNormalization": _norm,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "ReduceMean": _global_pool,
    "ReduceMax": _global_pool,
    **dict.fromkeys(("Add", "Sub", "Sum", "Mul", "Div"), _arithmetic),
    **dict.fromkeys(("And", "Equal", "Greater", "Less", "Max", "Min", "Mod", "Or", "Where"), _choice),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "PRelu": _arithmetic,
    "Concat": _concat,
    "Clip": _clip,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Dropout": _dropout,
    "Pad": _pad,
    "Resize": _resize,
    "Upsample": _resize,
    "Transpose": _transpose,
}
