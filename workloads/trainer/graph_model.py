"""From a graph of operators to layers of Keras: how networks by name are trained, from the graph that was estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainplan.workloads.graph import Graph, Kind, Operator
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.kit import Kit
from trainplan.workloads.trainer.seeds import derived_seed

_LAYER_SCALE = 1e-6
"""With which the factors of ConvNeXt's blocks begin (Liu et al., arXiv:2201.03545)."""
_NO_PADDING = (0, 0, 0, 0)

Applies = Callable[[list[Any]], Any]
"""From the values of an operator's inputs to that of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """An operator, where it stands in the graph, and the operators that it takes values from."""

    kit: Kit
    graph: Graph
    number: int

    @property
    def operator(self) -> Operator:
        return self.graph.operators[self.number]

    @property
    def before(self) -> Operator:
        """The first one that it takes values from."""
        return self.graph.operators[self.operator.inputs[0]]

    @property
    def name(self) -> str:
        return f"{self.operator.kind}_{self.number}"

    def initializer(self) -> Any:
        seed = derived_seed(self.kit.seed, "kernel", self.number)
        return self.kit.keras.initializers.HeNormal(seed=seed)


def layers_of_graph(kit: Kit, graph: Graph) -> Callable[[Any], Any]:
    """What applies the network to images, as often as wanted with the same weights; it gives logits in float32.

    Raises BadInputError for an operator that is not known.
    """
    operators = graph.operators
    last = len(operators) - 1
    if operators[last].kind is Kind.SOFTMAX:  # it belongs to the serving model
        last = operators[last].inputs[0]
    steps = [(number, _layer(_Position(kit=kit, graph=graph, number=number))) for number in range(1, last + 1)]
    logits = kit.keras.layers.Activation("linear", dtype="float32", name="logits")
    row = kit.keras.layers.Flatten(name="classes")

    def apply(images: Any) -> Any:
        values = {0: images}
        for number, step in steps:
            values[number] = step([values[position] for position in operators[number].inputs])
        return logits(_as_row(row, values[last]))

    return apply


def _as_row(flatten: Any, value: Any) -> Any:
    return value if len(value.shape) == 2 else flatten(value)


def _layer(position: _Position) -> Applies:
    kind = position.operator.kind
    make = _MADE.get(kind)
    if make is None:
        operator = position.operator
        raise BadInputError(f"{operator.name}: the trainer has no layer for {operator.function or operator.kind}")
    return make(position)


def _one(layer: Any) -> Applies:
    return lambda values: layer(values[0])


def _same_border(position: _Position) -> bool:
    """Whether the padding is that which Keras calls `same`."""
    operator, sides = position.operator, (position.before.shape.height, position.before.shape.width)
    for axis, side in enumerate(sides):
        reach = operator.dilation[axis] * (operator.kernel[axis] - 1) + 1
        both = max((-(-side // operator.stride[axis]) - 1) * operator.stride[axis] + reach - side, 0)
        if operator.padding[2 * axis : 2 * axis + 2] != (both // 2, both - both // 2):
            return False
    return True


def _windowed(position: _Position, make: Callable[[str], Any], *, fills: bool = True) -> Applies:
    """A layer that looks at windows; a border that Keras has no word for is zeros around the image."""
    operator = position.operator
    if operator.padding == _NO_PADDING:
        return _one(make("valid"))
    if _same_border(position):
        return _one(make("same"))
    if not fills or min(operator.padding) < 0:
        raise BadInputError(f"{operator.name}: the trainer has no {operator.kind} with the border {operator.padding}")
    top, bottom, left, right = operator.padding
    border = position.kit.keras.layers.ZeroPadding2D(((top, bottom), (left, right)), name=f"{position.name}_border")
    layer = make("valid")
    return lambda values: layer(border(values[0]))


def _image(position: _Position) -> Callable[[Any], Any]:
    """A row of numbers as an image of one pixel; images as they are."""
    shape = position.before.shape
    reshape = position.kit.keras.layers.Reshape(tuple(shape), name=f"{position.name}_image")
    return lambda value: reshape(value) if len(value.shape) == 2 else value


def _convolution(position: _Position) -> Applies:
    operator, layers = position.operator, position.kit.keras.layers
    channels = position.before.shape.channels
    common = {
        "strides": operator.stride,
        "dilation_rate": operator.dilation,
        "use_bias": operator.bias,
        "name": position.name,
    }

    def make(border: str) -> Any:
        if operator.groups == channels > 1:
            return layers.DepthwiseConv2D(
                operator.kernel, padding=border, depth_multiplier=operator.shape.channels // channels,
                depthwise_initializer=position.initializer(), **common,
            )  # fmt: skip
        return layers.Conv2D(
            operator.shape.channels, operator.kernel, padding=border, groups=operator.groups,
            kernel_initializer=position.initializer(), **common,
        )  # fmt: skip

    image, layer = _image(position), _windowed(position, make)
    return lambda values: layer([image(values[0])])


def _dense(position: _Position) -> Applies:
    operator, keras = position.operator, position.kit.keras
    layer = keras.layers.Dense(
        operator.shape.channels, use_bias=operator.bias, kernel_initializer=position.initializer(), name=position.name
    )
    if operator.shape.height * operator.shape.width > 1:
        return _one(layer)
    row = keras.layers.Flatten(name=f"{position.name}_row")
    return lambda values: layer(_as_row(row, values[0]))


def _batch_norm(position: _Position) -> Applies:
    operator, kit = position.operator, position.kit
    batch_norm = kit.replicas.batch_norm(kit.keras) if kit.replicas else kit.keras.layers.BatchNormalization
    return _one(batch_norm(scale=operator.scale, center=operator.bias, epsilon=operator.epsilon, name=position.name))


def _other_norm(position: _Position) -> Applies:
    operator, layers = position.operator, position.kit.keras.layers
    values = {"scale": operator.scale, "center": operator.bias, "epsilon": operator.epsilon, "name": position.name}
    if operator.kind is Kind.GROUP_NORM:
        return _one(layers.GroupNormalization(groups=operator.groups, **values))
    return _one(layers.LayerNormalization(**values))


def _activation(position: _Position) -> Applies:
    function = "softmax" if position.operator.kind is Kind.SOFTMAX else position.operator.function
    return _one(position.kit.keras.layers.Activation(function or "linear", name=position.name))


def _pool(position: _Position) -> Applies:
    operator, layers = position.operator, position.kit.keras.layers
    is_average = operator.kind is Kind.AVERAGE_POOL
    kind = layers.AveragePooling2D if is_average else layers.MaxPooling2D
    # Of an average, zeros around the image would be a part.
    return _windowed(
        position,
        lambda border: kind(operator.kernel, operator.stride, padding=border, name=position.name),
        fills=not is_average,
    )


def _global_pool(position: _Position) -> Applies:
    layers = position.kit.keras.layers
    kind = (
        layers.GlobalAveragePooling2D
        if position.operator.kind is Kind.GLOBAL_AVERAGE_POOL
        else layers.GlobalMaxPooling2D
    )
    layer, image = kind(keepdims=True, name=position.name), _image(position)
    return lambda values: layer(image(values[0]))


def _together(name: str) -> Callable[[_Position], Applies]:
    """A layer of several inputs, of which each is an image: a row would meet the sides of images."""

    def make(position: _Position) -> Applies:
        layers = position.kit.keras.layers
        layer = getattr(layers, name)(name=position.name)
        shapes = [position.graph.operators[before].shape for before in position.operator.inputs]
        images = [layers.Reshape(tuple(shape), name=f"{position.name}_image_{at}") for at, shape in enumerate(shapes)]

        def apply(values: list[Any]) -> Any:
            pairs = zip(values, images, strict=True)
            return layer([reshape(value) if len(value.shape) == 2 else value for value, reshape in pairs])

        return apply

    return make


def _scale(position: _Position) -> Applies:
    """A factor for each channel: Keras' own layer for it is a depthwise convolution of one pixel, without a bias."""
    initial = position.kit.keras.initializers.Constant(_LAYER_SCALE)
    layer = position.kit.keras.layers.DepthwiseConv2D(
        1, use_bias=False, depthwise_initializer=initial, name=position.name
    )
    image = _image(position)
    return lambda values: layer(image(values[0]))


def _fixed_scale(position: _Position) -> Applies:
    """The trainer has scaled the pixels already; what Keras keeps of it in the model is a mean of 0 and a variance of
    1."""
    if not position.operator.statistics:
        return lambda values: values[0]
    return _one(position.kit.keras.layers.Normalization(name=position.name))


def _up_sampling(position: _Position) -> Applies:
    operator = position.operator
    how = operator.function or "nearest"
    return _one(position.kit.keras.layers.UpSampling2D(operator.stride, interpolation=how, name=position.name))


def _padding(position: _Position) -> Applies:
    layers, (top, bottom, left, right) = position.kit.keras.layers, position.operator.padding
    added = tuple(max(side, 0) for side in (top, bottom, left, right))
    taken = tuple(max(-side, 0) for side in (top, bottom, left, right))
    parts = []
    if any(added):
        parts.append(layers.ZeroPadding2D((added[:2], added[2:]), name=position.name))
    if any(taken):
        parts.append(layers.Cropping2D((taken[:2], taken[2:]), name=f"{position.name}_cropped"))

    def apply(values: list[Any]) -> Any:
        value = values[0]
        for part in parts:
            value = part(value)
        return value

    return apply


def _flatten(position: _Position) -> Applies:
    shape = position.operator.shape
    layers = position.kit.keras.layers
    if shape.height == shape.width == 1:
        return _one(layers.Flatten(name=position.name))
    return _one(layers.Reshape(tuple(shape), name=position.name))


def _dropout(position: _Position) -> Applies:
    operator, kit = position.operator, position.kit
    seed = derived_seed(kit.seed, "dropout", position.number)
    if operator.function == "image":  # whole images take a shortcut, the same ones on each device of a batch
        shape = (None, 1, 1, 1)
        return _one(kit.keras.layers.Dropout(operator.rate, noise_shape=shape, seed=seed, name=position.name))
    dropout = kit.replicas.dropout(kit.keras) if kit.replicas else kit.keras.layers.Dropout
    return _one(dropout(operator.rate, seed=seed, name=position.name))


_MADE: dict[Kind, Callable[[_Position], Applies]] = {
    Kind.CONVOLUTION: _convolution,
    Kind.DENSE: _dense,
    Kind.BATCH_NORM: _batch_norm,
    Kind.LAYER_NORM: _other_norm,
    Kind.GROUP_NORM: _other_norm,
    Kind.ACTIVATION: _activation,
    Kind.SOFTMAX: _activation,
    Kind.MAX_POOL: _pool,
    Kind.AVERAGE_POOL: _pool,
    Kind.GLOBAL_AVERAGE_POOL: _global_pool,
    Kind.GLOBAL_MAX_POOL: _global_pool,
    Kind.ADD: _together("Add"),
    Kind.MULTIPLY: _together("Multiply"),
    Kind.CONCAT: _together("Concatenate"),
    Kind.SCALE: _scale,
    Kind.FIXED_SCALE: _fixed_scale,
    Kind.UP_SAMPLING: _up_sampling,
    Kind.PADDING: _padding,
    Kind.FLATTEN: _flatten,
    Kind.DROPOUT: _dropout,
}
