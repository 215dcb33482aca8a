"""What `sinfo` shows of partitions, as offers. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from trainplan.pricing.cost import ProviderRates
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.money import PER_SECOND
from trainplan.pricing.offers import Offer
from trainplan.pricing.side_rates import flat_rates
from trainplan.providers.slurm.settings import PROVIDER, SlurmSettings

SINFO = ("sinfo", "--noheader", "--format", "%P|%a|%l|%D|%t|%c|%m|%G|%f")
"""Partition, whether it is up, its time limit, nodes, their state, CPUs, memory in MiB, GRES, features (sinfo(1))."""
ACCELERATOR = re.compile(r"gpu:(?:(?P<kind>[A-Za-z][\w.-]*):)?(?P<count>\d+)")
# The first letters of states in which a node takes no job (sinfo(1), NODE STATE CODES); `*`: it does not answer.
_OUT_OF_USE = ("boot", "comp", "down", "drain", "drng", "fail", "futr", "maint", "npc", "pow", "unk")
_MIB_PER_GIB = 1024
RATES = ProviderRates(
    provider=PROVIDER,
    billing=PER_SECOND,
    disk_kind="",
    address_kind="",
    side=flat_rates({}, "your own cluster", date(2026, 11, 23)),
    billing_source="your own cluster",
)
"""A cluster charges for its devices alone, as the setting usd_per_device_hour says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes of one partition: `kind` and `count` of accelerators in each (kind "" where GRES names none), `cpus`
    and `memory_mib` of each, `time_limit_minutes` of the partition (None: none)."""

    partition: str
    nodes: int
    cpus: int
    memory_mib: int
    kind: str
    count: int
    features: tuple[str, ...]
    time_limit_minutes: int | None

    @property
    def spellings(self) -> tuple[str, ...]:
        """What may name its accelerators: the GRES kind, or else a feature of the nodes."""
        return tuple(text for text in (self.kind, *self.features) if text) if self.count else ()


def node_groups(text: str) -> tuple[NodeGroup, ...]:
    """The groups of nodes that take jobs, of partitions that are up. A line that cannot be read is left out."""
    groups = []
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != 9:
            continue
        partition, available, limit, nodes, state, cpus, memory, gres, features = (cell.strip() for cell in cells)
        if available != "up" or state.endswith("*") or state.lower().startswith(_OUT_OF_USE):
            continue
        if not nodes.isdigit() or not cpus.rstrip("+").isdigit() or not memory.rstrip("+").isdigit():
            continue
        accelerator = ACCELERATOR.search(gres)
        groups.append(
            NodeGroup(
                partition=partition.rstrip("*"),
                nodes=int(nodes),
                cpus=int(cpus.rstrip("+")),
                memory_mib=int(memory.rstrip("+")),
                kind=(accelerator["kind"] or "") if accelerator else "",
                count=int(accelerator["count"]) if accelerator else 0,
                features=tuple(name for name in features.split(",") if name and name != "(null)"),
                time_limit_minutes=minutes(limit),
            )
        )
    return tuple(groups)


def minutes(text: str) -> int | None:
    """A time limit as Slurm shows it ([DAYS-]HOURS:MINUTES:SECONDS, or MINUTES:SECONDS); None for `infinite`."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, whole, _ = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + whole


def offers(
    groups: Iterable[NodeGroup], settings: SlurmSettings, today: date, device_name: Callable[[str], str | None]
) -> tuple[Offer, ...]:
    """An offer for each partition and kind of device: the processors of a whole node, or 1, 2, 4, ... accelerators.

    `device_name` leads a spelling to the canonical device, or None; accelerators that it knows by no GRES kind or
    feature are left out, since nothing can be predicted for them. Region is the partition, instance type what sbatch is
    asked for.
    """
    made: dict[tuple[str, str], Offer] = {}
    for group in groups:
        if settings.partitions and group.partition not in settings.partitions:
            continue
        for offer in _of_group(group, settings, today, device_name):
            before = made.get((offer.region, offer.instance_type))
            made[(offer.region, offer.instance_type)] = offer if before is None else _smaller(before, offer)
    return tuple(made.values())


def gres_of(offer: Offer) -> str:
    """What sbatch is asked for with --gres; "" for a node's processors."""
    return gres_in(offer.instance_type)


def gres_in(instance_type: str) -> str:
    """The same out of an offer's instance type alone."""
    return instance_type if instance_type.startswith("gpu:") else ""


def _of_group(
    group: NodeGroup, settings: SlurmSettings, today: date, device_name: Callable[[str], str | None]
) -> Iterator[Offer]:
    if not group.count:
        yield _offer(group, settings, today, CPU_DEVICE, 1)
        return
    device = next((name for spelling in group.spellings if (name := device_name(spelling))), None)
    if device is None:
        return
    count = 1
    while count < group.count:
        yield _offer(group, settings, today, device, count)
        count *= 2
    yield _offer(group, settings, today, device, group.count)


def _offer(group: NodeGroup, settings: SlurmSettings, today: date, device: str, count: int) -> Offer:
    price = settings.usd_per_device_hour * count
    share = count / group.count if group.count else 1.0
    gres = f"gpu:{group.kind}:{count}" if group.kind else f"gpu:{count}"
    return Offer(
        provider=PROVIDER,
        region=group.partition,
        instance_type=gres if group.count else f"node:{group.cpus}",
        device=device,
        device_count=count,
        device_memory_gib=None,
        vcpus=max(1, int(group.cpus * share)),
        memory_gib=round(group.memory_mib * share / _MIB_PER_GIB, 3),
        market=Market.ON_DEMAND,
        usd_per_hour=price,
        planning_usd_per_hour=price,
        price_grade=PriceGrade.OBSERVED,
        price_as_of=today,
        price_source="the setting usd_per_device_hour" if price else "your own cluster",
        on_demand_usd_per_hour=price,
        note=f"up to {group.nodes} nodes",
    )


def _smaller(one: Offer, other: Offer) -> Offer:
    """Of two offers that sbatch cannot tell apart, the one with less memory: every node has at least that."""
    return min(one, other, key=lambda offer: (offer.memory_gib or 0.0, offer.vcpus or 0))
