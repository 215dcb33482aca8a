"""What a job would take on this machine: from its own runs where there are some, else from the model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from planner.estimate import START_SECONDS, Workload, run_time
from planner.measurements import OwnMeasurement, load_measurements
from planner.plan import MachineEstimate, RunTime
from planner.throughput.predict import Question
from planner.throughput.values import THIS_MACHINE, Basis, Throughput
from pricing.devices import CPU_DEVICE, UnknownDeviceError
from pricing.money import PER_SECOND, UsdPerHour, amount
from providers.local.offers import canonical_device
from workloads.memory import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.settings import Settings
    from planner.throughput.predict import Predictor
    from pricing.devices import Device, DeviceTable
    from providers.local.machine import Machine
    from workloads.job import TrainingJob

# An own run repeats within this factor at four times out of five; the spread over repeats of one configuration
# in the shipped measurements is 3.7 % in the median (profet EC2 data, medians of nine).
OWN_SPREAD = 1.08
# Collecting the model and removing the container on this machine: an allowance until a run has told.
LOCAL_END_SECONDS = 5


def shape_of(job: TrainingJob) -> str:
    """Names what makes two jobs run at the same speed: net, batch, precision, XLA, framework, data.

    Seed, epochs, learning rate and names are left out.
    """
    parts = {
        "net": [asdict(layer) | {"kind": type(layer).__name__} for layer in job.net().layers],
        "image": [job.image_size, job.channels],
        "batch": job.global_batch_size,
        "precision": job.precision,
        "xla": job.xla,
        "framework": job.framework,
        "optimizer": job.optimizer.name,
        "data": job.data.model_dump(mode="json"),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def quote_this_machine(
    job: TrainingJob, machine: Machine, settings: Settings, predictor: Predictor, devices: DeviceTable
) -> MachineEstimate:
    """Time and cost here. Where nothing can be predicted, the reason stands in place of the time."""
    work = Workload(job)
    device, count = _gpus(machine, devices, job.global_batch_size)
    name = device.name if device else CPU_DEVICE
    fits, reason = _fits(work, machine, device, count)
    own = own_measurement(job, machine.fingerprint, load_measurements(settings.measurements))
    answer = _own_throughput(own) if own else _predicted(job, machine, device, count, predictor)
    time = None
    if answer is not None and fits:
        time = _own_time(work, own, answer) if own else _first_time(work, answer)
    cost = amount(UsdPerHour(settings.usd_per_hour), time.total, PER_SECOND) if time else None
    return MachineEstimate(
        name=machine.cpu_name,
        device=name,
        device_count=count,
        throughput=answer,
        time=time,
        usd_per_hour=settings.usd_per_hour,
        cost_usd=cost,
        fits=fits,
        reason=reason if not fits else "" if answer else "no throughput can be predicted for it",
    )


def own_measurement(job: TrainingJob, fingerprint: str, rows: Sequence[OwnMeasurement]) -> OwnMeasurement | None:
    """The newest measurement of this shape on this machine; a whole run tells more than a short measuring run."""
    shape = shape_of(job)
    fitting = [row for row in rows if row.shape == shape and row.machine == fingerprint]
    whole = [row for row in fitting if row.setup_seconds is not None]
    told = whole or fitting
    return told[-1] if told else None


def _gpus(machine: Machine, devices: DeviceTable, batch: int) -> tuple[Device | None, int]:
    """The GPUs to train on, and how many the batch splits over; (None, 1): the processor.

    Sets as the local provider offers them: all GPUs of a kind, or a power of two of them.
    """
    if not machine.gpus:
        return None, 1
    name = machine.gpus[0].name
    device = devices.get(canonical_device(name, lambda spelling: _known(spelling, devices)))
    if device is None:
        return None, 1
    alike = sum(gpu.name == name for gpu in machine.gpus)
    counts = [alike, *(1 << power for power in reversed(range(alike.bit_length())))]
    return device, next(count for count in counts if batch % count == 0)


def _known(spelling: str, devices: DeviceTable) -> str | None:
    try:
        return devices.find(spelling).name
    except UnknownDeviceError:
        return None


def _fits(work: Workload, machine: Machine, device: Device | None, count: int) -> tuple[bool, str]:
    memory_gib = machine.gpus[0].memory_gib if device else machine.memory_gib
    needed_gib = work.device_bytes(work.job.global_batch_size // count) / GIB
    if needed_gib > memory_gib:
        return False, f"needs {needed_gib:.1f} GiB of memory, has {memory_gib:.1f}"
    return True, ""


def _own_throughput(own: OwnMeasurement) -> Throughput:
    rate = own.images_per_second
    return Throughput(
        images_per_second=rate,
        low=rate / OWN_SPREAD,
        high=rate * OWN_SPREAD,
        basis=Basis.MEASURED,
        evidence=(f"run {own.run_id} of {own.measured_at:%Y-%m-%d}",),
    )


def _predicted(
    job: TrainingJob, machine: Machine, device: Device | None, count: int, predictor: Predictor
) -> Throughput | None:
    answer = predictor.predict(
        Question(
            net=job.net(),
            device=device.name if device else THIS_MACHINE,
            device_count=count,
            interconnect=device.interconnect if device else None,
            vcpus=None if device else machine.vcpus,
            batch_per_device=max(1, job.global_batch_size // count),
            precision=job.precision,
            xla=job.xla,
            framework=job.framework,
        )
    )
    return answer if isinstance(answer, Throughput) else None


def _first_time(work: Workload, throughput: Throughput) -> RunTime:
    setup = timedelta(seconds=START_SECONDS + work.download_seconds)
    return run_time(work, throughput, setup, timedelta(seconds=LOCAL_END_SECONDS))


def _own_time(work: Workload, own: OwnMeasurement, throughput: Throughput) -> RunTime:
    """The whole run, with what an earlier one took beside its steps."""
    fallback = _first_time(work, throughput)
    setup = fallback.setup if own.setup_seconds is None else timedelta(seconds=own.setup_seconds)
    beside = timedelta(seconds=(own.per_epoch_seconds or 0.0) * work.job.epochs)
    return RunTime(
        setup=setup,
        train=fallback.train + beside,
        train_low=fallback.train_low + beside,
        train_high=fallback.train_high + beside,
        after=fallback.after if own.after_seconds is None else timedelta(seconds=own.after_seconds),
    )
