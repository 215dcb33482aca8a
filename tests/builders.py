"""Values for tests: complete, small, and told apart only by what a test names."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tests.doubles.clock import NOON
from trainplan.planner.forecast.choose import Filters, World, choose
from trainplan.planner.forecast.plan import MachineEstimate, Plan, RankedOffer, Reason
from trainplan.planner.forecast.times import RunTime
from trainplan.planner.runs.run import Attempt, Phase, Run
from trainplan.planner.runs.targets import Target
from trainplan.planner.throughput.values import Basis, Throughput
from trainplan.pricing.catalog import Catalog, Placements, RentalPlacements
from trainplan.pricing.compile import TEXT_DIR, compile_catalog
from trainplan.pricing.cost import ProviderRates
from trainplan.pricing.devices import Architecture, Device, PeakTflops
from trainplan.pricing.grades import PriceGrade
from trainplan.pricing.money import PER_SECOND, Billing
from trainplan.pricing.offers import ACTIVE, Market, Offer, OfferQuery, Placement, Rental
from trainplan.pricing.side_rates import (
    BETWEEN_REGIONS,
    BUCKET,
    EVERYWHERE,
    GB,
    GB_MONTH,
    HOUR,
    INTERNET,
    WITHIN_A_REGION,
    flat_rates,
)
from trainplan.pricing.side_rates_text import GROUP_COLUMNS, REGION_GROUPS, SIDE_RATE_COLUMNS, SIDE_RATES
from trainplan.pricing.tables import OFFER_COLUMNS, RESTRICTED_COLUMNS, SOURCE_COLUMNS, TYPE_COLUMNS
from trainplan.providers.base import Instance, InstanceRef, InstanceState, RunId
from trainplan.providers.registry import is_estimated_only
from trainplan.workloads.job import TrainingJob

if TYPE_CHECKING:
    from trainplan.planner.forecast.obtainability import Obtainabilities


TODAY = NOON.date()
RUN_ID = RunId("261121-0badcafe")


def job_values(**changes: Any) -> dict[str, Any]:
    """A job as YAML would give it: VGG16 on CIFAR-10, 2 epochs of 390 steps of 128."""
    values: dict[str, Any] = {
        "name": "tiny",
        "model": {"preset": "vgg16"},
        "data": {"name": "cifar10"},
        "epochs": 2,
        "global_batch_size": 128,
    }
    return values | changes


LARGE_DATA: dict[str, Any] = {
    "model": {"preset": "vgg16", "image_size": 32, "classes": 10},
    "data": {"url": "gs://somebodys/images", "images": 50_000, "size_bytes": 80_000_000_000},
}
"""What of a job has more data than the fixed disk of a TPU has room for, and trains as fast as CIFAR-10."""


def a_job(**changes: Any) -> TrainingJob:
    return TrainingJob.model_validate(job_values(**changes))


def a_throughput(rate: float = 1000.0, basis: Basis = Basis.MEASURED) -> Throughput:
    """Between half and twice the rate."""
    return Throughput(images_per_second=rate, low=rate / 2, high=rate * 2, basis=basis, evidence=("row-1",))


BILLING = Billing(increment_seconds=1, minimum_seconds=60)


def a_rental(**changes: Any) -> Rental:
    """An x86 machine with one T4 at AWS, on demand."""
    base = Rental(
        provider="aws", instance_type="g4dn.xlarge", family="g4dn", cpu_architecture="x86_64", device="T4",
        device_count=1, device_fraction=Fraction(1), device_memory_gib=16.0, vcpus=4, memory_gib=16.0, hosts=1,
        market=Market.ON_DEMAND, lifecycle=ACTIVE, billing=BILLING,
    )  # fmt: skip
    return replace(base, **changes)


def placements(*prices: tuple[str, str], unrankable: int = 0) -> Placements:
    """Placements as (region, USD per hour); their row ids count from 0 in the order given."""
    rows = [Placement(int(Decimal(usd) * 1_000_000), region, number) for number, (region, usd) in enumerate(prices)]
    rows.sort(key=lambda placement: (placement.planning_micro_usd_per_hour, placement.region))
    return Placements(rows[0] if rows else None, len(rows), unrankable, lambda: rows)


def rented(rental: Rental, *prices: tuple[str, str], unrankable: int = 0) -> RentalPlacements:
    """A rental at these placements; without any, at one place for a dollar an hour."""
    if not prices and not unrankable:
        prices = (("us-east-1", "1"),)
    return RentalPlacements(rental, placements(*prices, unrankable=unrankable))


def a_device(name: str, architecture: Architecture = Architecture.TURING, **changes: Any) -> Device:
    base = Device(
        name=name, group=name, architecture=architecture, memory_gib=16.0, memory_bandwidth_gb_s=320.0,
        peak_tflops=PeakTflops(fp32=8.1),
    )  # fmt: skip
    return replace(base, **changes)


DEVICES = {
    device.name: device
    for device in (
        a_device("T4"),
        a_device("T4G"),
        a_device("V100", Architecture.VOLTA),
        a_device("K80", Architecture.KEPLER),
        a_device("B200", Architecture.BLACKWELL),
        a_device("TPU v2", Architecture.TPU),
        a_device("blank", memory_bandwidth_gb_s=None),
        a_device("cpu", Architecture.CPU, memory_gib=None, memory_bandwidth_gb_s=None, peak_tflops=PeakTflops()),
    )
}


def flat_provider_rates(provider: str, usd: str = "0", **kinds: str) -> ProviderRates:
    """The same rates in every region: `usd` for disk, address and transfer, unless `kinds` has them. `billing`, the
    region it is in and who it is from do not matter."""
    known = {"disk": usd, "address": usd, INTERNET: usd, BUCKET: usd} | kinds
    units = {"disk": GB_MONTH, "address": HOUR, BUCKET: GB_MONTH}
    side = flat_rates({kind: (Decimal(rate), units.get(kind, GB)) for kind, rate in known.items()}, "a list", TODAY)
    return ProviderRates(provider, BILLING, "disk", "address", side, "unverified: a guess")


FREE_RATES = flat_provider_rates("local")._replace(billing=PER_SECOND)
"""Disk, address and transfer cost nothing: a total is the machine's own cost."""


def some_rates(provider: str) -> ProviderRates:
    """Round figures: a GB of disk costs 0.073 a month (a ten-thousandth of a dollar an hour), an address a cent."""
    return flat_provider_rates(provider, disk="0.073", address="0.01", **{INTERNET: "0.1", BUCKET: "0.02"})


def a_world(speed: Callable[[Rental], Throughput | Reason] = lambda _: a_throughput()) -> World:
    """Devices and rates of four providers; every rental at the same rate unless `speed` says otherwise."""
    rates = {provider: some_rates(provider) for provider in ("aws", "azure", "gcp", "slurm")}
    return World(devices=DEVICES, rates=rates, throughput=lambda _, rental: speed(rental))


def an_offer(**changes: Any) -> Offer:
    """This machine for nothing."""
    base = Offer(
        provider="local", region="here", instance_type="this-machine", device="cpu", device_count=1, vcpus=2,
        memory_gib=4.0, market=Market.ON_DEMAND, usd_per_hour=Decimal(0), planning_usd_per_hour=Decimal(0),
        price_grade=PriceGrade.LISTED, price_as_of=TODAY, price_source="the owner",
    )  # fmt: skip
    return replace(base, **changes)


def a_run_time(seconds: float = 600.0) -> RunTime:
    """A minute of setup, the rest training (between half and twice as long), ten seconds after."""
    train = timedelta(seconds=seconds - 70)
    return RunTime(
        setup=timedelta(seconds=60), train=train, train_low=train / 2, train_high=train * 2,
        after=timedelta(seconds=10),
    )  # fmt: skip


def a_machine_estimate(**changes: Any) -> MachineEstimate:
    base = MachineEstimate(
        name="AMD EPYC", device="cpu", device_count=1, throughput=a_throughput(500.0), time=a_run_time(),
        usd_per_hour=Decimal("0.12"), cost_usd=Decimal("0.02"), fits=True,
    )  # fmt: skip
    return replace(base, **changes)


def a_run(phase: Phase = Phase.PLANNED, *, attempts: int = 0, **changes: Any) -> Run:
    """A run of an hour at most, in one place at $0.36 an hour, with instances for its attempts.

    `made` are its attempts themselves, `target` is its placement.
    """
    target = changes.pop("target", None) or a_target()
    made = changes.pop("made", None)
    if made is None:
        made = tuple(an_attempt(number, target) for number in range(1, attempts + 1))
    base = Run(
        run_id=RUN_ID, job_name="tiny", job_digest="00112233aabbccdd", provider="local", phase=phase,
        created_at=NOON, deadline=NOON + timedelta(hours=1), model_folder="/nowhere/model", targets=(target,),
        attempts=made,
    )  # fmt: skip
    return replace(base, **changes)


def a_target(usd_per_hour: str = "0.36", **changes: Any) -> Target:
    """A placement; `zone` and what else a Target has by name, everything else is the offer's."""
    own = {name: changes.pop(name) for name in [*changes] if name in Target.__dataclass_fields__}
    return Target(offer=an_offer(usd_per_hour=Decimal(usd_per_hour), **changes), **own)


def an_attempt(number: int = 1, target: Target | None = None, **changes: Any) -> Attempt:
    """An attempt with an instance, asked for at noon."""
    base = Attempt(number=number, ref=a_ref(number), target=target or a_target(), asked_at=NOON, sent_at=NOON)
    return replace(base, **changes)


def a_ref(attempt: int = 1, run_id: str = RUN_ID) -> InstanceRef:
    return InstanceRef(provider="local", region="here", id=f"{run_id}-{attempt}")


def an_instance(state: InstanceState, **changes: Any) -> Instance:
    return replace(Instance(ref=a_ref(), state=state, run_id=RUN_ID, attempt=1), **changes)


def a_plan(
    catalog: Catalog,
    job: TrainingJob | None = None,
    *,
    every_placement: bool = False,
    limit: int | None = None,
    this_machine: MachineEstimate | None = None,
    buckets: Mapping[str, str] = MappingProxyType({}),
    obtainability: Obtainabilities | None = None,
    **filters: Any,
) -> Plan:
    """A plan over a catalog at noon of the test's day, each rental at a rate of its own that never changes.

    What `make_plan` does, but for the throughput, which others will go on improving.
    """
    job = job or a_job()
    rented = [
        row
        for row in catalog.rentals(OfferQuery(include_retired=True), TODAY)
        if row.rental.provider in filters.get("providers", ()) or not is_estimated_only(row.rental.provider)
    ]
    world = World(catalog.devices, catalog.rates, lambda _, rental: _steady(rental), buckets)
    world = world._replace(obtainability=obtainability or world.obtainability)
    choice = choose(job, rented, world, Filters(**filters), every_placement=every_placement)
    shown = choice.candidates[:limit]
    offers = catalog.offers([candidate.placement.row_id for candidate in shown], TODAY)
    ranked = (RankedOffer(rank, *pair) for rank, pair in enumerate(zip(shown, offers, strict=True), start=1))
    return Plan(
        job=job, made_at=NOON, ranking=choice.candidates, candidates=tuple(ranked),
        prices=catalog.quotes(OfferQuery(include_retired=True), TODAY), rejections=choice.rejections,
        filtered_last=choice.filtered_last, this_machine=this_machine, advice=(),
        offers_seen=sum(len(row.placements) + row.placements.unrankable for row in rented),
    )  # fmt: skip


def _steady(rental: Rental) -> Throughput:
    if rental.device == "cpu":
        return a_throughput(12.5 * (rental.vcpus or 1), Basis.MODELLED)
    basis = Basis.MEASURED if rental.device_count == 1 else Basis.SCALED
    return a_throughput(1234.5 * rental.device_count * (1.0 if rental.device_count == 1 else 0.75), basis)


_TYPE = {
    "cpu_architecture": "x86_64", "device": "T4", "device_count": "1", "device_fraction": "1",
    "device_memory_gib": "16", "vcpus": "4", "memory_gib": "16", "hosts": "1", "state": "active",
}  # fmt: skip
_RATES = """
[[provider]]
name = "{provider}"
disk = "disk"
address = "address"
billing_increment_seconds = 1
billing_minimum_seconds = 60
billing_source = "unverified: a guess"
"""
_SIDE_RATES = (
    ("disk", "0.073", GB_MONTH),
    ("address", "0.01", HOUR),
    (INTERNET, "0.1", GB),
    (BUCKET, "0.02", GB_MONTH),
    (BETWEEN_REGIONS, "0.02", GB),
    (WITHIN_A_REGION, "0", GB),
)
_SOURCES = (
    ("list", "listed", "the vendor's list"),
    ("market", "observed", "the market"),
    ("advisor", "estimated", "a share of on demand"),
)


@dataclass
class CatalogText:
    """The text of a catalog in the making: the shipped devices, round rates, and the rows that are added."""

    folder: Path
    types: list[dict[str, str]] = field(default_factory=list)
    offers: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    def add_type(self, name: str, *, provider: str = "aws", **columns: str) -> None:
        """An active x86 machine with one T4, unless `columns` says otherwise."""
        made = {"provider": provider, "instance_type": name, "family": name.split(".")[0]}
        self.types.append(_TYPE | made | columns)

    def add_offer(
        self,
        region: str,
        name: str,
        *,
        provider: str = "aws",
        usd: str | None = None,
        spot: str | None = None,
        spot_source: str = "market",
        spot_as_of: str = "2026-11-01",
        **columns: str,
    ) -> None:
        """A row with an on-demand price of 2026-10-01, a spot price, or both."""
        row = {"region": region, "instance_type": name}
        if usd is not None:
            row |= {"on_demand_usd_per_hour": usd, "on_demand_as_of": "2026-10-01", "on_demand_source": "list"}
        if spot is not None:
            row |= {"spot_usd_per_hour": spot, "spot_as_of": spot_as_of, "spot_source": spot_source}
        self.offers.setdefault(provider, []).append(row | columns)

    def compile(self) -> Path:
        """The compiled file."""
        (self.folder / "offers").mkdir(parents=True)
        (self.folder / "devices.toml").write_bytes((TEXT_DIR / "devices.toml").read_bytes())
        rates = "".join(_RATES.format(provider=provider) for provider in ("aws", "gcp", "azure"))
        (self.folder / "rates.toml").write_text(rates, encoding="utf-8")
        side = [
            dict(
                provider=provider,
                kind=kind,
                region=EVERYWHERE,
                to=EVERYWHERE if kind == BETWEEN_REGIONS else "",
                usd=usd,
                per=per,
                as_of="2026-10-01",
                source="list",
            )
            for provider in ("aws", "gcp", "azure")
            for kind, usd, per in _SIDE_RATES
        ]
        write_rows(self.folder / SIDE_RATES, SIDE_RATE_COLUMNS, side)
        write_rows(self.folder / REGION_GROUPS, GROUP_COLUMNS, [])
        (self.folder / "restricted_regions.csv").write_text(f"{','.join(RESTRICTED_COLUMNS)}\n", encoding="utf-8")
        sources = [dict(zip(SOURCE_COLUMNS, source, strict=True)) for source in _SOURCES]
        write_rows(self.folder / "sources.csv", SOURCE_COLUMNS, sources)
        write_rows(self.folder / "instance_types.csv", TYPE_COLUMNS, self.types)
        for provider, rows in self.offers.items():
            write_rows(self.folder / "offers" / f"{provider}.csv", OFFER_COLUMNS, rows)
        target = self.folder / "catalog.sqlite"
        compile_catalog(self.folder, target)
        return target


def small_catalog(folder: Path) -> Path:
    """A dozen offers, one of every kind that a ranking treats in its own way; compiled."""
    text = CatalogText(folder / "catalog")
    text.add_type("g4dn.xlarge")
    text.add_offer("us-east-1", "g4dn.xlarge", usd="0.526", spot="0.2104", zones="us-east-1a us-east-1b")
    text.add_offer("eu-west-1", "g4dn.xlarge", usd="0.587", spot="0.01", spot_source="advisor")
    text.add_type("g4dn.12xlarge", device_count="4", vcpus="48", memory_gib="192")
    text.add_offer("us-east-1", "g4dn.12xlarge", usd="3.912")
    text.add_type("p3dn.24xlarge", device="V100-32GB", device_count="8", device_memory_gib="32", state="legacy")
    text.add_offer("us-east-1", "p3dn.24xlarge", usd="31.212", note="last seen in August")
    text.add_type("p2.xlarge", device="K80", device_memory_gib="12", state="retired", state_date="2025-03-30",
                  successor="g4dn.xlarge")  # fmt: skip
    text.add_offer("us-east-1", "p2.xlarge", usd="0.9")
    text.add_type("g5g.xlarge", device="T4G", cpu_architecture="arm64")
    text.add_offer("us-east-1", "g5g.xlarge", usd="0.42")
    text.add_type("p6-b200.48xlarge", device="B200", device_count="8", device_memory_gib="180")
    text.add_offer("us-east-1", "p6-b200.48xlarge", usd="113.93")
    text.add_type("l4f.large", device="L4", device_fraction="1/8", device_memory_gib="2.8")
    text.add_offer("us-east-1", "l4f.large", usd="0.2")
    text.add_type("n1-standard-4+1xT4", provider="gcp", family="n1")
    text.add_offer("us-central1", "n1-standard-4+1xT4", provider="gcp", usd="0.54", host_usd_per_hour="0.19",
                   device_usd_per_hour="0.35")  # fmt: skip
    text.add_type("c5.2xlarge", device="cpu", device_memory_gib="", vcpus="8")
    text.add_offer("us-east-1", "c5.2xlarge", usd="0.34")
    return text.compile()


def write_rows(path: Path, columns: Sequence[str], rows: list[dict[str, str]]) -> None:
    """A CSV of these columns."""
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def a_script(**keys: object) -> TrainingJob:
    """A job with a script of the person's own, of at most two hours."""
    from trainplan.workloads.job_mistakes import validated_job

    read = {"sha256": "0" * 64, "source": "print(1)\n"}
    values = {"name": "mine", "script": "/x/train.py", "read_script": read, "constraints": {"deadline": "2h"}}
    return validated_job(values | keys, "job")
