"""What this machine offers: its processor, and its NVIDIA GPUs in sets of one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.offers import Offer
from trainplan.providers.hardware import Gpu, HostHardware, canonical_device

PROVIDER = "local"
REGION = "this-machine"
INSTANCE_TYPE = "this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrice:
    """What an hour of this machine costs its owner, and when that was looked up."""

    usd_per_hour: Decimal
    as_of: date


def offers(machine: HostHardware, price: OwnPrice, device_name: Callable[[str], str | None]) -> tuple[Offer, ...]:
    """The processor first, then one, two, four, ... GPUs of each kind and all of them.

    `device_name` leads a spelling to the canonical device, or None; a GPU that it does not know keeps the name
    that `nvidia-smi` gives it.
    """
    machine_offers = [_offer(machine, price, CPU_DEVICE, 1)]
    kinds: dict[str, list[Gpu]] = {}
    for gpu in machine.gpus:
        kinds.setdefault(gpu.name, []).append(gpu)
    for name, gpus in kinds.items():
        device = canonical_device(name, device_name)
        machine_offers += [_offer(machine, price, device, count, gpus[0].memory_gib) for count in _counts(len(gpus))]
    return tuple(machine_offers)


def gpu_indices(
    machine: HostHardware, device: str, count: int, device_name: Callable[[str], str | None]
) -> tuple[int, ...] | None:
    """The numbers of the first `count` GPUs of a device, none for the processor; None: there are not so many."""
    if device == CPU_DEVICE:
        return ()
    indices = [gpu.index for gpu in machine.gpus if canonical_device(gpu.name, device_name) == device]
    return tuple(indices[:count]) if len(indices) >= count else None


def _counts(total: int) -> Iterator[int]:
    count = 1
    while count < total:
        yield count
        count *= 2
    yield total


def _offer(
    machine: HostHardware, price: OwnPrice, device: str, count: int, device_memory_gib: float | None = None
) -> Offer:
    return Offer(
        provider=PROVIDER,
        region=REGION,
        instance_type=INSTANCE_TYPE,
        device=device,
        device_count=count,
        device_memory_gib=device_memory_gib,
        vcpus=machine.vcpus,
        memory_gib=machine.memory_gib or None,
        cpu_architecture=machine.architecture,
        market=Market.ON_DEMAND,
        usd_per_hour=price.usd_per_hour,
        planning_usd_per_hour=price.usd_per_hour,
        price_grade=PriceGrade.OBSERVED,
        price_as_of=price.as_of,
        price_source="the setting usd_per_hour" if price.usd_per_hour else "your own machine",
        on_demand_usd_per_hour=price.usd_per_hour,
        note=machine.cpu_name if device == CPU_DEVICE else "",
    )
