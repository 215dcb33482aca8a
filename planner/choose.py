"""Which offers can do the job, in which order, and why the others cannot. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from planner.estimate import Workload, device_kind, estimate
from planner.parts import can_accumulate
from planner.plan import Candidate, Choice, Reason, RejectionKey
from pricing.devices import CPU_DEVICE, Device, cores_of, data_room_bytes
from pricing.money import to_micro
from pricing.offers import LifecycleState, Rental
from providers.launchable import Hardware, has_no_image, unproven_host
from workloads.memory import GIB
from workloads.runtimes import runtime_of
from workloads.terms import Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from decimal import Decimal

    from planner.plan import Estimate
    from planner.throughput.values import Throughput
    from pricing.catalog import RentalPlaces
    from pricing.cost import ProviderRates
    from pricing.offers import Place
    from workloads.job import TrainingJob
    from workloads.runtimes import Chosen

LONGEST = timedelta(days=30)


class Filters(NamedTuple):
    """What the person will have; an empty set means any. Devices are canonical names.

    `allowed` are the regions that the settings let a provider use, by its name; one that is not in it may use any.
    """

    providers: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    markets: frozenset[str] = frozenset()
    include_retired: bool = False
    deadline: timedelta | None = None
    budget_usd: Decimal | None = None
    allowed: Mapping[str, frozenset[str]] = MappingProxyType({})


class World(NamedTuple):
    """What is known beside the job: devices, side rates of each provider, and how fast a rental trains it."""

    devices: Mapping[str, Device]
    rates: Mapping[str, ProviderRates]
    throughput: Callable[[Rental], Throughput | Reason]


def choose(
    job: TrainingJob, rented: Iterable[RentalPlaces], world: World, filters: Filters, *, every_place: bool
) -> Choice:
    """Candidates in the order of the job's objective, and every other offer with the reason it is none.

    With `every_place` each place is a candidate; without, the best place of each provider, device, device count
    and market is. The order is total: the same inputs always give the same ranks.
    """
    work = Workload(job)
    rejected: Counter[RejectionKey] = Counter()
    found: list[Candidate] = []
    progress = -1
    for row in rented:
        outcome, places = _judge(work, row, world, filters, rejected)
        if isinstance(outcome, Reason):
            progress = max(progress, _ORDER[outcome])
        elif outcome is not None:
            found.extend(_priced(outcome, places if every_place else (places[0],)))
    ordered = _in_order(found, _KEYS[job.objective])
    candidates = ordered if every_place else _best_of_each(ordered)
    last = None if candidates or progress < 0 else list(Reason)[progress]
    return Choice(candidates=tuple(candidates), rejections=dict(rejected), filtered_last=last)


_ORDER = {reason: index for index, reason in enumerate(Reason)}


def _judge(
    work: Workload, row: RentalPlaces, world: World, filters: Filters, rejected: Counter[RejectionKey]
) -> tuple[Estimate | Reason | None, Sequence[Place]]:
    """The rental's estimate and the places left of it, or the last reason that left none."""
    rental = row.rental
    places = _suitable(work, row, world, filters, rejected)
    if isinstance(places, Reason):
        return places, ()
    speed = world.throughput(rental)
    if isinstance(speed, Reason):
        rejected[_key(rental, speed)] += len(places)
        return speed, ()
    software = software_of(work.job, rental, world)
    estimated = estimate(work, rental, speed, world.rates[rental.provider], software)
    if why := unproven_host(hardware_of(rental, world)):
        estimated = replace(estimated, unproven=why)
    late = _too_late(estimated, filters)
    if late is not None:
        rejected[_key(rental, late)] += len(places)
        return late, ()
    if filters.budget_usd is not None:
        budget = to_micro(filters.budget_usd)
        places = _kept(rental, places, Reason.OVER_BUDGET, lambda place: _cost(estimated, place) <= budget, rejected)
        if not places:
            return Reason.OVER_BUDGET, ()
    return estimated, places


def _suitable(
    work: Workload, row: RentalPlaces, world: World, filters: Filters, rejected: Counter[RejectionKey]
) -> Sequence[Place] | Reason:
    """The places that are wanted, of a rental that can train the job, before its speed is asked for.

    What the person asked for is looked at first: a machine somewhere else is not wanted, whatever runs on it.
    """
    rental, unrankable = row.rental, row.places.unrankable
    reason = unwanted(rental, filters)
    if reason is not None:
        rejected[_key(rental, reason)] += len(row.places) + unrankable
        return reason
    places = _in_regions(row, filters, rejected)
    elsewhere = len(row.places) > 0 and not len(places)
    unfit = None if elsewhere else _unfit(work, rental, world)
    if unfit is not None:
        rejected[_key(rental, unfit)] += len(places) + unrankable
        return unfit
    if unrankable:
        rejected[_key(rental, Reason.NO_PRICE)] += unrankable
    if elsewhere:
        return Reason.REGION
    return places if len(places) else Reason.NO_PRICE


def _in_regions(row: RentalPlaces, filters: Filters, rejected: Counter[RejectionKey]) -> Sequence[Place]:
    allowed = filters.allowed.get(row.rental.provider, frozenset())
    if not filters.regions and not allowed:
        return row.places

    def is_wanted(place: Place) -> bool:
        return (not filters.regions or place.region in filters.regions) and (not allowed or place.region in allowed)

    return _kept(row.rental, row.places, Reason.REGION, is_wanted, rejected)


def unwanted(rental: Rental, filters: Filters) -> Reason | None:
    """Why the person will not have it, wherever it is; None: they may."""
    if rental.lifecycle.state is LifecycleState.RETIRED and not filters.include_retired:
        return Reason.RETIRED
    if rental.availability.offered is False and not filters.include_retired:
        return Reason.NOT_OFFERED
    if filters.providers and rental.provider not in filters.providers:
        return Reason.PROVIDER
    if filters.devices and rental.device not in filters.devices:
        return Reason.DEVICE
    if filters.markets and rental.market not in filters.markets:
        return Reason.MARKET
    return None


def _unfit(work: Workload, rental: Rental, world: World) -> Reason | None:
    device = world.devices.get(rental.device)
    if rental.device != CPU_DEVICE and (device is None or not device.has_rates):
        return Reason.NO_DEVICE_DATA
    software = software_of(work.job, rental, world)
    if software is None:
        return Reason.CANNOT_RUN
    if rental.hosts > 1:
        return Reason.MULTI_HOST
    if not splits(work.job, rental):
        return Reason.BATCH_NOT_DIVISIBLE
    if work.job.accumulate > 1 and not can_accumulate(software, rental):
        return Reason.CANNOT_ACCUMULATE
    if not fits(work, rental):
        return Reason.FRACTION_TOO_SMALL if rental.device_fraction < 1 else Reason.OUT_OF_MEMORY
    room_bytes = data_room_bytes(rental.device)
    if room_bytes is not None and work.least_disk_bytes > room_bytes:
        return Reason.DISK_TOO_SMALL
    return None


def software_of(job: TrainingJob, rental: Rental, world: World) -> Chosen | None:
    """What the job would train with on a rental; None where nothing is known to."""
    if has_no_image(rental.provider, rental.family):
        return None
    hardware = hardware_of(rental, world)
    return runtime_of(job, hardware.architecture, hardware.host, hardware.capability)


def hardware_of(rental: Rental, world: World) -> Hardware:
    """What is rented, as the table of images (providers/launchable.py) asks for it."""
    device = world.devices.get(rental.device)
    architecture, capability = (device.architecture, device.compute_capability) if device is not None else ("cpu", None)
    return Hardware(rental.provider, rental.device, architecture, rental.cpu_architecture, capability, rental.family)


def splits(job: TrainingJob, rental: Rental) -> bool:
    """Whether the batch splits evenly over a rental's devices, or their cores where each trains a share."""
    return job.micro_batch_size % (rental.device_count * cores_of(rental.device)) == 0


def fits(work: Workload, rental: Rental) -> bool:
    """Whether one device's (or core's) share of the batch fits its memory; what is not known is taken to fit."""
    memory_gib = rental.memory_gib if rental.device == CPU_DEVICE else rental.device_memory_gib
    if memory_gib is None:
        return True
    tpu, cores = device_kind(rental.device) == "tpu", cores_of(rental.device)
    share = work.job.micro_batch_size // (rental.device_count * cores)
    return work.device_bytes(share, planned=tpu) <= memory_gib / cores * GIB


def _too_late(estimated: Estimate, filters: Filters) -> Reason | None:
    if filters.deadline is not None:
        return Reason.OVER_DEADLINE if estimated.time.total > filters.deadline else None
    return Reason.TOO_SLOW if estimated.time.total > LONGEST else None


def _kept(
    rental: Rental, places: Sequence[Place], reason: Reason, keep: Callable[[Place], bool],
    rejected: Counter[RejectionKey],
) -> Sequence[Place]:  # fmt: skip
    left = [place for place in places if keep(place)]
    if len(left) < len(places):
        rejected[_key(rental, reason)] += len(places) - len(left)
    return left


def _key(rental: Rental, reason: Reason) -> RejectionKey:
    return RejectionKey(rental.provider, rental.instance_type, rental.market, reason)


def _cost(estimated: Estimate, place: Place) -> int:
    return estimated.cost_micro_usd(place.planning_micro_usd_per_hour)


def _priced(estimated: Estimate, places: Sequence[Place]) -> Iterable[Candidate]:
    seconds, fixed = estimated.billed_seconds[0], estimated.fixed_micro_usd[0]
    # The same arithmetic as Estimate.cost_micro_usd, written out: it runs once for each of a hundred thousand places.
    return [Candidate(estimated, place, place[0] * seconds // 3600 + fixed) for place in places]


def _in_order(found: list[Candidate], first: Callable[[Candidate], float]) -> list[Candidate]:
    """By the objective, then by everything that tells two offers apart. Ties are few: only they pay for the rest."""
    found.sort(key=first)
    return [one for _, tied in groupby(found, key=first) for one in sorted(tied, key=_apart)]


def _apart(candidate: Candidate) -> tuple[object, ...]:
    rental = candidate.estimate.rental
    time, region = candidate.estimate.time.total, candidate.place.region
    return candidate.cost_micro_usd, time, rental.provider, region, rental.instance_type, rental.market


_KEYS: dict[Objective, Callable[[Candidate], float]] = {
    Objective.COST: lambda candidate: candidate.ranked_micro_usd,
    Objective.TIME: lambda candidate: candidate.estimate.time.total.total_seconds(),
    Objective.BALANCED: lambda candidate: candidate.ranked_micro_usd * candidate.estimate.time.total.total_seconds(),
}


def _best_of_each(ordered: Sequence[Candidate]) -> list[Candidate]:
    best: dict[tuple[str, str, int, str], Candidate] = {}
    for candidate in ordered:
        rental = candidate.estimate.rental
        best.setdefault((rental.provider, rental.device, rental.device_count, rental.market), candidate)
    return list(best.values())
