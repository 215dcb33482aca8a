"""What training a batch in parts (`accumulate`) would let fit, of what was rejected for its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from trainplan.planner.forecast.estimate import Workload, device_kind, uses_xla
from trainplan.planner.forecast.machines import machines_of
from trainplan.planner.forecast.memory import usable_memory
from trainplan.planner.forecast.plan import Reason, RejectionKey
from trainplan.pricing.devices import Device, cores_of
from trainplan.workloads.memory import accumulation

if TYPE_CHECKING:
    from trainplan.pricing.catalog import RentalPlacements
    from trainplan.pricing.offers import Rental
    from trainplan.workloads.runtimes import ChosenSoftware

# More parts than this are no help: the job asks for another machine or a smaller batch.
MOST_PARTS = 1_024
_TOO_SMALL = (Reason.OUT_OF_MEMORY, Reason.FRACTION_TOO_SMALL)
_MOST_EXAMPLES = 3


def can_accumulate(software: ChosenSoftware) -> bool:
    """Whether the trainer can train a batch in parts with that software: from Keras 3 on."""
    return software.runtime is None or software.runtime.keras_3


def parts_needed(work: Workload, usable_gib: float, *, device_count: int = 1, planned: bool = False) -> int | None:
    """The fewest equal parts of the batch that fit so much usable memory; None where none do, or too many would."""
    job = work.job
    parts = accumulation(
        work.graph,
        job.global_batch_size // device_count,
        usable_gib,
        job.precision,
        job.optimizer.state,
        framework=job.framework,
        xla=planned or uses_xla(job),
    )
    return parts if parts is not None and 1 < parts <= MOST_PARTS else None


def brought_back(
    work: Workload,
    rented: Iterable[RentalPlacements],
    rejected: Mapping[RejectionKey, int],
    devices: Mapping[str, Device],
    software: Callable[[Rental], ChosenSoftware | None],
) -> dict[int, int]:
    """How many of the offers that were rejected for their memory would fit, by the parts that the batch is trained in.

    Counts grow with the parts. `software` tells what a rental would train with.
    """
    counts: Counter[int] = Counter()
    entries: dict[tuple[float, int, bool], int | None] = {}
    for rental in {key: row.rental for row in rented for key in _keys(row.rental) if key in rejected}.values():
        choice = software(rental)
        usable = usable_memory(rental, devices, choice)
        if usable is None or choice is None or not can_accumulate(choice):
            continue
        cores = cores_of(rental.device)
        devices_together = machines_of(work.job, rental.provider) * rental.device_count
        about = (usable.high_gib, devices_together * cores, device_kind(rental.device) == "tpu")
        if about not in entries:
            entries[about] = parts_needed(work, about[0], device_count=about[1], planned=about[2])
        parts = entries[about]
        if parts is not None:
            counts[parts] += sum(rejected[key] for key in _keys(rental) if key in rejected)
    return _running(counts)


def parts_text(counts: Mapping[int, int], rejected: Mapping[RejectionKey, int], *, normed: bool) -> str | None:
    """A line of advice; None where no offer would come back. `normed`: the net has batch norm, which sees the part."""
    if not counts:
        return None
    several = sorted(counts)
    examples = several if len(several) <= _MOST_EXAMPLES else [several[0], several[len(several) // 2], several[-1]]
    first, *more = examples
    small = sum(count for key, count in rejected.items() if key.reason in _TOO_SMALL)
    texts = [f"accumulate: {first} on {counts[first]:,} of them", *(f"{one} on {counts[one]:,}" for one in more)]
    few = f"{small:,} offers have" if small != 1 else "1 offer has"
    return (
        f"{few} too little memory for this batch; gradient accumulation makes it fit (same optimizer steps): "
        f"{', '.join(texts)}{' (batch norm is computed on each part)' if normed else ''}"
    )


def _keys(rental: Rental) -> list[RejectionKey]:
    return [RejectionKey(rental.provider, rental.instance_type, rental.market, reason) for reason in _TOO_SMALL]


def _running(count_of_parts: Counter[int]) -> dict[int, int]:
    total, counts = 0, {}
    for parts in sorted(count_of_parts):
        total += count_of_parts[parts]
        counts[parts] = total
    return counts
