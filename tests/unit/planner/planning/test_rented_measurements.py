"""What pilots have measured on rented machines, as an estimate uses it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_rental
from tests.doubles.clock import NOON
from trainplan.planner.forecast.allowances import allowances
from trainplan.planner.forecast.plan import RankedOffer
from trainplan.planner.planning.build_plan import PlanQuery, make_plan
from trainplan.planner.planning.own_measurements import OwnMeasurement, load_measurements, rented_name
from trainplan.planner.planning.own_rows import add_row
from trainplan.planner.planning.rented_measurements import OwnAllowances, RentedMeasurements
from trainplan.planner.planning.this_machine import shape_of, trained_job
from trainplan.planner.report.explain import explain
from trainplan.planner.settings import Settings
from trainplan.planner.throughput.values import Basis
from trainplan.workloads.job import TrainingJob

JOB = a_job(model={"preset": "vgg16"}, data={"name": "cifar10"}, precision="amp_fp16", global_batch_size=256)


def a_pilot(job: TrainingJob = JOB, **changes: Any) -> OwnMeasurement:
    row = OwnMeasurement(
        machine="aws/g4dn.xlarge", shape=shape_of(job), images_per_second=5000.0, setup_seconds=None,
        per_epoch_seconds=None, after_seconds=None, measured_at=NOON, run_id="261121-0badcafe", framework="tensorflow",
        job=trained_job(job), device="T4", half_width=0.02,
    )  # fmt: skip
    return replace(row, **changes)


def on(provider: str, instance_type: str, **changes: Any) -> Any:
    return a_rental(provider=provider, instance_type=instance_type, device="T4", device_count=1, **changes)


def test_the_same_job_on_the_same_machine_is_measured_with_its_day() -> None:
    found = RentedMeasurements([a_pilot()]).there(JOB, on("aws", "g4dn.xlarge"))
    assert found is not None
    assert (found.images_per_second, found.basis, found.as_fed) == (5000.0, Basis.MEASURED, True)
    assert (found.low, found.high) == (pytest.approx(5000 / 1.07), pytest.approx(5000 * 1.07))
    assert "2026-11-21" in found.note
    assert found.evidence == ("pilot 261121-0badcafe of 2026-11-21",)


def test_a_pilot_of_little_agreement_has_a_wider_interval() -> None:
    found = RentedMeasurements([a_pilot(half_width=0.2)]).there(JOB, on("aws", "g4dn.xlarge"))
    assert found is not None
    assert found.high == pytest.approx(6000)


def test_the_newest_pilot_counts() -> None:
    rows = [a_pilot(), a_pilot(images_per_second=4000.0, measured_at=NOON + timedelta(days=1))]
    found = RentedMeasurements(rows).there(JOB, on("aws", "g4dn.xlarge"))
    assert found is not None
    assert found.images_per_second == 4000.0


@pytest.mark.parametrize(
    ("job", "rental"),
    [
        (JOB, on("aws", "g4dn.2xlarge")),
        (JOB, on("gcp", "g4dn.xlarge")),
        (a_job(model={"preset": "vgg19"}, data={"name": "cifar10"}), on("aws", "g4dn.xlarge")),
        (JOB, a_rental(provider="aws", instance_type="g4dn.xlarge", device="T4", device_count=4)),
    ],
)
def test_another_job_or_machine_was_not_measured_there(job: TrainingJob, rental: Any) -> None:
    assert RentedMeasurements([a_pilot()]).there(job, rental) is None


def test_on_a_cluster_each_run_counts_and_none_lies_outside_the_interval() -> None:
    """Its nodes are used by others too: one run cannot tell how far the next is off."""
    rates = (100.0, 1484.0, 2502.0, 1500.0, 1490.0, 1510.0)
    rows = [a_pilot(machine="slurm/node:1", device="cpu", images_per_second=rate) for rate in rates]
    rental = a_rental(provider="slurm", instance_type="node:1", device="cpu", device_count=1)
    one, five = RentedMeasurements(rows[:1]).there(JOB, rental), RentedMeasurements(rows).there(JOB, rental)
    assert one is not None
    assert five is not None
    assert (one.low, one.high) == pytest.approx((100 / 1.3, 130))
    assert (five.images_per_second, five.low, five.high) == pytest.approx((1500, 1500 / 1.08, 2502))
    assert five.evidence[0] == "run 261121-0badcafe of 2026-11-21"


def test_nodes_that_trained_together_say_nothing_of_one_of_them() -> None:
    together = RentedMeasurements([a_pilot(machine=rented_name("slurm", "node:1", 2), device="cpu")])
    rental = a_rental(provider="slurm", instance_type="node:1", device="cpu", device_count=1)
    assert together.there(JOB, rental) is None
    assert together.there(JOB, replace(rental, instance_type="2 x node:1")) is not None


def test_what_says_nothing_of_the_device_is_left_out_of_it() -> None:
    rows = [
        a_pilot(),
        a_pilot(machine="sim/t4.one"),
        a_pilot(machine="aws/g4dn.2xlarge", input_bound=True),
        a_pilot(machine="aws/c5.xlarge", device="cpu"),
        replace(a_pilot(machine="aws/g4dn.8xlarge"), job="{}"),
        a_pilot(machine="0123456789abcdef", device=""),  # this computer
    ]
    assert [row.id for row in RentedMeasurements(rows).of_devices()] == ["pilot 261121-0badcafe of 2026-11-21"]


def planned(settings: Settings, job: TrainingJob = JOB, **query: Any) -> list[RankedOffer]:
    return list(make_plan(job, PlanQuery(devices=("T4",), limit=40, **query), settings, NOON).candidates)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def speeds(rows: list[RankedOffer]) -> set[tuple[str, int, str, float]]:
    return {
        (
            row.offer.provider,
            row.offer.device_count,
            row.candidate.estimate.throughput.basis.value,
            row.candidate.estimate.throughput.images_per_second,
        )
        for row in rows
    }


def test_a_pilot_re_ranks_its_machine_and_its_device_elsewhere(settings: Settings) -> None:
    before = planned(settings)
    add_row(settings.measurements, a_pilot(images_per_second=9000.0))
    after = planned(settings)
    one = [row for row in speeds(after) if row[1] == 1]
    assert {("aws", 1, "measured", 9000.0), ("gcp", 1, "measured", 9000.0)} <= set(one)
    assert not {("aws", 1, "measured", 9000.0)} & speeds(before)
    note = next(
        r.candidate.estimate.throughput.note for r in after if r.offer.provider == "gcp" and r.offer.device_count == 1
    )
    assert "2026-11-21" in note
    width_before, width_after = (
        max(
            r.candidate.estimate.throughput.high / r.candidate.estimate.throughput.low
            for r in rows
            if r.offer.device_count == 1
        )
        for rows in (before, after)
    )
    assert width_after < 1.15 < width_before


def test_a_pilot_of_another_job_never_takes_away_what_was_measured(settings: Settings) -> None:
    """A row that is scaled from an own run is wider than one that was measured."""
    before = widths(planned(settings))
    add_row(settings.measurements, a_pilot(a_job(model={"preset": "vgg11"}, data={"name": "cifar10"})))
    after = widths(planned(settings))
    assert {name: after[name] <= width * (1 + 1e-9) for name, width in before.items()} == dict.fromkeys(before, True)


def widths(rows: list[RankedOffer]) -> dict[tuple[str, str, str], float]:
    speed = {(r.offer.provider, r.offer.instance_type, r.offer.market): r.candidate.estimate.throughput for r in rows}
    return {name: one.high / one.low for name, one in speed.items()}


def test_a_change_that_advice_tries_is_no_surprise(settings: Settings) -> None:
    """Its precision is a plain word, of which a job's own serializer warns."""
    add_row(settings.measurements, a_pilot())
    job = JOB.model_copy(update={"precision": "fp32"})
    assert RentedMeasurements(load_measurements(settings.measurements)).there(job, on("aws", "g4dn.xlarge")) is None


def test_a_simulated_pilot_changes_no_rented_row(settings: Settings) -> None:
    before = planned(settings)
    add_row(settings.measurements, a_pilot(machine="sim/t4.one", images_per_second=90_000.0))
    assert planned(settings) == before


def test_a_line_that_was_written_before_there_were_pilots_is_read(settings: Settings) -> None:
    line = '{"machine": "m", "shape": "s", "images_per_second": 1.0, "setup_seconds": null, "per_epoch_seconds": null, '
    line += '"after_seconds": null, "measured_at": "2026-11-21T12:00:00+00:00", "run_id": "r", "framework": "f"}\n'
    settings.measurements.write_text(line)
    assert [row.device for row in load_measurements(settings.measurements)] == [""]


# --- what runs take around their training ------------------------------------------------------------------------


def test_boots_that_pilots_measured_hold_there_for_every_job_and_nowhere_else(settings: Settings) -> None:
    before = {(row.offer.provider, row.offer.device_count): setup_of(row) for row in planned(settings)}
    for number, boot in enumerate((100.0, 500.0, 110.0)):
        ran: dict[str, Any] = {"run_id": f"r{number}", "measured_at": NOON + timedelta(days=number)}
        add_row(settings.measurements, a_pilot(boot_seconds=boot, start_seconds=20.0, **ran))
    other = a_job(model={"preset": "vgg11"}, data={"name": "cifar10"})
    for job in (JOB, other):
        after = {(row.offer.provider, row.offer.device_count): setup_of(row) for row in planned(settings, job)}
        assert {key: before[key] - seconds for key, seconds in after.items()} == {
            key: 150 + 270 + 45 - 110 - 20 if key[0] == "aws" else 0 for key in after
        }
    plan = make_plan(JOB, PlanQuery(providers=("aws",), devices=("T4",)), settings, NOON)
    text = explain(plan, plan.candidates[0])
    assert "boot with image 110 s (96 to 500), framework and first step 20 s (17 to 23)" in text
    assert "(the median of 3 pilots of your own there, " in text
    assert "2026-11-23)" in text


def test_a_boot_that_was_measured_is_free_of_charge_until_the_image_is_fetched(settings: Settings) -> None:
    """7.5 minutes were taken off the bill of a TPU that was there in five, and no plan was made of a shorter run."""
    query = PlanQuery(providers=("gcp",), devices=("TPU v5e",), markets=("on_demand",))

    def billed() -> tuple[int, int]:
        estimate = make_plan(JOB, query, settings, NOON).candidates[0].candidate.estimate
        return estimate.billed_seconds[0], round(estimate.steady.total.total_seconds())

    reported, total = billed()
    assert total - reported == pytest.approx(450, abs=1)  # whole seconds are billed
    tpu: dict[str, Any] = {"machine": "gcp/tpu-v6e", "device": "TPU v6e", "boot_seconds": 300.0, "start_seconds": 45.0}
    add_row(settings.measurements, a_pilot(**tpu))
    measured, total_measured = billed()
    assert total - total_measured == pytest.approx(450 + 90 - 300, abs=1)
    assert total_measured - measured == pytest.approx(300 - 90, abs=1)


def test_boots_of_a_queue_of_a_simulated_cloud_and_of_this_computer_are_nobody_elses() -> None:
    rows = [a_pilot(machine=name, boot_seconds=1.0) for name in ("sim/t4.one", "slurm/gpu")]
    rows += [a_pilot(machine="0123456789abcdef", device="", boot_seconds=1.0), a_pilot()]
    around = OwnAllowances(rows)
    for provider in ("sim", "slurm", "aws"):
        assert around(provider, "gpu") == allowances(provider, "gpu")


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 157_680_000.0, float("inf"), float("nan")])
def test_what_a_wrong_clock_tells_of_a_boot_is_no_measurement(seconds: float) -> None:
    """Five years ahead, behind, and what a machine may write."""
    rows = [a_pilot(boot_seconds=seconds, start_seconds=20.0)]
    assert OwnAllowances(rows)("aws", "gpu") == allowances("aws", "gpu")
    found = OwnAllowances([a_pilot(boot_seconds=100.0, start_seconds=seconds)])("aws", "gpu")
    assert (found.boot.expected, found.start) == (100, allowances("aws", "gpu").start)


def test_a_pilot_of_many_settings_is_one_boot_and_the_newest_five_count() -> None:
    tries = [a_pilot(shape=f"s{number}", boot_seconds=900.0) for number in range(9)]
    later = [a_pilot(run_id=f"r{number}", boot_seconds=60.0, measured_at=NOON) for number in range(5)]
    assert (OwnAllowances(tries)("aws", "gpu").own_runs, OwnAllowances(tries)("aws", "gpu").boot.expected) == (1, 900)
    found = OwnAllowances([*tries, *later])("aws", "gpu")
    assert (found.own_runs, found.boot.expected, found.image.expected) == (5, 60, 0)
    assert found.start == allowances("aws", "gpu").start


def test_what_pilots_measured_is_as_wide_as_their_spread_and_one_alone_as_an_assumption() -> None:
    boots = [a_pilot(run_id=f"r{number}", boot_seconds=60.0 + number, start_seconds=20.0) for number in (0, 40, 2, 3)]
    found = OwnAllowances(boots)("aws", "gpu")
    assert (found.boot.low, found.boot.high) == (pytest.approx(63 / 1.5**0.25), 100.0)
    assert found.start.high == pytest.approx(20 * 1.5**0.25)
    alone = OwnAllowances(boots[:1])("aws", "gpu").boot
    assert (alone.low, alone.high) == (40.0, 90.0)


def setup_of(row: RankedOffer) -> float:
    return row.candidate.estimate.plain.setup.total_seconds()
