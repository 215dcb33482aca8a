"""What is asked of a container engine: the calls used, and the values that cross them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class EngineName(StrEnum):
    """The container engines that are used by their command line."""

    DOCKER = "docker"
    PODMAN = "podman"


class ContainerStatus(StrEnum):
    """CREATED: never started. RUNNING: also while paused. EXITED: nothing of it runs, but it is still there."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of this computer (`source`) that the container sees at `target`."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container before it exists. `command` runs in place of the image's own entry point.

    `gpus` are the indices `nvidia-smi` gives; `network` False cuts the container off; None is no limit, of `shm_gib`
    (/dev/shm) the engine's own. `processes` counts threads too. Values of `private` are variables that stand in no
    list of processes and no journal.
    """

    name: str
    image: str
    command: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    private: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    network: bool = False
    uses_host_network: bool = False
    vcpus: int | None = None
    memory_gib: float | None = None
    shm_gib: int | None = None
    processes: int | None = None
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container as the engine tells of it. `exit_code` counts once it has EXITED; `error` is the engine's own."""

    id: str
    name: str
    labels: Mapping[str, str]
    status: ContainerStatus
    created_at: datetime | None = None
    exit_code: int | None = None
    out_of_memory: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """An image to build from a folder with a Containerfile. `secrets` are files that no layer keeps, by id."""

    tag: str
    context: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


class Engine(Protocol):
    """Docker or Podman. Every call raises TransientError where the engine does not answer."""

    @property
    def name(self) -> EngineName:
        """`docker` or `podman`."""
        ...

    @property
    def limits(self) -> frozenset[str]:
        """What it can hold a container to, of cpu, memory and pids."""
        ...

    def create_arguments(self, spec: ContainerSpec) -> tuple[str, ...]:
        """Pure: the command line that `create` runs, without the program's name."""
        ...

    def create(self, spec: ContainerSpec) -> None:
        """Make the container, not started. Raises MachineError, also where the name is taken."""

    def start(self, name: str) -> None:
        """Start it; it already runs is no error. Raises MachineError."""

    def container(self, name: str) -> Container | None:
        """The container of this name, or None: the engine answered, and has none."""
        ...

    def containers(self, label: str) -> Sequence[Container]:
        """Every container with this label (`key` or `key=value`), running or not."""
        ...

    def signal(self, name: str, signal: str) -> None:
        """Send a signal (`TERM`); to a container that does not run, nothing."""

    def remove(self, name: str) -> None:
        """Kill and remove it, with its volumes; it is not there is no error."""

    def logs(self, name: str, lines: int) -> Sequence[str]:
        """Return the last lines of both streams."""
        ...

    def has_image(self, tag: str) -> bool:
        """Whether the image is on this machine. Raises MachineError."""
        ...

    def why_not_at_registry(self, image: str) -> str:
        """Say why the image cannot be fetched; "" where its registry has it."""
        ...

    def images(self, label: str) -> Sequence[str]:
        """The tags of every image with this label."""
        ...

    def build(self, spec: BuildSpec, report: Callable[[str], None]) -> None:
        """Build and tag. Raises MachineError with the last lines of the build."""

    def pull(self, image: str, report: Callable[[str], None]) -> None:
        """Fetch an image. Raises MachineError."""

    def remove_image(self, tag: str) -> None:
        """Remove a tag that no container uses; one that is used, or not there, stays as it is."""
