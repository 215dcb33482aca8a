"""One name for each device, whatever a source calls it."""

from __future__ import annotations

import re
from collections.abc import Callable

from trainplan.pricing.devices import DeviceTable, UnknownDeviceError

_HOST = re.compile(r"cpu\b|.*\b(xeon|epyc|core i\d)\b", re.IGNORECASE)
_VENDOR = re.compile(r"^((nvidia|geforce|tesla)\s+)+", re.IGNORECASE)
_STATED_GB = re.compile(r"(\d+) ?gi?b\b", re.IGNORECASE)
# Boards of one name with two sizes of memory: name, least GB of the larger one, and the larger one's name.
_LARGER = {
    "V100": (24.0, "V100-32GB"),
    "A100-40GB": (60.0, "A100-80GB"),
    "A100-PCIe-40GB": (60.0, "A100-PCIe-80GB"),
}


def device_name(stated: str, memory_gb: float | None, find: Callable[[str], str | None]) -> str:
    """The canonical name of a device as a source states it; `memory_gb` tells boards with more memory apart.

    `find` looks a spelling up in the device table. A host without accelerator is `cpu`; a name that is not known
    comes back as it is.
    """
    name = stated.strip()
    if _HOST.match(name):
        return "cpu"
    value = find(name) or find(_VENDOR.sub("", name)) or find(_STATED_GB.sub("", _VENDOR.sub("", name)).strip())
    if value is None:
        return name
    size = _STATED_GB.search(name)
    size_gb = memory_gb if memory_gb is not None else float(size[1]) if size else None
    least_gb, larger = _LARGER.get(value, (0.0, value))
    return larger if size_gb is not None and size_gb >= least_gb else value


def finder(devices: DeviceTable) -> Callable[[str], str | None]:
    """Looks up the canonical name of a spelling in a device table; None where it is not known."""

    def find(spelling: str) -> str | None:
        try:
            return devices.find(spelling).name
        except UnknownDeviceError:
            return None

    return find
