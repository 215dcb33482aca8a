"""What a training step needs of a rental's memory, and what of that memory is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainplan.planner.forecast.estimate import device_kind
from trainplan.planner.forecast.plan import MemoryNeed, StepBytes
from trainplan.pricing.devices import CPU_DEVICE, Device, UsableMemory, cores_of
from trainplan.workloads.memory import FRAMEWORK_BYTES, GIB
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from trainplan.planner.forecast.estimate import Workload
    from trainplan.pricing.offers import Rental
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.runtimes import ChosenSoftware


def usable_memory(
    rental: Rental, devices: Mapping[str, Device], software: ChosenSoftware | None
) -> UsableMemory | None:
    """What a step gets of one device of a rental, or of a core where a chip is two; None where nothing is known."""
    if rental.device == CPU_DEVICE:
        if rental.memory_gib is None:
            return None
        left_gib = rental.memory_gib - FRAMEWORK_BYTES / GIB
        return UsableMemory(left_gib, left_gib, "the host's memory but for what the framework takes")
    device = devices.get(rental.device)
    if rental.device_memory_gib is None or device is None:
        return None
    jax = software is not None and software.framework is Framework.JAX
    low, high, source = device.usable_memory(rental.device_memory_gib, jax=jax)
    cores = cores_of(rental.device)
    return UsableMemory(low / cores, high / cores, source)


def memory_need(
    work: Workload,
    rental: Rental,
    devices: Mapping[str, Device],
    software: ChosenSoftware | None,
    machines: int = 1,
) -> MemoryNeed | None:
    """The share of the batch of one device (or core) of so many machines, beside its usable memory; None where that is
    not known. Of a sweep that of the trial that needs the most."""
    if work.sweep is not None:
        needs = [memory_need(one, rental, devices, software, machines) for one in work.kinds]
        return max((need for need in needs if need is not None), key=lambda need: need.step, default=None)
    usable = usable_memory(rental, devices, software)
    if usable is None or work.job.script is not None:
        return None
    share = work.job.micro_batch_size // (machines * rental.device_count * cores_of(rental.device))
    return MemoryNeed(share, step_bytes(work, rental, share), usable)


def step_bytes(work: Workload, rental: Rental, share: int) -> StepBytes:
    """What training `share` images at once asks of one device (or core) of a rental."""
    need = work.device_bytes(share, device_kind(rental.device))
    buckets = bucket_bytes(work.job, rental.device_count)
    return StepBytes(need.allocated + buckets, need.least + buckets)


def bucket_bytes(job: TrainingJob, device_count: int) -> int:
    """Bytes of the buckets in which torch's DistributedDataParallel sums gradients on several devices of a machine.

    They take as much as the gradients: without them (`gradient_as_bucket_view`, which is off by default) the peak of a
    ResNet was 101 MB lower for 97 MB of parameters (PyTorch's commit 97d594b9f7, read 2026-11-28).
    """
    has_buckets = device_count > 1 and job.framework is Framework.TORCH and job.script is None
    return GRADIENT_BYTES * job.graph().trained_parameters if has_buckets else 0


GRADIENT_BYTES = 4
"""Gradients are summed in 32 bits: mixed precision keeps weights in 32."""
