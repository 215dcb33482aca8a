"""What Google's machine types are made of, in the words of its price list."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from pricing.grades import Market

if TYPE_CHECKING:
    from pricing.tables import InstanceType


class MachineParts(NamedTuple):
    """What has to be paid: things of the price list and how many units of each, of the host and of the device.

    `attached`: the accelerator is an option of the host, and the two parts are shown. `markets`: a few machines are
    rented on spot only, and what the list adds up to on demand is nominal.
    """

    host: tuple[tuple[str, Decimal], ...]
    device: tuple[tuple[str, Decimal], ...]
    attached: bool
    markets: tuple[Market, ...]


# Machine type by its first words, the longest first: what its cores and memory are called in the list.
_HOSTS = (
    ("a3-highgpu-", "a3"),
    ("a3-megagpu-", "a3plus"),
    ("a3-ultragpu-", "a3ultra"),
    ("a2-", "a2"),
    ("c2-", "compute optimized"),
    ("c3-", "c3"),
    ("e2-", "e2"),
    ("g2-", "g2"),
    ("g4-", "g4"),
    ("n1-", "n1 predefined"),
    ("n2d-", "n2d amd"),
    ("n2-", "n2"),
)
# By device, and for the two H100s by the machine.
_DEVICES = {
    "A100-40GB": "nvidia tesla a100",
    "A100-80GB": "nvidia tesla a100 80gb",
    "H100": "nvidia h100 80gb",
    "H200": "nvidia h200 141gb",
    "L4": "nvidia l4",
    "P100": "nvidia tesla p100",
    "P4": "nvidia tesla p4",
    "RTX-PRO-6000": "nvidia rtx pro 6000 96gb",
    "T4": "nvidia tesla t4",
    "V100": "nvidia tesla v100",
}
_MEGA = "nvidia h100 80gb mega"
# Local disks that come with the machine and are priced beside it (docs/disks/local-ssd: disks of 375 GiB).
_LOCAL_SSD_GIB = {
    "a2-ultragpu-1g": 375,
    "a2-ultragpu-2g": 750,
    "a2-ultragpu-4g": 1500,
    "a2-ultragpu-8g": 3000,
    "a3-highgpu-1g": 750,
    "a3-highgpu-2g": 1500,
    "a3-highgpu-4g": 3000,
    "a3-highgpu-8g": 6000,
    "a3-megagpu-8g": 6000,
    "a3-ultragpu-8g": 12000,
}
_SPOT_ONLY = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})
# The unit of a TPU's price in chips: v2 and v3 are listed by the device of eight cores, the others by the chip. v4 and
# whatever of v2 and v3 spans hosts has the price of a pod.
_TPU_CHIPS = {"v2": 4, "v3": 4, "v4": 4, "v5e": 1, "v5p": 1, "v6e": 1}
_TPU_NAMES = {"v5litepod": "v5e"}


def parts_of(kind: InstanceType) -> MachineParts | None:
    """What a machine type is made of; None where that is not known."""
    if kind.name.startswith("tpu-"):
        return _tpu(kind)
    host = next((label for begin, label in _HOSTS if kind.name.startswith(begin)), None)
    if host is None or kind.vcpus is None or kind.memory_gib is None:
        return None
    parts = [(f"core {host}", Decimal(kind.vcpus)), (f"ram {host}", Decimal(str(kind.memory_gib)))]
    if disk := _LOCAL_SSD_GIB.get(kind.name):
        parts.append(("ssd", Decimal(disk)))
    device = _device(kind)
    if device is None:
        return None
    markets = (Market.SPOT,) if kind.name in _SPOT_ONLY else tuple(Market)
    return MachineParts(tuple(parts), device, "+" in kind.name, markets)


def _device(kind: InstanceType) -> tuple[tuple[str, Decimal], ...] | None:
    if kind.device == "cpu":
        return ()
    label = _MEGA if kind.name.startswith("a3-megagpu-") else _DEVICES.get(kind.device)
    return None if label is None else ((f"gpu {label}", Decimal(kind.device_count)),)


def _tpu(kind: InstanceType) -> MachineParts | None:
    """`tpu-v3-8`: the chips are counted, the host is in the price."""
    name = kind.name.split("-")[1]
    generation = _TPU_NAMES.get(name, name)
    chips = _TPU_CHIPS.get(generation)
    if chips is None:
        return None
    pod = " pod" if generation == "v4" or (generation in ("v2", "v3") and kind.hosts > 1) else ""
    return MachineParts((), ((f"tpu {generation}{pod}", Decimal(kind.device_count) / chips),), False, tuple(Market))
