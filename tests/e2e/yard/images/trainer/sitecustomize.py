"""Makes TensorFlow report the GPUs that nvidia-smi shows; what is placed on them is computed on the processor."""

import importlib.abc
import importlib.machinery
import subprocess
import sys


def clock_file():
    """The names of the devices, as nvidia-smi tells them here."""
    try:
        ran = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [line.strip() for line in ran.stdout.splitlines() if line.strip()]


def report_gpus(tf):
    names = clock_file()
    physical = tf.config.list_physical_devices
    made = [tf.config.PhysicalDevice(f"/physical_device:GPU:{number}", "GPU") for number in range(len(names))]
    tf.config.list_physical_devices = lambda kind=None: made if kind == "GPU" else physical(kind)
    tf.config.set_soft_device_placement(True)
    experimental = tf.config.experimental
    experimental.set_memory_growth = lambda device, enable: None
    experimental.get_device_details = lambda device: {"device_name": names[0]}
    experimental.get_memory_info = lambda device: {"current": 1, "peak": 1}


class Loader(importlib.abc.Loader):
    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        self.real.exec_module(module)
        report_gpus(module)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "tensorflow":
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            found.loader = Loader(found.loader)
        return found


sys.meta_path.insert(0, Finder())
