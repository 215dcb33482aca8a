"""From a layer list to exact figures per layer: parameters, FLOPs, bytes moved, activations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache


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


class ImageTooSmallError(ValueError):
    """The image shrinks to nothing on the way; says at which layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """Exact arithmetic of one layer for ONE image; one multiply-accumulate is two FLOPs.

    `parameters` are weights that training can change, in a frozen layer too; `moving_statistics` (batch norm) are kept
    apart. `frozen`: the weights stay as they are, and the layer has no backward pass. `passes_back`: the gradient
    by its input is computed, because a layer below it is trained.
    `macs` forward multiply-accumulates of the matrix work; `flops_forward` is twice that plus the element-wise
    work (bias, batch norm, ReLU, pooling, softmax), `flops_backward` the gradient by the input (absent for the
    first layer) and by the weights, plus element-wise work.
    `input_elements`, `output_elements`: elements of the layer's input and output; `stored_elements`: elements
    that must be kept from the forward to the backward pass.
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
    stored_elements: int
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


@lru_cache(maxsize=64)
def figures(net: Net) -> tuple[LayerFigures, ...]:
    """Every layer's figures, in order.

    Raises ImageTooSmallError when a layer has nothing left to work on.
    """
    shape: tuple[int, ...] = (net.image_size, net.image_size, net.channels)
    rows: list[LayerFigures] = []
    counts: dict[str, int] = {}
    is_trained_below = False
    for number, layer in enumerate(net.layers):
        kind = type(layer).__name__.lower()
        counts[kind] = counts.get(kind, 0) + 1
        row = _one(layer, f"{kind}{counts[kind]}", shape, first=not is_trained_below)
        frozen = number < net.frozen
        if frozen or not (is_trained_below or row.parameters):
            # Nothing below has a gradient, so the backward pass ends above this layer.
            row = replace(row, flops_backward=0, stored_elements=0)
        row = replace(row, frozen=frozen, passes_back=is_trained_below)
        is_trained_below = is_trained_below or (not frozen and row.parameters > 0)
        rows.append(row)
        shape = row.output_shape
    return tuple(rows)


def parameters(net: Net) -> int:
    """Trainable parameters of the net; Keras' `count_params()` is this plus `moving_statistics`."""
    return sum(row.parameters for row in figures(net))


def moving_statistics(net: Net) -> int:
    """Batch norm's running means and variances: kept with the model, not trained, counted apart."""
    return sum(row.moving_statistics for row in figures(net))


def trained_parameters(net: Net) -> int:
    """Parameters of the layers that are not frozen."""
    return sum(row.trained_parameters for row in figures(net))


def macs(net: Net) -> int:
    """Multiply-accumulates of one image's forward pass, convolutions and dense layers."""
    return sum(row.macs for row in figures(net))


def _one(layer: Layer, name: str, shape: tuple[int, ...], *, first: bool) -> LayerFigures:
    match layer:
        case Conv():
            return _conv(layer, name, shape, first=first)
        case MaxPool():
            return _pool(layer, name, shape)
        case Flatten():
            return _flatten(name, shape)
        case Dense():
            return _dense(layer, name, shape, first=first)


def _conv(layer: Conv, name: str, shape: tuple[int, ...], *, first: bool) -> LayerFigures:
    height, width, channels = shape
    out = (_side(layer, height, name), _side(layer, width, name), layer.filters)
    outputs = out[0] * out[1] * out[2]
    weights = layer.kernel**2 * channels * layer.filters
    multiply_accumulates = weights * out[0] * out[1]
    return _weighted(
        layer,
        name,
        "conv",
        _Weighted(
            shape=shape,
            out=out,
            outputs=outputs,
            weights=weights,
            units=layer.filters,
            macs=multiply_accumulates,
            first=first,
        ),
    )


def _dense(layer: Dense, name: str, shape: tuple[int, ...], *, first: bool) -> LayerFigures:
    weights = shape[0] * layer.units
    return _weighted(
        layer,
        name,
        "dense",
        _Weighted(
            shape=shape,
            out=(layer.units,),
            outputs=layer.units,
            weights=weights,
            units=layer.units,
            macs=weights,
            first=first,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weighted:
    shape: tuple[int, ...]
    out: tuple[int, ...]
    outputs: int
    weights: int
    units: int
    macs: int
    first: bool


def _weighted(layer: Conv | Dense, name: str, kind: str, work: _Weighted) -> LayerFigures:
    per_unit = int(layer.bias) + (1 + int(layer.batch_norm_scale) if layer.batch_norm else 0)
    # Bias one add, batch norm a subtract-multiply-add pair, activation one compare: per output element.
    element_wise = work.outputs * (int(layer.bias) + (4 if layer.batch_norm else 0) + 1)
    gradients = 1 if work.first else 2
    # Batch norm keeps its input beside the activation that follows it; dropout keeps a mask.
    kept_count = 1 + int(layer.batch_norm) + (1 if isinstance(layer, Dense) and layer.dropout else 0)
    return LayerFigures(
        name=name,
        kind=kind,
        output_shape=work.out,
        parameters=work.weights + work.units * per_unit,
        moving_statistics=2 * work.units if layer.batch_norm else 0,
        macs=work.macs,
        flops_forward=2 * work.macs + element_wise,
        flops_backward=2 * work.macs * gradients + 2 * element_wise,
        input_elements=_elements(work.shape),
        output_elements=work.outputs,
        stored_elements=work.outputs * kept_count,
    )


def _pool(layer: MaxPool, name: str, shape: tuple[int, ...]) -> LayerFigures:
    height, width, channels = shape
    if min(height, width) < layer.size:
        raise ImageTooSmallError(f"the image is {height} px a side when it reaches {name}, which halves it")
    out = ((height - layer.size) // layer.stride + 1, (width - layer.size) // layer.stride + 1, channels)
    return _unweighted(name, "maxpool", shape, out, flops=_elements(out) * layer.size**2)


def _flatten(name: str, shape: tuple[int, ...]) -> LayerFigures:
    return _unweighted(name, "flatten", shape, (_elements(shape),), flops=0)


def _unweighted(name: str, kind: str, shape: tuple[int, ...], out: tuple[int, ...], *, flops: int) -> LayerFigures:
    reshaped = kind == "flatten"
    return LayerFigures(
        name=name,
        kind=kind,
        output_shape=out,
        parameters=0,
        moving_statistics=0,
        macs=0,
        flops_forward=flops,
        flops_backward=flops,
        input_elements=0 if reshaped else _elements(shape),
        output_elements=0 if reshaped else _elements(out),
        stored_elements=0 if reshaped else _elements(out),
    )


def _side(layer: Conv, side: int, name: str) -> int:
    if layer.padding is Padding.SAME:
        return -(-side // layer.stride)
    if side < layer.kernel:
        raise ImageTooSmallError(
            f"the image is {side} px a side when it reaches {name}, whose kernel is {layer.kernel}"
        )
    return (side - layer.kernel) // layer.stride + 1


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product
