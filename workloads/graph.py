"""A network as a graph of operators, with exact figures of each: shapes, parameters, FLOPs, bytes, what is kept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple


class Kind(StrEnum):
    """What an operator does. Whatever is none of these is `unknown`."""

    INPUT = "input"
    """The images, or other values that come from outside."""
    CONVOLUTION = "convolution"
    """Depthwise where it has a group for each channel of its input."""
    TRANSPOSED_CONVOLUTION = "transposed_convolution"
    DENSE = "dense"
    """Over the channels, at each pixel on its own, as in Keras; `flatten` before it makes all values channels."""
    BATCH_NORM = "batch_norm"
    LAYER_NORM = "layer_norm"
    GROUP_NORM = "group_norm"
    ACTIVATION = "activation"
    """`function` says which."""
    SOFTMAX = "softmax"
    MAX_POOL = "max_pool"
    AVERAGE_POOL = "average_pool"
    GLOBAL_AVERAGE_POOL = "global_average_pool"
    GLOBAL_MAX_POOL = "global_max_pool"
    ADD = "add"
    """Of values of one shape, or where one has a side of 1 pixel, which counts for all."""
    MULTIPLY = "multiply"
    """The same."""
    SCALE = "scale"
    """By a learned factor for each channel, or `parameters` learned numbers that are multiplied or added."""
    FIXED_SCALE = "fixed_scale"
    """By figures that training does not change, such as those that bring pixels into a range."""
    CONCAT = "concat"
    """Of channels."""
    UP_SAMPLING = "up_sampling"
    """Each pixel `stride` times; `function` is nearest or bilinear."""
    PADDING = "padding"
    """With zeros; cropping where it is negative."""
    FLATTEN = "flatten"
    """The same values in another shape."""
    DROPOUT = "dropout"
    """Of single values; of whole images where `function` is image."""
    PRODUCT = "product"
    """Sums of `depth` products: an image times `parameters` weights where no other kind fits, else two matrices of
    one image times each other, of which there are `height`, each of `width` x `channels` values."""
    REARRANGE = "rearrange"
    """The same values or some of them in another order, as of a transposition or a slice; `function` says which."""
    REDUCE = "reduce"
    """Sums, means or extremes over some of the axes; `function` says which."""
    UNKNOWN = "unknown"
    """`function` is its name elsewhere; it is counted by its bytes, and by sums of `depth` products that it takes at
    least."""


MATRIX_KINDS = frozenset({Kind.CONVOLUTION, Kind.TRANSPOSED_CONVOLUTION, Kind.DENSE})
NORM_KINDS = frozenset({Kind.BATCH_NORM, Kind.LAYER_NORM, Kind.GROUP_NORM})
WINDOW_POOLS = frozenset({Kind.MAX_POOL, Kind.AVERAGE_POOL})
GLOBAL_POOLS = frozenset({Kind.GLOBAL_AVERAGE_POOL, Kind.GLOBAL_MAX_POOL})
BROADCASTS = frozenset({Kind.ADD, Kind.MULTIPLY})

Pair = tuple[int, int]
Padding = tuple[int, int, int, int]


class Shape(NamedTuple):
    """Of the values of one image, in pixels and channels. A row of numbers is 1 x 1 pixels."""

    height: int
    width: int
    channels: int

    @property
    def elements(self) -> int:
        """How many values there are."""
        return self.height * self.width * self.channels


class GraphError(ValueError):
    """The operators are no network: says which operator, and why."""


class ImageTooSmallError(GraphError):
    """The image shrinks to nothing on the way; says at which operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of a graph.

    `inputs` are the places of earlier operators in the graph, `shape` is that of the output. `kernel`, `stride` and
    `dilation` are (height, width) in pixels, `padding` (top, bottom, left, right): what is put around the input of a
    convolution or pool, or taken off the output of a transposed one. `groups` are those of a convolution or of group
    norm. A matrix operator or a norm adds a `bias`; a norm multiplies where it has a `scale`, and has an `epsilon`.
    `rate` is the share that dropout drops. `parameters` and `statistics` are those of an unknown operator, a product or
    a scale, or the figures of a fixed scale; other kinds have theirs by arithmetic. `depth` is the number of terms of
    each sum of a product; `steps` of one of a recurrent layer follow one another. The weights of a `frozen` operator
    are not trained, those of a `shared` one are an earlier operator's, and counted there.
    """

    name: str
    kind: Kind
    inputs: tuple[int, ...]
    shape: Shape
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    groups: int = 1
    bias: bool = False
    scale: bool = True
    function: str = ""
    rate: float = 0.0
    epsilon: float = 0.0
    parameters: int = 0
    statistics: int = 0
    depth: int = 0
    steps: int = 1
    frozen: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFigures:
    """Exact arithmetic of one operator for ONE image; one multiply-accumulate is two FLOPs.

    `parameters` are weights that training can change, in a frozen operator too; `statistics` (the moving ones of batch
    norm) are kept apart. `macs` are forward multiply-accumulates of the matrix work; `flops_forward` is twice that plus
    element-wise work, `flops_backward` the gradients by the input (where `passes_back`: something below is trained) and
    by the weights (where `is_trained`).
    """

    operator: Operator
    input_shapes: tuple[Shape, ...]
    parameters: int
    statistics: int
    macs: int
    flops_forward: int
    flops_backward: int
    is_trained: bool
    passes_back: bool

    @property
    def kind(self) -> Kind:
        """The operator's."""
        return self.operator.kind

    @property
    def input_elements(self) -> int:
        """Values of all inputs; 0 where nothing is read: a flatten is another view of the same values."""
        return 0 if self.kind is Kind.FLATTEN else sum(shape.elements for shape in self.input_shapes)

    @property
    def output_elements(self) -> int:
        """Values of the output; 0 for what writes none: a flatten, or the network's own input."""
        return 0 if self.kind in (Kind.FLATTEN, Kind.INPUT) else self.operator.shape.elements

    @property
    def is_depthwise(self) -> bool:
        """Whether it is a convolution of each channel on its own."""
        if self.kind is not Kind.CONVOLUTION:
            return False
        return self.operator.groups == self.input_shapes[0].channels > 1

    @property
    def is_paired(self) -> bool:
        """Whether it multiplies two matrices of an image, and no weights."""
        return self.kind is Kind.PRODUCT and not self.operator.parameters

    @property
    def has_backward(self) -> bool:
        """Whether the backward pass comes to it."""
        return self.is_trained or self.passes_back


class Needs(NamedTuple):
    """What the backward pass of an operator needs of the forward pass, beside weights: its inputs, its output, and a
    mask of the output's size."""

    inputs: bool = False
    output: bool = False
    mask: bool = False


_FROM_OUTPUT = frozenset({"relu", "relu6", "sigmoid", "tanh", "elu", "leaky_relu", "softmax", "hard_sigmoid"})
"""Activations whose gradient the output tells; those of others (swish, gelu) are computed from the input."""
_LINEAR = frozenset({"linear", ""})


def needs(operator: Operator) -> Needs:
    """What the gradient by the operator's input is computed from (that by weights: always from the inputs)."""
    match operator.kind:
        case Kind.ACTIVATION if operator.function in _LINEAR:
            return Needs()
        case Kind.ACTIVATION:
            return Needs(output=True) if operator.function in _FROM_OUTPUT else Needs(inputs=True)
        case Kind.SOFTMAX:
            return Needs(output=True)
        case Kind.DROPOUT:
            return Needs(mask=operator.function != "image")
        case Kind.MAX_POOL | Kind.GLOBAL_MAX_POOL | Kind.UNKNOWN:
            return Needs(inputs=True, output=True)
        case Kind.BATCH_NORM | Kind.LAYER_NORM | Kind.GROUP_NORM | Kind.MULTIPLY | Kind.PRODUCT:
            return Needs(inputs=True)
        case _:
            return Needs()


_BUT_NAME = tuple(field.name for field in fields(Operator) if field.name != "name")


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A network: operators in an order in which each comes after its inputs. The last one is the output.

    Made by `trainplan.workloads.graph_builder.GraphBuilder` or `trainplan.workloads.graph_file.graph_from_json`, which
    check it.
    """

    name: str
    operators: tuple[Operator, ...]

    def __hash__(self) -> int:
        # Equal graphs have equal ones; thousands of look-ups of an estimate need not go over all operators.
        return hash((self.name, len(self.operators), self.operators[0].shape, self.operators[-1].shape))

    @cached_property
    def figures(self) -> tuple[OperatorFigures, ...]:
        """The figures of each operator, in order."""
        shapes = [operator.shape for operator in self.operators]
        trained_below: list[bool] = []
        rows: list[OperatorFigures] = []
        for operator in self.operators:
            passes_back = any(trained_below[position] for position in operator.inputs)
            row = _figures(operator, tuple(shapes[position] for position in operator.inputs), passes_back=passes_back)
            trained_below.append(passes_back or row.is_trained)
            rows.append(row)
        return tuple(rows)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each operator the places of those that take its output, in order."""
        found: list[list[int]] = [[] for _ in self.operators]
        for position, operator in enumerate(self.operators):
            for before in dict.fromkeys(operator.inputs):
                found[before].append(position)
        return tuple(map(tuple, found))

    @cached_property
    def parameters(self) -> int:
        """Weights that training can change; Keras' `count_params()` is this plus `statistics`."""
        return sum(row.parameters for row in self.figures)

    @cached_property
    def trained_parameters(self) -> int:
        """Parameters of the operators that are not frozen: those with a gradient and an optimizer state."""
        return sum(row.parameters for row in self.figures if row.is_trained)

    @cached_property
    def statistics(self) -> int:
        """Figures that are kept with the model and not trained, such as the moving ones of batch norm."""
        return sum(row.statistics for row in self.figures)

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of one image's forward pass, matrix work alone: what papers call its FLOPs."""
        return sum(row.macs for row in self.figures)

    @cached_property
    def flops_forward(self) -> int:
        """FLOPs of one image's forward pass, element-wise work included."""
        return sum(row.flops_forward for row in self.figures)

    @cached_property
    def flops_backward(self) -> int:
        """FLOPs of one image's backward pass, element-wise work included."""
        return sum(row.flops_backward for row in self.figures)

    @property
    def input_shape(self) -> Shape:
        """The shape of an image."""
        return self.operators[0].shape

    @property
    def image_size(self) -> int:
        """Pixels a side of an image; the longer one where it is not square."""
        return max(self.input_shape.height, self.input_shape.width)

    @property
    def channels(self) -> int:
        """The channels of an image."""
        return self.input_shape.channels

    @property
    def classes(self) -> int:
        """The channels of the output."""
        return self.operators[-1].shape.channels

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """The names of what is unknown in it, each once."""
        return tuple(dict.fromkeys(one.function or one.name for one in self.operators if one.kind is Kind.UNKNOWN))

    @cached_property
    def has_products(self) -> bool:
        """Whether it multiplies matrices in other ways than as convolutions of two directions and dense layers."""
        return any(one.kind is Kind.PRODUCT for one in self.operators)

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits, equal for graphs of the same operators, whatever they are called."""
        values = [[getattr(operator, key) for key in _BUT_NAME] for operator in self.operators]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


_ELEMENT_FLOPS = {
    # Subtract, divide by a deviation, multiply, add. The mean and the variance of layer and group norm are computed for
    # each image and for no more.
    **{Kind.BATCH_NORM: 4, Kind.LAYER_NORM: 8, Kind.GROUP_NORM: 8},
    **{Kind.SCALE: 1, Kind.FIXED_SCALE: 2, Kind.SOFTMAX: 1},
}
_CHEAP = frozenset({"relu", "relu6", "leaky_relu"})


def _figures(operator: Operator, inputs: tuple[Shape, ...], *, passes_back: bool) -> OperatorFigures:
    parameters = _parameters(operator, inputs)
    macs = _macs(operator, inputs)
    element_wise = _element_flops(operator, inputs)
    is_trained = parameters > 0 and not operator.frozen
    is_paired = operator.kind is Kind.PRODUCT and not operator.parameters
    backward = 2 * macs * (int(is_trained) + int(passes_back) * (1 + is_paired))
    return OperatorFigures(
        operator=operator,
        input_shapes=inputs,
        parameters=0 if operator.shared else parameters,
        statistics=0 if operator.shared else _statistics(operator),
        macs=macs,
        flops_forward=2 * macs + element_wise,
        flops_backward=backward + (_backward_factor(operator) * element_wise if is_trained or passes_back else 0),
        is_trained=is_trained,
        passes_back=passes_back,
    )


def _parameters(operator: Operator, inputs: tuple[Shape, ...]) -> int:
    channels = operator.shape.channels
    match operator.kind:
        case Kind.CONVOLUTION | Kind.TRANSPOSED_CONVOLUTION:
            height, width = operator.kernel
            weights = height * width * (inputs[0].channels // operator.groups) * channels
            return weights + channels * operator.bias
        case Kind.DENSE:
            return inputs[0].channels * channels + channels * operator.bias
        case Kind.BATCH_NORM | Kind.LAYER_NORM | Kind.GROUP_NORM:
            return channels * (int(operator.scale) + int(operator.bias))
        case Kind.SCALE:
            return operator.parameters or channels
        case _:
            return operator.parameters


def _statistics(operator: Operator) -> int:
    return 2 * operator.shape.channels if operator.kind is Kind.BATCH_NORM else operator.statistics


def _macs(operator: Operator, inputs: tuple[Shape, ...]) -> int:
    if operator.kind in (Kind.PRODUCT, Kind.UNKNOWN):
        return operator.depth * operator.shape.elements
    if operator.kind not in MATRIX_KINDS:
        return 0
    per_pixel = operator.kernel[0] * operator.kernel[1] * (inputs[0].channels // operator.groups)
    # Each pixel of a transposed convolution's input is spread over a window of its output.
    at = inputs[0] if operator.kind is Kind.TRANSPOSED_CONVOLUTION else operator.shape
    return per_pixel * at.height * at.width * operator.shape.channels


def _element_flops(operator: Operator, inputs: tuple[Shape, ...]) -> int:
    outputs, kind = operator.shape.elements, operator.kind
    if kind in MATRIX_KINDS:
        return outputs * operator.bias
    if kind is Kind.ACTIVATION:
        return outputs * (0 if operator.function in _LINEAR else 1 if operator.function in _CHEAP else 4)
    if kind in BROADCASTS:
        return outputs * (len(inputs) - 1)
    if kind in WINDOW_POOLS:
        return outputs * operator.kernel[0] * operator.kernel[1]
    if kind in GLOBAL_POOLS or kind is Kind.REDUCE:
        return inputs[0].elements
    if kind is Kind.UP_SAMPLING:
        return outputs * (7 if operator.function == "bilinear" else 0)
    return outputs * _ELEMENT_FLOPS.get(kind, 0)


def _backward_factor(operator: Operator) -> int:
    """Element-wise work of the backward pass by that of the forward pass: two gradients where two factors meet."""
    is_pool = operator.kind in WINDOW_POOLS or operator.kind in GLOBAL_POOLS
    return 1 if is_pool or operator.kind in (Kind.ADD, Kind.UP_SAMPLING) else 2
