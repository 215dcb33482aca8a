"""What containers and processes share: folders of this machine, its GPUs, and whether there is room."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainplan.providers.base import Check, Instance, LaunchRequest, PreflightState, RunId, VendorRequest
from trainplan.providers.errors import BadRequestError, MachineError
from trainplan.providers.hardware import GIB, HostHardware
from trainplan.providers.local.inside import make_folder
from trainplan.providers.local.offers import gpu_indices
from trainplan.providers.local.records import AttemptLocation, Records
from trainplan.providers.local.settings import LocalSettings
from trainplan.providers.local.store import FolderStore
from trainplan.providers.local.translate import Folders, image_folder
from trainplan.workloads.addresses import shown_address
from trainplan.workloads.pretrained import WEIGHTS_FILE, weights_address, weights_file

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.terms import Framework

LOG_LINES = 200
LOG_BYTES = 4 * 1024 * 1024
"""So much of the end of a log is read for these lines, however long they are."""
LEAST_MEMORY_BYTES = 1 * GIB
"""A trainer on TensorFlow that has loaded a small net; below this nothing starts."""
LEAST_DISK_BYTES = 200_000_000
# Two checkpoints are kept while a third is written, and the model; each holds weights and up to two moments, in fp32.
_COPIES, _SLOTS, _BYTES_PER_VALUE = 4, 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResource:
    """Something of ours that exists: an attempt's container or process. `client` is the label of who made it."""

    location: AttemptLocation
    kind: str
    created_at: datetime | None
    running: bool
    client: str | None = None
    deadline: datetime | None = None


class Host(Protocol):
    """What an attempt runs in: a container of one engine, or a process."""

    @property
    def name(self) -> str:
        """Where attempts run: `process`, `docker` or `podman`."""
        ...

    def checks(self, offer: Offer, framework: Framework | None) -> Sequence[Check]:
        """The lines of a preflight: of a job of this framework; None: of a job that is not known yet."""
        ...

    def prepare(self, request: LaunchRequest, report: Callable[[str], None]) -> None: ...

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        """What a launch would do, as command lines."""
        ...

    def launch(self, request: LaunchRequest) -> Instance:
        """Start the attempt, once for each token. Raises ProviderError."""
        ...

    def get(self, location: AttemptLocation) -> Instance:
        """The attempt as it is now. Raises MachineError."""
        ...

    def list_resources(self) -> Iterator[LocalResource]:
        """What runs have on this machine. Raises MachineError."""
        ...

    def stop(self, location: AttemptLocation) -> None:
        """Ask the trainer to save a checkpoint and end."""

    def delete(self, location: AttemptLocation) -> None:
        """End the attempt, if it still runs, and remove what it left but the run directory."""

    def logs(self, location: AttemptLocation) -> Sequence[str]:
        """The last lines of its output."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """`device_name` leads a spelling to the canonical device or None; `free_bytes` tells the room on a disk."""

    home: Path
    settings: LocalSettings
    environment: Mapping[str, str]
    machine: Callable[[], HostHardware]
    device_name: Callable[[str], str | None]
    free_bytes: Callable[[Path], int]
    memory_bytes: Callable[[], int | None]

    @property
    def records(self) -> Records:
        """The records of attempts on this machine."""
        return Records(self.home / "local" / "attempts")

    def folders(self, run_id: RunId) -> Folders:
        """The folders of a run, and of the data sets that runs share."""
        return Folders(run_dir=self.home / "runs" / run_id, datasets=self.home / "datasets")

    def store(self, run_id: RunId) -> FolderStore:
        """The run directory of a run."""
        return FolderStore(self.folders(run_id).run_dir)

    def gpus(self, offer: Offer) -> tuple[int, ...]:
        """The GPUs of an offer by number, none for the processor. Raises MachineError where they are not there."""
        values = gpu_indices(self.machine(), offer.device, offer.device_count, self.device_name)
        if values is None:
            raise MachineError(
                f"this machine has no {offer.device_count} x {offer.device}", hint="nvidia-smi lists what it has"
            )
        return values

    def make_room(self, request: LaunchRequest, job: TrainingJob) -> None:
        """Make the folders and write the job as its trainer reads it.

        Raises MachineError for a full disk, BadRequestError for images or weights that are not there.
        """
        folder = image_folder(request)
        if folder is not None and not (folder.is_absolute() and folder.is_dir()):
            raise BadRequestError(f"data.path: {folder} is no folder of this machine")
        address = weights_address(request.job)
        if address is not None:
            raise BadRequestError(
                f"model.weights: {shown_address(address)} is fetched by rented machines only",
                hint="download the file, and write its path as model.weights",
            )
        need, free = needed_bytes(request.job), self.free_bytes(self.home)
        if free < need:
            raise MachineError(
                f"the disk of {self.home} has {free / 1e9:.1f} GB free; this run needs about {need / 1e9:.1f} GB",
                hint="free some space, or set PLAN_HOME to a larger disk",
            )
        folders = self.folders(request.run_id)
        store = self.store(request.run_id)
        try:
            folders.datasets.mkdir(parents=True, exist_ok=True)
            make_folder(folders.run_dir, folders.run_dir / "attempts" / str(request.attempt) / "log")
        except OSError as error:
            raise MachineError(
                f"{folders.run_dir}: {error.strerror}", hint="set PLAN_HOME to a folder of yours"
            ) from error
        store.put("job.json", job.to_json().encode())
        weights = weights_file(request.job)
        if weights is not None and WEIGHTS_FILE not in store.sizes():
            if not weights.is_file():
                raise BadRequestError(f"model.weights: {weights} is no file of this machine")
            store.put_file(WEIGHTS_FILE, weights)


def needed_bytes(job: TrainingJob) -> int:
    """Disk that a run takes for checkpoints, model and a data set it downloads."""
    data_set = job.known_data
    checkpoints = job.graph().parameters * _BYTES_PER_VALUE * _SLOTS * _COPIES
    return LEAST_DISK_BYTES + checkpoints + (2 * data_set.download_bytes if data_set else 0)


def free_bytes(folder: Path) -> int:
    """Room on the disk that a folder is on, or will be on once it is made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def room_checks(here: Here, extra_bytes: int = 0) -> tuple[Check, Check]:
    """Memory and disk as they are now."""
    free, memory = here.free_bytes(here.home), here.memory_bytes()
    need = LEAST_DISK_BYTES + extra_bytes
    disk = Check(
        name="disk",
        state=PreflightState.OK if free >= need else PreflightState.REFUSED,
        detail=f"{free / 1e9:.1f} GB free at {here.home}, about {need / 1e9:.1f} GB needed",
        fix="" if free >= need else "free some space, or set PLAN_HOME to a larger disk",
    )
    if memory is None:
        return disk, Check(name="memory", state=PreflightState.UNKNOWN, detail="this system does not tell")
    enough = memory >= LEAST_MEMORY_BYTES
    return disk, Check(
        name="memory",
        state=PreflightState.OK if enough else PreflightState.REFUSED,
        detail=f"{memory / GIB:.1f} GiB available",
        fix="" if enough else "close something; a trainer needs at least 1 GiB",
    )
