"""A launch as the `sbatch` that makes its job. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_RUN,
    LaunchRequest,
    RunId,
    VendorRequest,
)
from trainplan.providers.cloud.labels import labels_of
from trainplan.providers.cloud.launch import resolution_of
from trainplan.providers.errors import BadRequestError
from trainplan.providers.slurm.offers import gres_in
from trainplan.providers.slurm.settings import PROVIDER, SlurmSettings
from trainplan.providers.values import Resolution

GRACE_SECONDS = 60
"""Between the deadline and the end of the job: a trainer that has not ended by then is cancelled."""
MOST_LOSSES = 3
"""How often a job begins again after the loss of a rank."""
PAUSE_SECONDS = 20
"""Before a job begins again after its first loss; four times as long after each further one. Also between two tries of
what the controller or the shared disk did not take."""
SIGNAL_SECONDS = 120
"""So long before Slurm's time limit the trainer gets TERM: time to write a checkpoint (`sbatch --signal`)."""
SBATCH = "sbatch"
LABELS = (LABEL_RUN, LABEL_ATTEMPT, LABEL_DEADLINE, LABEL_CLIENT)
_NAME = re.compile(r"trainplan-(?P<run>.+)-(?P<attempt>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmResolution(Resolution):
    """`time_minutes` is Slurm's own limit: to the deadline and its grace, as far as the partition lets a job run."""

    time_minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptName:
    """The name of an attempt's job, by which it is found again: `trainplan-RUN-ATTEMPT`."""

    run_id: RunId
    attempt: int

    @property
    def text(self) -> str:
        """The name as Slurm has it."""
        return f"trainplan-{self.run_id}-{self.attempt}"


def attempt_name(text: str) -> AttemptName | None:
    """The inverse of `AttemptName.text`; None for a name that is not of our making."""
    match = _NAME.fullmatch(text)
    return AttemptName(run_id=RunId(match["run"]), attempt=int(match["attempt"])) if match else None


def run_dir(settings: SlurmSettings, run_id: RunId) -> str:
    """Where a run's directory is on the shared file system."""
    return f"{settings.directory}/runs/{run_id}"


def sbatch_request(request: LaunchRequest, settings: SlurmSettings) -> VendorRequest:
    """The call that submits the attempt. Raises BadRequestError for a request that was not resolved, and
    for a batch that does not divide over its nodes."""
    minutes = resolution_of(request, SlurmResolution).time_minutes
    name = AttemptName(run_id=request.run_id, attempt=request.attempt).text
    log = f"{run_dir(settings, request.run_id)}/attempts/{request.attempt}/log/trainer.log"
    comment = ";".join(f"{key}={quote(value, safe=':')}" for key, value in labels_of(request).items())
    nodes = _nodes(request)
    arguments = [
        "--parsable",
        f"--job-name={name}",
        f"--comment={comment}",
        f"--partition={request.offer.region}",
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        *device_words(request.offer.instance_type, request.offer.vcpus, request.offer.memory_gib),
        f"--time={minutes}",
        f"--signal=TERM@{SIGNAL_SECONDS}",
        "--requeue",
        "--open-mode=append",
        f"--output={log}",
        "--chdir=/",
        *settings.flags,
    ]
    parameters: dict[str, object] = {"arguments": arguments, "script": _script(request, settings)}
    return VendorRequest(service=PROVIDER, operation=SBATCH, parameters=parameters)


def labels_in(comment: str) -> dict[str, str]:
    """The labels in a job's comment; {} for a comment of somebody else."""
    from urllib.parse import unquote

    pairs = (part.partition("=") for part in comment.split(";"))
    return {key: unquote(value) for key, _, value in pairs if key in LABELS}


def _nodes(request: LaunchRequest) -> int:
    nodes, devices = request.job.nodes, request.offer.device_count
    if request.job.micro_batch_size % (nodes * devices):
        raise BadRequestError(
            f"a batch of {request.job.micro_batch_size} does not divide over {nodes} nodes of {devices} devices",
            hint=f"write a global_batch_size that is a multiple of {nodes * devices * request.job.accumulate}",
        )
    return nodes


def device_words(instance_type: str, vcpus: int | None, memory_gib: float | None) -> tuple[str, ...]:
    """What sbatch is asked for: the node's accelerators with their share of it, or the whole node."""
    if gres := gres_in(instance_type):
        memory_mib = int((memory_gib or 0) * 1024)
        memory = (f"--mem={memory_mib}M",) if memory_mib else ()
        return (f"--gres={gres}", f"--cpus-per-task={vcpus or 1}", *memory)
    return ("--exclusive",)


def _script(request: LaunchRequest, settings: SlurmSettings) -> str:
    """`job.sh` behind its values. Words of a command are quoted one by one, since the script splits them again."""
    values = {
        "run_dir": run_dir(settings, request.run_id),
        "data_dir": f"{settings.directory}/data",
        "attempt": str(request.attempt),
        "deadline": f"{request.deadline.timestamp():.0f}",
        "grace_seconds": str(GRACE_SECONDS),
        "most_losses": str(MOST_LOSSES),
        "pause_seconds": str(PAUSE_SECONDS),
        "measuring": " ".join(request.measuring_arguments),
        "container": " ".join(settings.container),
        "python": settings.python,
    }
    lines = (f"{key}={shlex.quote(value)}" for key, value in values.items())
    return "\n".join(("#!/bin/sh", *lines, _body()))


@cache
def _body() -> str:
    return (Path(__file__).parent / "data" / "job.sh").read_text(encoding="utf-8")
