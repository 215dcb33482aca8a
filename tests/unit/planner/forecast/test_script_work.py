"""The estimate of a script: its deadline before it was measured, an interval like any other after."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.builders import a_script
from tests.unit.planner.forecast.test_choose import TWO_PLACEMENTS, a_rental, a_world, rented
from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.choose import Filters, choose
from trainplan.planner.forecast.estimate import trained_images
from trainplan.planner.forecast.plan import Reason
from trainplan.planner.forecast.script_work import unmeasured
from trainplan.planner.planning.measured_scripts import with_measured_work
from trainplan.planner.planning.own_measurements import OwnMeasurement
from trainplan.planner.planning.rented_measurements import RentedMeasurements
from trainplan.planner.planning.this_machine import shape_of
from trainplan.planner.throughput.values import Basis, Throughput
from trainplan.pricing.offers import Market
from trainplan.workloads.job import TrainingJob

CAP = timedelta(hours=2)


def a_row(job: TrainingJob, machine: str = "aws/g4dn.xlarge", images: int | None = 10_000) -> OwnMeasurement:
    return OwnMeasurement(
        machine=machine, shape=shape_of(job), images_per_second=50.0, setup_seconds=None, per_epoch_seconds=None,
        after_seconds=None, measured_at=datetime(2026, 11, 26, tzinfo=UTC), run_id="r", framework="torch",
        device="T4", half_width=0.02, total_images=images, job=job.to_json(),
    )  # fmt: skip


def told_there(rows: list[OwnMeasurement], job: TrainingJob) -> Throughput:
    """What rows of a g4dn.xlarge tell of the job there."""
    there = RentedMeasurements(rows).there(job, a_rental(provider="aws", instance_type="g4dn.xlarge"))
    assert there is not None
    return there


def test_a_script_that_nobody_has_measured_takes_all_of_its_time() -> None:
    job = a_script()
    world = a_world()._replace(throughput=lambda job, rental: unmeasured(job))
    choice = choose(job, [rented(a_rental(), *TWO_PLACEMENTS)], world, Filters(deadline=CAP), every_placement=True)
    assert len(choice.candidates) == 2
    estimate = choice.candidates[0].estimate
    assert estimate.throughput.basis is Basis.UNMEASURED
    assert estimate.time.total == estimate.time.low == estimate.time.high == CAP
    assert estimate.billed_seconds == (7200, 7200, 7200)


@pytest.mark.parametrize("deadline", ["1s", "2m", "2h"])
def test_a_machine_that_is_not_there_before_the_deadline_is_none(deadline: str) -> None:
    job = a_script(constraints={"deadline": deadline})
    world = a_world()._replace(throughput=lambda job, rental: unmeasured(job))
    billed_when_ready = rented(a_rental(family="tpu-v5litepod"), *TWO_PLACEMENTS)
    choice = choose(job, [billed_when_ready], world, Filters(), every_placement=True)
    late = set() if deadline == "2h" else {Reason.OVER_DEADLINE}
    assert {key.reason for key in choice.rejections} == late
    assert len(choice.candidates) == (0 if late else 2)


@pytest.mark.parametrize(("checkpoints", "count"), [(False, 0), (True, 2)])
def test_spot_is_refused_without_checkpoints(checkpoints: bool, count: int) -> None:
    job = a_script(checkpoints=checkpoints)
    world = a_world()._replace(throughput=lambda job, rental: unmeasured(job))
    spot = rented(a_rental(market=Market.SPOT), *TWO_PLACEMENTS)
    choice = choose(job, [spot], world, Filters(deadline=CAP), every_placement=True)
    assert len(choice.candidates) == count
    if not count:
        assert choice.filtered_last is Reason.NO_CHECKPOINTS
        assert {key.reason for key in choice.rejections} == {Reason.NO_CHECKPOINTS}


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_a_machine_of_several_devices_is_not_for_a_script(framework: str) -> None:
    job = a_script(framework=framework)
    world = a_world()._replace(throughput=lambda job, rental: unmeasured(job))
    several = rented(a_rental(device_count=2), *TWO_PLACEMENTS)
    choice = choose(job, [several], world, Filters(deadline=CAP), every_placement=True)
    assert {key.reason for key in choice.rejections} == {Reason.SCRIPT_ON_ONE_DEVICE}
    assert "a script trains on one device" in Reason.SCRIPT_ON_ONE_DEVICE.text


def test_what_a_run_has_told_is_the_work_of_the_next() -> None:
    job = a_script()
    measured = with_measured_work(job, [a_row(job)])
    assert measured.train_images == 10_000
    there = told_there([a_row(job)], measured)
    assert (there.images_per_second, there.basis) == (50.0, Basis.MEASURED)
    world = a_world()._replace(throughput=lambda job, rental: there)
    choice = choose(measured, [rented(a_rental(), *TWO_PLACEMENTS)], world, Filters(deadline=CAP), every_placement=True)
    assert choice.candidates[0].estimate.time.train == pytest.approx(timedelta(seconds=200), rel=0.1)


def test_what_tells_nothing_of_its_work_is_passed_over() -> None:
    job = a_script()
    assert not with_measured_work(job, [a_row(job, images=None)]).is_measured_script
    assert not with_measured_work(job, [a_row(a_script(args={"lr": 0.1}))]).is_measured_script
    simulated = a_row(job, machine="sim/small")
    assert not with_measured_work(job, [simulated]).is_measured_script
    assert with_measured_work(job, [simulated], ("sim",)).is_measured_script


def test_what_trials_have_told_is_the_work_of_the_sweep() -> None:
    sweep = {"args.lr": [0.3, 0.1, 0.03], "maximize": "score"}
    job = a_script(checkpoints=True, sweep=sweep)
    first, second, _ = (trial.job for trial in job.trials)
    rows = [a_row(first), replace(a_row(second, images=20_000), images_per_second=40.0)]
    for told, rate, high in (([rows[0]], 50.0, 53.5), (rows, 40.0, 53.5)):
        measured = with_measured_work(job, told)
        there = told_there(told, measured)
        assert (there.images_per_second, there.high) == (rate, pytest.approx(high))
    assert measured.train_images == 20_000, "of the one that trains on more"
    assert trained_images(measured) == pytest.approx(20_000 * 5 / 3, rel=1e-3)
    world = a_world()._replace(throughput=lambda job, rental: there)
    choice = choose(measured, [rented(a_rental(), *TWO_PLACEMENTS)], world, Filters(deadline=CAP), every_placement=True)
    assert choice.candidates[0].estimate.time.train > timedelta(seconds=20_000 * 5 / 3 / 40)


def test_the_script_alone_tells_of_its_sweep_and_its_sweep_not_of_it() -> None:
    job = a_script(checkpoints=True, sweep={"args.lr": [0.3, 0.1], "maximize": "score"})
    alone = a_script(checkpoints=True)
    assert with_measured_work(job, [a_row(alone)]).is_measured_script
    assert not with_measured_work(alone, [a_row(job.trials[0].job)]).is_measured_script


def test_checkpoints_that_a_pilot_saw_let_it_go_on_spot() -> None:
    job = a_script()
    assert not with_measured_work(job, [a_row(job)]).checkpoints
    assert with_measured_work(job, [replace(a_row(job), checkpoints=True)]).checkpoints


def test_a_script_needs_a_deadline() -> None:
    with pytest.raises(BadInputError, match="unknown until it has been measured; set a limit"):
        with_measured_work(a_script(constraints={}), [])


def test_a_measured_script_says_nothing_of_other_jobs(tmp_path: Path) -> None:
    job = a_script()
    assert RentedMeasurements([replace(a_row(job), images_per_second=1.0)]).of_devices() == []
