"""Seconds of one training step from arithmetic, bytes and peak rates, layer by layer, with a few fitted constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING

from trainplan.planner.throughput.grid import DENSE_NODES, OTHER_NODES, Node, batch_nodes, conv_nodes
from trainplan.planner.throughput.rates import Precision
from trainplan.planner.throughput.remember import per_net
from trainplan.planner.throughput.setup import Era, Library, Link
from trainplan.workloads.graph import Graph
from trainplan.workloads.layers import figures, trained_parameters
from trainplan.workloads.memory import footprint
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainplan.planner.throughput.setup import Setup
    from trainplan.workloads.layers import LayerFigures, Net


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The fitted constants of a step on one device. Efficiencies are shares of a peak rate.

    A convolution in fp32 can be above one: the Winograd transform saves multiplications, and FLOPs count without it.
    """

    first_conv: float
    """Share of the fp32 peak that a convolution of few channels reaches."""
    conv: float
    """Share of the fp32 peak of a convolution, forward and towards its input."""
    conv_weights: float
    """The same towards its weights."""
    tensor_conv: float
    """Share of the tensor-core peak of a convolution, all passes."""
    dense: float
    """Share of the peak of dense layers."""
    bandwidth: float
    """Share of the peak bandwidth that activations are moved at."""
    norm_passes: float
    """Batch norm: times six passes over its activations."""
    optimizer_passes: float
    """Times four passes over the weights, where the optimizer steps."""
    filter_passes: float
    """Times four passes over convolution weights: layout and Winograd transforms, independent of the batch."""
    launch_seconds: float
    """Per kernel."""
    depth_seconds: float
    """Per element of a reduction: what a chain of multiply-accumulates takes however many run beside it."""
    step_seconds: float
    """Per step."""
    copy_bytes_per_second: float
    """Images from the host to the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryConstants:
    """The fitted constants of one library that shares a step among devices."""

    reach: float
    """Share of the link's speed that counts: above one where gradients travel while the backward pass goes on."""
    hop_seconds: float
    """Per doubling of the devices."""
    jitter: float
    """Share of the step lost per doubling: the slowest device is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConstants:
    """The fitted constants of sharing a step among devices: of each link, and of each library over any of them."""

    bytes_per_second: dict[Link, float]
    libraries: dict[Library, LibraryConstants]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: the seconds of its parts on one device, of the whole, and of waiting for the other devices.

    `parts` has the node of each part on the grid of corrections (see `grid`), once each, and its seconds.
    """

    parts: tuple[tuple[int, float], ...]
    device_seconds: float
    seconds: float
    memory_pressure: float


# NVLink grew with the generations; relative to the first. The links between TPU chips carry about what its third did.
_NVLINK_GENERATION = {
    **{"pascal": 1.0, "volta": 1.6, "turing": 1.0, "ampere": 3.5},
    **{"hopper": 5.0, "blackwell": 9.0, "tpu": 3.5},
}
# Rows over PCIe are of its generations 3 and 4; the 5th has twice the rate (PCI-SIG: 32 and 16 GT/s a lane).
_PCIE_5 = 2.0
# The host's bus after 2021, by the cards' generation, relative to that of rows up to then (12 GB/s). Of the 4th: two to
# eight RTX 3090 and 4090 on EPYC Rome waited 8, 25 and 55 ms for ResNet-50's gradients, in proportion to the messages
# (server-gear.com, 2023). Of the 5th: between twice that and the 448 GB/s that NCCL alone reaches with eight RTX 5090
# (github.com/NVIDIA/nccl/issues/1639, 2025-03), as factors. Of the 3rd: half of the 4th (assumed).
_HOST_BUS = {3: 39 / 2 / 12, 4: 39 / 12, 5: math.sqrt(78 * 448) / 12}
# The share of a device's memory (as the data sheet has it) that a step needs from where on frameworks are left with too
# little workspace for cuDNN's fast algorithms, and where that is felt in full. Steps of 0.86 to 0.91 were 0.45 to 0.78
# times as fast as those of half the batch, of 0.81 and less at least 0.91 times (profet-0177, -0501, -0769, -1162;
# -0509, -0513, -0777, -0781, -1170, -1174). No framework gets more than 0.97 of a GPU's memory (devices.toml).
_PRESSURE_FROM, _PRESSURE_FULL = 0.825, 0.875
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What one layer costs for one batch, before any device: FLOPs, bytes, kernels, and where it is on the grid."""

    first_flops: float = 0.0
    conv_flops: float = 0.0
    weight_flops: float = 0.0
    dense_flops: float = 0.0
    moved: float
    norm: float = 0.0
    weights: float = 0.0
    filters: float = 0.0
    kernels: int
    depth: float = 0.0
    nodes: tuple[Node, ...]


def step(setup: Setup, constants: Constants, links: LinkConstants) -> Step:
    """The seconds of one training step, and its parts."""
    seconds_per = costs(setup, constants)
    parts = tuple((node, math.fsum(map(mul, amounts, seconds_per))) for node, amounts in work_of(setup))
    alone = sum(seconds for _, seconds in parts)
    together = alone + waiting_seconds(alone, *sharing(setup, links, setup.count))
    return Step(parts=parts, device_seconds=alone, seconds=together, memory_pressure=memory_pressure(setup))


def waiting_seconds(alone: float, travelling_seconds: float, jitter: float) -> float:
    """Seconds by which a step of `alone` seconds on one device is longer on several, by what `sharing` has."""
    return travelling_seconds + (alone + travelling_seconds) * jitter


def sharing(setup: Setup, links: LinkConstants, count: int) -> tuple[float, float]:
    """The seconds that gradients travel among `count` of the set-up's devices, and the share of the step by which the
    slowest of them is later.

    The chips of a TPU slice run one program in step: MLPerf's slices of 64 chips are 4.01 times as fast as those of 16
    (mlperf-0002, -0004). What they wait for each other is in the rows that a chip is known by, which are of slices.
    """
    if setup.rates.architecture == "tpu":
        return _travelling_seconds(setup, links, count), 0.0
    return _travelling_seconds(setup, links, count), links.libraries[setup.library].jitter * math.log2(count)


def costs(setup: Setup, constants: Constants) -> tuple[float, ...]:
    """Seconds of one of each amount in `work_of`, in their order, on the device."""
    rates = setup.rates
    plain = rates.flops_per_second(Precision.FP32)
    peak = rates.flops_per_second(setup.precision)
    tensor = setup.precision in rates.on_matrix_units
    conv = 1 / (peak * constants.tensor_conv if tensor else plain * constants.conv)
    per_byte = 1 / rates.bytes_per_second
    return (
        1 / (plain * constants.first_conv),
        conv,
        conv if tensor else 1 / (plain * constants.conv_weights),
        1 / ((peak if tensor else plain) * constants.dense),
        per_byte / constants.bandwidth,
        constants.depth_seconds,
        constants.launch_seconds,
        constants.step_seconds,
        constants.optimizer_passes * per_byte if setup.optimizer_step else 0.0,
        constants.norm_passes * per_byte,
        1 / constants.copy_bytes_per_second,
        constants.filter_passes * per_byte,
    )


def work_of(setup: Setup) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """What a step does at each node of the grid, on any device.

    Amounts are FLOPs of first convolutions, of others forward and towards their inputs, towards their weights, and of
    dense layers; bytes moved; elements of reductions; kernels; steps; then bytes of weights that the optimizer goes
    over, of batch norm, of images copied, and of filters transformed.
    """
    return _works(setup.net, setup.batch, 2 if setup.precision is Precision.HALF else 4)


@per_net
def _works(net: Net | Graph, batch: int, width: int) -> tuple[tuple[int, tuple[float, ...]], ...]:
    if isinstance(net, Graph):
        raise TypeError(f"{net.name} is no list of layers: trainplan.planner.throughput.operators has its seconds")
    layers = [_work(layer, batch, width) for layer in figures(net) if layer.kind != "flatten"]
    at_nodes: dict[int, list[float]] = {}

    def add(node: int, first_column: int, *amounts: float) -> None:
        sums = at_nodes.setdefault(node, [0.0] * _AMOUNTS)
        for column, amount in enumerate(amounts, start=first_column):
            sums[column] += amount

    for work in layers:
        amounts = (work.first_flops, work.conv_flops, work.weight_flops, work.dense_flops, work.moved, work.depth)
        for node, weight in work.nodes:
            add(node, 0, *(weight * amount for amount in amounts))
    launches, optimizer, norm, copying, transforms = OTHER_NODES
    add(launches, _LAUNCHED, sum(work.kernels for work in layers), 1.0)
    add(optimizer, _LAUNCHED + 2, sum(work.weights for work in layers))
    add(norm, _LAUNCHED + 3, sum(work.norm for work in layers))
    add(copying, _LAUNCHED + 4, batch * net.image_size**2 * net.channels * 4.0)
    add(transforms, _LAUNCHED + 5, sum(work.filters for work in layers))
    return tuple((node, tuple(sums)) for node, sums in at_nodes.items())


_LAUNCHED, _AMOUNTS = 6, 12


def device_seconds(setup: Setup, each: Iterable[float]) -> float:
    """Seconds of the step on one device: those of `step`, without its parts. `each` is what `costs` has of it."""
    amounts = _sums(setup.net, setup.batch, 2 if setup.precision is Precision.HALF else 4)
    return math.fsum(map(mul, amounts, each))


@per_net
def _sums(net: Net | Graph, batch: int, width: int) -> tuple[float, ...]:
    return tuple(map(sum, zip(*(amounts for _, amounts in _works(net, batch, width)), strict=True)))


def _work(layer: LayerFigures, batch: int, width: int) -> _Work:
    flops = 2.0 * layer.macs * batch
    moved = float(layer.bytes_forward(batch, width) + layer.bytes_backward(batch, width))
    if layer.frozen:
        return _frozen(layer, batch, flops, moved, width)
    if layer.kind == "conv":
        return _conv(layer, batch, flops, moved + 4.0 * batch * layer.output_elements * width, width)
    if layer.kind == "dense":
        nodes = tuple(batch_nodes(DENSE_NODES, batch))
        weights = layer.parameters * _WEIGHT_PASS_BYTES
        passes = 3 if layer.passes_back else 2
        return _Work(dense_flops=passes * flops, moved=moved, weights=weights, kernels=4, nodes=nodes)
    return _Work(moved=moved, kernels=2, nodes=tuple(batch_nodes(None, batch)))


def _conv(layer: LayerFigures, batch: int, flops: float, moved: float, width: int) -> _Work:
    """`moved` counts the activation function too: read and written once more each way."""
    side, _, filters = layer.output_shape
    # Weights of one filter, so reductions forward; times filters over channels, those towards the input.
    depth = layer.macs / layer.output_elements
    channels = layer.input_elements / (side * side)
    few = channels <= _FEW_CHANNELS
    norm = layer.moving_statistics > 0
    weights = layer.parameters * _WEIGHT_PASS_BYTES
    return _Work(
        first_flops=2 * flops if few else 0.0,
        conv_flops=0.0 if few else (2 if layer.passes_back else 1) * flops,
        weight_flops=0.0 if few else flops,
        moved=moved,
        norm=6.0 * batch * layer.output_elements * width if norm else 0.0,
        weights=weights,
        filters=weights,
        kernels=7 if norm else 4,
        depth=0.0 if few else depth * (1 + (filters / channels if layer.passes_back else 0)),
        nodes=tuple(batch_nodes(None, batch) if few else conv_nodes(channels, filters, side, batch)),
    )


def _frozen(layer: LayerFigures, batch: int, flops: float, moved: float, width: int) -> _Work:
    """A layer without a backward pass: the forward share of what `_conv` counts. No frozen step was measured for it."""
    if layer.kind != "conv":
        return _Work(moved=moved, kernels=1, nodes=tuple(batch_nodes(None, batch)))
    side, _, filters = layer.output_shape
    channels = layer.input_elements / (side * side)
    few = channels <= _FEW_CHANNELS
    # Batch norm is one affine map then: its output is read and written once, of the six passes of training.
    norm = layer.moving_statistics > 0
    return _Work(
        first_flops=flops if few else 0.0,
        conv_flops=0.0 if few else flops,
        moved=moved + 2.0 * batch * layer.output_elements * width,
        norm=2.0 * batch * layer.output_elements * width if norm else 0.0,
        filters=layer.parameters * _WEIGHT_PASS_BYTES / 3,
        kernels=3 if norm else 2,
        depth=0.0 if few else layer.macs / layer.output_elements,
        nodes=tuple(batch_nodes(None, batch) if few else conv_nodes(channels, filters, side, batch)),
    )


# Four passes over weights in 32 bits: gradient, weight read, weight written, and one of the optimizer's state.
_WEIGHT_PASS_BYTES = 16.0
# The first layer: three colours, or one grey.
_FEW_CHANNELS = 4


def _travelling_seconds(setup: Setup, links: LinkConstants, count: int) -> float:
    """Seconds the gradients travel."""
    if count == 1:
        return 0.0
    library = links.libraries[setup.library]
    speed = links.bytes_per_second[setup.link] * library.reach
    sent = float(_trained(setup.net, 0, 0) * setup.gradient_bytes)
    hops = 0.0 if setup.rates.architecture == "tpu" else library.hop_seconds * math.log2(count)
    return volume(setup, sent, count) / speed + hops


def _generation(setup: Setup) -> float:
    """How many times as fast a link is as that of the rows its speed is fitted to."""
    if setup.link is Link.HOST and setup.era not in (Era.TO_2018, Era.TO_2021):
        return _HOST_BUS.get(setup.rates.pcie_generation or 4, _HOST_BUS[5])
    if setup.link in (Link.NVLINK, Link.NVSWITCH):
        return _NVLINK_GENERATION.get(setup.rates.architecture, 1.0)
    return _PCIE_5 if setup.link is Link.PCIE and (setup.rates.pcie_generation or 0) >= 5 else 1.0


def volume(setup: Setup, sent: float, count: int) -> float:
    """Bytes that a link carries for a step with `sent` bytes of gradients on `count` devices: a ring for NVLink and
    PCIe, one shared bus through the host or its slots, a server's gradients and weights, a broadcast and a gather for
    `DataParallel`; none on one device.
    """
    generation = _generation(setup)
    if setup.library is Library.SERVER:
        return sent * count / 2 / generation
    match setup.link:
        case Link.HOST:
            # Each of a ring's messages is written to the host and read from it, all over one bus.
            return 4 * sent * (count - 1) / generation
        case Link.DATA_PARALLEL:
            # The copies go over NVLink where the boards have it, as data centre Ampere has.
            return 2 * sent * (count - 1) / (3.5 if setup.device == "A100" else 1.0)
        case _:
            return 2 * sent * (count - 1) / count / generation


@per_net
def _trained(net: Net | Graph, _first: int, _second: int) -> int:
    """Trainable parameters."""
    return net.trained_parameters if isinstance(net, Graph) else trained_parameters(net)


@per_net
def _memory_line(net: Net | Graph, width: int, planned: int) -> tuple[int, int]:
    """Bytes that a step needs of a device whatever its batch, and those of each image: the least of any framework."""
    precision = "amp_fp16" if width == 2 else "fp32"
    one, two = (
        footprint(net, batch, precision, "sgd", framework=Framework.TENSORFLOW, xla=bool(planned)).least
        for batch in (1, 2)
    )
    return 2 * one - two, two - one


_WITH_PRESSURE = ("kepler", "maxwell", "pascal", "volta", "turing")


def memory_pressure(setup: Setup) -> float:
    """How much the step wants for memory: 0 where there is enough beside what it needs, 1 where there is none. Rows
    show it on cards up to Turing, with cuDNN up to 8; on later ones a full card is as fast as another."""
    if setup.rates.memory_gib is None or setup.rates.architecture not in _WITH_PRESSURE:
        return 0.0
    fixed, each = _memory_line(setup.net, 2 if setup.precision is Precision.HALF else 4, int(setup.xla))
    share = (fixed + each * setup.batch) / (setup.rates.memory_gib * _GIB)
    return min(1.0, max(0.0, (share - _PRESSURE_FROM) / (_PRESSURE_FULL - _PRESSURE_FROM)))
