"""Accelerators: what each can do, and how the many spellings of its name lead to one row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from trainplan.workloads.nearest import nearest_names, plain, same_name

CPU_DEVICE = "cpu"
"""The device of an offer without an accelerator: the host itself."""


_CORES = {"TPU v2": 2, "TPU v3": 2}


def cores_of(device: str) -> int:
    """How many devices a framework sees in one, each with its share of the memory: two in a chip of TPU v2 and v3, one
    in any other; from v4 on the two cores of a chip are one (Google's pages on the architecture of each TPU)."""
    return _CORES.get(device, 1)


_FIXED_DISK = frozenset({"TPU v2", "TPU v3", "TPU v4", "TPU v5e"})
_GIB = 1024**3
_FIXED_DISK_BYTES = 100 * _GIB
_SYSTEM_BYTES = 30 * _GIB
_DATA_DISK_FACTOR = 2.1
"""The data as they are fetched and unpacked, and what a file system takes for itself."""
MOST_DATA_DISK_GIB = 64 * 1024
"""The largest persistent disk (https://cloud.google.com/compute/docs/disks/persistent-disks, read 2026-11-23)."""


def has_fixed_disk(device: str) -> bool:
    """Whether its machine comes with a disk of one size: TPUs of the Cloud TPU API.

    Nodes of that API have 100 GiB that cannot be made more (https://docs.cloud.google.com/tpu/docs/storage-options,
    read 2026-11-22), and take further disks that exist already, of v2 to v5e balanced persistent disks
    (https://docs.cloud.google.com/tpu/docs/attach-durable-block-storage, read 2026-11-23).
    """
    return device in _FIXED_DISK


def data_room_bytes(device: str) -> int | None:
    """What data and checkpoints may take on a disk that comes with the machine; None where a launch sizes the disk.

    30 of the 100 GiB are left to system and container, as much as the smallest machines here have in all.
    """
    return _FIXED_DISK_BYTES - _SYSTEM_BYTES if has_fixed_disk(device) else None


def data_disk_gib(device: str, least_bytes: int, data_bytes: int) -> int:
    """The size of the disk that a launch makes for the data beside the one that comes with the machine, in GiB.

    0: none is made, since a launch sizes the machine's own, or that has room. `least_bytes` is what the run has on disk
    at the least, `data_bytes` how much of it is data.
    """
    room_bytes = data_room_bytes(device)
    if room_bytes is None or least_bytes <= room_bytes:
        return 0
    return math.ceil(_DATA_DISK_FACTOR * data_bytes / _GIB)


USABLE_SHARE = 0.92
"""Of a device whose usable memory nobody reported: the median over the GPUs of the table that have a figure."""
USABLE_SHARE_OF_JAX = 0.75
"""JAX takes three quarters of a GPU when it starts, and never more
(https://docs.jax.dev/en/latest/gpu_memory_allocation.html, read 2026-11-23)."""


def device_text(device: str, count: int, fraction: float, vcpus: int | None) -> str:
    """`T4`, `4 x V100`, `1/8 L4`, `8 vCPU`."""
    if device == "cpu":
        return f"{vcpus} vCPU" if vcpus else "cpu"
    if fraction < 1:
        return f"1/{round(1 / fraction)} {device}"
    return device if count == 1 else f"{count} x {device}"


def machines_text(one: str, machines: int) -> str:
    """What is said of one machine, its type or its price, for several: `p3.2xlarge`, `2 x gpu:v100:4`."""
    return one if machines == 1 else f"{machines} x {one}"


class UsableMemory(NamedTuple):
    """What a framework's allocator gets of one whole device, in GiB: the least and the most that was reported.

    `source` says of which framework, and that it was assumed where nobody reported it.
    """

    low_gib: float
    high_gib: float
    source: str


_AS_GOOD_AS_WHOLE = 0.9
"""EC2 states what the driver reports of a whole device (L4: 22.4 GiB of 24), which is no part of one."""


class Architecture(StrEnum):
    """Generation of the silicon; it decides which drivers, containers and precisions work."""

    KEPLER = "kepler"
    MAXWELL = "maxwell"
    PASCAL = "pascal"
    VOLTA = "volta"
    TURING = "turing"
    AMPERE = "ampere"
    ADA = "ada"
    HOPPER = "hopper"
    BLACKWELL = "blackwell"
    TPU = "tpu"
    CPU = "cpu"


_WITHOUT_BF16 = frozenset(
    {Architecture.KEPLER, Architecture.MAXWELL, Architecture.PASCAL, Architecture.VOLTA, Architecture.TURING}
)


class Verified(StrEnum):
    """Whether the figures were read in the source that is named."""

    YES = "yes"
    PART = "part"
    NO = "no"


class UnknownDeviceError(ValueError):
    """No device has this name; `nearest` holds the names that come closest."""

    def __init__(self, name: str, nearest: tuple[str, ...], reason: str = "") -> None:
        self.name = name
        self.nearest = nearest
        self.hint = f"did you mean {', '.join(nearest)}?" if nearest else "`plan devices` lists every device"
        super().__init__(f"no device is called {name!r}" + (f": {reason}" if reason else ""))


class PeakTflops(NamedTuple):
    """Dense peak rates in 10^12 FLOP/s; None: not known. Tensor-core rates for all but fp32."""

    fp32: float | None = None
    tf32: float | None = None
    amp_fp16: float | None = None
    amp_bf16: float | None = None

    def of(self, precision: str) -> float | None:
        """The rate under a job's precision: `fp32`, `tf32`, `amp_fp16` or `amp_bf16`."""
        rates = {"fp32": self.fp32, "tf32": self.tf32, "amp_fp16": self.amp_fp16, "amp_bf16": self.amp_bf16}
        return rates[precision]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator as a cloud user sees it: a GPU (K80, M60 and K520: half a board) or a TPU chip."""

    name: str
    group: str
    architecture: Architecture
    compute_capability: str | None = None
    tpu_generation: str | None = None
    memory_gib: float | None = None
    usable_memory_mib: tuple[float, float] | None = None
    usable_memory_source: str = ""
    memory_bandwidth_gb_s: float | None = None
    peak_tflops: PeakTflops = field(default_factory=PeakTflops)
    interconnect: str = ""
    interconnect_gb_s: float | None = None
    tdp_w: float | None = None
    aliases: tuple[str, ...] = ()
    source: str = ""
    verified: Verified = Verified.NO
    unverified: tuple[str, ...] = ()
    note: str = ""

    def usable_memory(self, memory_gib: float, *, jax: bool = False) -> UsableMemory:
        """What is left for a training step of `memory_gib`, the memory of the machine's device or of its part.

        With `jax` no more than JAX takes of a GPU.
        """
        part = 1.0 if self.memory_gib is None else min(1.0, memory_gib / self.memory_gib)
        part = 1.0 if part > _AS_GOOD_AS_WHOLE else part
        if self.usable_memory_mib is None:
            bounds_and_source = (
                USABLE_SHARE * memory_gib,
                USABLE_SHARE * memory_gib,
                "assumed: no report of this device is known",
            )
        else:
            low, high = (mib / 1024 * part for mib in self.usable_memory_mib)
            bounds_and_source = (low, high, self.usable_memory_source)
        if not jax or self.architecture is Architecture.TPU:
            return UsableMemory(*bounds_and_source)
        most = USABLE_SHARE_OF_JAX * memory_gib
        return UsableMemory(
            min(bounds_and_source[0], most),
            min(bounds_and_source[1], most),
            f"{bounds_and_source[2]}; JAX takes {USABLE_SHARE_OF_JAX:.0%}",
        )

    @property
    def has_rates(self) -> bool:
        """Whether a throughput can be modelled from the row: bandwidth and at least one peak rate."""
        peaks = self.peak_tflops
        rates = (peaks.fp32, peaks.tf32, peaks.amp_fp16, peaks.amp_bf16)
        return self.memory_bandwidth_gb_s is not None and any(rate is not None for rate in rates)

    @property
    def has_bf16(self) -> bool:
        """Whether it multiplies bf16: GPUs do from compute capability 8.0 on (CUDA C++ Programming Guide, arithmetic
        instructions). Before, frameworks refuse it, or emulate it more slowly than fp32."""
        return self.architecture not in _WITHOUT_BF16


class DeviceTable(Mapping[str, Device]):
    """Devices by canonical name, with look-up by any spelling."""

    def __init__(self, devices: Iterable[Device], not_devices: Mapping[str, str] | None = None) -> None:
        self._by_name = {device.name: device for device in devices}
        self._not_devices = {_key(spelling): reason for spelling, reason in (not_devices or {}).items()}
        self._spellings = {
            _key(spelling): device for device in self._by_name.values() for spelling in (device.name, *device.aliases)
        }

    def __getitem__(self, name: str) -> Device:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Device:
        """The device of this name or alias, in any case. Raises UnknownDeviceError with the nearest names."""
        device = self._spellings.get(_key(name))
        if device is None:
            raise self._unknown(name)
        return device

    def find_all(self, name: str) -> tuple[Device, ...]:
        """Every device that a person means by `name`: all of a group (`A100`: every variant), all of an architecture
        (`TPU`, `Volta`), or the one.

        Raises UnknownDeviceError with the nearest names.
        """
        key = _without_maker(_key(name))
        if key in _ANY_DEVICE:
            raise UnknownDeviceError(name, (), _ANY_DEVICE[key])
        group = tuple(
            device
            for device in self._by_name.values()
            if plain(key) == plain(device.group) or key == device.architecture.value
        )
        if group or _key(name) in self._spellings:
            return group or (self.find(name),)
        device = self._spellings.get(key) or self._spellings.get(same_name(key, self._spellings) or "")
        if device is None:
            raise self._unknown(name)
        return (device,)

    def why_not(self, spelling: str) -> str | None:
        """Why a spelling seen in the sources is knowingly no device here; None: it is not one of those."""
        return self._not_devices.get(_key(spelling))

    def _unknown(self, name: str) -> UnknownDeviceError:
        key = _without_maker(_key(name))
        reason = self._not_devices.get(_key(name)) or self._not_devices.get(same_name(key, self._not_devices) or "")
        if reason:  # it is known what was meant: a device with a similar name is no answer
            return UnknownDeviceError(name, (), reason)
        nearest = dict.fromkeys(self._spellings[one].name for one in nearest_names(key, self._spellings, 5))
        return UnknownDeviceError(name, tuple(nearest)[:3])


_MAKERS = frozenset(
    {"nvidia", "tesla", "geforce", "quadro", "google", "cloud", "amd", "instinct", "intel", "habana", "aws", "amazon"}
)
_ANY_DEVICE = dict.fromkeys(
    ("gpu", "gpus", "cuda", "accelerator", "nvidia"), "name one, for example T4 or A100; without a name any is taken"
)
"""What people write for no device in particular."""


def _without_maker(key: str) -> str:
    """`nvidia tesla t4` is t4; a name of nothing but makers stays."""
    words = key.split()
    while len(words) > 1 and words[0] in _MAKERS:
        words = words[1:]
    return " ".join(words)


def _key(spelling: str) -> str:
    return " ".join(spelling.lower().replace("_", " ").replace("-", " ").split())
