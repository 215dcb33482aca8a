"""What the gate asks of JAX, for an image that has none."""

import stat
from pathlib import Path

__version__ = "0.tpu"


class Device:
    platform = "tpu"
    device_kind = "TPU v3"

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


def local_devices():
    """Two for each chip: only a privileged container has its device files."""
    chips = [path for path in sorted(Path("/dev").glob("accel[0-9]*")) if stat.S_ISCHR(path.stat().st_mode)]
    return [Device(f"TPU_{2 * number + core}") for number in range(len(chips)) for core in (0, 1)]


def device_put(array, _):
    return array
