"""Does this batch fit on this device, and which is the largest that does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.workloads.graph import Graph
from trainplan.workloads.layers import graph_of
from trainplan.workloads.liveness import Plan, group_outputs, groups, is_chain, kept_by_kind, kept_elements, moments
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from trainplan.workloads.layers import Net

GIB = 1024**3

# The CUDA context and the libraries' own buffers; 0.3 to 0.8 GiB is commonly seen, no figure here is measured.
FRAMEWORK_BYTES = int(0.5 * GIB)
# cuDNN tries algorithms with more and less scratch space and falls back when it does not get it: what must be
# there is small, so a batch is refused only when even that does not fit.
WORKSPACE_BYTES = 64 * 1024**2
# What cuDNN takes where it gets it, of a wide convolution in fp32 (liveness.moments): for each pair of channels and by
# the bytes that it reads and writes. Found on the peaks of fp32 steps on an H200, cuDNN 9.19 (tests/data/
# networks_h200.csv, 2026-11-26); in other precisions there is next to nothing. VGG16 with 512 images took half as much
# again. TensorFlow takes no algorithm with more than 4 GiB (TF_CUDNN_WORKSPACE_LIMIT_IN_MB, its default).
_TRANSFORM_BYTES_PER_PAIR = 6_000
_TRANSFORM_SHARE = 1.75
_MOST_TRANSFORM_BYTES = {Framework.TENSORFLOW: 4 * GIB}

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
        """What the framework's allocator hands out where there is enough: all but the framework's own."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.workspace

    @property
    def least(self) -> int:
        """What it has to hand out: with the smallest scratch space that cuDNN can work in."""
        return self.allocated - self.workspace + WORKSPACE_BYTES

    @property
    def total(self) -> int:
        """Bytes of the net and of the framework together."""
        return self.allocated + self.framework


def footprint(  # noqa: PLR0913  the arithmetic has as many inputs
    net: Net | Graph,
    batch: int,
    precision: str,
    optimizer: str,
    *,
    framework: Framework = Framework.TORCH,
    xla: bool = False,
    accumulate: bool = False,
    on_gpu: bool = True,
) -> Footprint:
    """What a training step over `batch` images keeps on one device at its peak. `optimizer` is its state's name
    (OptimizerSpec.state).

    Activations are what the backward pass needs of the forward pass and the gradients it works on, at its fullest
    moment. What TensorFlow keeps is not measured: the least a step takes, with ReLU and flatten in place of their
    input. What PyTorch keeps is held against 108 measured peaks (tests/unit/workloads/test_memory_peaks.py). With `xla`
    (always so on JAX) the step is planned as a whole beforehand and may take more; the figures are fitted to what XLA
    reports in fp32.
    Of a frozen layer only the weights are kept: it has no gradient and no optimizer state, and its
    outputs are freed as the next layer has read them.
    Mixed precision keeps 4-byte weights beside a 2-byte copy, and 2-byte activations. PyTorch's gradients have 4 bytes;
    elsewhere the copy of a weight is taken to be free when its gradient is there. With `accumulate` the sum of the
    gradients of earlier batches is kept too, in 4 bytes each. `on_gpu`: cuDNN takes scratch space.
    """
    graph = _graph(net)
    weights, trained = graph.parameters, graph.trained_parameters
    wide = _ACTIVATION_BYTES[precision]
    plan = _plan(framework, wide, xla=xla)
    kept_count = kept_elements(graph, plan=plan)
    if xla:
        kept_count = max(kept_count, _planned_elements(graph, optimizer))
    activations = wide * batch * kept_count
    gradient_bytes = wide if plan is Plan.NONE else 4
    return Footprint(
        weights=4 * weights + 4 * graph.statistics + (2 * weights if wide == 2 else 0),
        gradients=gradient_bytes * trained + (4 * trained if accumulate else 0),
        optimizer=4 * trained * optimizer_slots(optimizer),
        activations=activations,
        workspace=WORKSPACE_BYTES
        + (_transforms(graph, batch, plan, activations, framework) if on_gpu and precision == "fp32" else 0),
        framework=FRAMEWORK_BYTES,
    )


def _plan(framework: Framework, value_bytes: int, *, xla: bool) -> Plan:
    if framework is not Framework.TORCH or xla:
        return Plan.NONE
    return Plan.TORCH_HALF if value_bytes == 2 else Plan.TORCH


def _transforms(graph: Graph, batch: int, plan: Plan, activations: int, framework: Framework) -> int:
    """Bytes of the scratch space that cuDNN takes in fp32, as far as they come on top of `activations`: it is taken and
    given back at every convolution, and the fullest moment of all is another one where it is large early on."""
    most = _MOST_TRANSFORM_BYTES.get(framework)
    fullest = activations
    for moment in moments(graph, plan=plan):
        shared = int(_TRANSFORM_SHARE * 4 * batch * moment.convolved) + _TRANSFORM_BYTES_PER_PAIR * moment.pairs
        fullest = max(fullest, 4 * batch * moment.elements + (shared if most is None else min(most, shared)))
    return fullest - activations


def kept_bytes(
    net: Net | Graph, batch: int, precision: str, *, framework: Framework = Framework.TORCH, xla: bool = False
) -> dict[str, int]:
    """Bytes that are kept of a forward pass over `batch` images for the backward pass, by the kind of operator that
    computes them, the most first. Some are freed before the fullest moment of `footprint`."""
    wide = _ACTIVATION_BYTES[precision]
    found = kept_by_kind(_graph(net), plan=_plan(framework, wide, xla=xla))
    return {str(kind): wide * batch * elements for kind, elements in found.items()}


def is_tight(allocated_bytes: float, usable_gib: float) -> bool:
    """Whether a step that fits takes more than what is surely there: within 8 % of what is usable."""
    return allocated_bytes > TIGHT_FROM * usable_gib * GIB


def largest_batch(
    net: Net | Graph,
    usable_gib: float,
    precision: str,
    optimizer: str,
    *,
    framework: Framework = Framework.TORCH,
    xla: bool = False,
) -> int:
    """The most images a device can train at once of whose memory so much is usable; 0 where not even one fits."""
    room = usable_gib * GIB
    one, two = (footprint(net, batch, precision, optimizer, framework=framework, xla=xla).least for batch in (1, 2))
    return max(0, int((room - (2 * one - two)) // (two - one)))


def accumulation(  # noqa: PLR0913  the arithmetic has as many inputs
    net: Net | Graph,
    batch: int,
    usable_gib: float,
    precision: str,
    optimizer: str,
    *,
    framework: Framework = Framework.TORCH,
    xla: bool = False,
) -> int | None:
    """The fewest equal parts in which one device can train `batch` images, with one update for all of them; None where
    not even single images fit.

    The sum of the gradients is kept beside those of the part at work, in 4 bytes each: where `batch` fits whole,
    there is nothing to accumulate and nothing to keep. Batch norm sees the part, not the batch.
    """
    if batch <= largest_batch(net, usable_gib, precision, optimizer, framework=framework, xla=xla):
        return 1
    sum_gib = 4 * _graph(net).trained_parameters / GIB
    most = largest_batch(net, usable_gib - sum_gib, precision, optimizer, framework=framework, xla=xla)
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
