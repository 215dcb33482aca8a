"""When a launch measures this processor first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_job, a_throughput
from tests.doubles.clock import NOON
from trainplan.planner.forecast.plan import MachineEstimate
from trainplan.planner.planning.calibrate import calibrate
from trainplan.planner.planning.calibration import load_calibrations
from trainplan.planner.settings import Settings
from trainplan.planner.throughput.values import Basis
from trainplan.providers.hardware import HostHardware, MeasuredSpeed
from trainplan.workloads.job import TrainingJob

MACHINE = HostHardware(system="linux", architecture="x86_64", cpu_name="AMD EPYC", vcpus=2, memory_gib=24.0)
QUOTE = MachineEstimate(
    name="AMD EPYC", device="cpu", device_count=1, throughput=a_throughput(100.0, Basis.MODELLED), time=None,
    usd_per_hour=Decimal(0), cost_usd=None, fits=True,
)  # fmt: skip


@dataclass
class Meter:
    """This machine's provider, as far as it measures."""

    speed: MeasuredSpeed | None
    machine: HostHardware = MACHINE
    has_framework: bool = True
    jobs: list[TrainingJob] = field(default_factory=list)

    def can_measure_speed(self, job: TrainingJob) -> bool:
        return self.has_framework

    def measure_speed(self, job: TrainingJob) -> MeasuredSpeed | None:
        self.jobs.append(job)
        return self.speed


def measured(others: float = 0.0) -> MeasuredSpeed:
    return MeasuredSpeed(images_per_second=80.0, others=others, framework="tensorflow 2.21.0")


def run(home: Path, meter: Any, quote: MachineEstimate = QUOTE) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return calibrate(a_job(), quote, meter, Settings(home=home), lambda: NOON, lines.append), lines


def test_without_the_framework_nothing_is_measured_and_nothing_said(tmp_path: Path) -> None:
    """A computer that trains in containers alone."""
    assert run(tmp_path, Meter(measured(), has_framework=False)) == (False, [])


def test_a_processor_nobody_measured_is_measured_and_kept(tmp_path: Path) -> None:
    meter = Meter(measured(others=0.5))
    done, lines = run(tmp_path, meter)
    assert done
    assert [job.global_batch_size for job in meter.jobs] == [25]
    (row,) = load_calibrations(Settings(home=tmp_path).calibrations)
    assert (row.images_per_second, row.others, row.measured_at) == (80.0, 0.5, NOON)
    assert lines[1] == "80 images/s, with other programs using 50% of the CPU; saved for later estimates"


@pytest.mark.parametrize(
    "quote",
    [
        replace(QUOTE, device="T4"),
        replace(QUOTE, fits=False),
        replace(QUOTE, throughput=None),
        replace(QUOTE, throughput=a_throughput(100.0, Basis.MEASURED)),
        replace(QUOTE, throughput=a_throughput(100.0, Basis.SCALED)),
    ],
)
def test_what_needs_no_calibration_gets_none(tmp_path: Path, quote: MachineEstimate) -> None:
    meter = Meter(measured())
    assert run(tmp_path, meter, quote) == (False, [])
    assert meter.jobs == []


def test_a_job_with_an_image_of_its_own_says_nothing_of_this_pythons_framework(tmp_path: Path) -> None:
    meter: Any = Meter(measured())
    job = a_job(container=f"example.org/trainer@sha256:{'0' * 64}")
    assert not calibrate(job, QUOTE, meter, Settings(home=tmp_path), lambda: NOON, print)
    assert meter.jobs == []


@pytest.mark.parametrize(("others", "again"), [(0.1, False), (0.5, True)])
def test_a_calibration_beside_other_programs_is_made_anew(tmp_path: Path, others: float, again: bool) -> None:
    run(tmp_path, Meter(measured(others)))
    (row,) = load_calibrations(Settings(home=tmp_path).calibrations)
    scaled = replace(a_throughput(100.0, Basis.SCALED), evidence=(f"calibration of {row.measured_at:%Y-%m-%d %H:%M}",))
    assert run(tmp_path, Meter(measured()), replace(QUOTE, throughput=scaled))[0] is again


def test_where_it_cannot_be_measured_the_launch_goes_on(tmp_path: Path) -> None:
    done, lines = run(tmp_path, Meter(None))
    assert not done
    assert lines[-1] == "it could not be measured: the estimate is the model's"
    assert run(tmp_path, object()) == (False, [])
    assert load_calibrations(Settings(home=tmp_path).calibrations) == []
