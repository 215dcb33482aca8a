"""Does this batch fit on this device, and which is the largest that does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workloads.layers import figures

if TYPE_CHECKING:
    from workloads.layers import LayerFigures, Net

GIB = 1024**3

# The CUDA context and the libraries' own buffers; 0.3 to 0.8 GiB is commonly seen, no figure here is measured.
FRAMEWORK_BYTES = int(0.5 * GIB)
# cuDNN tries algorithms with more and less scratch space and falls back when it does not get it: what must be
# there is small, so a batch is refused only when even that does not fit.
WORKSPACE_BYTES = 64 * 1024**2

_SLOTS = {"sgd": 1, "adam": 2, "rmsprop": 2}
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
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations + self.workspace + self.framework


def footprint(net: Net, batch: int, precision: str, optimizer: str) -> Footprint:
    """The least that a training step over `batch` images keeps on one device.

    Activations are what the backward pass needs of the forward pass and the gradients it works on, at its fullest
    moment; ReLU and flatten work in place of their input where a framework can.
    Mixed precision keeps 4-byte weights beside a 2-byte copy, and 2-byte activations.
    """
    rows = figures(net)
    weights = sum(row.parameters for row in rows)
    wide = _ACTIVATION_BYTES[precision]
    return Footprint(
        weights=4 * weights + 4 * sum(row.moving_statistics for row in rows) + (2 * weights if wide == 2 else 0),
        gradients=wide * weights,
        optimizer=4 * weights * _SLOTS[optimizer],
        activations=wide * batch * _kept_elements(net, rows),
        workspace=WORKSPACE_BYTES,
        framework=FRAMEWORK_BYTES,
    )


def largest_batch(net: Net, device_memory_gib: float, precision: str, optimizer: str) -> int:
    """The most images a device of that memory can train at once; 0 where not even one fits."""
    room = device_memory_gib * GIB
    one, two = (footprint(net, batch, precision, optimizer).total for batch in (1, 2))
    return max(0, int((room - (2 * one - two)) // (two - one)))


def _kept_elements(net: Net, rows: tuple[LayerFigures, ...]) -> int:
    """Elements at the fullest moment of the backward pass, for one image.

    It goes from the last layer to the first and frees what it has passed: while a layer is worked on there are the
    outputs kept up to it, the gradient of its output, and (but for the first) the gradient of its input.
    """
    kept = net.image_size**2 * net.channels
    fullest = 0
    for index, row in enumerate(rows):
        kept += row.stored_elements
        fullest = max(fullest, kept + row.output_elements + (row.input_elements if index else 0))
    return fullest
