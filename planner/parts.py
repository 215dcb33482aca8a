"""What training a batch in parts (`accumulate`) would let fit, of what was rejected for its memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from planner.estimate import device_kind, uses_xla
from planner.plan import Reason, RejectionKey
from pricing.devices import CPU_DEVICE, cores_of
from workloads.memory import accumulation
from workloads.terms import Framework

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from planner.estimate import Workload
    from pricing.catalog import RentalPlaces
    from pricing.offers import Rental
    from workloads.runtimes import Chosen

# More parts than this are no help: the job asks for another machine or a smaller batch.
MOST_PARTS = 1_024
_TOO_SMALL = (Reason.OUT_OF_MEMORY, Reason.FRACTION_TOO_SMALL)
_NAMED = 3


def can_accumulate(software: Chosen, rental: Rental) -> bool:
    """Whether the trainer can train a batch in parts there: with TensorFlow on one device only, and from Keras 3 on."""
    alone = rental.device_count == 1 or software.framework is not Framework.TENSORFLOW
    return alone and (software.runtime is None or software.runtime.accumulates)


def parts_needed(work: Workload, memory_gib: float, *, device_count: int = 1, planned: bool = False) -> int | None:
    """The fewest equal parts of the batch that fit devices of that memory; None where none do, or too many would."""
    job = work.job
    found = accumulation(
        work.net,
        job.global_batch_size // device_count,
        memory_gib,
        job.precision,
        job.optimizer.name,
        xla=planned or uses_xla(job),
    )
    return found.steps if found is not None and 1 < found.steps <= MOST_PARTS else None


def brought_back(
    work: Workload,
    rented: Iterable[RentalPlaces],
    rejected: Mapping[RejectionKey, int],
    software: Callable[[Rental], Chosen | None],
) -> dict[int, int]:
    """How many of the offers that were rejected for their memory would fit, by the parts that the batch is trained in.

    Counts grow with the parts. `software` tells what a rental would train with.
    """
    needed: Counter[int] = Counter()
    known: dict[tuple[float, int, bool], int | None] = {}
    for rental in {key: row.rental for row in rented for key in _keys(row.rental) if key in rejected}.values():
        memory_gib = rental.memory_gib if rental.device == CPU_DEVICE else rental.device_memory_gib
        chosen = software(rental)
        if memory_gib is None or chosen is None or not can_accumulate(chosen, rental):
            continue
        cores = cores_of(rental.device)
        about = (memory_gib / cores, rental.device_count * cores, device_kind(rental.device) == "tpu")
        if about not in known:
            known[about] = parts_needed(work, about[0], device_count=about[1], planned=about[2])
        parts = known[about]
        if parts is not None:
            needed[parts] += sum(rejected[key] for key in _keys(rental) if key in rejected)
    return _running(needed)


def parts_text(counts: Mapping[int, int], rejected: Mapping[RejectionKey, int], *, normed: bool) -> str | None:
    """A line of advice; None where no offer would come back. `normed`: the net has batch norm, which sees the part."""
    if not counts:
        return None
    several = sorted(counts)
    named = several if len(several) <= _NAMED else [several[0], several[len(several) // 2], several[-1]]
    small = sum(count for key, count in rejected.items() if key.reason in _TOO_SMALL)
    texts = [f"{counts[parts]:,} of them with accumulate: {parts}" for parts in named]
    return (
        f"the batch does not fit {small:,} offers; trained in parts, with the same optimizer steps, it would fit "
        f"{', '.join(texts)}{' (batch norm sees the part)' if normed else ''}"
    )


def _keys(rental: Rental) -> list[RejectionKey]:
    return [RejectionKey(rental.provider, rental.instance_type, rental.market, reason) for reason in _TOO_SMALL]


def _running(needed: Counter[int]) -> dict[int, int]:
    total, counts = 0, {}
    for parts in sorted(needed):
        total += needed[parts]
        counts[parts] = total
    return counts
