"""The model of operators over many rows at once: the same figures as `trainplan.planner.throughput.operators`, as
arrays.

A row's effects are logarithms of factors of the shares of its step, one column for each of `SHARES`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainplan.planner.throughput import operators as product
from trainplan.planner.throughput.operator_work import Matrix, work_of
from trainplan.planner.throughput.operators import CONSTANT_NAMES, SHARES, Share, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.fit.operators.rows import NetworkRow
    from trainplan.planner.throughput.operator_work import Pass

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
_COLUMN = {share: position for position, share in enumerate(SHARES)}
_CONSTANT = {name: position for position, name in enumerate(CONSTANT_NAMES)}
_ELEMENT_KINDS = ("activation_passes", "norm_passes", "add_passes", "concat_passes", "pool_passes")
HOST, DEVICE = _COLUMN[Share.HOST], [position for share, position in _COLUMN.items() if share is not Share.HOST]


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Every pass of every row. `reached` has the places of up to three constants whose product is its efficiency (-1:
    none), `half` those of the sizes of which half of the rate is reached, `sizes` what is held against them."""

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
    narrow: Positions
    wide: Positions
    wideness: Floats
    is_whole: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """All that the seconds of a row depend on. `elements[row, kind, is_fused]` are bytes."""

    log_seconds: Floats
    doublings: Floats
    passes: Passes
    elements: Floats
    moved: Floats
    xla: NDArray[np.bool_]
    kernels: Floats
    launches: Floats
    parameters: Floats
    optimizer: Floats
    copied: Floats

    def take(self, positions: Positions) -> Arrays:
        """Those of some rows."""
        number = np.full(len(self.log_seconds), -1)
        number[positions] = np.arange(len(positions))
        kept = number[self.passes.row] >= 0
        passes = {name: getattr(self.passes, name)[kept] for name in Passes.__dataclass_fields__}
        passes["row"] = number[passes["row"]]
        others = {name: getattr(self, name)[positions] for name in Arrays.__dataclass_fields__ if name != "passes"}
        return Arrays(passes=Passes(**passes), **others)


def arrays_of(rows: Sequence[NetworkRow]) -> Arrays:
    """The arrays of rows, read off the product's own work of operators."""
    works = [work_of(row.graph, row.setup.batch, row.run.width) for row in rows]
    elements = np.zeros((len(rows), len(_ELEMENT_KINDS), 2))
    for position, work in enumerate(works):
        for kind in work.elements:
            elements[position, _ELEMENT_KINDS.index(kind.constant), int(kind.is_fused)] += kind.moved
    return Arrays(
        log_seconds=np.array([row.log_seconds for row in rows]),
        doublings=np.log2(np.array([row.setup.batch for row in rows]) / product.BATCH_OF_EFFECTS),
        passes=_passes(rows),
        elements=elements,
        moved=np.array([row.run.device.moved for row in rows]),
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
        if key not in kept:
            kept[key] = [
                _columns(one, device.unit) for one in work_of(row.graph, row.setup.batch, row.run.width).passes
            ]
        columns.append(
            [(position, device.plain if one[0] else device.peak, device.each, *one[1:]) for one in kept[key]]
        )
    table = np.array([one for of_row in columns for one in of_row])
    whole = np.where(np.isfinite(table), table, 0.0).astype(np.int64)
    return Passes(
        row=whole[:, 0], rate=table[:, 1], each=table[:, 2], count=table[:, 3], flops=table[:, 4], tiles=table[:, 5],
        moved=table[:, 6], moved_by=whole[:, 7], reached=whole[:, 8:11], half=whole[:, 11:13], sizes=table[:, 13:15],
        narrow=whole[:, 15], wide=whole[:, 16], wideness=table[:, 17], is_whole=table[:, 18] > 0,
    )  # fmt: skip


def _columns(one: Pass, unit: Unit) -> tuple[float, ...]:
    names = [_CONSTANT[name] for name in product.efficiency_names(unit, one)]
    halves = product.saturation(unit, one)
    narrow, wide = product.share_of(one)
    is_depthwise, is_dense = one.matrix is Matrix.DEPTHWISE, one.matrix is Matrix.DENSE
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
        _COLUMN[narrow],
        _COLUMN[wide],
        product.wideness(one),
        float(narrow in (Share.FIRST, Share.GROUPED)),
    )


def seconds_of_shares(arrays: Arrays, constants: Floats, effects: Floats) -> tuple[Floats, Floats]:
    """The seconds of each share of each row's step, and of the arithmetic and the bytes of its passes by share: how the
    seconds change with the effects. `constants` are logarithms."""
    # One more for the places that name no constant: a product with one.
    values = np.append(np.exp(constants), 1.0)
    passes = arrays.passes
    reached = values[passes.reached].prod(axis=1)
    for column in range(2):
        half = np.where(passes.half[:, column] < 0, 0.0, values[passes.half[:, column]])
        reached *= passes.sizes[:, column] / (passes.sizes[:, column] + half)
    value = dict(zip(CONSTANT_NAMES, values, strict=False))
    flops = passes.flops / reached
    arithmetic = flops / passes.rate + flops * value["waves"] / passes.tiles / passes.each
    moving = passes.moved * values[passes.moved_by] / value["bandwidth"] / arrays.moved[passes.row]
    factors = np.exp(effects)
    narrow, wide = effects[passes.row, passes.narrow], effects[passes.row, passes.wide]
    own = np.exp(narrow * (1 - passes.wideness) + wide * passes.wideness)
    moving *= np.where(passes.is_whole, own, factors[passes.row, _COLUMN[Share.MOVED]])
    arithmetic *= own
    taken = np.hypot(arithmetic, moving)
    squares = passes.count * arithmetic**2 / taken
    rows = len(arrays.log_seconds)
    found = np.zeros((rows, len(SHARES)))

    def add(column: Positions, amount: Floats) -> None:
        np.add.at(found, (passes.row, column), amount)

    of_arithmetic = np.where(passes.is_whole, passes.count * taken, squares)
    add(passes.narrow, of_arithmetic * (1 - passes.wideness))
    add(passes.wide, of_arithmetic * passes.wideness)
    add(
        np.full_like(passes.narrow, _COLUMN[Share.MOVED]),
        np.where(passes.is_whole, 0.0, passes.count * taken - squares),
    )
    _add_others(found, arrays, value, factors)
    return found, _total(found)


def _add_others(found: Floats, arrays: Arrays, value: dict[str, float], factors: Floats) -> None:
    fused = np.where(arrays.xla, value["fused"], 1.0)
    kinds = np.array([value[name] for name in _ELEMENT_KINDS])
    per_byte = 1 / (arrays.moved * value["bandwidth"])
    moved = arrays.elements[:, :, 0] @ kinds + arrays.elements[:, :, 1] @ kinds * fused
    passes = 16 * value["weight_passes"] * arrays.optimizer + 4 * value["transform_passes"] + product.GRADIENT_BYTES
    others = {
        Share.MOVED: moved * per_byte,
        Share.WEIGHTS: arrays.parameters * passes * per_byte,
        Share.COPIED: arrays.copied / value["copy_bytes_per_second"],
        Share.LAUNCHED: arrays.kernels * value["kernel_seconds"] + value["step_seconds"],
        Share.HOST: arrays.launches * value["host_seconds"] * np.where(arrays.xla, product.COMPILED_LAUNCHES, 1.0)
        + value["step_seconds"],
    }
    for share, seconds in others.items():
        column = _COLUMN[share]
        found[:, column] += seconds * factors[:, column]


def _total(found: Floats) -> Floats:
    busy, host = found[:, DEVICE].sum(axis=1), found[:, HOST]
    power = product.SHARPNESS
    return np.asarray((busy**power + host**power) ** (1 / power))


def slopes(found: Floats) -> Floats:
    """How the logarithm of each row's seconds changes with the effect on each share."""
    busy, host = found[:, DEVICE].sum(axis=1), found[:, HOST]
    power = product.SHARPNESS
    weight = busy**power / (busy**power + host**power)
    slope = found / busy[:, None] * weight[:, None]
    slope[:, HOST] = 1 - weight
    return np.asarray(slope)
