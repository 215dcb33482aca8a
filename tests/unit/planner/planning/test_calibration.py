"""Calibrations: which one counts, what is trained for one, and what one says of another job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_throughput
from tests.doubles.clock import NOON
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.planning.calibration import (
    Calibration,
    calibrated,
    calibration_job,
    load_calibrations,
    newest,
    teaches,
)
from trainplan.planner.planning.own_rows import add_row
from trainplan.planner.throughput.values import Basis, Throughput
from trainplan.workloads.graph import Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.graph_file import graph_json
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.read_network import ReadNetwork, packed


def a_calibration(**changes: Any) -> Calibration:
    row = Calibration(
        processor="here", images_per_second=50.0, others=0.0, framework="tensorflow 2.21.0", measured_at=NOON,
        job=calibration_job(a_job(), 1000.0).to_json(),
    )  # fmt: skip
    return replace(row, **changes)


def test_what_is_kept_is_read_again_and_a_line_that_cannot_be_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "home" / "calibrations.jsonl"
    assert load_calibrations(path) == []
    rows = [a_calibration(), a_calibration(others=0.5, measured_at=NOON + timedelta(days=1))]
    for row in rows:
        add_row(path, row)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"processor": "here"}\n{"others": "none"}\n{"half a')
    more = [a_calibration(images_per_second=60.0), a_calibration(images_per_second=0.0)]
    for row in more:
        add_row(path, row)
    assert load_calibrations(path) == [*rows, more[0]], "the row after a line that was cut off is not lost with it"


def test_a_row_whose_figures_are_no_numbers_is_passed_over(tmp_path: Path) -> None:
    add_row(tmp_path / "rows", a_calibration(others="none"))
    assert load_calibrations(tmp_path / "rows") == []


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ThisMachineError, match="cannot read"):
        load_calibrations(tmp_path)
    with pytest.raises(ThisMachineError, match="cannot write"):
        add_row(tmp_path, a_calibration())


def test_the_newest_of_a_machine_at_rest_counts() -> None:
    old, rested, busy = a_calibration(), a_calibration(others=0.1), a_calibration(others=0.6)
    rows = [old, rested, busy, a_calibration(processor="there"), a_calibration(framework="jax 0.10")]
    assert newest(rows, "here", "tensorflow") is rested
    assert newest([busy], "here", "tensorflow") is busy
    assert newest(rows, "here", "torch") is None


def test_a_calibration_trains_the_net_of_the_job_on_made_up_images_in_steps_of_a_quarter_second() -> None:
    job = a_job(secrets={"TOKEN": "aws-sm:arn:aws:secretsmanager:us-east-1:1:secret:x"}, constraints={"budget_usd": 5})
    fast, slow, slowest = (calibration_job(job, rate) for rate in (10_000.0, 100.0, 0.1))
    assert [made.global_batch_size for made in (fast, slow, slowest)] == [128, 25, 1]
    assert fast.net().layers == job.net().layers
    assert (fast.data.name, fast.train_images, fast.classes) == ("synthetic", 512, job.classes)
    assert (fast.secrets, fast.constraints.budget_usd) == ({}, None)


def test_a_job_is_scaled_by_what_the_processor_did_of_the_models_answer() -> None:
    """The model says 100 for the calibration, which did 50; it says 10 for the job."""
    job = Workload(a_job(global_batch_size=64))

    def predict(work: Workload) -> Throughput:
        return a_throughput(10.0 if work is job else 100.0, Basis.MODELLED)

    found = calibrated(job, predict(job), a_calibration(), predict)
    assert (found.basis, found.images_per_second) == (Basis.SCALED, 5.0)
    assert (found.low, found.high) == (5 / 1.25, 5 * 1.25)
    assert found.evidence == ("calibration of 2026-11-21 12:00",)
    same = Workload(a_job())
    assert calibrated(same, predict(same), a_calibration(), predict).high == pytest.approx(60.0)


def test_what_others_had_of_the_processors_is_added_and_widens_the_interval() -> None:
    """Others on half of the processors leave two thirds to a training with a thread on each: 50 are 75 of a machine at
    rest."""
    job = Workload(a_job())
    answer = a_throughput(100.0, Basis.MODELLED)
    found = calibrated(job, answer, a_calibration(others=0.5), lambda _: answer)
    assert found.images_per_second == pytest.approx(75.0)
    assert (found.low, found.high) == (pytest.approx(50 / 1.2), pytest.approx(50 / 0.5 * 1.2))
    assert calibrated(job, answer, a_calibration(others=1.0), lambda _: answer).images_per_second == 100.0


def test_a_calibration_that_tells_nothing_leaves_the_answer_as_it_is() -> None:
    job, answer = Workload(a_job()), a_throughput(100.0, Basis.MODELLED)
    assert calibrated(job, answer, a_calibration(job="{}"), lambda _: answer) is answer
    assert calibrated(job, answer, a_calibration(), lambda _: None) is answer
    other = Workload(a_job(model={"preset": "vgg11"}))
    assert calibrated(other, answer, a_calibration(others=0.5), lambda _: answer) is answer


def _network(*kinds: Kind) -> TrainingJob:
    builder = GraphBuilder("odd", Shape(32, 32, 3))
    x = builder.convolution(builder.image, 8, 3)
    for kind in kinds:
        x = builder.add_operator(kind, x, shape=builder.shape(x), function="Odd", depth=2)
    builder.dense(builder.global_pool(x), 10)
    read = ReadNetwork(
        sha256="0" * 64, packed=packed(graph_json(builder.graph())), image_size=32, channels=3, classes=10
    )
    return a_job(model={"python": "nets.py:build", "read": read})


def test_a_network_teaches_nothing_of_others_where_its_work_is_not_known() -> None:
    """VGG11 was estimated at 0.54 images/s in place of 6 after an attention of unknown work had been measured."""
    plain, unknown, product = _network(), _network(Kind.UNKNOWN), _network(Kind.PRODUCT)
    assert teaches(plain, a_job())
    assert teaches(plain, unknown)
    assert not teaches(unknown, plain)
    assert teaches(unknown, unknown)
    assert not teaches(product, plain)
    assert teaches(product, _network(Kind.PRODUCT, Kind.PRODUCT))
