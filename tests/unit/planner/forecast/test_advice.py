"""Advice: each line only where the figures say so."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.builders import TODAY, a_job, a_rental, a_throughput, a_world, rented, some_rates
from trainplan.planner.forecast.advice import Findings, advice
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.plan import Candidate, Choice, MachineEstimate
from trainplan.planner.forecast.times import RunTime
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.catalog import RentalPlacements
from trainplan.pricing.money import format_usd
from trainplan.pricing.offers import Market, Rental
from trainplan.pricing.side_rates import BETWEEN_REGIONS, GB, GB_MONTH, flat_rates
from trainplan.workloads.job import TrainingJob

MANY_MACS = 1_000_000_000
FEW_MACS = 5_000_000


def findings_of(*rows: RentalPlacements, job: TrainingJob | None = None, macs: int = MANY_MACS) -> Findings:
    asked = job or a_job(precision="amp_fp16")
    choice = choose(asked, rows or (rented(a_rental()),), a_world(), Filters(), every_placement=True)
    return Findings(job=asked, macs=macs, choice=choice, machine=None, on_same=lambda *_: None)


def here(hours: float, usd: str = "0") -> MachineEstimate:
    train = timedelta(hours=hours)
    time = RunTime(setup=timedelta(0), train=train, train_low=train, train_high=train, after=timedelta(0))
    return MachineEstimate(
        name="desk", device="cpu", device_count=1, throughput=a_throughput(), time=time, usd_per_hour=Decimal(0),
        cost_usd=Decimal(usd), fits=True,
    )  # fmt: skip


def test_nothing_to_say_where_nothing_is_left() -> None:
    nothing = findings_of(rented(a_rental(device="blank")))
    assert advice(nothing) == ()


@pytest.mark.parametrize(("bucket", "is_shown"), [("us-west-2", True), ("us-east-1", False), ("", False)])
def test_a_bucket_far_away_is_named_where_it_makes_up_much_of_the_bill(bucket: str, is_shown: bool) -> None:
    """150 GB of ImageNet at a tenth of a dollar are $15."""
    job = a_job(precision="amp_fp16", data={"name": "imagenet"}, epochs=1, global_batch_size=256)
    side = flat_rates({"disk": (Decimal(0), GB_MONTH), BETWEEN_REGIONS: (Decimal("0.1"), GB)}, "a list", TODAY)
    world = a_world()._replace(
        rates={"aws": some_rates("aws")._replace(side=side)}, buckets={"aws": bucket} if bucket else {}
    )
    choice = choose(job, [rented(a_rental(vcpus=96), ("us-east-1", "1"))], world, Filters(), every_placement=True)
    lines = advice(Findings(job=job, macs=MANY_MACS, choice=choice, machine=None, on_same=lambda *_: None))
    told = [line for line in lines if "bucket" in line]
    crossing = choice.candidates[0].estimate.fixed("us-east-1").between_regions
    assert (
        told
        == [
            f"{format_usd(crossing)} of row 1 is for traffic with the bucket in us-west-2: "
            'with region = "us-east-1" in [aws] of the settings the bucket is made there'
        ]
        * is_shown
    )


def test_an_accelerator_that_fits_needs_no_advice() -> None:
    assert advice(findings_of()) == ()


@pytest.mark.parametrize(
    ("hours", "usd", "is_shown"),
    [(0.5, "0", True), (0.5, "1000", False), (200.0, "0", False)],
)
def test_this_machine_is_named_where_it_is_cheaper_and_not_much_slower(hours: float, usd: str, is_shown: bool) -> None:
    lines = advice(replace(findings_of(), machine=here(hours, usd)))
    assert any(line.startswith("this machine is good enough") for line in lines) is is_shown


def test_a_rental_without_accelerator_is_said_to_be_enough() -> None:
    host = a_rental(device="cpu", instance_type="c6i.large", device_memory_gib=None)
    assert advice(findings_of(rented(host)))[0].startswith("no accelerator needed: row 1 has none (4 vCPU)")


def tpu(count: int = 1) -> Rental:
    return a_rental(
        provider="gcp", instance_type="tpu-v2", device="TPU v2", device_count=count, market=Market.ON_DEMAND,
        device_memory_gib=32.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "lines"),
    [
        (128, ()),
        (100, ("on TPU v2 make the batch a multiple of 16 (8 for each of 2 cores); 100 wastes part of it",)),
    ],
)
def test_a_batch_that_does_not_fill_a_tpu_is_told_with_the_name_in_the_table(batch: int, lines: tuple[str]) -> None:
    job = a_job(precision="amp_bf16", global_batch_size=batch)
    assert advice(findings_of(rented(tpu()), job=job)) == lines


@pytest.mark.parametrize(("batch", "bigger"), [(128, 256), (100, 208)])
def test_a_bigger_batch_for_a_tpu_is_one_that_fills_it(batch: int, bigger: int) -> None:
    """The line on the batch for a TPU and the line on a bigger batch do not contradict each other."""
    findings = findings_of(rented(tpu()), job=a_job(precision="amp_bf16", global_batch_size=batch))
    best = findings.choice.candidates[0]
    half = best._replace(cost_micro_usd=best.cost_micro_usd // 2)
    lines = advice(replace(findings, on_same=lambda *_: half))
    assert lines[0].startswith(f"a batch of {bigger} (learning rate to match) cuts row 1 by 50%")


def test_what_changes_most_comes_first() -> None:
    """A screen shows the first line alone: what costs nothing, then the larger saving, and what only explains last."""
    job = a_job(precision="fp32", epochs=40, validation={"every_epochs": 1, "patience": 3})
    findings = findings_of(job=job)
    best = findings.choice.candidates[0]

    def cheaper(changed: TrainingJob, _: Candidate) -> Candidate:
        share = 2 if changed.precision == "amp_fp16" else 4
        return best._replace(cost_micro_usd=best.cost_micro_usd // share)

    lines = advice(replace(findings, on_same=cheaper, machine=here(0.5)))
    starts = ["this machine is good enough", "a batch of 256", "mixed precision", "early stopping"]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * 4, lines


def test_a_tpu_is_wrong_for_a_small_net_unless_it_comes_first_all_the_same() -> None:
    job = a_job(precision="amp_fp16", global_batch_size=128)
    findings = findings_of(rented(tpu()), rented(a_rental()), job=job, macs=FEW_MACS)
    gpu_first = sorted(findings.choice.candidates, key=lambda one: one.estimate.rental.provider)
    assert [one.estimate.rental.provider for one in gpu_first] == ["aws", "gcp"]
    for candidates, is_said in ((gpu_first, True), (gpu_first[::-1], False)):
        lines = advice(replace(findings, choice=findings.choice._replace(candidates=tuple(candidates))))
        assert any("a TPU is wrong for this job: 5 M" in line for line in lines) is is_said


def test_a_cheaper_job_is_named_with_what_it_saves() -> None:
    findings = findings_of(job=a_job(precision="fp32"))
    best = findings.choice.candidates[0]

    def half_the_bill(job: TrainingJob, _: Candidate) -> Candidate | None:
        return best._replace(cost_micro_usd=best.cost_micro_usd // 2) if job.precision == "amp_fp16" else None

    lines = advice(replace(findings, on_same=half_the_bill))
    assert [line.split(" cuts")[0] for line in lines] == ["mixed precision (precision: amp_fp16)"]
    assert "by 50%" in lines[0]


def test_a_saving_within_reach_of_nothing_is_not_named() -> None:
    findings = findings_of(job=a_job(precision="fp32"))
    assert advice(replace(findings, on_same=lambda _, best: best)) == ()


def noisy(slow_basis: Basis, fast_basis: Basis) -> Choice:
    """Row 1 a little cheaper and much slower than row 2."""

    def speed(rental: Rental) -> object:
        fast = rental.instance_type == "fast"
        return a_throughput(4000.0 if fast else 1000.0, fast_basis if fast else slow_basis)

    rows = (rented(a_rental(), ("a", "1")), rented(a_rental(instance_type="fast", device="V100"), ("a", "3")))
    job = a_job(precision="amp_fp16", epochs=40)
    return choose(job, rows, a_world(speed), Filters(), every_placement=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("slow", "fast", "is_shown"),
    [(Basis.MEASURED, Basis.MEASURED, True), (Basis.MEASURED, Basis.MODELLED, False)],
)
def test_a_faster_offer_within_the_noise_is_named_if_it_is_known_as_well(
    slow: Basis, fast: Basis, is_shown: bool
) -> None:
    choice = noisy(slow, fast)
    findings = replace(findings_of(), choice=choice)
    names = [candidate.estimate.rental.instance_type for candidate in choice.candidates]
    lines = advice(findings)
    if names[0] == "fast":
        pytest.fail("the slow one must be the cheaper one for this test to mean anything")
    assert any("costs about as much as row 1" in line for line in lines) is is_shown
