"""Does this batch fit on this device, and which is the largest that does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.workloads.graph import Graph
from trainplan.workloads.layers import graph_of
from trainplan.workloads.liveness import Plan, group_outputs, groups, is_chain, kept_by_kind, kept_elements

if TYPE_CHECKING:
    from trainplan.workloads.layers import Net

GIB = 1024**3

# The CUDA context and the libraries' own buffers; 0.3 to 0.8 GiB is commonly seen, no figure here is measured.
FRAMEWORK_BYTES = int(0.5 * GIB)
# cuDNN tries algorithms with more and less scratch space and falls back when it does not get it: what must be
# there is small, so a batch is refused only when even that does not fit.
WORKSPACE_BYTES = 64 * 1024**2

# A step within 8 % of the usable memory may fail where driver or framework take a little more: the ends of what
# TensorFlow was seen to report of one device lie 0.3 to 5 % apart (K80 to P4), 11 % on the M60 (devices.toml).
TIGHT_FROM = 0.92

# What XLA's plan of a training step holds of a chain without batch norm, fitted to its own analysis of 29 fp32 steps of
# VGG nets (tests/data/xla_memory.csv, jax 0.10.2, 2026-11-21): with SGD 1.7 to 1.9 times the layers' outputs. The plans
# of Adam's steps, and of any with batch norm, come to the least; RMSprop and AdamW were not compiled: the one is taken
# to be like SGD, the other like Adam.
_XLA_OUTPUTS = 1.4
_XLA_LARGEST = 1.2
_XLA_LEAN = frozenset({"adam", "adamw"})

_SLOTS = {"sgd": 1, "adam": 2, "adamw": 2, "rmsprop": 2}
_ACTIVATION_BYTES = {"fp32": 4, "tf32": 4, "amp_fp16": 2, "amp_bf16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Bytes that training keeps on one device at its peak, by what they are for."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    workspace: int
    framework: int

    @property
    def allocated(self) -> int:
        """What the framework's allocator has to hand out: all but the framework's own."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.workspace

    @property
    def total(self) -> int:
        """Bytes of the net and of the framework together."""
        return self.allocated + self.framework


def footprint(
    net: Net | Graph, batch: int, precision: str, optimizer: str, *, xla: bool = False, accumulate: bool = False
) -> Footprint:
    """What a training step over `batch` images keeps on one device at its peak. `optimizer` is its state's name
    (OptimizerSpec.state).

    Activations are what the backward pass needs of the forward pass and the gradients it works on, at its fullest
    moment; ReLU and flatten work in place of their input where a framework can. That is the least a step takes, and
    what frameworks that free as they go come near to. With `xla` (always so on JAX) the step is planned as a whole
    beforehand and may take more; the figures are fitted to what XLA reports in fp32.
    Of a frozen layer only the weights are kept: it has no gradient and no optimizer state, and its
    outputs are freed as the next layer has read them.
    Mixed precision keeps 4-byte weights beside a 2-byte copy, and 2-byte activations. With `accumulate` the sum of the
    gradients of earlier batches is kept too, in 4 bytes each.
    """
    graph = _graph(net)
    weights, trained = graph.parameters, graph.trained_parameters
    wide = _ACTIVATION_BYTES[precision]
    kept_count = kept_elements(graph)
    if xla:
        kept_count = max(kept_count, _planned_elements(graph, optimizer))
    return Footprint(
        weights=4 * weights + 4 * graph.statistics + (2 * weights if wide == 2 else 0),
        gradients=wide * trained + (4 * trained if accumulate else 0),
        optimizer=4 * trained * optimizer_slots(optimizer),
        activations=wide * batch * kept_count,
        workspace=WORKSPACE_BYTES,
        framework=FRAMEWORK_BYTES,
    )


def kept_bytes(net: Net | Graph, batch: int, precision: str) -> dict[str, int]:
    """Bytes that are kept of a forward pass over `batch` images for the backward pass, by the kind of operator that
    computes them, the most first. Some are freed before the fullest moment of `footprint`."""
    wide = _ACTIVATION_BYTES[precision]
    return {str(kind): wide * batch * elements for kind, elements in kept_by_kind(_graph(net)).items()}


def is_tight(allocated_bytes: float, usable_gib: float) -> bool:
    """Whether a step that fits takes more than what is surely there: within 8 % of what is usable."""
    return allocated_bytes > TIGHT_FROM * usable_gib * GIB


def largest_batch(net: Net | Graph, usable_gib: float, precision: str, optimizer: str, *, xla: bool = False) -> int:
    """The most images a device can train at once of whose memory so much is usable; 0 where not even one fits."""
    room = usable_gib * GIB
    one, two = (footprint(net, batch, precision, optimizer, xla=xla).allocated for batch in (1, 2))
    return max(0, int((room - (2 * one - two)) // (two - one)))


def accumulation(
    net: Net | Graph, batch: int, usable_gib: float, precision: str, optimizer: str, *, xla: bool = False
) -> int | None:
    """The fewest equal parts in which one device can train `batch` images, with one update for all of them; None where
    not even single images fit.

    The sum of the gradients is kept beside those of the part at work, in 4 bytes each: where `batch` fits whole,
    there is nothing to accumulate and nothing to keep. Batch norm sees the part, not the batch.
    """
    if batch <= largest_batch(net, usable_gib, precision, optimizer, xla=xla):
        return 1
    sum_gib = 4 * _graph(net).trained_parameters / GIB
    most = largest_batch(net, usable_gib - sum_gib, precision, optimizer, xla=xla)
    fitting = (part for part in range(min(most, batch // 2), 0, -1) if batch % part == 0)
    part = next(fitting, None)
    return None if part is None else batch // part


def _graph(net: Net | Graph) -> Graph:
    return net if isinstance(net, Graph) else graph_of(net)


def optimizer_slots(optimizer: str) -> int:
    """Values that an optimizer's state has for each weight; a moving average of the weights is one more."""
    name, _, average = optimizer.partition("+")
    return _SLOTS[name] + (1 if average else 0)


def _planned_elements(graph: Graph, optimizer: str) -> int:
    """Elements that XLA's plan of the step holds at once, for one image: of a chain by the fit to plans of VGG nets, of
    networks with branches by what is kept in each activation.

    No step with frozen layers was compiled; their outputs are taken not to be held (assumed).
    """
    is_lean = optimizer.split("+")[0] in _XLA_LEAN
    if not is_chain(graph):
        return kept_elements(graph, plan=Plan.LEAN if is_lean else Plan.FULL)
    if is_lean:
        return 0
    largest = max(group.outputs for group in groups(graph))
    return int(_XLA_OUTPUTS * sum(group_outputs(graph)) + _XLA_LARGEST * largest)
