"""Which offers can do the job, in which order, and why the others cannot. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.accumulation import can_accumulate
from trainplan.planner.forecast.allowances import allowances
from trainplan.planner.forecast.at_placement import at_placement
from trainplan.planner.forecast.estimate import Around, Workload, estimate
from trainplan.planner.forecast.free_sessions import in_sessions, lacks_room
from trainplan.planner.forecast.machines import LeftOut, machines_of, on_several
from trainplan.planner.forecast.memory import memory_need
from trainplan.planner.forecast.obtainability import Obtainabilities, elsewhere_micro
from trainplan.planner.forecast.plan import Candidate, Choice, Estimate, Reason, RejectionKey, paid_by_credit
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import CPU_DEVICE, MOST_DATA_DISK_GIB, Device, cores_of, data_disk_gib
from trainplan.pricing.money import to_micro
from trainplan.pricing.obtainability import MachinePlacement
from trainplan.pricing.offers import LifecycleState, Market, Placement, Rental
from trainplan.providers.cloud.images import Hardware, has_no_image, unproven_host
from trainplan.workloads.runtimes import ChosenSoftware, runtime_of
from trainplan.workloads.terms import Framework, Objective, Precision

if TYPE_CHECKING:
    from trainplan.planner.forecast.queue_wait import QueueWait
    from trainplan.planner.throughput.values import Throughput
    from trainplan.pricing.catalog import RentalPlacements
    from trainplan.pricing.cost import ProviderRates
    from trainplan.workloads.job import TrainingJob

# A launch gives a run without a deadline no more than that either (trainplan.planner.runs.runner.LONGEST_PATIENCE).
LONGEST = timedelta(days=30)


class Filters(NamedTuple):
    """What the person will have; an empty set means any. Devices are canonical names, `counts` how many of them a
    machine has.

    `allowed` are the regions that the settings let a provider use, by its name; one that is not in it may use any.
    `by_trainer` leaves out what can only be estimated, since the trainer does not use all of it (`only_estimated`).
    """

    providers: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    counts: frozenset[int] = frozenset()
    markets: frozenset[str] = frozenset()
    include_retired: bool = False
    by_trainer: bool = False
    deadline: timedelta | None = None
    budget_usd: Decimal | None = None
    allowed: Mapping[str, frozenset[str]] = MappingProxyType({})


class World(NamedTuple):
    """What is known beside the job: devices, side rates of each provider, and how fast a rental trains the job or one
    with a part of its batch.

    `buckets` are the regions of the buckets that runs at each provider would use; one that is not in it is taken to be
    in the machine's region. `within_hours` gives placements the prices that a run of so many billed seconds pays there:
    others where fewer hours are left of the person's own rate. `obtainability` is what is known of placements that
    refuse or do not, `queue_waits` of the queues of a cluster. `credit_usd` is what is left of the person's credits, by
    provider. `around` tells what a run takes around its training.
    """

    devices: Mapping[str, Device]
    rates: Mapping[str, ProviderRates]
    throughput: Callable[[TrainingJob, Rental], Throughput | Reason]
    buckets: Mapping[str, str] = MappingProxyType({})
    within_hours: Callable[[Sequence[Placement], int], Sequence[Placement]] = lambda placements, _: placements
    obtainability: Obtainabilities = Obtainabilities()
    credit_usd: Mapping[str, Decimal] = MappingProxyType({})
    queue_waits: Mapping[MachinePlacement, QueueWait] = MappingProxyType({})
    around: Around = allowances

    def concerns_placements(self, rental: Rental) -> bool:
        """Whether something is known of some placement of a rental that changes its estimate there."""
        return self.obtainability.concerns(rental) or any(
            placement.provider == rental.provider and placement.instance_type == rental.instance_type
            for placement in self.queue_waits
        )

    def queue_of(self, rental: Rental, region: str) -> QueueWait | None:
        """The wait in the queue of a region; None where there is none, or nothing is known of it."""
        return self.queue_waits.get(MachinePlacement(rental.provider, region, rental.instance_type, rental.market))

    def estimate(self, work: Workload, rental: Rental, software: ChosenSoftware | None = None) -> Estimate | Reason:
        """The job on as many machines of a rental as a launch takes, or why it cannot be told."""
        alone = self._on_one(work, rental, software)
        machines = machines_of(work.job, rental.provider)
        if isinstance(alone, Reason) or machines == 1:
            return alone
        together = on_several(alone, machines, work, self.throughput)
        return together.reason if isinstance(together, LeftOut) else together

    def _on_one(self, work: Workload, rental: Rental, software: ChosenSoftware | None) -> Estimate | Reason:
        ask = self.throughput
        speed = ask(work.job, rental) if work.sweep is None else work.sweep.throughput(lambda job: ask(job, rental))
        if isinstance(speed, Reason):
            return speed
        bucket = self.buckets.get(rental.provider, "")
        result = estimate(work, rental, speed, self.rates[rental.provider], software, bucket)
        why = unproven_host(hardware_of(rental, self))
        result = replace(
            result, memory=memory_need(work, rental, self.devices, software), unproven=why,
            only_estimated=only_estimated(work.job, rental, software),
        )  # fmt: skip
        return in_sessions(result, work.job.checkpoint_every)


def choose(
    job: TrainingJob, rented: Iterable[RentalPlacements], world: World, filters: Filters, *, every_placement: bool
) -> Choice:
    """Candidates in the order of the job's objective, and every other offer with the reason it is none.

    With `every_placement` each placement is a candidate; without, the best placement of each provider, device, device
    count and market is. The order is total: the same inputs always give the same ranks.
    """
    work, rented = Workload(job, world.around), list(rented)
    rejected: Counter[RejectionKey] = Counter()
    priced: list[Candidate] = []
    progress = -1
    for row in rented:
        judged = _judge(work, row, world, filters)
        for reason, count in judged.rejected:
            rejected[RejectionKey(row.rental.provider, row.rental.instance_type, row.rental.market, reason)] += count
        if judged.last is not None:
            progress = max(progress, _ORDER[judged.last])
        elif judged.estimate is None:
            continue
        # Nothing is known of most machines: only placements of which something is known pay for estimates of their own.
        elif not world.concerns_placements(row.rental):
            placements = (
                judged.placements if every_placement else _cheapest_of_each_class(judged.estimate, judged.placements)
            )
            priced.extend(_priced(judged.estimate, placements))
        else:
            within, beyond = _placed(
                judged.estimate, judged.placements, _elsewhere(row.rental, rented, filters), world, filters
            )
            priced.extend(within)
            for reason in beyond:
                rejected[RejectionKey(row.rental.provider, row.rental.instance_type, row.rental.market, reason)] += 1
                progress = max(progress, _ORDER[reason])
    if world.credit_usd:
        priced = paid_by_credit(priced, world.credit_usd)
    ordered = _in_order(priced, _KEYS[job.objective])
    candidates = ordered if every_placement else _best_of_each(ordered)
    last = None if candidates or progress < 0 else list(Reason)[progress]
    return Choice(candidates=tuple(candidates), rejections=dict(rejected), filtered_last=last)


# Reasons are declared in the order of the filters: the furthest one that was reached is what a person can relax.
_ORDER = {reason: index for index, reason in enumerate(Reason)}


class _Judged(NamedTuple):
    """What is left of a rental: its placements and, once it is known, what the job takes there. `rejected` counts the
    others by reason; `last` is the reason that left none."""

    placements: Sequence[Placement] = ()
    rejected: tuple[tuple[Reason, int], ...] = ()
    estimate: Estimate | None = None
    last: Reason | None = None

    def all_rejected(self, reason: Reason) -> _Judged:
        """None of the placements that were left is one for this reason."""
        return _Judged((), (*self.rejected, (reason, len(self.placements))), last=reason)


def _judge(work: Workload, row: RentalPlacements, world: World, filters: Filters) -> _Judged:
    """The rental with its estimate and the placements left of it, or the reason that left none."""
    rental = row.rental
    judged = _suitable(work, row, world, filters)
    if judged.last is not None:
        return judged
    estimated = world.estimate(work, rental, software_of(work.job, rental, world))
    if isinstance(estimated, Reason):
        return judged.all_rejected(estimated)
    late = _too_late(estimated, filters)
    if late is not None:
        return judged.all_rejected(late)
    judged = judged._replace(placements=world.within_hours(judged.placements, estimated.billed_seconds[0]))
    if filters.budget_usd is None:
        return judged._replace(estimate=estimated)
    budget = to_micro(filters.budget_usd)
    paid = [placement for placement in judged.placements if _cost(estimated, placement) <= budget]
    if not paid:
        return judged.all_rejected(Reason.OVER_BUDGET)
    over = len(judged.placements) - len(paid)
    rejected = (*judged.rejected, (Reason.OVER_BUDGET, over)) if over else judged.rejected
    return _Judged(paid, rejected, estimated)


def _suitable(work: Workload, row: RentalPlacements, world: World, filters: Filters) -> _Judged:
    """The placements that are wanted, of a rental that can train the job, before its speed is asked for.

    What the person asked for is looked at first: a machine somewhere else is not wanted, whatever runs on it.
    """
    rental, unrankable = row.rental, row.placements.unrankable
    reason = unwanted(rental, filters)
    if reason is not None:
        return _Judged(rejected=((reason, len(row.placements) + unrankable),), last=reason)
    placements = _in_regions(row, filters)
    elsewhere = len(row.placements) - len(placements)
    rejected = ((Reason.REGION, elsewhere),) if elsewhere else ()
    is_elsewhere = elsewhere > 0 and not len(placements)
    unfit = None if is_elsewhere else _unfit(work, rental, world, filters)
    if unfit is not None:
        return _Judged(rejected=(*rejected, (unfit, len(placements) + unrankable)), last=unfit)
    if unrankable:
        rejected = (*rejected, (Reason.NO_PRICE, unrankable))
    if is_elsewhere:
        return _Judged(rejected=rejected, last=Reason.REGION)
    return _Judged(placements, rejected) if len(placements) else _Judged(rejected=rejected, last=Reason.NO_PRICE)


def _in_regions(row: RentalPlacements, filters: Filters) -> Sequence[Placement]:
    allowed = filters.allowed.get(row.rental.provider, frozenset())
    if not filters.regions and not allowed:
        return row.placements
    return [
        placement
        for placement in row.placements
        if (not filters.regions or placement.region in filters.regions) and (not allowed or placement.region in allowed)
    ]


def unwanted(rental: Rental, filters: Filters) -> Reason | None:
    """Why the person will not have it, wherever it is; None: they may."""
    if filters.providers and rental.provider not in filters.providers:
        return Reason.PROVIDER
    if filters.devices and rental.device not in filters.devices:
        return Reason.DEVICE
    if filters.counts and rental.device_count not in filters.counts:
        return Reason.COUNT
    if filters.markets and rental.market not in filters.markets:
        return Reason.MARKET
    if rental.lifecycle.state is LifecycleState.RETIRED and not filters.include_retired:
        return Reason.RETIRED
    if rental.availability.offered is False and not filters.include_retired:
        return Reason.NOT_OFFERED
    return None


def _unfit(work: Workload, rental: Rental, world: World, filters: Filters) -> Reason | None:
    device = world.devices.get(rental.device)
    if rental.device != CPU_DEVICE and (device is None or not device.has_rates):
        return Reason.NO_DEVICE_DATA
    is_bf16 = work.job.script is None and any(one.job.precision is Precision.AMP_BF16 for one in work.kinds)
    if is_bf16 and device is not None and not device.has_bf16:
        return Reason.NO_BF16
    software = software_of(work.job, rental, world)
    if software is None:
        return Reason.CANNOT_RUN
    if filters.by_trainer and (reason := only_estimated(work.job, rental, software)) is not None:
        return reason
    if work.job.script is not None and not work.job.checkpoints and rental.market is Market.SPOT:
        return Reason.NO_CHECKPOINTS
    if work.job.script is not None and not splits(work.job, rental):
        return Reason.SCRIPT_ON_ONE_DEVICE
    if not all(splits(one.job, rental) for one in work.kinds):
        return Reason.BATCH_NOT_DIVISIBLE
    if any(one.job.accumulate > 1 for one in work.kinds) and not can_accumulate(software):
        return Reason.CANNOT_ACCUMULATE
    if not fits(work, rental, world, software):
        return Reason.FRACTION_TOO_SMALL if rental.device_fraction < 1 else Reason.OUT_OF_MEMORY
    return _no_room(work, rental)


def only_estimated(job: TrainingJob, rental: Rental, software: ChosenSoftware | None) -> Reason | None:
    """Why a launch would pay for devices that nothing trains on; None where the trainer uses them all.

    Their estimate is that of a program that uses them: torch's DistributedDataParallel, a trainer on each host.
    """
    if rental.hosts > 1:
        return Reason.MULTI_HOST
    is_torch = software is not None and software.framework is Framework.TORCH
    return Reason.ONE_DEVICE if is_torch and rental.device_count > 1 and job.script is None else None


def _no_room(work: Workload, rental: Rental) -> Reason | None:
    disk_gib = data_disk_gib(rental.device, work.least_disk_bytes, work.job.data_bytes or 0)
    if disk_gib > MOST_DATA_DISK_GIB:
        return Reason.DISK_TOO_SMALL
    return Reason.STORAGE_TOO_SMALL if lacks_room(work, rental) else None


def software_of(job: TrainingJob, rental: Rental, world: World) -> ChosenSoftware | None:
    """What the job would train with on a rental; None where nothing is known to."""
    if has_no_image(rental.provider, rental.family):
        return None
    hardware = hardware_of(rental, world)
    return runtime_of(job, hardware.architecture, hardware.host, hardware.capability)


def hardware_of(rental: Rental, world: World) -> Hardware:
    """What is rented, as the table of images (providers/cloud/images.py) asks for it."""
    device = world.devices.get(rental.device)
    architecture, capability = (device.architecture, device.compute_capability) if device is not None else ("cpu", None)
    return Hardware(rental.provider, rental.device, architecture, rental.cpu_architecture, capability, rental.family)


def splits(job: TrainingJob, rental: Rental) -> bool:
    """Whether the batch splits evenly over the devices of all machines of a launch, or their cores where each trains
    a share."""
    devices = machines_of(job, rental.provider) * rental.device_count
    return job.micro_batch_size % (devices * cores_of(rental.device)) == 0


def fits(work: Workload, rental: Rental, world: World, software: ChosenSoftware | None) -> bool:
    """Whether one device's (or core's) share of the batch fits its usable memory; what is not known is taken to fit."""
    need = memory_need(work, rental, world.devices, software, machines_of(work.job, rental.provider))
    return need is None or need.fits


def _too_late(estimated: Estimate, filters: Filters) -> Reason | None:
    if not estimated.time.train:  # a script whose deadline comes before its machine is ready
        return Reason.OVER_DEADLINE
    if filters.deadline is not None:
        return Reason.OVER_DEADLINE if estimated.time.total > filters.deadline else None
    return Reason.TOO_SLOW if estimated.time.total > LONGEST else None


def _cost(estimated: Estimate, placement: Placement) -> int:
    return estimated.cost_micro_usd(placement.planning_micro_usd_per_hour, placement.region)


def _priced(estimated: Estimate, placements: Sequence[Placement]) -> Iterable[Candidate]:
    seconds, side, classes = estimated.billed_seconds[0], estimated.side, estimated.side.classes
    # The same arithmetic as Estimate.cost_micro_usd, written out: it runs once for each of a hundred thousand
    # placements.
    seconds *= estimated.machines
    return [
        Candidate(estimated, placement, placement[0] * seconds // 3600 + side[classes[placement[1]]])
        for placement in placements
    ]


def _cheapest_of_each_class(estimated: Estimate, placements: Sequence[Placement]) -> list[Placement]:
    """The first of the placements, which are in the order of their price, for each class of regions.

    What is paid beside the machine differs between classes, so that the lowest price is not always the lowest cost.
    """
    first: dict[int, Placement] = {}
    for placement in placements:
        first.setdefault(estimated.side.classes[placement.region], placement)
    return list(first.values())


def _elsewhere(rental: Rental, rented: Sequence[RentalPlacements], filters: Filters) -> list[Placement]:
    """Every placement of a machine in its market that the person will have: placements of one type may be several
    rentals."""
    machine = rental.provider, rental.instance_type, rental.market
    rows = (row for row in rented if (row.rental.provider, row.rental.instance_type, row.rental.market) == machine)
    return [placement for row in rows for placement in _in_regions(row, filters)]


def _placed(
    estimated: Estimate,
    placements: Sequence[Placement],
    everywhere: Sequence[Placement],
    world: World,
    filters: Filters,
) -> tuple[list[Candidate], list[Reason]]:
    """Each placement with what is known of its obtainability, and the reasons of those that are too late or dear
    then."""
    within, beyond = [], []
    for placement in placements:
        obtainability = world.obtainability.of(estimated.rental, placement.region)
        elsewhere, queue = (
            elsewhere_micro(everywhere, placement.region),
            world.queue_of(estimated.rental, placement.region),
        )
        candidate = at_placement(estimated, placement, obtainability, elsewhere, queue)
        late = _too_late(candidate.estimate, filters)
        if late is not None:
            beyond.append(late)
        elif filters.budget_usd is not None and candidate.cost_micro_usd > to_micro(filters.budget_usd):
            beyond.append(Reason.OVER_BUDGET)
        else:
            within.append(candidate)
    return within, beyond


def _in_order(candidates: list[Candidate], first: Callable[[Candidate], float]) -> list[Candidate]:
    """Sort by the objective, then by everything that distinguishes two offers. Ties are few, and only for them the rest
    is computed.

    What is only estimated goes last: row 1 is what a launch rents. So does what is not known: machines whose host is
    not, since what is not known holds nothing up and would look faster for it; and machines on which nobody has
    measured a script, beside those where somebody has: their time and cost are those of its deadline, by which it may
    not be done.
    """
    candidates.sort(key=first)
    ordered = [one for _, tied in groupby(candidates, key=first) for one in sorted(tied, key=_apart)]
    return sorted(ordered, key=is_unknown)


def is_unknown(candidate: Candidate) -> tuple[bool, bool, bool]:
    """A key that sorts an offer that is only estimated behind the others, and so one of unknown speed, or of an unknown
    host: it may look better than it is."""
    estimate = candidate.estimate
    return (
        estimate.only_estimated is not None,
        estimate.throughput.basis is Basis.UNMEASURED,
        estimate.rental.vcpus is None,
    )


def _apart(candidate: Candidate) -> tuple[object, ...]:
    rental = candidate.estimate.rental
    time, region = candidate.estimate.time.total, candidate.placement.region
    return candidate.cost_micro_usd, time, rental.provider, region, rental.instance_type, rental.market


_KEYS: dict[Objective, Callable[[Candidate], float]] = {
    Objective.COST: lambda candidate: candidate.ranked_micro_usd,
    Objective.TIME: lambda candidate: candidate.estimate.time.total.total_seconds(),
    Objective.BALANCED: lambda candidate: candidate.ranked_micro_usd * candidate.estimate.time.total.total_seconds(),
}


def _best_of_each(ordered: Sequence[Candidate]) -> list[Candidate]:
    best: dict[tuple[str, str, int, str], Candidate] = {}
    for candidate in ordered:
        best.setdefault(candidate.kind, candidate)
    return list(best.values())
