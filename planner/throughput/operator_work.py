"""What the operators of a network take for one step, before any device: FLOPs, bytes, tiles, kernels."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.graph import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainplan.workloads.graph import Graph, OperatorFigures


class Matrix(StrEnum):
    """Kinds of matrix work that reach different shares of a peak rate."""

    FIRST = "first"
    """A convolution of few channels: the colours of an image."""
    WINOGRAD = "winograd"
    """3x3 at a stride of 1, which the Winograd transform does with fewer multiplications."""
    SPATIAL = "spatial"
    """Any other kernel or stride."""
    POINT = "point"
    """1x1."""
    GROUPED = "grouped"
    DEPTHWISE = "depthwise"
    DENSE = "dense"


class Direction(StrEnum):
    """What a pass over a matrix operator computes."""

    FORWARD = "forward"
    INPUT = "input"
    """The gradient by the operator's input."""
    WEIGHTS = "weights"


class Pass(NamedTuple):
    """One pass over matrix operators of one shape, for a whole batch; figures are those of one of them.

    As a product of matrices it is `tiles` tiles of 128 x 128 outputs, whose sums have `depth` terms; `full` is the
    share of the tiles that is used, `lanes` that of 128 x 128 channels. `channels` is the harmonic mean of those in
    and out, `side` the doublings of the side of an output image.
    """

    operators: tuple[int, ...]
    matrix: Matrix
    direction: Direction
    is_spatial: bool
    is_strided: bool
    flops: float
    moved: float
    tiles: float
    depth: float
    full: float
    lanes: float
    channels: float
    side: float

    @property
    def alike(self) -> int:
        """How many operators take the same."""
        return len(self.operators)


class Elements(NamedTuple):
    """Bytes that element-wise operators of one kind move for a batch. `constant` names what they are multiplied by."""

    operators: tuple[int, ...]
    constant: str
    is_fused: bool
    """Whether XLA joins it with its neighbours."""
    moved: float


class Work(NamedTuple):
    """All of a network's step on any device. `parameters` are those with a gradient."""

    passes: tuple[Pass, ...]
    elements: tuple[Elements, ...]
    kernels: int
    tensors: int
    parameters: int
    copied: float


@lru_cache(maxsize=512)
def work_of(graph: Graph, batch: int, width: int) -> Work:
    """The work of a step over `batch` images, `width` bytes a value."""
    alike = _alike(graph)
    figures = graph.figures
    passes = [row for positions in alike for row in _passes(figures[positions[0]], positions, batch, width)]
    elements = [row for positions in alike for row in _elements(figures[positions[0]], positions, batch * width)]
    return Work(
        passes=tuple(passes),
        elements=tuple(elements),
        kernels=sum(_kernels(row) for row in figures),
        tensors=sum(_TENSORS.get(row.kind, 0) for row in figures if row.is_trained),
        parameters=graph.trained_parameters,
        copied=4.0 * batch * graph.input_shape.elements,
    )


def _kernels(row: OperatorFigures) -> int:
    return (_KERNELS.get(row.kind, 2) if row.has_backward else 1) * row.operator.steps


_KERNELS = {
    **{Kind.CONVOLUTION: 4, Kind.TRANSPOSED_CONVOLUTION: 4, Kind.DENSE: 4, Kind.PRODUCT: 4},
    **{Kind.INPUT: 0, Kind.FLATTEN: 0, Kind.ADD: 1},
}
"""Kernels of an operator, forward and backward; 2 of any other kind."""
_TENSORS = {
    **{Kind.CONVOLUTION: 1, Kind.TRANSPOSED_CONVOLUTION: 1, Kind.DENSE: 2, Kind.PRODUCT: 1},
    **{Kind.BATCH_NORM: 2, Kind.LAYER_NORM: 2, Kind.GROUP_NORM: 2, Kind.SCALE: 1},
}
"""Weights that the optimizer goes over one by one."""


def _alike(graph: Graph) -> list[tuple[int, ...]]:
    """The places of the operators that take the same, those of each shape together."""
    found: dict[tuple[object, ...], list[int]] = {}
    for position, row in enumerate(graph.figures):
        one = row.operator
        key = (
            *(one.kind, one.shape, row.input_shapes, one.kernel, one.stride, one.dilation, one.groups, one.function),
            *(one.depth, one.steps, one.parameters),
            *(row.is_trained, row.passes_back),
        )
        found.setdefault(key, []).append(position)
    return [tuple(positions) for positions in found.values()]


class _Sizes(NamedTuple):
    """A matrix operator as `groups` products of matrices: rows, columns, terms of a sum and bytes in each direction.
    `given` and `taken` are its channels in and out, of one group."""

    groups: int
    given: int
    taken: int
    lanes: float
    directions: Mapping[Direction, tuple[float, float, float, float]]


def _passes(row: OperatorFigures, alike: tuple[int, ...], batch: int, width: int) -> Iterator[Pass]:
    if not row.macs:
        return
    sizes = _sizes_of_product(row, batch, width) if row.kind in _PRODUCTS else _sizes(row, batch, width)
    groups, given, taken, lanes, directions = sizes
    operator, matrix = row.operator, _matrix_of(row)
    taking = {Direction.INPUT: row.passes_back, Direction.WEIGHTS: row.passes_back if row.is_paired else row.is_trained}
    for direction, (rows, columns, depth, moved) in directions.items():
        if not taking.get(direction, True):
            continue
        high = 128 if rows > 128 else 64
        wide = 128 if columns > 64 else 64 if columns > 32 else 32
        tiles = math.ceil(rows / high) * math.ceil(columns / wide)
        full = rows * columns / (tiles * high * wide)
        area = tiles * groups * high * wide / 128**2
        # Long sums are split among multiprocessors.
        area *= min(max(depth / 1024, 1.0), 64.0) if direction is Direction.WEIGHTS else 1.0
        yield Pass(
            operators=alike,
            matrix=matrix,
            direction=direction,
            is_spatial=operator.kernel != (1, 1),
            is_strided=operator.stride != (1, 1),
            flops=2.0 * batch * row.macs,
            moved=moved,
            tiles=area,
            depth=max(depth, 1.0),
            full=full,
            lanes=lanes,
            channels=2 * given * taken / (given + taken),
            side=math.log2(operator.shape.height * operator.shape.width) / 2,
        )


_PRODUCTS = frozenset({Kind.PRODUCT, Kind.UNKNOWN})


def _sizes(row: OperatorFigures, batch: int, width: int) -> _Sizes:
    """Of a convolution or a dense layer."""
    operator, (before,), after = row.operator, row.input_shapes, row.operator.shape
    groups, kernel = operator.groups, operator.kernel[0] * operator.kernel[1]
    given, taken = before.channels // groups, after.channels // groups
    inside, outside = batch * before.height * before.width, batch * after.height * after.width
    weights = kernel * given * after.channels
    both = width * float(batch * (before.elements + after.elements) + weights)
    positions = inside if row.kind is Kind.TRANSPOSED_CONVOLUTION else outside
    back = kernel * taken * outside / inside
    lanes = before.channels * after.channels / (_up(before.channels) * _up(after.channels))
    directions = {
        Direction.FORWARD: (positions, taken, given * kernel, both),
        Direction.INPUT: (inside, given, back, both),
        Direction.WEIGHTS: (given * kernel, taken, positions, both + width * weights),
    }
    return _Sizes(groups, given, taken, lanes, directions)


def _sizes_of_product(row: OperatorFigures, batch: int, width: int) -> _Sizes:
    """Of a product: of matrices of one image, or with weights, over all places of the batch in turn of its steps."""
    operator, shape = row.operator, row.operator.shape
    depth, columns = operator.depth, shape.channels
    groups = batch * shape.height if row.is_paired else operator.steps
    rows = shape.width if row.is_paired else max(1.0, batch * shape.height * shape.width / groups)
    values = sum(before.elements for before in row.input_shapes) + shape.elements
    moved = width * float(batch * values + operator.parameters * operator.steps)
    directions = {
        Direction.FORWARD: (rows, columns, depth, moved),
        Direction.INPUT: (rows, depth, columns, moved),
        Direction.WEIGHTS: (depth, columns, rows, moved),
    }
    lanes = depth * columns / (_up(depth) * _up(columns))
    return _Sizes(groups, depth, columns, lanes, directions)


def _up(channels: int) -> int:
    return -(-channels // 128) * 128


_FEW_CHANNELS = 4
"""The colours of an image, or one grey."""


def _matrix_of(row: OperatorFigures) -> Matrix:
    operator, before = row.operator, row.input_shapes[0]
    if row.kind in _PRODUCTS:
        return Matrix.POINT
    if row.kind is Kind.DENSE:
        return Matrix.DENSE if before.height * before.width == 1 else Matrix.POINT
    if before.channels <= _FEW_CHANNELS:
        return Matrix.FIRST
    if row.is_depthwise:
        return Matrix.DEPTHWISE
    if operator.groups > 1:
        return Matrix.GROUPED
    if operator.kernel == (1, 1):
        return Matrix.POINT
    is_winograd = operator.kernel == (3, 3) and operator.stride == (1, 1) and operator.dilation == (1, 1)
    return Matrix.WINOGRAD if is_winograd else Matrix.SPATIAL


_ELEMENTS: dict[Kind, tuple[str, float, bool]] = {
    Kind.ACTIVATION: ("activation_passes", 5.0, True),
    Kind.SOFTMAX: ("activation_passes", 5.0, True),
    Kind.DROPOUT: ("activation_passes", 5.0, True),
    Kind.SCALE: ("activation_passes", 5.0, True),
    Kind.FIXED_SCALE: ("activation_passes", 5.0, True),
    Kind.BATCH_NORM: ("norm_passes", 8.0, True),
    Kind.LAYER_NORM: ("norm_passes", 8.0, True),
    Kind.GROUP_NORM: ("norm_passes", 8.0, True),
    Kind.ADD: ("add_passes", 4.0, True),
    Kind.MULTIPLY: ("add_passes", 6.0, True),
    Kind.CONCAT: ("concat_passes", 4.0, False),
    Kind.PADDING: ("concat_passes", 4.0, False),
    Kind.REARRANGE: ("concat_passes", 4.0, False),
    Kind.UNKNOWN: ("concat_passes", 6.0, False),
    **dict.fromkeys(
        (
            Kind.MAX_POOL,
            Kind.AVERAGE_POOL,
            Kind.GLOBAL_AVERAGE_POOL,
            Kind.GLOBAL_MAX_POOL,
            Kind.UP_SAMPLING,
            Kind.REDUCE,
        ),
        ("pool_passes", 2.5, False),
    ),
}
"""The constant of each kind, and passes over its values, forward and backward: over those of its output, for a pool
also those of its input."""
_FORWARD_SHARE = 0.4
"""Of the passes, where there is no backward pass."""


def _elements(row: OperatorFigures, positions: tuple[int, ...], width: int) -> Iterator[Elements]:
    found = _ELEMENTS.get(row.kind)
    if found is None or (row.kind is Kind.ACTIVATION and row.operator.function in ("linear", "")):
        return
    constant, passes, is_fused = found
    values = row.output_elements + (row.input_elements if constant == "pool_passes" else 0)
    if not row.has_backward:
        passes *= _FORWARD_SHARE
    yield Elements(positions, constant, is_fused, passes * width * values * len(positions))


def share_of_kind(graph: Graph, seconds: tuple[float, ...], kind: Kind) -> float:
    """The share of a step's seconds (by operator) that operators of a kind take, 0 to 1."""
    taken = zip(graph.operators, seconds, strict=True)
    return math.fsum(one for operator, one in taken if operator.kind is kind) / math.fsum(seconds)
