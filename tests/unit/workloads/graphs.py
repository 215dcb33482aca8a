"""Random networks for properties."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from trainplan.workloads.graph import Graph, ImageTooSmallError, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder, Window

SIDES = st.integers(1, 40)
_BORDERS = ("same", "valid")


def _windows(draw: st.DrawFn) -> Window:
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    return Window(kernel, stride, draw(st.sampled_from(_BORDERS)), draw(st.integers(1, 2)))


def add_random(draw: st.DrawFn, builder: GraphBuilder, place: int) -> int:
    """One more operator on the output of that at `place`. Raises ImageTooSmallError where it does not fit."""
    channels = builder.shape(place).channels
    step = draw(st.sampled_from(sorted(_STEPS)))
    return _STEPS[step](draw, builder, place, channels)


def _branch(draw: st.DrawFn, builder: GraphBuilder, place: int, channels: int) -> int:
    other = builder.convolution(place, channels, 3)
    return (builder.add, builder.multiply, builder.concat)[draw(st.integers(0, 2))](place, other)


_STEPS: dict[str, Callable[[st.DrawFn, GraphBuilder, int, int], int]] = {
    "convolution": lambda draw, b, place, channels: b.convolution(
        place, draw(st.integers(1, 9)), _windows(draw), bias=draw(st.booleans())
    ),
    "depthwise": lambda draw, b, place, channels: b.depthwise(place, _windows(draw)),
    "transposed": lambda draw, b, place, channels: b.transposed_convolution(
        place, draw(st.integers(1, 9)), Window(3, 2)
    ),
    "dense": lambda draw, b, place, channels: b.dense(place, draw(st.integers(1, 9))),
    "batch_norm": lambda draw, b, place, channels: b.batch_norm(place, scale=draw(st.booleans())),
    "layer_norm": lambda draw, b, place, channels: b.layer_norm(place),
    "activation": lambda draw, b, place, channels: b.activation(place, draw(st.sampled_from(("relu", "swish")))),
    "pool": lambda draw, b, place, channels: b.pool(place, _windows(draw), average=draw(st.booleans())),
    "global_pool": lambda draw, b, place, channels: b.global_pool(place, average=draw(st.booleans())),
    "pad": lambda draw, b, place, channels: b.pad(place, draw(st.integers(-2, 2))),
    "up_sampling": lambda draw, b, place, channels: b.add_operator(Kind.UP_SAMPLING, place, stride=(2, 2)),
    "flatten": lambda draw, b, place, channels: b.flatten(place),
    "dropout": lambda draw, b, place, channels: b.dropout(place, 0.5),
    "scale": lambda draw, b, place, channels: b.add_operator(Kind.SCALE, place),
    "unknown": lambda draw, b, place, channels: b.add_operator(
        Kind.UNKNOWN, place, shape=Shape(2, 2, 2), function="Lambda", parameters=draw(st.integers(0, 9))
    ),
    "branch": _branch,
}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Networks of any operators, as far as the image lasts; some weights are frozen at the beginning."""
    builder = GraphBuilder("random", Shape(draw(SIDES), draw(SIDES), draw(st.integers(1, 4))))
    frozen, count = draw(st.integers(0, 3)), draw(st.integers(1, 12))
    place = builder.image
    for number in range(count):
        builder.freeze(frozen=number < frozen)
        try:
            place = add_random(draw, builder, place)
        except ImageTooSmallError:
            break
        if builder.shape(place).elements > 200_000:
            break
    builder.freeze(frozen=False)
    builder.dense(place, 3)
    return builder.graph()
