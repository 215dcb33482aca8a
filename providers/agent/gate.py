"""The accelerator must be visible: to the machine, to the framework in the container, and again every minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from providers.agent.processes import ProcessResult
    from providers.agent.spec import Device

LOOK_SECONDS = 60.0
CONFIRM_SECONDS = 5.0
LIMIT_SECONDS = 60.0
"""A driver that has lost its device may not answer at all."""
_GPUS = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
# A machine has files of one of the two kinds, and ls fails for the other.
_CHIPS = ("sh", "-c", "ls -d /dev/accel[0-9]* /dev/vfio/[0-9]* 2>/dev/null || true")

# Run in the container. Each lists the devices and computes on the first: some are listed and cannot compute.
_PROGRAMS = {
    "tensorflow": """
import os, tensorflow as tf
kind = "{kind}".upper()
if kind == "TPU":
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME", "local"))
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    found = tf.config.list_logical_devices("TPU")
else:
    found = tf.config.list_physical_devices(kind)
version = tf.__version__
def compute():
    with tf.device(kind + ":0"):
        return float(tf.reduce_sum(tf.linalg.matmul(tf.ones((64, 64)), tf.ones((64, 64)))).numpy())
""",
    "jax": """
import jax, jax.numpy as jnp
names = {{"cuda": "gpu", "rocm": "gpu"}}
found = [d for d in jax.local_devices() if names.get(d.platform, d.platform) == "{kind}"]
version = jax.__version__
def compute():
    return float((jax.device_put(jnp.ones((64, 64)), found[0]) @ jnp.ones((64, 64))).sum())
""",
    "torch": """
import torch
found = list(range(torch.cuda.device_count())) if "{kind}" == "gpu" else []
version = torch.__version__
def compute():
    return float((torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).sum())
""",
}
_VERDICT = """
print("{framework}", version, "sees", len(found), "{kind}:", *map(str, found))
if len(found) < {count}:
    raise SystemExit("promised: {count}")
if compute() != 64.0 ** 3:
    raise SystemExit("the first of them computes wrongly")
print("ACCELERATOR VISIBLE")
"""
PASSED = "ACCELERATOR VISIBLE"


def program(device: Device, framework: str) -> tuple[str, ...]:
    """The command that proves, in the container, that the framework sees and can use what was promised.

    Raises KeyError for a framework that nobody knows.
    """
    text = (_PROGRAMS[framework] + _VERDICT).format(kind=device.kind, count=device.count, framework=framework)
    return ("python", "-c", text)


def look(device: Device) -> tuple[str, ...]:
    """The command that shows one line for each device, on the machine and in the container alike."""
    return _GPUS if device.kind == "gpu" else _CHIPS


def judge_gate(process: ProcessResult, count: int) -> ProcessResult:
    """The same with a code that is not 0 where fewer than `count` are shown."""
    if process.code or count_devices(process) >= count:
        return process
    return type(process)(1, f"{process.output}\n{count_devices(process)} of {count}")


def least_on_host(device: Device) -> int:
    """Device files that must be there: a chip of the older TPUs has one for the two devices that a framework sees."""
    return device.count if device.kind == "gpu" else -(-device.count // 2)


def count_devices(process: ProcessResult) -> int:
    """Return one line for each device."""
    return sum(1 for line in process.output.splitlines() if line.strip())
