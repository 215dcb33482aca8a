"""The values of a throughput prediction: what was measured, what is predicted, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trainplan.workloads.graph import Graph
from trainplan.workloads.layers import Net


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be trained on what.

    `device` is a canonical device name, `cpu` for a rented host without accelerator, or `this-machine`; `vcpus` is
    needed for both of these. `framework` and `precision` are a job's. `net` is a list of layers, or the graph of a
    network that is none.
    """

    net: Net | Graph
    device: str
    device_count: int
    interconnect: str | None
    vcpus: int | None
    batch_per_device: int
    precision: str
    xla: bool
    framework: str


class Basis(StrEnum):
    """What a prediction rests on; never mixed up."""

    MEASURED = "measured"
    """This net, device, device count, precision and batch were measured."""
    SCALED = "scaled"
    """This device was measured, in another configuration."""
    ANCHORED = "anchored"
    """Other networks alone were measured on this device, and carry the prediction."""
    MODELLED = "modelled"
    """No measurement of this device."""
    UNMEASURED = "unmeasured"
    """A script of the person's own that nobody has measured: nothing is predicted."""


class Quality(StrEnum):
    """How far a measurement is stated."""

    A = "A"
    """A raw log, a data set or a fully stated table."""
    B = "B"
    """A readme or blog table, a partly stated configuration, or a step without an optimizer."""
    C = "C"
    """Derived, input-bound, unstable or anomalous: kept, never used to predict."""


class Parallelism(StrEnum):
    """How several devices share one step; the empty value is one device, or not stated."""

    UNSTATED = ""
    REPLICATED = "replicated"
    """Each device keeps the weights; the program itself sums gradients with NCCL (`tf_cnn_benchmarks`, MindSpore)."""
    HOROVOD = "horovod"
    MIRRORED = "mirrored"
    """TensorFlow's MirroredStrategy."""
    DDP = "ddp"
    """torch.nn.parallel.DistributedDataParallel."""
    KVSTORE = "kvstore"
    """MXNet's key-value store on the devices."""
    PARAMETER_SERVER = "parameter_server"
    DATA_PARALLEL = "data_parallel"
    """torch.nn.DataParallel: one process scatters and gathers through the first device."""


THIS_MACHINE = "this-machine"
CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured training throughput; `images_per_second` is the total over all devices.

    `model` is a key of `trainplan.planner.throughput.nets` (`vgg16`, `resnet50`, or a digest of the layers), `device` a
    canonical device name. `spread` is (max - min) / median over repeats, where stated. `xla` is None where not
    stated. `batch_per_device` is None where not stated; such a row predicts nothing.
    """

    id: str
    model: str
    image_size_px: int
    parameters_million: float | None = None
    device: str
    device_count: int = 1
    node_count: int = 1
    device_memory_gb: float | None = None
    interconnect: str = ""
    precision: str
    xla: bool | None = False
    batch_per_device: int | None
    framework: str
    framework_version: str = ""
    images_per_second: float
    spread: float | None = None
    optimizer_step: bool = True
    parallelism: Parallelism = Parallelism.UNSTATED
    layout: str = ""
    mode: str = "train"
    quality: Quality = Quality.A
    source: str = "own"
    measured_on: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """A prediction: images per second over all devices, with the bounds of its 80 % interval.

    `evidence` holds the ids of the measurements it rests on, or one sentence where there are none. `as_fed`: it was
    measured with the images that the machine's own host handed over, and is not held against that again.
    """

    images_per_second: float
    low: float
    high: float
    basis: Basis
    evidence: tuple[str, ...]
    note: str = ""
    as_fed: bool = False


NO_TF32 = "no TF32 on this GPU, which computes in fp32 (amp_fp16 is faster)"
TPU_MULTIPLIES_BF16 = "a TPU multiplies in bf16, not in fp16 (amp_bf16)"
PRECISION_NOTES = (NO_TF32, TPU_MULTIPLIES_BF16)
"""Notes of a throughput whose device does not compute in the precision that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpredicted:
    """No prediction, and why."""

    reason: str
