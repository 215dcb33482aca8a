"""What a job would take on a device that somebody names and no offer of the ranking has: a card in the lab, say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.planner.forecast.allowances import START_SECONDS
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.forecast.plan import Candidate, MachineEstimate, Reason
from trainplan.planner.planning.processor import Cores
from trainplan.planner.planning.this_machine import first_time, fits_on, predicted_on
from trainplan.providers.hardware import Gpu, HostHardware
from trainplan.workloads.runtimes import runtime_of, runtimes_for
from trainplan.workloads.terms import Precision

if TYPE_CHECKING:
    from trainplan.planner.throughput.predict import Predictor
    from trainplan.pricing.devices import Device, DeviceTable
    from trainplan.workloads.job import TrainingJob

_HOST = "x86_64"
"""What workstations are, and nearly all rented machines with a GPU."""


def quote_named_devices(
    job: TrainingJob,
    asked: tuple[Iterable[str], Sequence[int]],
    ranking: Iterable[Candidate],
    predictor: Predictor,
    devices: DeviceTable,
) -> tuple[MachineEstimate, ...]:
    """The job on each GPU that was asked for and that the ranking lacks, as cards of the person's own: they have no
    price. `asked` are names, and how many cards of one machine (empty: one)."""
    named, counts = asked
    ranked = (devices.get(candidate.estimate.rental.device) for candidate in ranking)
    # A name such as V100 means a group of cards: offers of one of them answer.
    groups = {device.group for device in ranked if device is not None}
    known = (devices.get(name) for name in dict.fromkeys(named))
    gpus = [gpu for gpu in known if gpu is not None and not gpu.tpu_generation and gpu.group not in groups]
    return tuple(_quote(job, gpu, count, predictor) for gpu in gpus for count in counts or (1,))


def _quote(job: TrainingJob, device: Device, count: int, predictor: Predictor) -> MachineEstimate:
    software = runtime_of(job, device.architecture, _HOST, device.compute_capability)
    changed = software is not None and software.framework is not job.framework
    work = Workload(job.model_copy(update={"framework": software.framework}) if software and changed else job)
    gpu = Gpu(index=0, name=device.name, memory_gib=device.memory_gib or 0.0)
    machine = HostHardware(system="linux", architecture=_HOST, cpu_name="", vcpus=1, memory_gib=0.0, gpus=(gpu,))
    fits, reason = fits_on(work, machine, device, count)
    if job.micro_batch_size % count:
        reason = Reason.BATCH_NOT_DIVISIBLE.text
    if not software:
        reason = _no_software(job, device)
    elif job.precision is Precision.AMP_BF16 and not device.has_bf16:
        reason = Reason.NO_BF16.text
    answer = None if reason else predicted_on(work, machine, (device, count), predictor, Cores())
    cards = device.name if count == 1 else f"{count} x {device.name}"
    return MachineEstimate(
        name=f"{cards} with {work.job.framework}" if changed else cards,
        device=device.name,
        device_count=count,
        throughput=answer,
        time=first_time(work, answer, START_SECONDS) if answer else None,
        usd_per_hour=Decimal(0),
        cost_usd=None,
        fits=fits,
        reason=reason or ("" if answer else "no throughput can be predicted for it"),
    )


def _no_software(job: TrainingJob, device: Device) -> str:
    """Say why nothing is known to train the job on the device, and what would."""
    known = runtimes_for(device.architecture, _HOST, device.compute_capability)
    others = dict.fromkeys(row.framework for row in known if row.framework != job.framework)
    instead = f"; framework: {' or '.join(others)} would" if others else ""
    return f"no known {job.framework} trains on {device.architecture.capitalize()}{instead} (docs/what-runs-where.md)"
