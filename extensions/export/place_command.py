"""A job for a place that has machines of its own: estimated there, checked, and made into files."""

from __future__ import annotations

import platform
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.extensions.export.colab import colab_files, drive_folder
from trainplan.extensions.export.hugging_face import hugging_face_files
from trainplan.extensions.export.ibm import ibm_files
from trainplan.extensions.export.kaggle import kaggle_files
from trainplan.extensions.export.machine_job import MachineJob
from trainplan.extensions.export.session_plan import (
    MachineTime,
    check_data,
    check_job,
    check_storage,
    local_images,
    session_plan,
)
from trainplan.planner.api import planning
from trainplan.planner.api.data_steps import check_at_launch
from trainplan.planner.cli import options
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.estimate import device_kind
from trainplan.planner.forecast.free_sessions import fewest_sessions
from trainplan.planner.forecast.plan import Reason
from trainplan.planner.planning.build_plan import PlanQuery, nothing_left
from trainplan.pricing.catalog import find_device
from trainplan.pricing.devices import UnknownDeviceError
from trainplan.pricing.free_places import free_place, roomiest
from trainplan.providers.cloud.images import table

if TYPE_CHECKING:
    from trainplan.extensions.export.export_files import ExportFiles
    from trainplan.planner.forecast.plan import Candidate, Estimate
    from trainplan.workloads.job import TrainingJob


_PROVIDERS = {"hf": "huggingface"}
"""Names of the price list, where they are not those that are typed."""


class PlaceOptions(NamedTuple):
    """What was typed: the accelerator, the person's name there, the folder on Drive, the address that IBM's machine
    fetches from, and the weeks that sessions may take."""

    device: str | None
    user: str | None
    drive: str | None
    address: str | None
    weeks: int


def for_place(job: TrainingJob, name: str, folder: Path, typed: PlaceOptions) -> ExportFiles:
    """The files of a job for the place `name`. Raises PlanError, before anything is written."""
    check_job(job, name)
    most = roomiest(name)
    if most is not None:  # by sizes alone: images that no machine there has room for are not read
        check_data(job, most, local_images(job))
    job = check_at_launch(job)
    if most is not None:
        check_storage(job, most, local_images(job))
    ranked = _estimated(job, _PROVIDERS.get(name, name), typed.device)
    estimate = ranked.estimate
    if estimate.software is not None:  # where the person wrote none, what trains on that machine
        job = job.model_copy(update={"framework": estimate.software.framework})
    where = (folder.as_posix(), platform.node())
    limits = free_place(name, estimate.rental.instance_type)
    if limits is None:
        machine = _machine_job(job, ranked)
        if name == "hf":
            return hugging_face_files(machine, *where, typed.user)
        return ibm_files(machine, *where, typed.address)
    plan = session_plan(job, limits, _machine_time(estimate), typed.weeks)
    run_id = f"{SystemClock().now():%y%m%d}-{secrets.token_hex(4)}"
    if name == "kaggle":
        return kaggle_files(plan, run_id, *where, typed.user)
    return colab_files(plan, run_id, typed.drive or drive_folder(job.name, *where))


def _machine_job(job: TrainingJob, candidate: Candidate) -> MachineJob:
    estimate = candidate.estimate
    if estimate.software is None or estimate.software.runtime is None:
        raise BadInputError(f"nothing is known to train {job.name} there", "name another --device")
    software = table().software[estimate.software.runtime.software]
    return MachineJob(
        job=job,
        instance_type=estimate.rental.instance_type,
        region=candidate.placement.region,
        time=_machine_time(estimate),
        software=software.name,
        image=software.container.references[0],
        most_seconds=estimate.time.high.total_seconds(),
        images=local_images(job),
    )


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


def _estimated(job: TrainingJob, name: str, device: str | None) -> Candidate:
    """The machine of the place that the estimate advises where it costs nothing, else the cheapest GPU; of those with
    the device, if one is named.

    Raises BadInputError for a device that it lacks, NothingLeftError where none of its machines trains the job.
    """
    settings = options.settings()
    wanted = None if device is None else _device(device)
    asked = PlanQuery(
        providers=(name,), devices=(wanted,) if wanted else (), every_placement=True, limit=0, by_trainer=True
    )
    query, now = planning.completed(asked, settings)
    plan, _ = planning.planned(job, query, settings, now)
    if wanted is not None and not plan.ranking:
        reasons = {key.reason for key in plan.rejections if key.provider == name} - {Reason.DEVICE}
        why = "; ".join(sorted(reason.text for reason in reasons - {Reason.RETIRED}))
        raise BadInputError(
            f"{name} has no {wanted} for this job{f': {why}' if why else ''}",
            f"plan estimate JOB --provider {name} shows what it has",
        )
    if not plan.ranking:
        raise nothing_left(plan)
    free = fewest_sessions(plan.ranking, sys.maxsize if wanted else job.graph().macs)
    # Where it costs money, a GPU trains with every framework; who wants a TPU names it.
    return free or min(plan.ranking, key=lambda one: (_kind(one) != "gpu", one.cost_micro_usd))


def _kind(candidate: Candidate) -> str:
    return device_kind(candidate.estimate.rental.device)


def _device(spelling: str) -> str:
    try:
        return find_device(spelling).name
    except UnknownDeviceError as error:
        raise BadInputError(str(error), error.hint) from None
