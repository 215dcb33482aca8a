"""Seconds of one training step of any network, operator by operator.

Physics carries the answer: arithmetic and bytes over peak rates, kernel launches, the host, with a few fitted
constants. What the measurements show beside it is log-linear: the logarithm of the seconds is that of the physics plus
the sum of `Features` times the effects of the groups of measurements that the step belongs to. They make no part of a
step longer or shorter by more than a factor of 4, nor the whole by more than one of 3.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.throughput.features import (
    COUNTS,
    GROUPED_NODES,
    Block,
    Features,
    Parts,
    convolution_nodes,
    features_of,
)
from trainplan.planner.throughput.operator_evidence import MeasuredNetworks
from trainplan.planner.throughput.operator_work import Direction, Matrix, work_of
from trainplan.planner.throughput.rates import Precision
from trainplan.workloads.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.throughput.grid import Node
    from trainplan.planner.throughput.operator_work import Elements, Pass, Work
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
    """The parts of a step, but for its convolutions: each second of a step belongs to one part."""

    MOVED = "moved"
    """Bytes of element-wise operators."""
    WEIGHTS = "weights"
    """Dense layers, and the optimizer's passes over weights."""
    FIRST = "first"
    COPIED = "copied"
    """Images from the host."""
    LAUNCHED = "launched"
    """Kernels, on the device."""
    HOST = "host"
    """The program that launches them: whichever of it and the device is slower decides."""


class Device(NamedTuple):
    """What a step needs to know of one: FLOP/s of plain cores and of the unit that multiplies, bytes/s, and FLOP/s of
    one multiprocessor of that unit."""

    unit: Unit
    plain: float
    peak: float
    moved: float
    each: float

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """In the order of `features.USUAL_RATES`."""
        return self.peak, self.moved, self.plain, self.each


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


def share_of(row: Pass) -> Share | None:
    """The part of the step that a pass belongs to; None for the convolutions that `features.conv_nodes` places."""
    if row.matrix is Matrix.DENSE:
        return Share.WEIGHTS
    return Share.FIRST if row.matrix is Matrix.FIRST else None


class Step(NamedTuple):
    """The seconds of a step, and how they are shared: of each operator of the graph, in order."""

    seconds: float
    operators: tuple[float, ...]


class _Row(NamedTuple):
    """A pass with the constants in it: its seconds are alike x hypot(flops / rate + waves / each, moved / bandwidth).
    `block` is the part that they belong to, `nodes` those of a convolution, `least` the FLOPs that no program
    saves: on plain cores Winograd's transform and Fourier's do with fewer for larger kernels."""

    block: Block
    nodes: list[Node]
    is_plain: bool
    alike: int
    least: float
    flops: float
    waves: float
    moved: float


Effects = Mapping[Block, tuple[float, ...]]
"""The logarithm of a factor for each node of a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorModel:
    """The fitted constants, and the effects of each group of measurements on the features of a step.

    `half_widths` maps a kind of evidence to the half width of the 80 % interval in logarithms, `left_out` a measurement
    to the change of its own prediction (in logarithms of the step time) when it is taken out of the evidence."""

    constants: OperatorConstants
    effects: Mapping[Level, Effects]
    half_widths: Mapping[str, float]
    left_out: Mapping[str, float]
    measured: MeasuredNetworks
    _rows: dict[tuple[int, int, int, Unit], tuple[Graph, tuple[_Row, ...]]] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    _seconds: dict[tuple[int, int, Run], tuple[Graph, float]] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    _sums: dict[tuple[Level, ...], Effects] = field(init=False, default_factory=dict, compare=False, repr=False)

    def seconds(self, graph: Graph, batch: int, run: Run) -> float:
        """Seconds of one step over `batch` images on one device; never below the arithmetic at the peak rate.

        Twice the batch never takes more than 5 % longer an image (ADR 32): where it would, the smaller batch takes
        longer. The measurements are mostly of large batches.
        """
        key = id(graph), batch, run
        kept = self._seconds.get(key)
        if kept is None:
            if len(self._seconds) >= _MOST_STEPS:
                self._seconds.clear()
            parts = self.parts(graph, batch, run)
            features = features_of(parts, batch, graph.input_shape.height, run.device.rates)
            found = parts.seconds * math.exp(learned(features, self.effects_of(run.levels)))
            found = max(found, sum(map(_least_seconds, self._prepared(graph, batch, run), repeat(run.device))))
            if 2 * batch <= _MOST_IMAGES:
                found = max(found, self.seconds(graph, 2 * batch, run) / (2 * math.exp(RISE)))
            # The graph is kept beside the answer, so that no other object can come by its id.
            kept = self._seconds[key] = (graph, found)
        return kept[1]

    def parts(self, graph: Graph, batch: int, run: Run) -> Parts:
        """The seconds by the physics, and what they are made of."""
        shares, device = dict.fromkeys(_PARTS, 0.0), run.device
        convolutions: dict[int, float] = {}
        for row in self._prepared(graph, batch, run):
            seconds = _row_seconds(row, device)
            if row.nodes:
                for node, weight in row.nodes:
                    convolutions[node] = convolutions.get(node, 0.0) + weight * seconds
            else:
                shares[row.block] += seconds
        work = work_of(graph, batch, run.width)
        for block, seconds in self._others(work, run).items():
            shares[block] += seconds
        busy, host = sum(shares.values()) + sum(convolutions.values()), self._host_seconds(work, run)
        # The exponent makes the shorter of the two count where they are near.
        of_device = math.pow(busy, SHARPNESS) / (math.pow(busy, SHARPNESS) + math.pow(host, SHARPNESS))
        scale = of_device / busy
        return Parts(
            seconds=math.pow(math.pow(busy, SHARPNESS) + math.pow(host, SHARPNESS), 1 / SHARPNESS),
            busy=busy,
            host=host,
            shares={**{block: scale * seconds for block, seconds in shares.items()}, Block.HOST: 1 - of_device},
            convolutions={node: scale * seconds for node, seconds in convolutions.items()},
        )

    def step(self, graph: Graph, batch: int, run: Run) -> Step:
        """The same with the seconds of each operator; what belongs to none is shared by what each of them takes."""
        work = work_of(graph, batch, run.width)
        found = [0.0] * len(graph.operators)
        for one, row in zip(work.passes, self._prepared(graph, batch, run), strict=True):
            for position in one.operators:
                found[position] += _row_seconds(row, run.device) / one.alike
        for kind in work.elements:
            seconds = self._element_seconds(kind, run)
            for position in kind.operators:
                found[position] += seconds / len(kind.operators)
        seconds = self.seconds(graph, batch, run)
        scale = seconds / max(sum(found), 1e-30)
        return Step(seconds, tuple(scale * one for one in found))

    def effects_of(self, levels: Sequence[Level]) -> Effects:
        """All groups' effects together; kept for other steps of the same."""
        known = tuple(level for level in levels if level in self.effects)
        found = self._sums.get(known)
        if found is None:
            rows: dict[Block, list[tuple[float, ...]]] = {}
            for level in known:
                for block, values in self.effects[level].items():
                    rows.setdefault(block, []).append(values)
            sums = {block: tuple(map(math.fsum, zip(*values, strict=True))) for block, values in rows.items()}
            found = self._sums[known] = _with_groups(sums)
        return found

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
        flops = row.flops / reached
        return _Row(
            block=part_of(row),
            nodes=nodes_of(row),
            is_plain=is_depthwise,
            alike=row.alike,
            least=0.0 if unit is Unit.PLAIN and row.is_spatial else row.flops,
            flops=flops,
            waves=flops * constants.waves / row.tiles if has_tiles else 0.0,
            moved=0.0 if row.matrix is Matrix.DENSE else row.moved * passes / constants.bandwidth,
        )

    def _others(self, work: Work, run: Run) -> dict[Block, float]:
        """Seconds of everything on the device but matrix work."""
        constants = self.constants
        passes = 16 * constants.weight_passes * run.optimizer_step + 4 * constants.transform_passes + GRADIENT_BYTES
        return {
            Block.MOVED: sum(self._element_seconds(kind, run) for kind in work.elements),
            Block.WEIGHTS: work.parameters * passes / (run.device.moved * constants.bandwidth),
            Block.COPIED: work.copied * run.copies / constants.copy_bytes_per_second,
            Block.LAUNCHED: work.kernels * constants.kernel_seconds + constants.step_seconds,
        }

    def _element_seconds(self, kind: Elements, run: Run) -> float:
        constants = self.constants
        factor = constants.fused if kind.is_fused and run.xla else 1.0
        return kind.moved * factor * float(getattr(constants, kind.constant)) / (run.device.moved * constants.bandwidth)

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
_MOST_STEPS = 16_384
GRADIENT_BYTES = 12.0
"""A parameter: its gradient written and read, and the weight read."""
COMPILED_LAUNCHES = 0.4
"""XLA launches fewer kernels, by this factor (assumed; its effect is fitted with the group of compiled programs)."""
SHARPNESS = 4.0
RISE = 0.05
"""The most that a doubling of the batch may lengthen an image's time by (ADR 32)."""
_MOST_IMAGES = 4_096
MOST_OF_A_PART, MOST_OF_THE_WHOLE = math.log(4), math.log(3)
"""What all groups together may make a part of a step, and the whole, longer or shorter by (logarithms)."""
_PARTS = tuple(Block(share) for share in Share if share is not Share.HOST)
_OF_PARTS = (*_PARTS, Block.HOST, Block.CONVOLUTIONS)
_OF_THE_WHOLE = tuple(block for block in Block if block not in _OF_PARTS)


def learned(features: Features, effects: Effects) -> float:
    """The logarithm of what the measurements make of the physics' seconds."""
    total = 0.0
    for block in _OF_PARTS:
        values = effects.get(block)
        if values is not None:
            for node, share in features.get(block, ()):
                total += share * min(max(values[node], -MOST_OF_A_PART), MOST_OF_A_PART)
    whole = sum(
        value * effects[block][node] for block in _OF_THE_WHOLE if block in effects for node, value in features[block]
    )
    return total + min(max(whole, -MOST_OF_THE_WHOLE), MOST_OF_THE_WHOLE)


def part_of(row: Pass) -> Block:
    """The block of a pass."""
    share = share_of(row)
    return Block.CONVOLUTIONS if share is None else Block(share)


def nodes_of(row: Pass) -> list[Node]:
    """Where a convolution is among `features.CHANNELS` and `features.SIDES`; nothing of other passes."""
    if share_of(row) is not None:
        return []
    kind = 2 if row.matrix in (Matrix.GROUPED, Matrix.DEPTHWISE) else 1 if row.matrix is Matrix.POINT else 0
    return convolution_nodes(math.log2(max(row.channels, 1.0)), row.side, kind)


def _row_seconds(row: _Row, device: Device) -> float:
    rate = device.plain if row.is_plain else device.peak
    return row.alike * math.hypot(row.flops / rate + row.waves / device.each, row.moved / device.moved)


def _least_seconds(row: _Row, device: Device) -> float:
    return row.alike * row.least / (device.plain if row.is_plain else device.peak)


def _with_groups(effects: dict[Block, tuple[float, ...]]) -> Effects:
    """The effect on convolutions of groups joins those of their nodes."""
    of_groups = effects.pop(Block.GROUPED, (0.0,))[0]
    if of_groups:
        nodes = list(effects.get(Block.CONVOLUTIONS, (0.0,) * COUNTS[Block.CONVOLUTIONS]))
        nodes[GROUPED_NODES] = [value + of_groups for value in nodes[GROUPED_NODES]]
        effects[Block.CONVOLUTIONS] = tuple(nodes)
    return effects


def load_operators(path: Path = OPERATORS_FILE) -> OperatorModel:
    """The shipped model, read once in a process as `model.load_model` is. Raises OSError or ValueError where the file
    is not one."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, _changed_ns: int) -> OperatorModel:
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
        effects={
            tuple(key.split(" / ")): {Block(block): tuple(found) for block, found in row.items()}
            for key, row in values["effects"].items()
        },
        half_widths=values["half_widths"],
        left_out=values["left_out"],
        measured=MeasuredNetworks(counts=counts),
    )
