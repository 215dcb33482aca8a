"""Writing a network down operator by operator; every shape is inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trainplan.workloads.graph import Graph, GraphError, Kind, Operator, Padding, Pair, Shape
from trainplan.workloads.graph_shapes import inferred_shape

Size = int | Pair
"""Of a window, in pixels: one number for both sides, or (height, width)."""
Border = str | int | Padding
"""`same` (as many pixels out as in, divided by the stride, rounded up; an odd pixel goes to the bottom and the right,
as in Keras), `valid` (none), one number for all sides, or (top, bottom, left, right)."""


class Window(NamedTuple):
    """What an operator looks at for one pixel of its output, and how far it goes on for the next one."""

    kernel: Size
    stride: Size = 1
    border: Border = "same"
    dilation: Size = 1


class GraphBuilder:
    """Makes a Graph. Each method adds one operator and returns its place, by which others take its output.

    All raise ImageTooSmallError where nothing is left of the image, and GraphError for inputs that do not fit.
    """

    image = 0
    """The place of the images."""

    def __init__(self, name: str, image: Shape) -> None:
        self.name = name
        self.operators: list[Operator] = [Operator(name="image", kind=Kind.INPUT, inputs=(), shape=image)]
        self._counts: dict[Kind, int] = {}
        self._frozen = False

    def freeze(self, *, frozen: bool) -> None:
        """Whether the weights of what is added from here on are not trained."""
        self._frozen = frozen

    def shape(self, position: int) -> Shape:
        """The shape of what the operator there puts out."""
        return self.operators[position].shape

    def graph(self) -> Graph:
        """The network, whose output is the last operator. Raises GraphError for one without operators."""
        if len(self.operators) < 2:
            raise GraphError(f"{self.name} has no operators")
        return Graph(name=self.name, operators=tuple(self.operators))

    def add_operator(
        self, kind: Kind, inputs: int | Sequence[int], *, channels: int | None = None, shape: Shape | None = None,
        name: str = "", **attributes: Any,
    ) -> int:  # fmt: skip
        """Any operator. `channels` are those of a matrix operator's output, `shape` is that of a flatten or an unknown
        operator; `attributes` are Operator's."""
        positions = (inputs,) if isinstance(inputs, int) else tuple(inputs)
        before = self.shape(positions[0])
        self._counts[kind] = self._counts.get(kind, 0) + 1
        operator = Operator(
            name=name or f"{kind}_{self._counts[kind]}",
            kind=kind,
            inputs=positions,
            shape=shape or Shape(before.height, before.width, before.channels if channels is None else channels),
            frozen=self._frozen,
            **attributes,
        )
        found = inferred_shape(operator, [self.shape(position) for position in positions])
        self.operators.append(operator if found == operator.shape else replace(operator, shape=found))
        return len(self.operators) - 1

    def convolution(
        self, position: int, channels: int, window: Window | Size, *, groups: int = 1, bias: bool = True, name: str = ""
    ) -> int:
        """A convolution to so many channels; one number is a square kernel that goes on by one pixel."""
        return self.add_operator(
            Kind.CONVOLUTION,
            position,
            channels=channels,
            name=name,
            groups=groups,
            bias=bias,
            **self._window(position, window),
        )

    def depthwise(self, position: int, window: Window | Size, *, multiplier: int = 1, bias: bool = True) -> int:
        """A convolution of each channel on its own, to `multiplier` channels each."""
        channels = self.shape(position).channels
        return self.convolution(position, channels * multiplier, window, groups=channels, bias=bias)

    def transposed_convolution(self, position: int, channels: int, window: Window | Size, *, bias: bool = True) -> int:
        """One that makes the image larger: by its stride with the border `same`, whole with `valid`, as in Keras."""
        values = self._window(position, window)
        border = window.border if isinstance(window, Window) else "same"
        if isinstance(border, str):
            values["padding"] = _taken_off(border, values)
        return self.add_operator(Kind.TRANSPOSED_CONVOLUTION, position, channels=channels, bias=bias, **values)

    def _window(self, position: int, window: Window | Size) -> dict[str, Any]:
        """The attributes of an operator that looks at windows."""
        if not isinstance(window, Window):
            window = Window(window)
        kernel, stride, dilation = _pair(window.kernel), _pair(window.stride), _pair(window.dilation)
        padding = _padding(window.border, self.shape(position), kernel, stride, dilation)
        return {"kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding}

    def dense(self, position: int, units: int, *, bias: bool = True) -> int:
        """A dense layer over the channels of each pixel; `flatten` before it for one over the whole image."""
        return self.add_operator(Kind.DENSE, position, channels=units, bias=bias)

    def batch_norm(self, position: int, *, scale: bool = True, epsilon: float = 1e-3) -> int:
        """Batch norm with an offset, and with a factor where `scale`."""
        return self.add_operator(Kind.BATCH_NORM, position, scale=scale, bias=True, epsilon=epsilon)

    def layer_norm(self, position: int, *, epsilon: float = 1e-6) -> int:
        """Layer norm over the channels of each pixel."""
        return self.add_operator(Kind.LAYER_NORM, position, bias=True, epsilon=epsilon)

    def activation(self, position: int, function: str = "relu") -> int:
        """An activation by Keras' name for it; `softmax` is a kind of its own."""
        if function == "softmax":
            return self.add_operator(Kind.SOFTMAX, position)
        return self.add_operator(Kind.ACTIVATION, position, function=function)

    def pool(self, position: int, window: Window, *, average: bool = False, name: str = "") -> int:
        """The largest pixel of each window, or the average of those that the border has not added."""
        kind = Kind.AVERAGE_POOL if average else Kind.MAX_POOL
        return self.add_operator(kind, position, name=name, **self._window(position, window))

    def global_pool(self, position: int, *, average: bool = True) -> int:
        """The average, or the largest value, of each channel."""
        return self.add_operator(Kind.GLOBAL_AVERAGE_POOL if average else Kind.GLOBAL_MAX_POOL, position)

    def add(self, *positions: int) -> int:
        """The sum."""
        return self.add_operator(Kind.ADD, positions)

    def multiply(self, *positions: int) -> int:
        """The product, value by value."""
        return self.add_operator(Kind.MULTIPLY, positions)

    def concat(self, *positions: int) -> int:
        """The channels of all, one after another."""
        return self.add_operator(Kind.CONCAT, positions)

    def pad(self, position: int, border: int | Padding) -> int:
        """Zeros around the image."""
        return self.add_operator(Kind.PADDING, position, padding=_sides(border))

    def flatten(self, position: int) -> int:
        """All values as channels of one pixel."""
        return self.add_operator(Kind.FLATTEN, position, shape=Shape(1, 1, self.shape(position).elements))

    def dropout(self, position: int, rate: float) -> int:
        """Dropout of this share of the values."""
        return self.add_operator(Kind.DROPOUT, position, rate=rate)


def _pair(size: Size) -> Pair:
    return (size, size) if isinstance(size, int) else size


def _sides(border: int | Padding) -> Padding:
    return (border, border, border, border) if isinstance(border, int) else border


def _padding(border: Border, before: Shape, kernel: Pair, stride: Pair, dilation: Pair) -> Padding:
    if not isinstance(border, str):
        return _sides(border)
    if border == "valid":
        return (0, 0, 0, 0)
    top, bottom = _same(before.height, kernel[0], stride[0], dilation[0])
    left, right = _same(before.width, kernel[1], stride[1], dilation[1])
    return (top, bottom, left, right)


def _same(side: int, kernel: int, stride: int, dilation: int) -> Pair:
    reach = dilation * (kernel - 1) + 1
    both = max((-(-side // stride) - 1) * stride + reach - side, 0)
    return both // 2, both - both // 2


def _taken_off(border: str, values: Mapping[str, Any]) -> Padding:
    kernel, stride, dilation = values["kernel"], values["stride"], values["dilation"]
    overlaps = [dilation[axis] * (kernel[axis] - 1) + 1 - stride[axis] for axis in (0, 1)]
    tall, wide = overlaps if border == "same" else [min(overlap, 0) for overlap in overlaps]
    return (tall // 2, tall - tall // 2, wide // 2, wide - wide // 2)
