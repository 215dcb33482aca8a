"""A network as a list of layers, and its figures layer by layer; its graph has them operator by operator."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from trainplan.workloads.graph import Graph, ImageTooSmallError, Shape
from trainplan.workloads.graph_builder import GraphBuilder, Window

__all__ = [
    "Conv",
    "Dense",
    "Flatten",
    "ImageTooSmallError",
    "Layer",
    "LayerFigures",
    "MaxPool",
    "Net",
    "Padding",
    "figures",
    "graph_of",
    "macs",
    "moving_statistics",
    "parameters",
    "trained_parameters",
]


class Padding(StrEnum):
    """How a convolution treats the borders of its input."""

    SAME = "same"
    VALID = "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv:
    """A square convolution, then batch norm where asked, then ReLU. No bias before batch norm."""

    filters: int
    kernel: int = 3
    stride: int = 1
    padding: Padding = Padding.SAME
    batch_norm: bool = False
    batch_norm_scale: bool = True

    @property
    def bias(self) -> bool:
        """Whether the layer has a bias of its own: batch norm has one."""
        return not self.batch_norm


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool:
    """The largest of `size` x `size` pixels, every `stride` pixels."""

    size: int = 2
    stride: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatten:
    """Images as one row of numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A dense layer; ReLU after it unless it is the last one, which is a softmax."""

    units: int
    batch_norm: bool = False
    batch_norm_scale: bool = True
    dropout: float = 0.0
    softmax: bool = False

    @property
    def bias(self) -> bool:
        """Whether the layer has a bias of its own: batch norm has one."""
        return not self.batch_norm


Layer = Conv | MaxPool | Flatten | Dense


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """A feed-forward net on square images: what is built, trained and counted.

    `image_size` in pixels a side, `channels` of the input, `layers` in order; the last is a softmax of `classes` units.
    The weights of the first `frozen` layers are not trained, and no gradient is computed for them.
    """

    name: str
    image_size: int
    channels: int
    layers: tuple[Layer, ...]
    frozen: int = 0

    @property
    def classes(self) -> int:
        """The units of the last layer. Raises TypeError for a net that does not end with a dense layer."""
        last = self.layers[-1]
        if not isinstance(last, Dense):
            raise TypeError("a net ends with a dense softmax layer")
        return last.units


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """Exact arithmetic of one layer for ONE image; one multiply-accumulate is two FLOPs.

    `parameters` are weights that training can change, in a frozen layer too; `moving_statistics` (batch norm) are kept
    apart. `frozen`: the weights stay as they are, and the layer has no backward pass. `passes_back`: the gradient
    by its input is computed, because a layer below it is trained.
    `macs` forward multiply-accumulates of the matrix work; `flops_forward` is twice that plus the element-wise
    work (bias, batch norm, ReLU, pooling, softmax), `flops_backward` the gradient by the input (absent for the
    first layer) and by the weights, plus element-wise work.
    `input_elements`, `output_elements`: elements of the layer's input and output.
    """

    name: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    moving_statistics: int
    macs: int
    flops_forward: int
    flops_backward: int
    input_elements: int
    output_elements: int
    frozen: bool = False
    passes_back: bool = True

    @property
    def trained_parameters(self) -> int:
        """Parameters that have a gradient and an optimizer state."""
        return 0 if self.frozen else self.parameters

    def bytes_forward(self, batch: int, bytes_per_element: int) -> int:
        """Bytes that a forward pass over `batch` images must move at least: inputs, outputs, weights once."""
        return bytes_per_element * (batch * (self.input_elements + self.output_elements) + self.parameters)

    def bytes_backward(self, batch: int, bytes_per_element: int) -> int:
        """Bytes a backward pass moves at least: output gradient and input read twice (once for each gradient),
        input gradient written, weights read and their gradient written. 0 for a frozen layer."""
        if self.frozen:
            return 0
        activations = 2 * self.output_elements + 2 * self.input_elements
        return bytes_per_element * (batch * activations + 2 * self.parameters)


class _Written(NamedTuple):
    """A net as a graph, and which of its operators each layer is."""

    graph: Graph
    layers: tuple[range, ...]


@lru_cache(maxsize=64)
def _written(net: Net) -> _Written:
    builder = GraphBuilder(net.name, Shape(net.image_size, net.image_size, net.channels))
    counts: dict[str, int] = {}
    layers: list[range] = []
    position = builder.image
    for number, layer in enumerate(net.layers):
        kind = type(layer).__name__.lower()
        counts[kind] = counts.get(kind, 0) + 1
        builder.freeze(frozen=number < net.frozen)
        first = len(builder.operators)
        position = _write(builder, layer, position, f"{kind}{counts[kind]}")
        layers.append(range(first, len(builder.operators)))
    return _Written(builder.graph(), tuple(layers))


def _write(b: GraphBuilder, layer: Layer, position: int, name: str) -> int:
    match layer:
        case Conv():
            window = Window(layer.kernel, layer.stride, layer.padding.value)
            return _after(b, layer, b.convolution(position, layer.filters, window, bias=layer.bias, name=name))
        case MaxPool():
            return b.pool(position, Window(layer.size, layer.stride, "valid"), name=name)
        case Flatten():
            return b.flatten(position)
        case Dense():
            position = _after(b, layer, b.dense(position, layer.units, bias=layer.bias))
            return b.dropout(position, layer.dropout) if layer.dropout else position


def _after(b: GraphBuilder, layer: Conv | Dense, position: int) -> int:
    """Batch norm and the activation."""
    if layer.batch_norm:
        position = b.batch_norm(position, scale=layer.batch_norm_scale)
    return b.activation(position, "softmax" if isinstance(layer, Dense) and layer.softmax else "relu")


def graph_of(net: Net) -> Graph:
    """The net as a graph of operators; frozen layers are frozen operators.

    Raises ImageTooSmallError when a layer has nothing left to work on.
    """
    return _written(net).graph


@lru_cache(maxsize=64)
def figures(net: Net) -> tuple[LayerFigures, ...]:
    """Every layer's figures, in order: those of its operators together.

    Raises ImageTooSmallError when a layer has nothing left to work on.
    """
    graph, layers = _written(net)
    counts: dict[str, int] = {}
    found: list[LayerFigures] = []
    for number, (layer, positions) in enumerate(zip(net.layers, layers, strict=True)):
        kind = type(layer).__name__.lower()
        counts[kind] = counts.get(kind, 0) + 1
        rows = [graph.figures[position] for position in positions]
        shape = rows[-1].operator.shape
        found.append(
            LayerFigures(
                name=f"{kind}{counts[kind]}",
                kind=kind,
                output_shape=tuple(shape) if kind in ("conv", "maxpool") else (shape.elements,),
                parameters=sum(row.parameters for row in rows),
                moving_statistics=sum(row.statistics for row in rows),
                macs=sum(row.macs for row in rows),
                flops_forward=sum(row.flops_forward for row in rows),
                flops_backward=sum(row.flops_backward for row in rows),
                input_elements=rows[0].input_elements,
                output_elements=rows[-1].output_elements,
                frozen=number < net.frozen,
                passes_back=rows[0].passes_back,
            )
        )
    return tuple(found)


def parameters(net: Net) -> int:
    """Trainable parameters of the net; Keras' `count_params()` is this plus `moving_statistics`."""
    return graph_of(net).parameters


def moving_statistics(net: Net) -> int:
    """Batch norm's running means and variances: kept with the model, not trained, counted apart."""
    return graph_of(net).statistics


def trained_parameters(net: Net) -> int:
    """Parameters of the layers that are not frozen."""
    return graph_of(net).trained_parameters


def macs(net: Net) -> int:
    """Multiply-accumulates of one image's forward pass, convolutions and dense layers."""
    return graph_of(net).macs
