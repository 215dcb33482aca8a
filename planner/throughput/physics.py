"""Seconds of one training step from arithmetic, bytes and peak rates, layer by layer, with a few fitted constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.throughput.grid import DENSE_NODES, OTHER_NODES, Node, batch_nodes, conv_nodes
from planner.throughput.rates import Precision
from planner.throughput.remember import per_net
from planner.throughput.setup import Library, Link
from workloads.layers import figures

if TYPE_CHECKING:
    from planner.throughput.setup import Setup
    from workloads.layers import LayerFigures, Net


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
class StepPart:
    """A share of the step: `nodes` place it on the grid of corrections (see `grid`), `seconds` is its time."""

    nodes: tuple[Node, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: the seconds of its parts on one device, of the whole, and of waiting for the other devices."""

    parts: tuple[StepPart, ...]
    device_seconds: float
    seconds: float
    memory_pressure: float

    @property
    def waiting_share(self) -> float:
        """The share of a step in which the device waits for its input, 0 to 1."""
        return max(0.0, 1 - self.device_seconds / self.seconds)


# NVLink grew with the generations; relative to the first. The links between TPU chips carry about what its third did.
_NVLINK_GENERATION = {
    **{"pascal": 1.0, "volta": 1.6, "turing": 1.0, "ampere": 3.5},
    **{"hopper": 5.0, "blackwell": 9.0, "tpu": 3.5},
}
# Memory use above which cuDNN is left with too little workspace for its fast algorithms.
_PRESSURE_FROM = 0.35
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
    parts = _parts(setup, constants)
    alone = sum(part.seconds for part in parts)
    waiting = _waiting_seconds(setup, links)
    jitter = links.libraries[setup.library].jitter
    together = (alone + waiting) * (1 + jitter * math.log2(setup.count))
    return Step(parts=parts, device_seconds=alone, seconds=together, memory_pressure=_pressure(setup))


def _parts(setup: Setup, constants: Constants) -> tuple[StepPart, ...]:
    width = 2 if setup.precision is Precision.HALF else 4
    work = _works(setup.net, setup.batch, width)
    rates = setup.rates
    plain = rates.flops_per_second(Precision.FP32)
    peak = rates.flops_per_second(setup.precision)
    tensor = setup.precision in rates.on_matrix_units
    first = 1 / (plain * constants.first_conv)
    conv = 1 / (peak * constants.tensor_conv if tensor else plain * constants.conv)
    towards_weights = conv if tensor else 1 / (plain * constants.conv_weights)
    dense = 1 / ((peak if tensor else plain) * constants.dense)
    per_byte = 1 / rates.bytes_per_second
    moving = per_byte / constants.bandwidth
    parts = []
    norm = weights = filters = 0.0
    kernels = 0
    for layer in work:
        seconds = (
            layer.first_flops * first
            + layer.conv_flops * conv
            + layer.weight_flops * towards_weights
            + layer.dense_flops * dense
            + layer.moved * moving
            + layer.depth * constants.depth_seconds
        )
        parts.append(StepPart(nodes=layer.nodes, seconds=seconds))
        norm += layer.norm
        weights += layer.weights
        filters += layer.filters
        kernels += layer.kernels
    others = (
        kernels * constants.launch_seconds + constants.step_seconds,
        weights * constants.optimizer_passes * per_byte if setup.optimizer_step else 0.0,
        norm * constants.norm_passes * per_byte,
        setup.batch * setup.net.image_size**2 * setup.net.channels * 4 / constants.copy_bytes_per_second,
        filters * constants.filter_passes * per_byte,
    )
    parts += [StepPart(nodes=(node,), seconds=seconds) for node, seconds in zip(OTHER_NODES, others, strict=True)]
    return tuple(parts)


@per_net
def _works(net: Net, batch: int, width: int) -> tuple[_Work, ...]:
    return tuple(_work(layer, batch, width) for layer in figures(net) if layer.kind != "flatten")


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


def _waiting_seconds(setup: Setup, links: LinkConstants) -> float:
    """Seconds the gradients travel."""
    if setup.count == 1:
        return 0.0
    library = links.libraries[setup.library]
    speed = links.bytes_per_second[setup.link] * library.reach
    sent = float(_totals(setup.net, 0, 0)[0] * setup.gradient_bytes)
    return volume(setup, sent) / speed + library.hop_seconds * math.log2(setup.count)


def volume(setup: Setup, sent: float) -> float:
    """Bytes that a link carries for a step with `sent` bytes of gradients: a ring for NVLink and PCIe, one shared bus
    through the host, a server's gradients and weights, a broadcast and a gather for `DataParallel`; none on one device.
    """
    count = setup.count
    wide = setup.link in (Link.NVLINK, Link.NVSWITCH)
    generation = _NVLINK_GENERATION.get(setup.rates.architecture, 1.0) if wide else 1.0
    if setup.library is Library.SERVER:
        return sent * count / 2 / generation
    match setup.link:
        case Link.HOST:
            # Each of a ring's messages is written to the host and read from it, all over one bus.
            return 4 * sent * (count - 1)
        case Link.DATA_PARALLEL:
            # The copies go over NVLink where the boards have it, as data centre Ampere has.
            return 2 * sent * (count - 1) / (3.5 if setup.device == "A100" else 1.0)
        case _:
            return 2 * sent * (count - 1) / count / generation


@per_net
def _totals(net: Net, _batch: int, _width: int) -> tuple[int, int]:
    """Trainable parameters, and elements kept from the forward to the backward pass for one image."""
    layers = figures(net)
    return sum(layer.trained_parameters for layer in layers), sum(layer.stored_elements for layer in layers)


def _pressure(setup: Setup) -> float:
    """How far the rough memory need is above the share of memory where steps begin to slow down; 0 below."""
    if setup.rates.memory_gib is None:
        return 0.0
    width = 2 if setup.precision is Precision.HALF else 4
    # Activations and their gradients; weights, gradients and one state of the optimizer.
    parameters, stored = _totals(setup.net, 0, 0)
    need = stored * setup.batch * width * 2 + parameters * 4 * 3
    return max(0.0, math.log(max(need / (setup.rates.memory_gib * _GIB), 1e-3) / _PRESSURE_FROM))
