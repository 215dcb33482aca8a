"""What the machine is asked to do: spec.json and boot.json as values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Iterable, Mapping

from trainplan.providers.agent.clock import unix

_DIGEST = re.compile(r"^\S+@sha256:[0-9a-f]{64}$")
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
SCHEMES = ("s3://", "gs://", "azblob://", "https://")
"""Where files may be fetched from: buckets with the machine's identity, the web with none."""
KINDS = ("cpu", "gpu", "tpu")
ENDS = ("power_off", "gcp_delete", "azure_group", "tpu_delete")


class SpecError(ValueError):
    """spec.json or boot.json does not say what it must."""


@dataclass(frozen=True)
class Device:
    """What the offer promised: `count` of `kind` (cpu, gpu, tpu)."""

    kind: str
    name: str
    count: int


@dataclass(frozen=True)
class File:
    """An object that is fetched before training: `path` below the run directory, or `uri` anywhere the identity
    may read or an open web address, to `to`, which begins with `data/` or `machine/`. `sha256` in hex, "" for data
    of which nobody knows it: then its size alone is checked. With `unpack` it is an archive, whose files go to the
    folder of `to`."""

    path: str
    uri: str
    to: str
    sha256: str
    size_bytes: int
    unpack: bool = False


def bytes_on_disk(files: Iterable[File]) -> int:
    """What files take at the most while they are fetched: all of them, and the largest archive beside what is in it."""
    sizes = [(file.size_bytes, file.unpack) for file in files]
    return sum(size for size, _ in sizes) + max((size for size, unpacked in sizes if unpacked), default=0)


@dataclass(frozen=True)
class Spec:
    """One attempt. Instants in seconds since 1970; `seconds` of the rest in their names.

    `precision` is the job's, as job.json names it. `job_sha256` is of job.json in the run directory, in hex.
    `refused_seconds` is for how long the store may refuse this machine before training begins (0: until the boot
    deadline).
    """

    run_id: str
    attempt: int
    images: tuple[str, ...]
    command: tuple[str, ...]
    device: Device
    deadline: float
    boot_deadline: float
    job_sha256: str
    framework: str = "tensorflow"
    precision: str = "fp32"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    memory_gib: float | None = None
    shm_gib: float = 8.0
    privileged: bool = False
    hung_seconds: float = 1800.0
    store_patience_seconds: float = 1800.0
    refused_seconds: float = 0.0
    end_reserve_seconds: float = 180.0
    end: Mapping[str, str] = field(default_factory=lambda: {"kind": "power_off"})

    @property
    def folder(self) -> str:
        """Where this attempt's files are below the run directory."""
        return f"attempts/{self.attempt}"


@dataclass(frozen=True)
class Paths:
    """Folders of the machine. `root` is on its disk, `volatile` in memory."""

    root: Path = Path("/var/lib/trainplan")
    volatile: Path = Path("/run/trainplan")

    @property
    def run_dir(self) -> Path:
        """The run directory as the trainer's container sees it."""
        return self.root / "run-dir"

    @property
    def spool(self) -> Path:
        """Where files wait until the store has taken them."""
        return self.root / "spool"

    @property
    def running_mark(self) -> Path:
        """The path of a file whose presence tells the timer of the boot deadline that training has begun."""
        return self.root / "running"

    @property
    def crashes(self) -> Path:
        """The path of a file with a line for each time that the machine went down without a word."""
        return self.root / "crashes"

    def mark_running(self) -> None:
        """Tell the timer of the boot deadline, and in memory the last switch, that training has begun."""
        for folder in (self.volatile, self.root):
            (folder / "running").touch()

    def make(self) -> None:
        """Create the folders; what holds secrets is readable to the owner alone."""
        for folder in (self.run_dir, self.root / "data", self.root / "machine", self.spool, self.volatile):
            folder.mkdir(parents=True, exist_ok=True)
        self.volatile.chmod(0o700)


def read_spec(text: str) -> Spec:
    """Raises SpecError naming what is wrong."""
    try:
        raw = json.loads(text)
        spec = _spec(raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"spec.json: {type(error).__name__}: {error}") from error
    _check(spec)
    return spec


def _spec(raw: dict[str, Any]) -> Spec:
    device = raw["device"]
    values = {
        name: raw[name]
        for name in (
            "memory_gib",
            "shm_gib",
            "framework",
            "precision",
            "hung_seconds",
            "store_patience_seconds",
            "refused_seconds",
            "end_reserve_seconds",
        )
        if raw.get(name) is not None
    }
    return Spec(
        run_id=str(raw["run_id"]),
        attempt=int(raw["attempt"]),
        images=tuple(raw["images"]),
        command=tuple(raw["command"]),
        setup=tuple(raw.get("setup") or ()),
        device=Device(kind=device["kind"], name=str(device["name"]), count=int(device["count"])),
        deadline=unix(raw["deadline"]),
        boot_deadline=unix(raw["boot_deadline"]),
        job_sha256=str(raw["job_sha256"]),
        environment=dict(raw.get("environment") or {}),
        secrets=dict(raw.get("secrets") or {}),
        files=tuple(_file(row) for row in raw.get("files") or ()),
        privileged=bool(raw.get("privileged")),
        end=dict(raw.get("end") or {"kind": "power_off"}),
        **values,
    )


def _file(row: dict[str, Any]) -> File:
    return File(
        path=str(row.get("path") or ""),
        uri=str(row.get("uri") or ""),
        to=str(row["to"]),
        sha256=str(row["sha256"]),
        size_bytes=int(row["size_bytes"]),
        unpack=bool(row.get("unpack")),
    )


def _check(spec: Spec) -> None:
    for image in spec.images:
        if not _DIGEST.match(image):
            raise SpecError(f"spec.json: the image {image} is not named by its digest")
    for file in spec.files:
        _check_file(file)
    wrong = {
        "images": not spec.images,
        "command": not spec.command,
        "job_sha256": not _SHA256.match(spec.job_sha256),
        "device": spec.device.kind not in KINDS or spec.device.count < 1,
        "privileged": spec.privileged and spec.device.kind != "tpu",
        "end": spec.end.get("kind") not in ENDS,
        "environment": any("\n" in name + value or "=" in name for name, value in spec.environment.items()),
    }
    if any(wrong.values()):
        raise SpecError(f"spec.json: {', '.join(name for name, bad in wrong.items() if bad)} cannot be")


def _check_file(file: File) -> None:
    target = PurePosixPath(file.to)
    is_data = target.parts[:1] == ("data",)
    if not (is_data or target.parts[:1] == ("machine",)) or len(target.parts) < 2 or ".." in target.parts:
        raise SpecError(f"spec.json: {target} is not below data/ or machine/")
    if not _SHA256.match(file.sha256) and (file.sha256 or not is_data):
        raise SpecError(f"spec.json: {target} is not named by its sha256")
    if file.uri and not file.uri.startswith(SCHEMES):
        raise SpecError(f"spec.json: {target} cannot be fetched from an address of this kind")
    if file.size_bytes < 0 or (file.unpack and not is_data):
        raise SpecError(f"spec.json: {target} cannot be")
