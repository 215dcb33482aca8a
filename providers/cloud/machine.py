"""A rented machine's part of a launch: spec.json, what lies beside it in the run directory, and its start-up text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.providers.agent.container import shared_memory_gib
from trainplan.providers.agent.spec import File, SpecError, read_spec
from trainplan.providers.cloud.agent_archive import AGENT, agent_bytes
from trainplan.providers.cloud.bootstrap import Boot, start_up
from trainplan.providers.cloud.propagation import machine_patience_seconds
from trainplan.providers.cloud.secrets import checked_references
from trainplan.providers.cloud.trainer_wheel import WHEEL, pinned, wheel_bytes
from trainplan.providers.errors import BadRequestError
from trainplan.providers.values import OwnEnds

if TYPE_CHECKING:
    from trainplan.providers.base import LaunchRequest
    from trainplan.providers.cloud.images import Launchable, Software

SPEC = "spec.json"
BOOT_ALLOWANCE = timedelta(minutes=45)
"""The limit from the create request to the first step: a machine that does not train by then ends itself."""
LEAST_BYTES_PER_SECOND = 25_000_000
"""The slowest transfer of data that the boot deadline allows for: a quarter of what an estimate assumes."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_VENV = "/machine/venv"
# pip takes the wheels whose hashes are pinned and no other; the trainer's own wheel was checked by the agent.
# The packages are on the machine's disk, so a container that is started again has them. The mark is last: an
# installation that was cut off is begun anew.
_SETUP = f"""\
test ! -e {_VENV}/ready || exit 0
/usr/local/bin/python3 -m venv --clear {_VENV}
{_VENV}/bin/pip install --no-cache-dir --disable-pip-version-check --progress-bar off --only-binary :all: \
--require-hashes -r /machine/requirements.txt
{_VENV}/bin/pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /machine/{WHEEL}
touch {_VENV}/ready
"""
_PATH = f"{_VENV}/bin:/usr/local/bin:/usr/bin:/bin"
# Where NVIDIA's wheels put their libraries. The framework finds them by itself, but for reports that it did not.
_LIBRARIES = (
    *("cublas", "cuda_cupti", "cuda_nvrtc", "cuda_runtime", "cudnn", "cufft"),
    *("curand", "cusolver", "cusparse", "nccl", "nvjitlink"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudContext:
    """What the cloud's own part of a launch knows.

    `run_uri` and `region` are of the run directory; `end` is how the machine ends itself (spec.json's). `secrets` are
    references by the name of their variable, `data` the files of a data set, which go to `data/…`. `endpoints` is
    empty but for a test double, `identity` and `data_disk_gib` are Boot's. `image_digest` is the public image's, or "".
    """

    cloud: str
    run_uri: str
    region: str
    boot_deadline: datetime
    end: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict)
    data: tuple[File, ...] = ()
    endpoints: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    data_disk_gib: int = 0
    image_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object of the run directory, by its path there."""

    path: str
    data: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """The hash of its data, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePart:
    """`objects` have to be in the run directory, put in this order, before a machine starts with `boot`."""

    boot: Boot
    objects: tuple[StoredObject, ...]

    @property
    def user_data(self) -> str:
        """The start-up text."""
        return start_up(self.boot)


def machine_part(request: LaunchRequest, launchable: Launchable, context: CloudContext) -> MachinePart:
    """Pure: the same request gives the same bytes. Nothing secret is in any of them.

    Raises BadRequestError for an image without its digest, for a secret that is no reference, and for whatever the
    machine's agent would refuse.
    """
    ends = own_ends(request)
    job = StoredObject(path="job.json", data=request.job.to_json().encode())
    stored_objects = _trainer_objects(request, launchable.software)
    spec = StoredObject(
        path=_path(request, SPEC), data=_spec_bytes(request, launchable, context, (job, *stored_objects))
    )
    agent = StoredObject(path=_path(request, AGENT), data=agent_bytes())
    boot = Boot(
        cloud=context.cloud,
        run_uri=context.run_uri,
        attempt=request.attempt,
        deadline=ends.timer,
        boot_deadline=min(context.boot_deadline, ends.timer),
        requested_at=context.boot_deadline - boot_allowance(context.data),
        agent_sha256=agent.sha256,
        spec_sha256=spec.sha256,
        region=context.region,
        driver=launchable.host.driver if launchable.host.installs_driver else "",
        endpoints=context.endpoints,
        identity=context.identity,
        data_disk_gib=context.data_disk_gib,
        run_key=request.run_key,
    )
    return MachinePart(boot=boot, objects=(job, *stored_objects, agent, spec))


def boot_allowance(data: Iterable[File]) -> timedelta:
    """From the request for a machine to its boot deadline, where it fetches such data."""
    return BOOT_ALLOWANCE + timedelta(seconds=sum(file.size_bytes for file in data) / LEAST_BYTES_PER_SECOND)


def own_ends(request: LaunchRequest) -> OwnEnds:
    """When what is inside the machine ends it: at the deadline, unless the request says otherwise."""
    return request.own_ends or OwnEnds(trainer=request.deadline, timer=request.deadline)


def images_by_digest(launchable: Launchable, digest: str) -> tuple[str, ...]:
    """The references of every registry, in order, by digest: the job's own as it is, a public one by what was resolved.

    Raises BadRequestError where it was not.
    """
    if launchable.software is None:
        return launchable.images
    digest = digest or launchable.software.container.digest or ""
    if not _DIGEST.fullmatch(digest):
        raise BadRequestError(
            f"the digest of {launchable.images[0]} is not known: no registry was asked for it, or none answered",
            hint="try again, or name an image of your own by digest (`container:` in the job)",
        )
    return tuple(f"{reference}@{digest}" for reference in launchable.images)


def _trainer_objects(request: LaunchRequest, software: Software | None) -> tuple[StoredObject, ...]:
    """The trainer and the list of what it needs; nothing for an image that has its own."""
    if software is None:
        return ()
    return (
        StoredObject(path=_path(request, "requirements.txt"), data=pinned(software.name).encode()),
        StoredObject(path=_path(request, WHEEL), data=wheel_bytes()),
    )


def _path(request: LaunchRequest, name: str) -> str:
    return f"attempts/{request.attempt}/machine/{name}"


def _spec_bytes(
    request: LaunchRequest, launchable: Launchable, context: CloudContext, objects: tuple[StoredObject, ...]
) -> bytes:
    job, *stored_objects = objects
    values = {
        **_of_the_image(request, launchable),
        "run_id": request.run_id,
        "attempt": request.attempt,
        "images": images_by_digest(launchable, context.image_digest),
        "job_sha256": job.sha256,
        "framework": launchable.framework,
        "precision": request.job.precision,
        "device": {
            "kind": launchable.hardware.kind,
            "name": request.offer.device,
            "count": max(1, request.offer.device_count),
        },
        "deadline": _instant(own_ends(request).trainer),
        "boot_deadline": _instant(min(context.boot_deadline, own_ends(request).timer)),
        "secrets": dict(checked_references(context.secrets)),
        "files": [*map(_machine_file, stored_objects), *map(_file, context.data)],
        "memory_gib": request.memory_gib,
        "shm_gib": shared_memory_gib(request.offer.memory_gib),
        "refused_seconds": machine_patience_seconds(context.cloud),
        "privileged": launchable.hardware.kind == "tpu",
        "end": dict(context.end),
    }
    text = json.dumps(values, sort_keys=True, indent=1)
    try:
        read_spec(text)
    except SpecError as error:
        raise BadRequestError(
            f"run {request.run_id}: the job and its settings make a specification that a machine refuses: {error}"
        ) from error
    return f"{text}\n".encode()


def _of_the_image(request: LaunchRequest, launchable: Launchable) -> dict[str, object]:
    """What differs between the public image, into which the trainer is installed, and the person's own."""
    arguments = _arguments(request)
    software = launchable.software
    if software is None:
        return {"command": arguments, "setup": [], "environment": {}}
    return {
        "command": ["python", "-m", "trainplan.workloads.trainer", *arguments],
        "setup": ["sh", "-ec", _SETUP],
        "environment": _environment(software),
    }


def _arguments(request: LaunchRequest) -> list[str]:
    """The trainer's command line behind its program: docs/container.md promises it."""
    return [
        *("--job", "/run-dir/job.json", "--run-dir", "/run-dir", "--attempt", str(request.attempt)),
        *("--data-dir", "/data", "--deadline-unix", f"{own_ends(request).trainer.timestamp():.0f}"),
        *request.measuring_arguments,
    ]


def _environment(software: Software) -> dict[str, str]:
    common = {"PATH": _PATH, "PYTHONUNBUFFERED": "1"}
    if software.kind != "gpu":
        return common
    nvidia = f"{_VENV}/lib/python{software.container.python}/site-packages/nvidia"
    return {
        **common,
        # What the driver compiles once (H100: minutes) is there for the training and after a restart.
        "CUDA_CACHE_PATH": "/machine/cuda-cache",
        "LD_LIBRARY_PATH": ":".join(f"{nvidia}/{name}/lib" for name in _LIBRARIES),
    }


def _machine_file(stored: StoredObject) -> dict[str, object]:
    name = stored.path.rpartition("/")[2]
    target = f"machine/{name}"
    return {"path": stored.path, "to": target, "sha256": stored.sha256, "size_bytes": len(stored.data)}


def _file(file: File) -> dict[str, object]:
    source = {"uri": file.uri} if file.uri else {"path": file.path}
    archive = {"unpack": True} if file.unpack else {}
    return {**source, "to": file.to, "sha256": file.sha256, "size_bytes": file.size_bytes, **archive}


def _instant(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="seconds")
