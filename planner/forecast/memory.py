"""What a training step needs of a rental's memory, and what of that memory is there. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pricing.devices import CPU_DEVICE, Architecture, UsableMemory, cores_of
from workloads.memory import FRAMEWORK_BYTES, GIB, is_tight
from workloads.terms import Framework

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.forecast.estimate import Workload
    from pricing.devices import Device
    from pricing.offers import Rental
    from workloads.runtimes import ChosenSoftware


class MemoryNeed(NamedTuple):
    """What `images` at once need of one device (or core of a TPU chip that is two), and what is usable of it."""

    images: int
    allocated_bytes: int
    usable: UsableMemory

    @property
    def fits(self) -> bool:
        """Whether the most that a framework has been seen to get is enough."""
        return self.allocated_bytes <= self.usable.high_gib * GIB

    @property
    def is_tight(self) -> bool:
        """Whether it fits, but for so little that a driver or framework that takes more would stop it."""
        return self.fits and is_tight(self.allocated_bytes, self.usable.high_gib)

    @property
    def usable_text(self) -> str:
        """`13.3 to 13.6 GiB`, or `7.0 GiB` where one figure is known."""
        low, high, _ = self.usable
        return f"{high:.1f} GiB" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f} GiB"


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
    work: Workload, rental: Rental, devices: Mapping[str, Device], software: ChosenSoftware | None
) -> MemoryNeed | None:
    """One device's (or core's) share of the batch beside its usable memory; None where that is not known."""
    usable = usable_memory(rental, devices, software)
    if usable is None:
        return None
    share = work.job.micro_batch_size // (rental.device_count * cores_of(rental.device))
    planned = rental.device != CPU_DEVICE and devices[rental.device].architecture is Architecture.TPU
    return MemoryNeed(share, work.device_bytes(share, planned=planned), usable)
