"""Does this batch fit on this device, and which is the largest that does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.layers import figures, trained_parameters

if TYPE_CHECKING:
    from workloads.layers import LayerFigures, Net

GIB = 1024**3

# The CUDA context and the libraries' own buffers; 0.3 to 0.8 GiB is commonly seen, no figure here is measured.
FRAMEWORK_BYTES = int(0.5 * GIB)
# cuDNN tries algorithms with more and less scratch space and falls back when it does not get it: what must be
# there is small, so a batch is refused only when even that does not fit.
WORKSPACE_BYTES = 64 * 1024**2

# A step within 8 % of the usable memory may fail where driver or framework take a little more: the ends of what
# TensorFlow was seen to report of one device lie 0.3 to 5 % apart (K80 to P4), 11 % on the M60 (devices.toml).
TIGHT_FROM = 0.92

# What XLA's plan of a training step holds of a net without batch norm, fitted to its own analysis of 29 fp32 steps
# (tests/data/xla_memory.csv, jax 0.10.2, 2026-11-21): with SGD 1.7 to 1.9 times the layers' outputs. The plans of
# Adam's steps, and of any with batch norm, come to the least; RMSprop and AdamW were not compiled: the one is taken to
# be like SGD, the other like Adam.
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
    net: Net, batch: int, precision: str, optimizer: str, *, xla: bool = False, accumulate: bool = False
) -> Footprint:
    """What a training step over `batch` images keeps on one device at its peak. `optimizer` is its state's name
    (OptimizerSpec.state).

    Activations are what the backward pass needs of the forward pass and the gradients it works on, at its fullest
    moment; ReLU and flatten work in place of their input where a framework can. That is the least a step takes, and
    what frameworks that free as they go come near to. With `xla` (always so on JAX) the step is planned as a whole
    beforehand and may take more; the figures are fitted to what XLA reports in fp32.
    Of a frozen layer (`Net.frozen`) only the weights are kept: it has no gradient and no optimizer state, and its
    outputs are freed as the next layer has read them.
    Mixed precision keeps 4-byte weights beside a 2-byte copy, and 2-byte activations. With `accumulate` the sum of the
    gradients of earlier batches is kept too, in 4 bytes each.
    """
    rows = figures(net)
    weights = sum(row.parameters for row in rows)
    trained = sum(row.trained_parameters for row in rows)
    wide = _ACTIVATION_BYTES[precision]
    kept_count = _kept_elements(net, rows)
    if xla and optimizer.split("+")[0] not in _XLA_LEAN:
        kept_count = max(kept_count, _planned_elements(rows))
    return Footprint(
        weights=4 * weights + 4 * sum(row.moving_statistics for row in rows) + (2 * weights if wide == 2 else 0),
        gradients=wide * trained + (4 * trained if accumulate else 0),
        optimizer=4 * trained * _slots(optimizer),
        activations=wide * batch * kept_count,
        workspace=WORKSPACE_BYTES,
        framework=FRAMEWORK_BYTES,
    )


def is_tight(allocated_bytes: float, usable_gib: float) -> bool:
    """Whether a step that fits takes more than what is surely there: within 8 % of what is usable."""
    return allocated_bytes > TIGHT_FROM * usable_gib * GIB


def largest_batch(net: Net, usable_gib: float, precision: str, optimizer: str, *, xla: bool = False) -> int:
    """The most images a device can train at once of whose memory so much is usable; 0 where not even one fits."""
    room = usable_gib * GIB
    one, two = (footprint(net, batch, precision, optimizer, xla=xla).allocated for batch in (1, 2))
    return max(0, int((room - (2 * one - two)) // (two - one)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """A batch in `steps` equal parts of `micro_batch` images, whose gradients are added up before one update."""

    micro_batch: int
    steps: int


def accumulation(
    net: Net, batch: int, usable_gib: float, precision: str, optimizer: str, *, xla: bool = False
) -> Accumulation | None:
    """The fewest equal parts in which one device can train `batch` images; None where not even single ones fit.

    The sum of the gradients is kept beside those of the part at work, in 4 bytes each: where `batch` fits whole,
    there is nothing to accumulate and nothing to keep. Batch norm sees the part, not the batch.
    """
    if batch <= largest_batch(net, usable_gib, precision, optimizer, xla=xla):
        return Accumulation(micro_batch=batch, steps=1)
    sum_gib = 4 * trained_parameters(net) / GIB
    most = largest_batch(net, usable_gib - sum_gib, precision, optimizer, xla=xla)
    fitting = (part for part in range(min(most, batch // 2), 0, -1) if batch % part == 0)
    part = next(fitting, None)
    return None if part is None else Accumulation(micro_batch=part, steps=batch // part)


def _slots(optimizer: str) -> int:
    """Values that an optimizer's state has for each weight; a moving average of the weights is one more."""
    name, _, average = optimizer.partition("+")
    return _SLOTS[name] + (1 if average else 0)


def _planned_elements(rows: tuple[LayerFigures, ...]) -> int:
    """Elements that XLA's plan of the step holds at once, for one image.

    No step with frozen layers was compiled; their outputs are taken not to be held (assumed).
    """
    outputs = sum(row.output_elements for row in rows if not row.frozen)
    return int(_XLA_OUTPUTS * outputs + _XLA_LARGEST * max(row.output_elements for row in rows))


def _kept_elements(net: Net, rows: tuple[LayerFigures, ...]) -> int:
    """Elements at the fullest moment of the backward pass, for one image.

    It goes from the last layer to the first and frees what it has passed: while a layer is worked on there are the
    outputs kept up to it, the gradient of its output, and (but for the first) the gradient of its input.
    """
    kept_count = net.image_size**2 * net.channels
    fullest = 0
    for index, row in enumerate(rows):
        if index and index == net.frozen:
            kept_count += rows[index - 1].output_elements  # what the first trained layer computes its gradient from
        kept_count += row.stored_elements
        passed = row.input_elements if row.passes_back or row.frozen else 0
        fullest = max(fullest, kept_count + row.output_elements + passed)
    return fullest
