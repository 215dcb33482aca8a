"""A job for a place that has machines of its own: estimated there, checked, and made into files."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from planner.cli import options, planning
from planner.cli.data_steps import check_at_launch
from planner.clock import SystemClock
from planner.errors import BadInputError, ThisMachineError
from planner.export.colab import colab_files
from planner.export.kaggle import kaggle_files
from planner.export.session_plan import MachineTime, check_job, session_plan
from planner.forecast.plan import REASON_TEXTS, Reason
from planner.planning.build_plan import PlanQuery, nothing_left
from pricing.catalog import find_device
from pricing.devices import Architecture, UnknownDeviceError
from pricing.free_places import free_place

if TYPE_CHECKING:
    from planner.export.export_files import ExportFiles
    from planner.forecast.plan import Estimate
    from workloads.job import TrainingJob


class PlaceOptions(NamedTuple):
    """What was typed: the accelerator, the person's name there, the folder on Drive, and the weeks it may take."""

    device: str | None
    user: str | None
    drive: str | None
    weeks: int


def for_place(job: TrainingJob, name: str, folder: Path, typed: PlaceOptions) -> ExportFiles:
    """The files of a job for the place `name`. Raises PlanError, before anything is written."""
    check_job(job, name)
    job = check_at_launch(job)
    estimate = _estimated(job, name, typed.device)
    if estimate.software is not None:  # where the person wrote none, what trains on that machine
        job = job.model_copy(update={"framework": estimate.software.framework})
    limits = free_place(name, estimate.rental.instance_type)
    if limits is None:
        raise ThisMachineError(f"the limits of {name} are not in the table", "install trainplan again")
    plan = session_plan(job, limits, _machine_time(estimate), typed.weeks)
    run_id = f"{SystemClock().now():%y%m%d}-{secrets.token_hex(4)}"
    if name == "kaggle":
        return kaggle_files(plan, run_id, folder.as_posix(), typed.user)
    return colab_files(plan, run_id, typed.drive)


def _machine_time(estimate: Estimate) -> MachineTime:
    """In one go: `time` of the estimate has what its sessions add, and the waits for another week."""
    once = estimate.steady
    return MachineTime(
        device=estimate.rental.device,
        device_count=estimate.rental.device_count,
        setup_seconds=once.setup.total_seconds(),
        train_seconds=(once.train + once.after).total_seconds(),
        images_per_second=estimate.throughput.images_per_second,
        basis=str(estimate.throughput.basis),
    )


def _estimated(job: TrainingJob, name: str, device: str | None) -> Estimate:
    """The fastest machine of the place (a GPU before a TPU), or that with the device.

    Raises BadInputError for a device that it lacks, NothingLeftError where none of its machines trains the job.
    """
    settings = options.settings()
    wanted = None if device is None else _device(device)
    asked = PlanQuery(providers=(name,), devices=(wanted,) if wanted else (), every_placement=True, limit=0)
    query, now = planning.completed(asked, settings)
    plan, _ = planning.planned(job, query, settings, now)
    if wanted is not None and not plan.ranking:
        reasons = {key.reason for key in plan.rejections if key.provider == name} - {Reason.DEVICE}
        why = "; ".join(sorted(REASON_TEXTS[reason] for reason in reasons - {Reason.RETIRED}))
        raise BadInputError(
            f"{name} has no {wanted} for this job{f': {why}' if why else ''}",
            f"plan estimate JOB --provider {name} shows what it has",
        )
    if not plan.ranking:
        raise nothing_left(plan)
    estimates = [candidate.estimate for candidate in plan.ranking]
    # A GPU trains with every framework; who wants a TPU names it.
    return min(estimates, key=lambda estimate: (_is_tpu(estimate.rental.device), estimate.time.total))


def _is_tpu(device: str) -> bool:
    """Whether a device of the catalog is a TPU."""
    return find_device(device).architecture is Architecture.TPU


def _device(spelling: str) -> str:
    try:
        return find_device(spelling).name
    except UnknownDeviceError as error:
        raise BadInputError(str(error), error.hint) from None
