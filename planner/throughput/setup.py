"""How a step is run, beside the net: precision, framework, source and link, as the model tells them apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from trainplan.planner.throughput.rates import WITH_TF32, KnownRates, Precision
from trainplan.planner.throughput.values import Measurement, Parallelism
from trainplan.workloads.graph import Graph
from trainplan.workloads.layers import Net

_WITHOUT_PEER_ACCESS = re.compile(r"RTX [3-9]0[5-9]0\b")
"""GeForce cards from the 30 series on: their driver lets no card read another's memory, so gradients pass the host."""


class Family(StrEnum):
    """Frameworks whose steps cost alike."""

    KERAS = "keras"
    TF_BENCHMARKS = "tf_benchmarks"
    SLIM = "slim"
    TORCH = "torch"
    TORCH7 = "torch7"
    OTHER = "other"


class Link(StrEnum):
    """What gradients travel over. `host` is PCIe between consumer cards that may not address each other; `nvlink` joins
    some pairs of a machine's cards directly, `nvswitch` all of them at full speed."""

    ONE = "one"
    NVLINK = "nvlink"
    NVSWITCH = "nvswitch"
    PAIRS = "nvlink_pairs"
    PCIE = "pcie"
    HOST = "host"
    DATA_PARALLEL = "data_parallel"
    """Between devices under torch's `nn.DataParallel`: no source of such rows states what joins them."""
    NETWORK = "network"


class Library(StrEnum):
    """What sums the gradients of several devices, or copies them."""

    ONE = "one"
    NCCL = "nccl"
    """The program's own calls of NCCL: `tf_cnn_benchmarks` with replicated variables, MindSpore."""
    HOROVOD = "horovod"
    MIRRORED = "mirrored_strategy"
    """TensorFlow's MirroredStrategy: NCCL within a machine."""
    DDP = "ddp"
    """torch's DistributedDataParallel: NCCL, in buckets while the backward pass goes on."""
    KVSTORE = "kvstore"
    """MXNet's key-value store on the devices."""
    XLA = "xla"
    """Collectives that JAX compiles into the step."""
    SERVER = "parameter_server"
    DATA_PARALLEL = "data_parallel"
    """torch's `nn.DataParallel`: one process copies weights out and gradients in."""


_LIBRARY_OF = {
    Parallelism.REPLICATED: Library.NCCL,
    Parallelism.HOROVOD: Library.HOROVOD,
    Parallelism.MIRRORED: Library.MIRRORED,
    Parallelism.DDP: Library.DDP,
    Parallelism.KVSTORE: Library.KVSTORE,
    Parallelism.PARAMETER_SERVER: Library.SERVER,
    Parallelism.DATA_PARALLEL: Library.DATA_PARALLEL,
}
_SWITCHED = re.compile(r"(A100|A800|H100|H200|H20|B200|B300|GB200)\b(?!-PCIe)")
"""SXM boards whose machines join them by NVSwitch: Ampere and later. Machines of four A100 have direct links of the
same width."""


class Era(StrEnum):
    """Years whose frameworks and libraries (cuDNN 5 to 7, 8, 8.9, 9) are alike."""

    TO_2018 = "2018"
    TO_2021 = "2021"
    TO_2024 = "2024"
    NOW = "now"


def era_of(measured_on: str) -> Era:
    """The era of a day, month or year, or of the last of several years; without one, that of most rows without."""
    years = re.findall(r"\d{4}", measured_on)
    if not years:
        return Era.TO_2021
    return next((era for era in (Era.TO_2018, Era.TO_2021, Era.TO_2024) if years[-1] <= str(era)), Era.NOW)


_LAYOUTS = {
    Family.KERAS: "NHWC",
    Family.SLIM: "NHWC",
    Family.TF_BENCHMARKS: "NCHW",
    Family.TORCH: "NCHW",
    Family.TORCH7: "NCHW",
}


def layout_of(family: Family, stated: str = "") -> str:
    """The layout as it is stated, else what programs of the family take by themselves on a GPU."""
    return stated or _LAYOUTS.get(family, "")


# The source whose setup is our trainer's: Keras' own loop, SGD, images copied from the host at each step.
KERAS_REFERENCE = "profet|TensorFlow Keras|2.x (repo requirements: 2.5.0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One training step on `count` devices: everything its time may depend on.

    `device` is the group of the device (every V100 is a `V100`); `source` is empty where no measurement's setup is
    meant. `gradient_bytes` is the width in which gradients travel, `layout` the order of an image's axes in memory (""
    where nobody knows), `numbers` what is multiplied (`fp16` and `bf16` are one `precision`).
    """

    net: Net | Graph
    batch: int
    count: int
    rates: KnownRates
    device: str
    precision: Precision
    xla: bool
    family: Family
    source: str
    optimizer_step: bool
    link: Link
    library: Library
    gradient_bytes: int
    era: Era
    layout: str
    numbers: str

    def on(self, rates: KnownRates, precision: Precision) -> Setup:
        """The same step on another device, in a precision; by name, since dataclasses.replace takes ten times as long
        and an estimate asks thousands of times."""
        return Setup(
            net=self.net,
            batch=self.batch,
            count=self.count,
            rates=rates,
            device=rates.group,
            precision=precision,
            xla=self.xla,
            family=self.family,
            source=self.source,
            optimizer_step=self.optimizer_step,
            link=self.link,
            library=self.library,
            gradient_bytes=self.gradient_bytes,
            era=self.era,
            layout=self.layout,
            numbers=self.numbers if precision is self.precision else str(precision),
        )

    @property
    def of_one_device(self) -> tuple[object, ...]:
        """Everything that one device's part of the step may depend on."""
        return (
            *(id(self.net), self.batch, id(self.rates), self.precision, self.numbers, self.xla, self.family),
            *(self.source, self.optimizer_step, self.era, self.layout),
        )

    @property
    def kind(self) -> tuple[object, ...]:
        """What `groups` is made of, and all that it is made of."""
        return (
            *(self.rates.architecture, self.device, self.precision, self.xla),
            *(self.family, self.source, self.link, self.library),
        )

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The groups a step belongs to, from all steps to this source on this device: level, then what they share."""
        half, xla = str(self.precision), "xla" if self.xla else "plain"
        return (
            ("all",),
            ("architecture", self.rates.architecture),
            ("architecture_precision", self.rates.architecture, half),
            ("device", self.device),
            ("device_precision", self.device, half),
            ("framework", str(self.family), xla, half),
            ("source", self.source),
            ("source_device", self.source, self.device),
            ("series", self.source, self.device, half, xla),
            ("library", str(self.library)),
            ("link", str(self.link)),
            ("link_library", str(self.link), str(self.library)),
            ("link_architecture", str(self.link), self.rates.architecture),
            ("link_source_device", str(self.link), self.source, self.device),
            ("link_series", str(self.link), self.source, self.device, half, xla),
        )


def precision_of(stated: str) -> Precision:
    """The precision of the multiplications, from the name that a job or a source gives it."""
    name = stated.removeprefix("amp_")
    if name in ("fp16", "bf16"):
        return Precision.HALF
    return Precision.TF32 if name == "tf32" else Precision.FP32


def precision_on(stated: str, rates: KnownRates) -> Precision:
    """The precision that a device multiplies in when it is asked for the one of that name: one without TF32 takes 32
    bits."""
    precision = precision_of(stated)
    return Precision.FP32 if precision is Precision.TF32 and rates.architecture not in WITH_TF32 else precision


def numbers_on(stated: str, precision: Precision) -> str:
    """What a device multiplies that is asked for `stated` and takes `precision`: that of the name, unless it lacks
    it."""
    return stated.removeprefix("amp_") if precision_of(stated) is precision else str(precision)


def family_of(framework: str) -> Family:
    """The family of programs that a framework's name belongs to."""
    name = framework.lower()
    if "keras" in name or name in ("tensorflow", "jax"):
        return Family.KERAS
    if "tf_cnn" in name:
        return Family.TF_BENCHMARKS
    if "slim" in name:
        return Family.SLIM
    if "pytorch" in name or name == "torch":
        return Family.TORCH
    return Family.TORCH7 if "torch" in name else Family.OTHER


def source_of(row: Measurement) -> str:
    """Source, framework, version and memory layout in one: a shift between versions is a shift between sources."""
    return source_name(row.source, row.framework, row.framework_version, row.layout)


def source_name(source: str, framework: str, version: str, layout: str) -> str:
    """The name under which the model has a correction for a source and its program."""
    parts = (source.partition("-")[0], framework, version, layout)
    return "|".join(parts if layout else parts[:-1])


def link_of(count: int, nodes: int, interconnect: str, parallelism: Parallelism, device: str) -> Link:
    """What the gradients of `count` devices travel over, from what is said of the interconnect."""
    text = interconnect.lower()
    if count == 1:
        return Link.ONE
    if parallelism is Parallelism.DATA_PARALLEL:
        return Link.DATA_PARALLEL
    # The chips of a TPU slice are joined by links of their own, whatever host they are in.
    if device.startswith("TPU"):
        return Link.NVLINK
    if nodes > 1:
        return Link.NETWORK
    if "pair" in text:
        return Link.PAIRS
    if "nvswitch" in text or ("nvlink" in text and "bridge" not in text and _SWITCHED.match(device)):
        return Link.NVSWITCH
    if "nvlink" in text and "bridge" not in text:
        return Link.NVLINK
    return Link.HOST if _WITHOUT_PEER_ACCESS.match(device) else Link.PCIE


def library_of(count: int, parallelism: Parallelism, framework: str) -> Library:
    """What shares the step of `count` devices: as it is stated, else what the framework does by itself. The trainer's
    own is MirroredStrategy under TensorFlow."""
    if count == 1:
        return Library.ONE
    if parallelism is not Parallelism.UNSTATED:
        return _LIBRARY_OF[parallelism]
    name = framework.lower()
    if name == "jax":
        return Library.XLA
    family = family_of(framework)
    if family is Family.TORCH:
        return Library.DDP
    return Library.MIRRORED if family is Family.KERAS else Library.NCCL


def setup_of_row(row: Measurement, net: Net | Graph, rates: KnownRates) -> Setup | None:
    """The step a measurement timed; None where its batch is not stated."""
    if row.batch_per_device is None:
        return None
    return Setup(
        net=net,
        batch=row.batch_per_device,
        count=row.device_count,
        rates=rates,
        device=rates.group,
        precision=precision_on(row.precision, rates),
        xla=bool(row.xla),
        family=family_of(row.framework),
        source=source_of(row),
        optimizer_step=row.optimizer_step,
        link=link_of(row.device_count, row.node_count, row.interconnect, row.parallelism, row.device),
        library=library_of(row.device_count, row.parallelism, row.framework),
        # Only a net that is wholly in 16 bits has gradients in 16 bits; mixed precision keeps weights in 32.
        gradient_bytes=2 if row.precision in ("fp16", "bf16") else 4,
        era=era_of(row.measured_on),
        layout=layout_of(family_of(row.framework), row.layout),
        numbers=numbers_on(row.precision, precision_on(row.precision, rates)),
    )
