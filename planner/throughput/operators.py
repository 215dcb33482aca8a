"""Seconds of one training step of any network, operator by operator: arithmetic, bytes and peak rates, a few fitted
constants, and what each group of measurements says that they miss."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.throughput.operator_evidence import MeasuredNetworks
from trainplan.planner.throughput.operator_work import Direction, Matrix, work_of
from trainplan.planner.throughput.rates import Precision
from trainplan.workloads.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.throughput.operator_work import Pass, Work
    from trainplan.planner.throughput.rates import KnownRates

OPERATORS_FILE = Path(__file__).parent / "data" / "operators.json"
Level = tuple[str, ...]
"""A group of measurements: the name of its level, then what they share."""


class Unit(StrEnum):
    """What multiplies."""

    PLAIN = "plain"
    TENSOR = "tensor"
    TPU = "tpu"


class Share(StrEnum):
    """The parts of a step that a group of measurements may find longer or shorter."""

    SPATIAL_NARROW = "spatial_narrow"
    """Arithmetic of convolutions of few channels; between few and many, both count."""
    SPATIAL_WIDE = "spatial_wide"
    POINT_NARROW = "point_narrow"
    """The same of 1x1 convolutions."""
    POINT_WIDE = "point_wide"
    MOVED = "moved"
    """Bytes of activations."""
    WEIGHTS = "weights"
    """Dense layers, and the optimizer's passes over weights."""
    GROUPED = "grouped"
    FIRST = "first"
    COPIED = "copied"
    """Images from the host."""
    LAUNCHED = "launched"
    """Kernels, on the device."""
    HOST = "host"
    """The program that launches them: whichever of it and the device is slower decides."""


SHARES = tuple(Share)
_POSITION = {share: position for position, share in enumerate(SHARES)}
_MOVED, _WEIGHTS, _COPIED, _LAUNCHED, _HOST = (
    _POSITION[share] for share in (Share.MOVED, Share.WEIGHTS, Share.COPIED, Share.LAUNCHED, Share.HOST)
)
WHOLE, DOUBLINGS = "whole", "doublings"
"""Effects on the whole step, and on it by the batch's doublings from `BATCH_OF_EFFECTS`."""
BATCH_OF_EFFECTS = 64
RISE = 0.05
"""The most that a doubling of the batch may lengthen an image's time by (ADR 32)."""
FALL = 0.25
MOST_OF_A_SHARE = math.log(2)
"""What all groups together may make a part of a step longer or shorter by (a logarithm). The fit finds effects on the
tangent: one of a part that was a twentieth of its steps can be far too large where that part is all of a step."""
_NARROW, _WIDE = 6.0, 9.0
"""Doublings of the channels from which on a convolution counts as of many, and up to which as of few."""


class Device(NamedTuple):
    """What a step needs to know of one: FLOP/s of plain cores and of the unit that multiplies, bytes/s, and FLOP/s of
    one multiprocessor of that unit."""

    unit: Unit
    plain: float
    peak: float
    moved: float
    each: float


# FLOP/s of one multiprocessor in 10^12: plain cores in 32 bits, tensor cores in 16. From the vendors' white papers:
# lanes or tensor operations a clock, times twice the clock of a card of the generation (assumed alike for all of it).
_MULTIPROCESSOR = {
    "kepler": (0.33, 0.33), "maxwell": (0.28, 0.28), "pascal": (0.38, 0.38), "volta": (0.19, 1.56),
    "turing": (0.2, 1.2), "ampere": (0.25, 2.2), "ada": (0.58, 1.3), "hopper": (0.46, 7.5), "blackwell": (0.5, 12.0),
}  # fmt: skip
_OTHER_MULTIPROCESSOR = (0.2, 0.4)
_TPU_UNIT = 30e12
"""A quarter of a TPU v3's peak: it has four matrix units (Jouppi et al., Communications of the ACM 63(7), 2020)."""
_TF32_FACTOR = 0.5


def device_of(rates: KnownRates, precision: Precision) -> Device:
    """The device as it computes in a precision."""
    plain, moved = rates.flops_per_second(Precision.FP32), rates.bytes_per_second
    if rates.architecture == "tpu":
        return Device(Unit.TPU, plain, rates.flops_per_second(precision), moved, _TPU_UNIT)
    of_plain, of_tensor = _MULTIPROCESSOR.get(rates.architecture, _OTHER_MULTIPROCESSOR)
    if precision not in rates.on_matrix_units:
        return Device(Unit.PLAIN, plain, plain, moved, of_plain * 1e12)
    factor = 1.0 if precision is Precision.HALF else _TF32_FACTOR
    return Device(Unit.TENSOR, plain, rates.flops_per_second(precision), moved, factor * of_tensor * 1e12)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConstants:
    """The fitted constants. Shares are of a peak rate; FLOPs of Winograd convolutions count without its savings."""

    plain_winograd: float
    plain_winograd_weights: float
    plain_spatial: float
    plain_point: float
    plain_first: float
    plain_depth: float
    """Terms of a sum at which plain cores reach half of their rate."""
    plain_channels: float
    """Channels at which they do."""
    tensor_same: float
    """Convolutions of a stride of 1."""
    tensor_strided: float
    tensor_point: float
    tensor_first: float
    tensor_weights: float
    """What the gradient by weights reaches of the others' share."""
    tensor_depth: float
    tensor_channels: float
    tpu_spatial: float
    tpu_point: float
    tpu_first: float
    grouped: float
    """What grouped convolutions reach of the others' share."""
    depthwise: float
    depthwise_passes: float
    dense: float
    bandwidth: float
    convolution_passes: float
    """What these multiply: bytes of convolutions, and of element-wise operators by kind."""
    activation_passes: float
    norm_passes: float
    add_passes: float
    concat_passes: float
    pool_passes: float
    fused: float
    """What is left of element-wise operators that XLA joins with others."""
    weight_passes: float
    """Of the optimizer, of 16 bytes a parameter."""
    transform_passes: float
    """Of layouts, whatever the batch: of 4 bytes a parameter."""
    waves: float
    """Rounds of tiles that a kernel loses at its ends."""
    kernel_seconds: float
    host_seconds: float
    """Of the program, for each kernel and each weight."""
    step_seconds: float
    copy_bytes_per_second: float


CONSTANT_NAMES = tuple(OperatorConstants.__dataclass_fields__)


def efficiency_names(unit: Unit, row: Pass) -> tuple[str, ...]:
    """The constants whose product is the share of its unit's peak rate that a pass reaches."""
    matrix, is_weights = row.matrix, row.direction is Direction.WEIGHTS
    grouped = ("grouped",) if matrix is Matrix.GROUPED else ()
    is_first, is_point = matrix is Matrix.FIRST, matrix is Matrix.POINT
    if matrix is Matrix.DENSE:
        return ("dense",)
    if matrix is Matrix.DEPTHWISE:
        return ("depthwise",)
    if unit is Unit.TPU:
        return ("tpu_first" if is_first else "tpu_point" if is_point else "tpu_spatial", *grouped)
    if unit is Unit.TENSOR:
        kind = "tensor_strided" if row.is_strided else "tensor_same"
        name = "tensor_first" if is_first else "tensor_point" if is_point else kind
        return (name, *(("tensor_weights",) if is_weights else ()), *grouped)
    if is_first or is_point:
        return ("plain_first" if is_first else "plain_point",)
    if matrix is Matrix.WINOGRAD:
        return ("plain_winograd_weights" if is_weights else "plain_winograd",)
    return ("plain_spatial", *grouped)


def used_share(unit: Unit, row: Pass) -> float:
    """The share of a unit's rate that the sizes of a pass leave, whatever the constants."""
    if row.matrix in (Matrix.DENSE, Matrix.DEPTHWISE):
        return 1.0
    if unit is Unit.TPU:
        return math.sqrt(row.lanes)
    return row.full if unit is Unit.TENSOR else math.sqrt(row.full)


def saturation(unit: Unit, row: Pass) -> tuple[tuple[str, float], ...]:
    """Constants at which half of the rate is reached, and what is held against each."""
    if unit is Unit.TPU or row.matrix in (Matrix.DENSE, Matrix.DEPTHWISE):
        return ()
    depth = (("plain_depth" if unit is Unit.PLAIN else "tensor_depth"), row.depth)
    if row.matrix is Matrix.FIRST:
        return (depth,)
    return depth, (("plain_channels" if unit is Unit.PLAIN else "tensor_channels"), row.channels)


def wideness(row: Pass) -> float:
    """How far a convolution is of many channels, 0 to 1."""
    return min(max((math.log2(max(row.channels, 1.0)) - _NARROW) / (_WIDE - _NARROW), 0.0), 1.0)


def share_of(row: Pass) -> tuple[Share, Share]:
    """The parts of the step that the arithmetic of a pass belongs to: of few channels, and of many."""
    if row.matrix is Matrix.DENSE:
        return Share.WEIGHTS, Share.WEIGHTS
    if row.matrix is Matrix.FIRST:
        return Share.FIRST, Share.FIRST
    if row.matrix in (Matrix.GROUPED, Matrix.DEPTHWISE):
        return Share.GROUPED, Share.GROUPED
    return (Share.SPATIAL_NARROW, Share.SPATIAL_WIDE) if row.is_spatial else (Share.POINT_NARROW, Share.POINT_WIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What all groups of a step say together, as logarithms of factors: of each of `SHARES` in order, of the whole, and
    of the whole by a doubling of the batch."""

    shares: tuple[float, ...]
    whole: float
    doubling: float


class Step(NamedTuple):
    """The seconds of a step, and how they are shared: of each operator of the graph, in order."""

    seconds: float
    operators: tuple[float, ...]


class _Row(NamedTuple):
    """A pass with the constants in it: seconds are alike x hypot(flops / rate + waves, moved / bandwidth)."""

    narrow: int
    wide: int
    wideness: float
    is_whole: bool
    is_plain: bool
    alike: int
    flops: float
    waves: float
    moved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorModel:
    """The fitted constants, and the effect of each group of measurements on the shares of a step that it concerns.

    `half_widths` maps a kind of evidence to the half width of the 80 % interval in logarithms, `left_out` a measurement
    to the change of its own prediction (in logarithms of the step time) when it is taken out of the evidence."""

    constants: OperatorConstants
    effects: Mapping[Level, Mapping[str, float]]
    half_widths: Mapping[str, float]
    left_out: Mapping[str, float]
    measured: MeasuredNetworks
    _rows: dict[tuple[int, int, int, Unit], tuple[Graph, tuple[_Row, ...]]] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    _sums: dict[tuple[Level, ...], Effects] = field(init=False, default_factory=dict, compare=False, repr=False)

    def seconds(self, graph: Graph, batch: int, run: Run) -> float:
        """Seconds of one step over `batch` images on one device."""
        work = work_of(graph, batch, run.width)
        effects = self.effects_of(run.levels)
        busy = self._matrix_seconds(graph, batch, run, effects) + self._other_seconds(work, run, effects)
        host = self._host_seconds(work, run) * math.exp(effects.shares[_HOST])
        doublings = math.log2(batch / BATCH_OF_EFFECTS)
        return _slower(busy, host) * math.exp(effects.whole + effects.doubling * doublings)

    def step(self, graph: Graph, batch: int, run: Run) -> Step:
        """The same with the seconds of each operator; what belongs to none is shared by what each of them takes."""
        work, effects = work_of(graph, batch, run.width), self.effects_of(run.levels)
        found = [0.0] * len(graph.operators)
        moved_factor = math.exp(effects.shares[_MOVED])
        for one, row in zip(work.passes, self._prepared(graph, batch, run), strict=True):
            for position in one.operators:
                found[position] += _row_seconds(row, run.device, effects.shares, moved_factor) / one.alike
        per_byte = moved_factor / (run.device.moved * self.constants.bandwidth)
        for kind in work.elements:
            factor = getattr(self.constants, kind.constant) * (
                self.constants.fused if kind.is_fused and run.xla else 1.0
            )
            for position in kind.operators:
                found[position] += kind.moved * factor * per_byte / len(kind.operators)
        seconds = self.seconds(graph, batch, run)
        scale = seconds / max(sum(found), 1e-30)
        return Step(seconds, tuple(scale * one for one in found))

    def effects_of(self, levels: Sequence[Level]) -> Effects:
        """All groups' effects together; kept for other steps of the same."""
        known = tuple(level for level in levels if level in self.effects)
        found = self._sums.get(known)
        if found is None:
            rows = [self.effects[level] for level in known]

            def total(name: str) -> float:
                return sum(row.get(name, 0.0) for row in rows)

            found = self._sums[known] = Effects(
                shares=tuple(min(max(total(share), -MOST_OF_A_SHARE), MOST_OF_A_SHARE) for share in SHARES),
                whole=total(WHOLE),
                doubling=min(max(total(DOUBLINGS), -FALL), RISE),
            )
        return found

    def _matrix_seconds(self, graph: Graph, batch: int, run: Run, effects: Effects) -> float:
        device, shares, moved_factor = run.device, effects.shares, math.exp(effects.shares[_MOVED])
        return sum([_row_seconds(row, device, shares, moved_factor) for row in self._prepared(graph, batch, run)])

    def _prepared(self, graph: Graph, batch: int, run: Run) -> tuple[_Row, ...]:
        key = id(graph), batch, run.width, run.device.unit
        kept = self._rows.get(key)
        if kept is None:
            if len(self._rows) >= _MOST:
                self._rows.clear()
            rows = tuple(self._row(row, run.device.unit) for row in work_of(graph, batch, run.width).passes)
            # The graph is kept beside the answer, so that no other object can come by its id.
            kept = self._rows[key] = (graph, rows)
        return kept[1]

    def _row(self, row: Pass, unit: Unit) -> _Row:
        constants = self.constants
        names = efficiency_names(unit, row)
        reached = math.prod(getattr(constants, name) for name in names) * used_share(unit, row)
        for name, size in saturation(unit, row):
            reached *= size / (size + getattr(constants, name))
        is_depthwise = row.matrix is Matrix.DEPTHWISE
        has_tiles = row.matrix not in (Matrix.DENSE, Matrix.DEPTHWISE)
        passes = constants.depthwise_passes if is_depthwise else constants.convolution_passes
        narrow, wide = share_of(row)
        flops = row.flops / reached
        return _Row(
            narrow=_POSITION[narrow],
            wide=_POSITION[wide],
            wideness=wideness(row),
            is_whole=narrow in (Share.FIRST, Share.GROUPED),
            is_plain=is_depthwise,
            alike=row.alike,
            flops=flops,
            waves=flops * constants.waves / row.tiles if has_tiles else 0.0,
            moved=0.0 if row.matrix is Matrix.DENSE else row.moved * passes / constants.bandwidth,
        )

    def _other_seconds(self, work: Work, run: Run, effects: Effects) -> float:
        """Seconds of everything on the device but matrix work."""
        constants, shares = self.constants, effects.shares
        moved = 0.0
        for kind in work.elements:
            factor = constants.fused if kind.is_fused and run.xla else 1.0
            moved += kind.moved * factor * getattr(constants, kind.constant)
        passes = 16 * constants.weight_passes * run.optimizer_step + 4 * constants.transform_passes + GRADIENT_BYTES
        per_byte = 1 / (run.device.moved * constants.bandwidth)
        return (
            moved * per_byte * math.exp(shares[_MOVED])
            + work.parameters * passes * per_byte * math.exp(shares[_WEIGHTS])
            + work.copied * run.copies / constants.copy_bytes_per_second * math.exp(shares[_COPIED])
            + (work.kernels * constants.kernel_seconds + constants.step_seconds) * math.exp(shares[_LAUNCHED])
        )

    def _host_seconds(self, work: Work, run: Run) -> float:
        launched = (work.kernels + work.tensors) * self.constants.host_seconds
        return launched * (COMPILED_LAUNCHES if run.xla else 1.0) + self.constants.step_seconds


class Run(NamedTuple):
    """How a step is run: on what, in values of how many bytes, and the groups of measurements it belongs to. `copies`:
    whether images come from the host at each step."""

    device: Device
    width: int
    xla: bool
    optimizer_step: bool
    copies: bool
    levels: tuple[Level, ...]


_MOST = 4_096
GRADIENT_BYTES = 12.0
"""A parameter: its gradient written and read, and the weight read."""
COMPILED_LAUNCHES = 0.4
"""XLA launches fewer kernels, by this factor (assumed; its effect is fitted with the group of compiled programs)."""
SHARPNESS = 4.0


def _slower(busy: float, host: float) -> float:
    """About the longer of the two: they overlap, but not wholly."""
    longer, shorter = max(busy, host), min(busy, host)
    return longer * math.pow(1 + math.pow(shorter / longer, SHARPNESS), 1 / SHARPNESS)


def _row_seconds(row: _Row, device: Device, shares: tuple[float, ...], moved_factor: float) -> float:
    narrow, wide, wideness, is_whole, is_plain, alike, flops, waves, moved = row
    arithmetic = flops / (device.plain if is_plain else device.peak) + waves / device.each
    moving = moved / device.moved
    if is_whole:
        return alike * math.hypot(arithmetic, moving) * math.exp(shares[narrow])
    effect = math.exp(shares[narrow] * (1 - wideness) + shares[wide] * wideness)
    return alike * math.hypot(arithmetic * effect, moving * moved_factor)


def load_operators(path: Path = OPERATORS_FILE) -> OperatorModel:
    """The shipped model. Raises OSError or ValueError where the file is not one."""
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    sources = values["sources"]
    counts = {
        (device, network, sources[int(position)]): count
        for device, networks in values["measured"].items()
        for network, by_source in networks.items()
        for position, count in by_source.items()
    }
    return OperatorModel(
        constants=OperatorConstants(**values["constants"]),
        effects={tuple(key.split(" / ")): row for key, row in values["effects"].items()},
        half_widths=values["half_widths"],
        left_out=values["left_out"],
        measured=MeasuredNetworks(counts=counts),
    )
