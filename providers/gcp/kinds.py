"""How Compute Engine spells what an offer names: machine type, attached accelerator, disk, quotas. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainplan.pricing.offers import Market, Offer

# The catalog's word -> (accelerator type at Compute Engine, metric of its quota). A GPU that comes with its machine
# type has a quota too, but no accelerator is asked for.
_GPUS: Mapping[str, tuple[str, str]] = {
    "T4": ("nvidia-tesla-t4", "NVIDIA_T4_GPUS"),
    "V100": ("nvidia-tesla-v100", "NVIDIA_V100_GPUS"),
    "P100": ("nvidia-tesla-p100", "NVIDIA_P100_GPUS"),
    "P4": ("nvidia-tesla-p4", "NVIDIA_P4_GPUS"),
    "L4": ("nvidia-l4", "NVIDIA_L4_GPUS"),
    "A100-40GB": ("nvidia-tesla-a100", "NVIDIA_A100_GPUS"),
    "A100-80GB": ("nvidia-a100-80gb", "NVIDIA_A100_80GB_GPUS"),
    "H100": ("nvidia-h100-80gb", "NVIDIA_H100_GPUS"),
}
# Since v5p, TPUs are machine types of Compute Engine; the catalog names slices.
_TPUS: Mapping[str, str] = {
    "tpu-v5p-8": "ct5p-hightpu-4t",
    "tpu-v6e-1": "ct6e-standard-1t",
    "tpu-v6e-4": "ct6e-standard-4t",
    "tpu-v6e-8": "ct6e-standard-8t",
}
TPU_API = ("tpu-v2-", "tpu-v3-", "tpu-v4-", "tpu-v5litepod-")
"""Beginnings of the types that only the Cloud TPU API has: no machine type of Compute Engine is to be had for them."""
# Where persistent disks do not fit (Google's pages on disks by machine series, as remembered: to be tried).
_HYPERDISK = ("ct6e-", "a3-ultragpu-", "g4-")
_CPU_QUOTAS: Mapping[str, str] = {
    "n1": "CPUS",
    "e2": "CPUS",
    "n2": "N2_CPUS",
    "n2d": "N2D_CPUS",
    "c2": "C2_CPUS",
    "c3": "C3_CPUS",
    "a2": "A2_CPUS",
}
ALL_GPUS = "GPUS_ALL_REGIONS"
ALL_CPUS = "CPUS_ALL_REGIONS"
"""Quotas of the project over all regions."""
_ATTACHED = re.compile(r"(?P<machine>[a-z0-9-]+)\+(?P<count>\d+)x(?P<gpu>[A-Za-z0-9-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """`machine_type` and `disk_type` are names in a zone; `accelerator` and `count` what is attached, None: nothing."""

    machine_type: str
    disk_type: str
    accelerator: str | None = None
    count: int = 0


def kind_of(offer: Offer) -> MachineKind:
    """What is asked for where this offer is launched."""
    attached = _ATTACHED.fullmatch(offer.instance_type)
    if attached is not None:
        accelerator, _ = _GPUS[attached["gpu"]]
        return MachineKind(
            machine_type=attached["machine"],
            disk_type="pd-balanced",
            accelerator=accelerator,
            count=int(attached["count"]),
        )
    name = _TPUS.get(offer.instance_type, offer.instance_type)
    disk = "hyperdisk-balanced" if name.startswith(_HYPERDISK) else "pd-balanced"
    return MachineKind(machine_type=name, disk_type=disk)


def instance_type_of(machine_type: str, attached: Sequence[tuple[str, int]]) -> str:
    """The catalog's name of a machine, `attached` its accelerators and how many; the other way round than `kind_of`.

    A GPU that came with its machine type is shown as attached too, and is not in the name.
    """
    if machine_type.startswith("n1-") and attached:
        accelerator, count = attached[0]
        names = {wanted_name: name for name, (wanted_name, _) in _GPUS.items()}
        return f"{machine_type}+{count}x{names.get(accelerator, accelerator)}"
    return {wanted_name: name for name, wanted_name in _TPUS.items()}.get(machine_type, machine_type)


def needs(offer: Offer) -> Mapping[str, int]:
    """The regional quotas that one machine of this offer counts in, and how much of each.

    None of them is looked up here for what Google counts elsewhere (H200 and newer, TPUs: by family, `counted`).
    """
    document: dict[str, int] = {}
    gpu = _GPUS.get(offer.device)
    if gpu is not None:
        document[gpu[1]] = offer.device_count
    series = kind_of(offer).machine_type.partition("-")[0]
    if series in _CPU_QUOTAS and offer.vcpus is not None:
        document[_CPU_QUOTAS[series]] = offer.vcpus
    return document


def counted_elsewhere(offer: Offer) -> bool:
    """Whether the region's own table does not tell of the accelerator's quota."""
    if offer.device == "cpu":
        return False
    on_demand_h100 = offer.device == "H100" and offer.market is Market.ON_DEMAND
    return offer.device not in _GPUS or on_demand_h100


def is_gpu(metric: str) -> bool:
    """Whether a quota's metric counts GPUs."""
    return metric.endswith("_GPUS")
