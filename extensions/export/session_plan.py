"""A job at a place that costs nothing and ends its sessions: whether it fits there, and in how many sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainplan.extensions.export.export_files import Images
from trainplan.planner.datasets.pack import scan
from trainplan.planner.datasets.storage_costs import format_bytes
from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.free_sessions import checkpoint_bytes, kept_bytes
from trainplan.planner.forecast.place_refusals import place_refusal
from trainplan.planner.planning.own_networks import check_exported
from trainplan.pricing.free_places import FreePlace
from trainplan.providers.cloud.trainer_wheel import WHEEL
from trainplan.workloads.job import Framework, TrainingJob
from trainplan.workloads.sessions.needed import SessionRules, sessions_needed
from trainplan.workloads.sessions.session import JOB
from trainplan.workloads.terms import DataName
from trainplan.workloads.wording import Option

_GB = 10**9
_HOUR = 3600.0
_PACKAGES = {Framework.TENSORFLOW: "tensorflow", Framework.JAX: "jax", Framework.TORCH: "torch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTime:
    """What the estimate says of a job on one machine of a place, in one go: `device` by the catalog's name."""

    device: str
    device_count: int
    setup_seconds: float
    train_seconds: float
    images_per_second: float
    basis: str

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU."""
        return self.device.startswith("TPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """A job in sessions of a place. `limits` are the place's, `time` is that of its machine, `images` what of this
    computer travels with the job, `sessions` how many are expected."""

    job: TrainingJob
    limits: FreePlace
    time: MachineTime
    images: Images | None
    sessions: int

    @property
    def rules(self) -> SessionRules:
        """What the place's sessions take from the training."""
        return session_rules(self.job, self.limits, self.time)

    @property
    def seconds(self) -> float:
        """All sessions together."""
        return _together_seconds(self.rules, self.time, self.sessions)

    @property
    def device(self) -> str:
        """The accelerators of the place, in words."""
        time = self.time
        return time.device if time.device_count == 1 else f"{time.device_count} x {time.device}"

    def fields(self, run_id: str, following: str) -> Mapping[str, Any]:
        """What the sessions read (workloads/sessions/session.py). `following` says how the next session begins."""
        packages = [_PACKAGES[self.job.framework], "keras", "numpy", "pydantic", "PIL"]
        return {
            "run_id": run_id,
            "place": self.limits.provider,
            "name": self.job.name,
            "device": self.device,
            "framework": str(self.job.framework),
            "packages": [*packages, *(["sklearn"] if self.job.data.name is DataName.DIGITS else [])],
            "session_seconds": self.rules.longest,
            "planned_seconds": self.rules.mean,
            "setup_seconds": self.rules.setup,
            "checkpoint_seconds": self.rules.checkpoint,
            "sessions": self.sessions,
            "next": following,
            "trainer": WHEEL,
            "files": [JOB, WHEEL],
            "estimate": {
                "seconds": self.seconds,
                "images_per_second": self.time.images_per_second,
                "basis": self.time.basis,
            },
        }


def session_plan(job: TrainingJob, limits: FreePlace, time: MachineTime, weeks: int = 1) -> SessionPlan:
    """The job in sessions of the place. Its sessions together may take so many `weeks`.

    Raises BadInputError for data or checkpoints that the place cannot keep, and for more hours than the weeks have.
    """
    images = local_images(job)
    check_storage(job, limits, images)
    rules = session_rules(job, limits, time)
    try:
        sessions = sessions_needed(time.train_seconds, rules)
    except ValueError as error:
        raise BadInputError(f"{limits.provider}: {error}", "name another place") from None
    hours = _together_seconds(rules, time, sessions) / _HOUR
    if hours > weeks * limits.weekly_hours:
        needed = math.ceil(hours / limits.weekly_hours)
        raise BadInputError(
            f"{limits.provider}: {job.name} takes {sessions} sessions, {hours:,.0f} h together, and a week has "
            f"{limits.weekly_hours:g} h there",
            f"{Option.WEEKS(needed)} spreads them over so many weeks; fewer epochs take less",
        )
    return SessionPlan(job=job, limits=limits, time=time, images=images, sessions=sessions)


def session_rules(job: TrainingJob, limits: FreePlace, time: MachineTime) -> SessionRules:
    """What the place's sessions take from this training."""
    checkpoint_seconds = job.checkpoint_every.total_seconds()
    return SessionRules(
        limits.session_hours * _HOUR, limits.planned_hours * _HOUR, time.setup_seconds, checkpoint_seconds
    )


def _together_seconds(rules: SessionRules, time: MachineTime, sessions: int) -> float:
    return time.setup_seconds + time.train_seconds + (sessions - 1) * rules.each_further


def exported_job(job: TrainingJob) -> bytes:
    """The job as it travels: the folder of its images is where the session unpacks them, not that of this computer."""
    if job.data.path is not None:
        job = job.model_copy(update={"data": job.data.model_copy(update={"path": "images"})})
    return job.to_json().encode()


def check_job(job: TrainingJob, name: str) -> None:
    """Raises BadInputError for what no machine of the place `name` can be given."""
    check_exported(job)
    refusal = place_refusal(job, name)
    if refusal is not None:
        raise BadInputError(refusal.message, refusal.hint)


def local_images(job: TrainingJob) -> Images | None:
    """The folder of this computer that the job trains on; None where it names a data set. Raises PlanError."""
    return None if job.data.path is None else Images(source=Path(job.data.path), items=scan(Path(job.data.path)).items)


def check_data(job: TrainingJob, limits: FreePlace, images: Images | None) -> int:
    """The bytes of the data. Raises BadInputError where the place cannot keep them."""
    data = images.size_bytes if images is not None else job.data_bytes or 0
    if data > limits.data_gb * _GB:
        raise BadInputError(
            f"{limits.provider} keeps {limits.data_gb} GB, and the data of {job.name} are {format_bytes(data)}",
            "train on a part of the images, or rent a machine: plan estimate",
        )
    return data


def check_storage(job: TrainingJob, limits: FreePlace, images: Images | None) -> None:
    """Data beside checkpoints where one store keeps both (Drive); apart where the place has two (Kaggle). Raises
    BadInputError where there is no room for them."""
    data = check_data(job, limits, images)
    checkpoint = checkpoint_bytes(job)
    kept = kept_bytes(job)
    room = limits.storage_gb * _GB
    if kept > room:
        raise BadInputError(
            f"{limits.provider} keeps {limits.storage_gb} GB, and a checkpoint of {job.name} is "
            f"{format_bytes(checkpoint)}: two, one that is being written, and the model are {format_bytes(kept)}",
            "train a smaller network, or rent a machine: plan estimate",
        )
    if limits.has_one_store and data + kept > room:
        raise BadInputError(
            f"Drive keeps {limits.storage_gb} GB, and {job.name} needs {format_bytes(data + kept)} there: "
            f"{format_bytes(data)} of data and {format_bytes(kept)} of checkpoints and model",
            "train on a part of the images or a smaller network, or rent a machine: plan estimate",
        )
