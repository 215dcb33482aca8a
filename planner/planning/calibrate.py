"""The first launch on this machine measures its processor, before anybody is asked whether to launch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from trainplan.planner.planning.calibration import (
    calibration_job,
    calibration_of,
    evidence_of,
    load_calibrations,
    newest,
    processor_key,
)
from trainplan.planner.planning.own_measurements import MOST_OTHERS
from trainplan.planner.planning.own_rows import add_row
from trainplan.planner.planning.processor import cores_of, read_cpuinfo
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import CPU_DEVICE

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import MachineEstimate
    from trainplan.planner.settings import Settings
    from trainplan.providers.base import Provider
    from trainplan.providers.hardware import HostHardware, MeasuredSpeed
    from trainplan.workloads.job import TrainingJob


@runtime_checkable
class SpeedMeter(Protocol):
    """What this machine's provider can do besides."""

    @property
    def machine(self) -> HostHardware:
        """Return this computer's hardware."""
        ...

    def can_measure_speed(self, job: TrainingJob) -> bool:
        """Whether the job's framework is at hand."""
        ...

    def measure_speed(self, job: TrainingJob) -> MeasuredSpeed | None:
        """Trains the job for two seconds; None where it fails."""
        ...


def calibrate(
    job: TrainingJob,
    quote: MachineEstimate,
    provider: Provider,
    settings: Settings,
    now: Callable[[], datetime],
    say: Callable[[str], None],
) -> bool:
    """Measures this processor where the estimate `quote` lacks it, and keeps the result; whether it did.

    Raises ThisMachineError where the result cannot be kept.
    """
    if not isinstance(provider, SpeedMeter):
        return False
    key = processor_key(cores_of(read_cpuinfo()), provider.machine)
    if not _is_needed(job, quote, settings, key) or quote.throughput is None:
        return False
    if not provider.can_measure_speed(job):
        return False
    say("measuring how fast this processor trains: two seconds of steps, once")
    short = calibration_job(job, quote.throughput.images_per_second)
    speed = provider.measure_speed(short)
    if speed is None:
        say("it could not be measured: the estimate is the model's")
        return False
    row = calibration_of(speed, key, short, now())
    add_row(settings.calibrations, row)
    busy = f", with other programs using {row.others:.0%} of the CPU" if row.others >= _TOLD_FROM else ""
    say(f"{speed.images_per_second:,.0f} images/s{busy}; saved for later estimates")
    return True


def _is_needed(job: TrainingJob, quote: MachineEstimate, settings: Settings, key: str) -> bool:
    """Whether a launch should measure this processor first: the job fits it, neither the job nor another under the same
    framework was measured here, and no calibration under its framework is there of a time when it was idle enough."""
    if quote.device != CPU_DEVICE or not quote.fits or quote.throughput is None:
        return False
    # What trains in a container is another framework than that of this Python; a script is no net that can be timed.
    if job.script is not None or job.container is not None:
        return False
    if quote.throughput.basis is Basis.MODELLED:
        return True
    row = newest(load_calibrations(settings.calibrations), key, job.framework)
    return quote.throughput.evidence == evidence_of(row) and row is not None and row.others > MOST_OTHERS


_TOLD_FROM = 0.05
