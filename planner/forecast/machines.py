"""The same job on several equal machines: time and cost of each number, and where more stop being worth it. Pure.

A launch on a cluster takes as many as the job has `nodes`, and its estimate is that of all of them; elsewhere it takes
one. In the comparison of numbers one machine always stands first. The global batch is divided over all devices of all
machines, so that each trains a smaller share of it, and after each step all sum their gradients over the network
(`throughput/machines.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.at_placement import at_placement
from trainplan.planner.forecast.estimate import Workload, apply_feed, device_kind, free_seconds, rented_time
from trainplan.planner.forecast.memory import GRADIENT_BYTES, step_bytes
from trainplan.planner.forecast.plan import Candidate, Estimate, Group, MemoryNeed, RankedOffer, Reason
from trainplan.planner.forecast.side_costs import SideCosts
from trainplan.planner.forecast.spot import SpotRate, spot_rate, spot_time, with_checkpoints
from trainplan.planner.throughput.machines import Network, on_machines, stated_network, unknown_network
from trainplan.planner.throughput.values import Basis, Throughput
from trainplan.pricing.devices import CPU_DEVICE, cores_of, machines_text
from trainplan.pricing.networks import network_of
from trainplan.pricing.offers import Market, Rental
from trainplan.providers.registry import CLUSTER

if TYPE_CHECKING:
    from trainplan.planner.forecast.times import RunTime
    from trainplan.workloads.job import TrainingJob

OFFERS = 3
"""How many of the best-ranked machines are shown in several numbers."""
# The slowest of several starts counts: the upper ends of the ranges whose middles `estimate.BOOT_SECONDS` and
# `PULL_SECONDS` are (GPU hosts 3 and 6 min), and for hosts without accelerator half as much again (assumed).
SLOWEST_START_SECONDS = {"cpu": 60, "gpu": 120}


class LeftOut(NamedTuple):
    """Why a job cannot be trained on a number of machines: in the words of the ranking, and with its figures."""

    reason: Reason
    text: str


class GroupQuery(NamedTuple):
    """What several machines are estimated from. `throughput` gives the speed of a rental with a job whose batch is one
    machine's share."""

    work: Workload
    numbers: Sequence[int]
    throughput: Callable[[TrainingJob, Rental], Throughput | Reason]


def machines_of(job: TrainingJob, provider: str) -> int:
    """How many machines a launch takes: on a cluster the job's `nodes`, one at every other provider."""
    return job.nodes if provider == CLUSTER else 1


def numbers_up_to(nodes: int) -> tuple[int, ...]:
    """The numbers of machines to show for a job with at most so many: powers of two, and the most."""
    powers = [2**power for power in range(nodes.bit_length()) if 2**power < nodes]
    return (*powers, nodes) if nodes > 1 else ()


def best_of_each_machine(ranking: Iterable[Candidate], count: int = OFFERS) -> dict[int, Candidate]:
    """The first candidates of different machines, by their rank."""
    best: dict[tuple[str, str, str], tuple[int, Candidate]] = {}
    for rank, candidate in enumerate(ranking, start=1):
        rental = candidate.estimate.rental
        best.setdefault((rental.provider, rental.instance_type, rental.market), (rank, candidate))
        if len(best) == count:
            break
    return dict(best.values())


def groups_of(offers: Iterable[RankedOffer], query: GroupQuery) -> tuple[Group, ...]:
    """Each offer in each number of machines, one machine first."""
    numbers = sorted({1, *query.numbers})
    return tuple(group for offer in offers for group in _of_offer(offer, numbers, query))


def _of_offer(ranked: RankedOffer, numbers: Sequence[int], query: GroupQuery) -> list[Group]:
    groups: list[Group] = []
    for machines in numbers:
        group = _group(ranked, machines, query)
        if machines > 1 and group.estimate is not None:
            group = replace(group, is_worth_it=group.balance < min(one.balance for one in groups))
        groups.append(group)
    return groups


def _group(ranked: RankedOffer, machines: int, query: GroupQuery) -> Group:
    candidate, rental = ranked.candidate, ranked.candidate.estimate.rental
    network = network_of_rental(rental)
    group = Group(
        rank=ranked.rank, row=ranked.number, machines=machines, rental=rental, region=candidate.placement.region,
        network=network,
    )  # fmt: skip
    estimate = _at_placement(candidate, machines, query)
    if isinstance(estimate, LeftOut):
        return replace(group, left_out=estimate.text)
    micro = candidate.placement.planning_micro_usd_per_hour
    low, expected, high = (
        estimate.cost_micro_usd(micro, candidate.placement.region, which, ranked.offer.price_spread)
        for which in (1, 0, 2)
    )
    return replace(group, estimate=estimate, cost_micro_usd=(expected, low, high))


def network_of_rental(rental: Rental) -> Network:
    """The network of a machine: as its vendor states it, else assumed."""
    stated = network_of(rental.provider, rental.instance_type, rental.family)
    if stated is None:
        return unknown_network(rental.device_count)
    note = f"; {stated.note}" if stated.note else ""
    ground = f"network of {stated.gbit_per_second:g} Gbit/s (stated, {stated.as_of}: pricing/data/networks.csv{note})"
    return stated_network(stated.gbit_per_second, ground)


def _at_placement(candidate: Candidate, machines: int, query: GroupQuery) -> Estimate | LeftOut:
    """The job on so many machines at the candidate's placement, which may be ranked with another number of them."""
    ranked = candidate.estimate
    if machines == ranked.machines:
        return ranked
    alone = ranked.alone or ranked
    made = alone if machines == 1 else on_several(alone, machines, query.work, query.throughput)
    if isinstance(made, LeftOut):
        return made
    if made.memory is not None and not made.memory.fits:
        each = f"a share of {made.memory.images} images does not fit the memory of a device"
        return LeftOut(Reason.OUT_OF_MEMORY, each)
    elsewhere = ranked.search.elsewhere_micro_usd_per_hour if ranked.search is not None else None
    return at_placement(made, candidate.placement, ranked.obtainability, elsewhere, ranked.queue).estimate


def on_several(
    alone: Estimate,
    machines: int,
    work: Workload,
    throughput: Callable[[TrainingJob, Rental], Throughput | Reason],
) -> Estimate | LeftOut:
    """What the job takes on so many of the machines on one of which it takes `alone`, wherever they are; or why it
    cannot be trained on them. `throughput` is as that of `GroupQuery`."""
    rental, job = alone.rental, work.job
    if device_kind(rental.device) == "tpu":
        return LeftOut(Reason.MULTI_HOST, "machines with TPUs work together as slices, which have rows of their own")
    parts = machines * rental.device_count * cores_of(rental.device)
    if job.micro_batch_size % parts:
        text = f"a batch of {job.micro_batch_size} does not split evenly over {parts} devices"
        return LeftOut(Reason.BATCH_NOT_DIVISIBLE, text)
    # So many of them were measured with this very job: on a cluster each finished run is kept.
    several = replace(rental, instance_type=machines_text(rental.instance_type, machines))
    computed, input_bound = throughput(job, several), False
    if isinstance(computed, Throughput) and computed.basis is Basis.MEASURED and computed.as_fed:
        together = computed
    else:
        share = job.model_copy(update={"global_batch_size": job.global_batch_size // machines})
        computed = throughput(share, rental)
        if isinstance(computed, Reason):
            text = f"no throughput can be predicted for a batch of {share.global_batch_size} on one machine"
            return LeftOut(computed, text)
        fed, input_bound = apply_feed(computed, alone.feed, on_cpu=rental.device == CPU_DEVICE)
        gradient_bytes = GRADIENT_BYTES * work.graph.trained_parameters
        together = on_machines(fed, machines, share.micro_batch_size, gradient_bytes, network_of_rental(rental))
    per_device, memory = job.micro_batch_size // parts, alone.memory
    if memory is not None:
        memory = MemoryNeed(per_device, step_bytes(work, rental, per_device), memory.usable)
    timed = _timed(alone, together, machines, work)
    return replace(timed, computed=computed, input_bound=input_bound, memory=memory)


def _timed(alone: Estimate, together: Throughput, machines: int, work: Workload) -> Estimate:
    """The estimate of one machine with the time and the side costs of several."""
    rental = alone.rental
    kind = device_kind(rental.device)
    around = alone.around
    plain = rented_time(work, around, together)
    if around.boot.expected:
        plain = replace(plain, setup=plain.setup + timedelta(seconds=SLOWEST_START_SECONDS[kind]))
    steady = with_checkpoints(plain, work.checkpoints)
    spot, time, durations, interruptions = None, steady, (steady.total, steady.low, steady.high), 0.0
    if rental.market is Market.SPOT:
        rate = spot_rate(rental.provider, rental.device, rental.family, rental.interruption_bucket)
        spot = spot_time(plain, of_any(rate, machines), work.checkpoints)
        time, durations, interruptions = spot.run_time(plain), spot.billed_durations, spot.expected.interruptions
    free = timedelta(seconds=free_seconds(rental, around))
    expected, low, high = (rental.billing.billed_seconds(lasting - free) for lasting in durations)
    return replace(
        alone,
        throughput=together,
        plain=plain,
        steady=steady,
        time=time,
        spot=spot,
        billed_seconds=(expected, low, high),
        side=_side(alone, plain, durations, interruptions, machines, work),
        search=None,
        machines=machines,
        alone=alone,
    )


def of_any(rate: SpotRate, machines: int) -> SpotRate:
    """How often any of several machines is taken away, after which all wait: each machine's hazard, added up."""
    up = rate.placement.up
    spells = replace(up, short_seconds=up.short_seconds / machines, long_seconds=up.long_seconds / machines)
    return rate._replace(placement=replace(rate.placement, up=spells))


def _side(
    before: Estimate,
    plain: RunTime,
    durations: tuple[timedelta, timedelta, timedelta],
    interruptions: float,
    machines: int,
    work: Workload,
) -> SideCosts:
    """Disks, addresses and fetched data of every machine; one of them writes checkpoints and the model."""
    expected, low, high = (
        usage.of_machines(machines) for usage in work.usages(before.rental.device, plain, interruptions)
    )
    return SideCosts(before.side.classes, (expected, low, high), durations, before.side.steady.of_machines(machines))


def advice_on_machines(groups: Sequence[Group], ranking: Sequence[Candidate]) -> str:
    """One sentence: whether one other machine is cheaper and faster, one of the same is better, or several are worth
    it; "" where no number above one can be used."""
    several = [group for group in groups if group.machines > 1 and group.estimate is not None]
    if not several:
        return ""
    best = min(several, key=lambda group: group.balance)
    better = _better(best, ranking)
    if better is not None:
        one = better.estimate.rental
        what = "larger machine" if one.device == best.rental.device else "machine of another kind"
        return (
            f"one {what} ({one.device_count} x {one.device}, {one.instance_type} at {one.provider}) is cheaper and "
            f"faster than {best.machines} x {best.rental.instance_type}"
        )
    one_machine = next(group for group in groups if group.rank == best.rank and group.machines == 1)
    faster, dearer = best.compared_with(one_machine)
    text = f"{faster:.2f} times the time of one"
    if one_machine.cost_micro_usd and one_machine.cost_micro_usd[0]:
        text += f" at {dearer:.2f} times its cost"
    if best.is_worth_it:
        return f"{best.machines} x {best.rental.instance_type} are worth it: {text}; {_beyond(best, several)}"
    if faster >= 1:
        return (
            f"one {best.rental.instance_type} is faster than {best.machines}: summing the gradients over the network "
            "takes longer than the others save"
        )
    return f"one {best.rental.instance_type} is the better choice: {best.machines} take {text}"


def _beyond(best: Group, several: Sequence[Group]) -> str:
    """Whether more than the best number were looked at."""
    more = any(group.rank == best.rank and group.machines > best.machines for group in several)
    return "more are not" if more else "no larger number was looked at"


def _better(group: Group, ranking: Sequence[Candidate]) -> Candidate | None:
    """The cheapest single machine that is cheaper and faster: with more devices of the same kind; of another kind only
    where several are better than one of theirs."""
    if group.estimate is None or group.cost_micro_usd is None:
        return None
    cost, time, rental = group.cost_micro_usd[0], group.estimate.time.total, group.rental
    better = [one for one in ranking if one.cost_micro_usd < cost and one.estimate.time.total < time]
    larger = [
        one
        for one in better
        if one.estimate.rental.device == rental.device and one.estimate.rental.device_count > rental.device_count
    ]
    another = [one for one in better if one.estimate.rental.device != rental.device and group.is_worth_it]
    return min(larger or another, key=lambda one: one.cost_micro_usd, default=None)
