"""Our values into what is run here, and what is seen here into our values. Pure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from trainplan.providers.agent.container import MOST_PROCESSES, container_memory_gib, shared_memory_gib
from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_RUN,
    Instance,
    InstanceState,
    LaunchRequest,
    RunId,
)
from trainplan.providers.cloud.exit_codes import how_it_ended, may_be_a_limit
from trainplan.providers.cloud.labels import project_of
from trainplan.providers.hardware import GIB
from trainplan.providers.local.api import Container, ContainerSpec, ContainerStatus, Mount
from trainplan.providers.local.outside import CERTIFICATES_FILE, Outside, certificate_variables
from trainplan.providers.local.records import AttemptKey, AttemptLocation
from trainplan.workloads.pretrained import published_weights

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

GRACE_SECONDS = 60
"""Between the asking and the killing: time enough to write a checkpoint of the largest net to a slow disk."""

RUN_DIR = "/run-dir"
DATA_DIR = "/data"
IMAGES_DIR = "/images"
_TRAINER = ("-m", "trainplan.workloads.trainer")
_UNTIL = (Path(__file__).parent / "data" / "until.sh").read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where things are on this machine: the run directory, and the data sets that runs share."""

    run_dir: Path
    datasets: Path


def trainer_arguments(request: LaunchRequest, run_dir: str, data_dir: str) -> tuple[str, ...]:
    """The trainer's command line behind its program."""
    return (
        *("--job", f"{run_dir}/job.json", "--run-dir", run_dir, "--attempt", str(request.attempt)),
        *("--data-dir", data_dir, "--deadline-unix", f"{request.deadline.timestamp():.0f}"),
        *request.measuring_arguments,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a container has of this machine: its GPUs, what leads to the world outside, its memory in GiB."""

    gpus: tuple[int, ...] = ()
    outside: Outside = field(default_factory=Outside)
    memory_gib: float


def container_spec(request: LaunchRequest, image: str, folders: Folders, setting: Setting) -> ContainerSpec:
    """The container of an attempt: labelled, held to its deadline from within, and cut off where nothing is fetched.

    It is held to what a rented machine's is (docs/container.md).
    """
    outside = setting.outside if fetches(request) else Outside()
    key = AttemptKey(run_id=request.run_id, attempt=request.attempt)
    deadline = f"{request.deadline.timestamp():.0f}"
    certificates = _certificates(request, outside)
    most_gib = container_memory_gib(int(setting.memory_gib * GIB))
    command = ("sh", "-c", _UNTIL(encoding="utf-8"), "until", deadline, str(GRACE_SECONDS), "python", *_TRAINER)
    return ContainerSpec(
        name=key.name,
        image=image,
        command=(*command, *trainer_arguments(request, RUN_DIR, DATA_DIR)),
        labels={
            LABEL_RUN: request.run_id,
            LABEL_ATTEMPT: str(request.attempt),
            LABEL_DEADLINE: request.deadline.isoformat(),
            LABEL_CLIENT: request.client,
            **project_of(request),
        },
        # The user of the container has no home in the image, and no name: getpass and PyTorch ask for one.
        environment={"HOME": "/tmp", "USER": "trainplan", **(certificate_variables() if certificates else {})},
        private=outside.variables,
        mounts=(
            Mount(source=str(folders.run_dir), target=RUN_DIR),
            Mount(source=str(folders.datasets), target=DATA_DIR),
            *_image_folder(request),
            *certificates,
            *(Mount(source=folder, target=folder, read_only=True) for folder in outside.folders),
        ),
        network=fetches(request),
        uses_host_network=outside.is_on_this_computer,
        vcpus=request.vcpus,
        memory_gib=min(request.memory_gib or most_gib, most_gib),
        shm_gib=shared_memory_gib(setting.memory_gib),
        processes=MOST_PROCESSES,
        gpus=setting.gpus,
    )


def _certificates(request: LaunchRequest, outside: Outside) -> tuple[Mount, ...]:
    """A person's own image has certificates of its own, unless the person names some."""
    if outside.certificates is None or (request.job.container and not outside.has_named_certificates):
        return ()
    return (Mount(source=str(outside.certificates.resolve()), target=CERTIFICATES_FILE, read_only=True),)


def job_in_container(job: TrainingJob) -> TrainingJob:
    """The job as the trainer in the container reads it: a folder of images is where it is mounted."""
    if job.data.path is None:
        return job
    return job.model_copy(update={"data": job.data.model_copy(update={"path": IMAGES_DIR})})


def process_request(
    request: LaunchRequest, program: tuple[str, ...], folders: Folders, gpus: tuple[int, ...]
) -> dict[str, Any]:
    """What the supervisor of a process reads (`supervise.REQUEST`)."""
    arguments = trainer_arguments(request, folders.run_dir.as_posix(), folders.datasets.as_posix())
    return {
        "command": [*program, *arguments],
        "environment": {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)) or "-1", "PYTHONUNBUFFERED": "1"},
        "deadline_unix": request.deadline.timestamp(),
        "grace_seconds": GRACE_SECONDS,
        "vcpus": request.vcpus,
        "log": str(folders.run_dir / "attempts" / str(request.attempt) / "log" / "trainer.log"),
    }


def own_trainer() -> tuple[str, ...]:
    """The trainer in this Python; `-P` keeps modules of the working directory out of it."""
    return (sys.executable, "-P", *_TRAINER)


def fetches(request: LaunchRequest) -> bool:
    """Whether the trainer needs the network: for a data set or weights that it downloads, or an address."""
    data_set = request.job.known_data
    downloads = data_set is not None and data_set.download_bytes > 0
    if request.job.script is not None:
        return True
    return request.job.data.url is not None or downloads or published_weights(request.job) is not None


def image_folder(request: LaunchRequest) -> Path | None:
    """The folder of this machine that the job trains on, if any."""
    path = request.job.data.path
    return None if path is None else Path(path)


def instance(
    location: AttemptLocation, container: Container, *, asked_to_stop: bool, output: Callable[[], str]
) -> Instance:
    """The instance that a container is; `output` reads its last lines, and is asked where it failed."""
    alive = Instance(
        ref=location.ref,
        state=_state(container.status, asked_to_stop=asked_to_stop),
        run_id=location.key.run_id,
        attempt=location.key.attempt,
        launched_at=container.created_at,
    )
    if alive.state is not InstanceState.ENDED:
        return alive
    return ended_instance(alive, container, output() if may_be_a_limit(container.exit_code) else "")


def ended_instance(alive: Instance, container: Container, output: str = "") -> Instance:
    """The same instance with how its container ended; `output` has its last lines."""
    end, reason = how_it_ended(container.exit_code, out_of_memory=container.out_of_memory, output=output)
    reason = f"{reason} ({container.error})" if container.error else reason
    return replace(alive, exit_code=container.exit_code, end=end, reason=reason)


def is_ours(container: Container) -> AttemptKey | None:
    """The attempt that the labels of a container name; None: it is not of our making."""
    run_id, attempt = container.labels.get(LABEL_RUN), container.labels.get(LABEL_ATTEMPT, "")
    return AttemptKey(run_id=RunId(run_id), attempt=int(attempt)) if run_id and attempt.isdigit() else None


def deadline_of(container: Container) -> datetime | None:
    """When the labels say that it ends itself."""
    try:
        return datetime.fromisoformat(container.labels.get(LABEL_DEADLINE, ""))
    except ValueError:
        return None


def _image_folder(request: LaunchRequest) -> tuple[Mount, ...]:
    folder = image_folder(request)
    return () if folder is None else (Mount(source=str(folder), target=IMAGES_DIR, read_only=True),)


def _state(status: ContainerStatus, *, asked_to_stop: bool) -> InstanceState:
    match status:
        case ContainerStatus.CREATED:
            return InstanceState.PENDING
        case ContainerStatus.RUNNING:
            return InstanceState.STOPPING if asked_to_stop else InstanceState.RUNNING
        case ContainerStatus.EXITED:
            return InstanceState.ENDED
        case _:
            assert_never(status)
