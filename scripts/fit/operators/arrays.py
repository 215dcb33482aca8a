"""The model of operators over many rows at once: the same figures as `trainplan.planner.throughput.operators`, as
arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainplan.planner.throughput import operators as product
from trainplan.planner.throughput.features import (
    BALANCES,
    BATCHES,
    COUNTS,
    GROUPED_NODES,
    NODES,
    SIZES,
    USUAL_RATES,
    Block,
)
from trainplan.planner.throughput.operator_work import Matrix, work_of
from trainplan.planner.throughput.operators import CONSTANT_NAMES, SHARPNESS, Share, Unit, share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.fit.operators.rows import NetworkRow
    from trainplan.planner.throughput.operator_work import Pass

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
PARTS = tuple(Block(share) for share in Share if share is not Share.HOST)
"""The parts of the device, but for convolutions."""
_PART = {block: position for position, block in enumerate(PARTS)}
_CONVOLUTION = len(PARTS)
_CONSTANT = {name: position for position, name in enumerate(CONSTANT_NAMES)}
_ELEMENT_KINDS = ("activation_passes", "norm_passes", "add_passes", "concat_passes", "pool_passes")
_MOST_NODES = 4


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Every pass of every row. `reached` has the places of up to three constants whose product is its efficiency (-1:
    none), `half` those of the sizes of which half of the rate is reached, `sizes` what is held against them. `part` is
    its place in PARTS; a convolution has one beyond, and up to four `nodes` with their `weights`."""

    row: Positions
    count: Floats
    flops: Floats
    rate: Floats
    each: Floats
    tiles: Floats
    moved: Floats
    moved_by: Positions
    reached: Positions
    half: Positions
    sizes: Floats
    part: Positions
    nodes: Positions
    weights: Floats


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """All that the seconds of a row depend on. `elements[row, kind, is_fused]` are bytes, `rates` as
    `features.USUAL_RATES`."""

    log_seconds: Floats
    batch: Floats
    size: Floats
    rates: Floats
    passes: Passes
    elements: Floats
    xla: NDArray[np.bool_]
    kernels: Floats
    launches: Floats
    parameters: Floats
    optimizer: Floats
    copied: Floats


@dataclass(frozen=True, kw_only=True)
class Physics:
    """What `operators.OperatorModel.parts` has for one step, by row: `shares[row, part]` in the order of PARTS."""

    log_seconds: Floats
    busy: Floats
    host: Floats
    of_device: Floats
    shares: Floats
    convolutions: Floats


def arrays_of(rows: Sequence[NetworkRow]) -> Arrays:
    """The arrays of rows, read off the product's own work of operators."""
    works = [work_of(row.graph, row.setup.batch, row.run.width) for row in rows]
    elements = np.zeros((len(rows), len(_ELEMENT_KINDS), 2))
    for position, work in enumerate(works):
        for kind in work.elements:
            elements[position, _ELEMENT_KINDS.index(kind.constant), int(kind.is_fused)] += kind.moved
    return Arrays(
        log_seconds=np.array([row.log_seconds for row in rows]),
        batch=np.array([float(row.setup.batch) for row in rows]),
        size=np.array([float(row.graph.input_shape.height) for row in rows]),
        rates=np.array([row.run.device.rates for row in rows]),
        passes=_passes(rows),
        elements=elements,
        xla=np.array([row.run.xla for row in rows]),
        kernels=np.array([float(work.kernels) for work in works]),
        launches=np.array([float(work.kernels + work.tensors) for work in works]),
        parameters=np.array([float(work.parameters) for work in works]),
        optimizer=np.array([float(row.run.optimizer_step) for row in rows]),
        copied=np.array([work.copied * row.run.copies for row, work in zip(rows, works, strict=True)]),
    )


def _passes(rows: Sequence[NetworkRow]) -> Passes:
    columns: list[list[tuple[float, ...]]] = []
    kept: dict[tuple[int, int, int, Unit], list[tuple[float, ...]]] = {}
    for position, row in enumerate(rows):
        device = row.run.device
        key = id(row.graph), row.setup.batch, row.run.width, device.unit
        found = kept.get(key)
        if found is None:
            work = work_of(row.graph, row.setup.batch, row.run.width)
            found = kept[key] = [_columns(one, device.unit) for one in work.passes]
        columns.append([(position, device.plain if one[0] else device.peak, device.each, *one[1:]) for one in found])
    table = np.array([one for row in columns for one in row])
    whole = np.nan_to_num(table, posinf=0.0).astype(np.int64)
    return Passes(
        row=whole[:, 0], rate=table[:, 1], each=table[:, 2], count=table[:, 3], flops=table[:, 4], tiles=table[:, 5],
        moved=table[:, 6], moved_by=whole[:, 7], reached=whole[:, 8:11], half=whole[:, 11:13], sizes=table[:, 13:15],
        part=whole[:, 15], nodes=whole[:, 16:20], weights=table[:, 20:24],
    )  # fmt: skip


def _columns(one: Pass, unit: Unit) -> tuple[float, ...]:
    names = [_CONSTANT[name] for name in product.efficiency_names(unit, one)]
    halves = product.saturation(unit, one)
    share = share_of(one)
    is_depthwise, is_dense = one.matrix is Matrix.DEPTHWISE, one.matrix is Matrix.DENSE
    nodes = product.nodes_of(one)
    empty = [(0, 0.0)] * (_MOST_NODES - len(nodes))
    return (
        float(is_depthwise),
        one.alike,
        one.flops / product.used_share(unit, one),
        math.inf if is_depthwise or is_dense else one.tiles,
        0.0 if is_dense else one.moved,
        _CONSTANT["depthwise_passes" if is_depthwise else "convolution_passes"],
        *[*names, -1, -1, -1][:3],
        *[*(_CONSTANT[name] for name, _ in halves), -1, -1][:2],
        *[*(size for _, size in halves), 1.0, 1.0][:2],
        _CONVOLUTION if share is None else _PART[Block(share)],
        *(node for node, _ in (*nodes, *empty)),
        *(weight for _, weight in (*nodes, *empty)),
    )


def physics(arrays: Arrays, constants: Floats) -> Physics:
    """The seconds of each row by the physics, and what they are made of. `constants` are logarithms."""
    value = dict(zip(CONSTANT_NAMES, np.exp(constants), strict=True))
    passes, rows, nodes = arrays.passes, len(arrays.log_seconds), COUNTS[Block.CONVOLUTIONS]
    taken = _taken(arrays, constants).taken
    shares = _summed(passes.row * (len(PARTS) + 1) + passes.part, taken, rows, len(PARTS) + 1)[:, :_CONVOLUTION]
    is_one = passes.part == _CONVOLUTION
    places = passes.row[is_one, None] * nodes + passes.nodes[is_one]
    convolutions = _summed(places, taken[is_one, None] * passes.weights[is_one], rows, nodes)
    for block, seconds in _others(arrays, value).items():
        shares[:, _PART[block]] += seconds
    busy = shares.sum(axis=1) + convolutions.sum(axis=1)
    host = _launching(arrays, value) + value["step_seconds"]
    both = busy**SHARPNESS + host**SHARPNESS
    of_device = busy**SHARPNESS / both
    scale = (of_device / busy)[:, None]
    return Physics(
        log_seconds=np.log(both) / SHARPNESS,
        busy=busy,
        host=host,
        of_device=of_device,
        shares=shares * scale,
        convolutions=convolutions * scale,
    )


class _Taken(NamedTuple):
    """Seconds of passes, the shares of arithmetic and of bytes in their squares, and the share of rounds of tiles that
    are lost in the arithmetic."""

    taken: Floats
    arithmetic: Floats
    moving: Floats
    lost: Floats


def _taken(arrays: Arrays, constants: Floats) -> _Taken:
    # One more for the places that name no constant: a product with one.
    values = np.append(np.exp(constants), 1.0)
    value = dict(zip(CONSTANT_NAMES, values, strict=False))
    passes = arrays.passes
    reached = values[passes.reached].prod(axis=1) * (1 - _missed_rate(arrays, values)).prod(axis=1)
    flops = passes.flops / reached
    lost = flops * value["waves"] / passes.tiles / passes.each
    arithmetic = flops / passes.rate + lost
    moving = passes.moved * values[passes.moved_by] / value["bandwidth"] / arrays.rates[passes.row, 1]
    both = np.hypot(arithmetic, moving)
    return _Taken(passes.count * both, (arithmetic / both) ** 2, (moving / both) ** 2, lost / arithmetic)


def _missed_rate(arrays: Arrays, values: Floats) -> Floats:
    """What each of two sizes of a pass leaves of the rate unused."""
    half = np.where(arrays.passes.half < 0, 0.0, values[arrays.passes.half])
    return np.asarray(half / (arrays.passes.sizes + half))


def slopes(arrays: Arrays, constants: Floats, found: Physics) -> Floats:
    """The derivative of the logarithm of each row's seconds by the logarithm of each constant."""
    values = np.append(np.exp(constants), 1.0)
    value = dict(zip(CONSTANT_NAMES, values, strict=False))
    passes, rows, width = arrays.passes, len(arrays.log_seconds), len(values)
    start, of = passes.row * width, _taken(arrays, constants)
    by_rate, by_bytes = of.taken * of.arithmetic, of.taken * of.moving
    # Places that name no constant are the last column, which is dropped.
    columns = [(start + passes.reached[:, column] % width, -by_rate) for column in range(3)]
    missed = _missed_rate(arrays, values)
    columns += [(start + passes.half[:, column] % width, by_rate * missed[:, column]) for column in range(2)]
    columns += [
        (start + _CONSTANT["waves"], by_rate * of.lost),
        (start + passes.moved_by, by_bytes),
        (start + _CONSTANT["bandwidth"], -by_bytes),
    ]
    busy = sum((_summed(place, amount, rows, width) for place, amount in columns), np.zeros((rows, width)))
    host = np.zeros((rows, width))
    _add_others(arrays, value, busy)
    host[:, _CONSTANT["host_seconds"]] = _launching(arrays, value)
    host[:, _CONSTANT["step_seconds"]] = value["step_seconds"]
    of_device = found.of_device[:, None]
    both = busy / found.busy[:, None] * of_device + host / found.host[:, None] * (1 - of_device)
    return np.asarray(both[:, :-1])


def _add_others(arrays: Arrays, value: dict[str, float], busy: Floats) -> None:
    """Everything on the device but matrix work, to the derivatives of its seconds."""
    per_byte = 1 / (arrays.rates[:, 1] * value["bandwidth"])
    fused = np.where(arrays.xla, value["fused"], 1.0)
    for position, name in enumerate(_ELEMENT_KINDS):
        left, joined = (arrays.elements[:, position, is_fused] * value[name] * per_byte for is_fused in range(2))
        busy[:, _CONSTANT[name]] += left + joined * fused
        busy[:, _CONSTANT["fused"]] += np.where(arrays.xla, joined * fused, 0.0)
    weights = arrays.parameters * per_byte
    busy[:, _CONSTANT["weight_passes"]] += weights * 16 * value["weight_passes"] * arrays.optimizer
    busy[:, _CONSTANT["transform_passes"]] += weights * 4 * value["transform_passes"]
    others = _others(arrays, value)
    busy[:, _CONSTANT["bandwidth"]] -= others[Block.MOVED] + others[Block.WEIGHTS]
    busy[:, _CONSTANT["copy_bytes_per_second"]] -= others[Block.COPIED]
    busy[:, _CONSTANT["kernel_seconds"]] += arrays.kernels * value["kernel_seconds"]
    busy[:, _CONSTANT["step_seconds"]] += value["step_seconds"]


def _launching(arrays: Arrays, value: dict[str, float]) -> Floats:
    compiled = np.where(arrays.xla, product.COMPILED_LAUNCHES, 1.0)
    return np.asarray(arrays.launches * value["host_seconds"] * compiled)


def _summed(places: Positions, amounts: Floats, rows: int, width: int) -> Floats:
    """Sums by place in a table of so many rows and columns."""
    found = np.bincount(places.ravel(), weights=amounts.ravel(), minlength=rows * width)
    return np.asarray(found.reshape(rows, width))


def _others(arrays: Arrays, value: dict[str, float]) -> dict[Block, Floats]:
    fused = np.where(arrays.xla, value["fused"], 1.0)
    kinds = np.array([value[name] for name in _ELEMENT_KINDS])
    per_byte = 1 / (arrays.rates[:, 1] * value["bandwidth"])
    moved = arrays.elements[:, :, 0] @ kinds + arrays.elements[:, :, 1] @ kinds * fused
    passes = 16 * value["weight_passes"] * arrays.optimizer + 4 * value["transform_passes"] + product.GRADIENT_BYTES
    return {
        Block.MOVED: moved * per_byte,
        Block.WEIGHTS: arrays.parameters * passes * per_byte,
        Block.COPIED: arrays.copied / value["copy_bytes_per_second"],
        Block.LAUNCHED: arrays.kernels * value["kernel_seconds"] + value["step_seconds"],
    }


def features(arrays: Arrays, found: Physics) -> dict[Block, Floats]:
    """For each block the value of each node by row, as `features.features_of` has them for one step."""
    batches, sizes = _between(BATCHES, np.log2(arrays.batch)), _between(SIZES, np.log2(arrays.size))
    by_part = {block: found.shares[:, position : position + 1] for block, position in _PART.items()}
    return {
        **by_part,
        Block.CONVOLUTIONS: found.convolutions,
        Block.GROUPED: found.convolutions[:, GROUPED_NODES].sum(axis=1, keepdims=True),
        Block.HOST: (1 - found.of_device)[:, None],
        Block.BUSY: found.of_device[:, None],
        Block.WHOLE: np.ones((len(arrays.batch), 1)),
        Block.BALANCE: _between(BALANCES, np.log(found.busy / found.host)),
        Block.BATCH: batches,
        Block.RATES: np.log(arrays.rates / np.array(USUAL_RATES)),
        Block.SIZE_BATCH: (sizes[:, :, None] * batches[:, None, :]).reshape(len(arrays.batch), -1),
    }


def _between(axis: tuple[float, ...], at: Floats) -> Floats:
    nodes = np.array(axis)
    value = np.clip(at, nodes[0], nodes[-1])
    index = np.clip(np.searchsorted(nodes, value, side="right") - 1, 0, len(nodes) - 2)
    share = (value - nodes[index]) / (nodes[index + 1] - nodes[index])
    found = np.zeros((len(at), len(nodes)))
    rows = np.arange(len(at))
    found[rows, index] = 1 - share
    found[rows, index + 1] += share
    return found


def half_of_prior(block: Block) -> Floats:
    """A matrix whose product with its own transpose is how alike the effects on a block's nodes are: 1 for one with
    itself, by a bell curve for others, half of that between kinds."""
    nodes = NODES.get(block)
    if nodes is None:
        return np.ones((1, 1))
    places = np.array(nodes.places)
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=-1)
    kinds = np.full((nodes.kinds, nodes.kinds), 0.5) + 0.5 * np.eye(nodes.kinds)
    alike = np.kron(kinds, np.exp(-0.5 * squares))
    return np.asarray(np.linalg.cholesky(alike + _JITTER * np.eye(len(alike))))


_JITTER = 1e-6
