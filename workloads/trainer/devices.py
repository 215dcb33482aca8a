"""What there is to train on, and how it is used: a TPU, several GPUs, one GPU or the CPU."""

from __future__ import annotations

import os
import platform
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from trainplan.workloads.job import Framework
from trainplan.workloads.trainer.errors import BadInputError

if TYPE_CHECKING:
    from trainplan.workloads.trainer.backend import Toolkit


class DeviceKind(StrEnum):
    """What kind of device the framework computes on."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """`count` devices share every batch evenly. `strategy_name` says how; `strategy` is TensorFlow's, if any."""

    kind: DeviceKind
    name: str
    count: int
    strategy_name: str
    strategy: Any = None

    def scope(self) -> AbstractContextManager[Any]:
        """Build and restore the model inside it."""
        return nullcontext() if self.strategy is None else self.strategy.scope()

    def check_batch(self, batch_size: int, accumulate: int = 1) -> None:
        """Raises BadInputError where a batch, or each of its `accumulate` parts, cannot be shared evenly."""
        if batch_size % (self.count * accumulate):
            parts = f" in {accumulate} parts" if accumulate > 1 else ""
            raise BadInputError(
                f"global_batch_size {batch_size}{parts} does not divide over {self.count} devices; "
                f"write a multiple of {self.count * accumulate}"
            )


def find_devices(toolkit: Toolkit) -> Devices:
    """The fastest kind that the framework sees here; every device of it where the framework can share a batch."""
    match toolkit.framework:
        case Framework.TENSORFLOW:
            return _tensorflow(toolkit.module)
        case Framework.JAX:
            return _jax(toolkit)
        case Framework.TORCH:
            return _torch(toolkit.module)
        case _:
            assert_never(toolkit.framework)


def mirrored(tf: Any, kind: DeviceKind, name: str, devices: list[str]) -> Devices:
    """Several devices of one machine that keep the same weights and sum their gradients."""
    strategy = tf.distribute.MirroredStrategy(devices)
    return Devices(kind=kind, name=name, count=len(devices), strategy_name="MirroredStrategy", strategy=strategy)


def peak_memory_bytes(toolkit: Toolkit, devices: Devices) -> int | None:
    """The most memory used at once: on the (first) accelerator, or by this process on a CPU; None if unknown."""
    if devices.kind is DeviceKind.CPU:
        return _peak_process_bytes()
    match toolkit.framework:
        case Framework.TENSORFLOW:
            if devices.kind is DeviceKind.TPU:
                return None
            return int(toolkit.module.config.experimental.get_memory_info("GPU:0")["peak"])
        case Framework.JAX:
            statistics = toolkit.module.local_devices()[0].memory_stats() or {}
            return statistics.get("peak_bytes_in_use")
        case Framework.TORCH:
            return int(toolkit.module.cuda.max_memory_allocated())
        case _:
            assert_never(toolkit.framework)


def _tensorflow(tf: Any) -> Devices:
    if _has_tpu():
        return _tensorflow_tpu(tf)
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if not gpus:
        return _one(DeviceKind.CPU, cpu_name())
    name = str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU"))
    if len(gpus) == 1:
        return _one(DeviceKind.GPU, name)
    return mirrored(tf, DeviceKind.GPU, name, [f"GPU:{number}" for number in range(len(gpus))])


def _tensorflow_tpu(tf: Any) -> Devices:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME", "local"))
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
    name = os.environ.get("TPU_ACCELERATOR_TYPE", "TPU")
    count = int(strategy.num_replicas_in_sync)
    return Devices(kind=DeviceKind.TPU, name=name, count=count, strategy_name="TPUStrategy", strategy=strategy)


def _has_tpu() -> bool:
    return "TPU_NAME" in os.environ or any(Path("/dev").glob("accel[0-9]*"))


def _jax(toolkit: Toolkit) -> Devices:
    item = toolkit.module.local_devices()
    kind = DeviceKind(item[0].platform) if item[0].platform in set(DeviceKind) else DeviceKind.GPU
    if toolkit.module.process_count() > 1:
        return _over_processes(toolkit, kind)
    if kind is DeviceKind.CPU:
        return _one(kind, cpu_name())
    if len(item) == 1:
        return _one(kind, item[0].device_kind)
    return data_parallel(toolkit, kind, item)


def _over_processes(toolkit: Toolkit, kind: DeviceKind) -> Devices:
    """Every batch in equal parts over the devices of all processes, in their order of rank. Each process hands in its
    own part (ProcessGroup.part), so that Keras must not share it out once more."""
    everywhere = toolkit.module.devices()
    distribution = toolkit.keras.distribution
    names = [f"{device.platform}:{device.id}" for device in everywhere]
    mesh = distribution.DeviceMesh(shape=(len(names),), axis_names=["batch"], devices=names)
    distribution.set_distribution(distribution.DataParallel(device_mesh=mesh, auto_shard_dataset=False))
    name = cpu_name() if kind is DeviceKind.CPU else str(everywhere[0].device_kind)
    strategy = f"DataParallel over {toolkit.module.process_count()} processes"
    return Devices(kind=kind, name=name, count=len(everywhere), strategy_name=strategy)


def data_parallel(toolkit: Toolkit, kind: DeviceKind, items: list[Any]) -> Devices:
    """Every batch in equal parts over JAX's local devices, as on a TPU host; holds for models built afterwards."""
    toolkit.keras.distribution.set_distribution(toolkit.keras.distribution.DataParallel())
    return Devices(kind=kind, name=str(items[0].device_kind), count=len(items), strategy_name="DataParallel")


def _torch(torch: Any) -> Devices:
    """The first GPU, or the CPU, of each process."""
    has_gpu = torch.cuda.is_available()
    kind = DeviceKind.GPU if has_gpu else DeviceKind.CPU
    name = str(torch.cuda.get_device_name(0)) if has_gpu else cpu_name()
    processes = torch.distributed.get_world_size() if _is_joined(torch) else 1
    if processes == 1:
        return _one(kind, name)
    strategy = f"mean gradients over {processes} processes"
    return Devices(kind=kind, name=name, count=processes, strategy_name=strategy)


def _is_joined(torch: Any) -> bool:
    return torch.distributed.is_available() and bool(torch.distributed.is_initialized())


def _one(kind: DeviceKind, name: str) -> Devices:
    return Devices(kind=kind, name=name, count=1, strategy_name="one device")


def cpu_name() -> str:
    """The CPU's model, as the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _peak_process_bytes() -> int | None:
    try:
        import resource
    except ModuleNotFoundError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak if platform.system() == "Darwin" else peak * 1024
