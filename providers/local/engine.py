"""Docker and Podman by their command lines, which differ in little, and which of them answers here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trainplan.providers.errors import MachineError, TransientError
from trainplan.providers.local.api import BuildSpec, Container, ContainerSpec, ContainerStatus, EngineName, Mount

if TYPE_CHECKING:
    from trainplan.providers.local.command import Completed, Runner

_PROBE_SECONDS = 5.0
_QUERY_SECONDS = 20.0
_CHANGE_SECONDS = 120.0
_NETWORKS = ("slirp4netns", "pasta")
"""Programs that give containers of a person without root a network; a package of Podman only recommends them."""
_LINE = 300
"""Characters of an engine's line in a message."""
_ALL = ("ps", "--all", "--no-trunc", "--format", "{{.ID}}")
_NEVER_STARTED = frozenset({"created", "configured", "initialized"})
_OVER = frozenset({"exited", "dead", "stopped", "removing"})


_LIMITS = frozenset({"cpu", "memory", "pids"})
_DOCKERS_LIMITS = {"cpu": "CpuCfsQuota", "memory": "MemoryLimit", "pids": "PidsLimit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """What an engine that answers says of itself. `owner` is the user its containers should run as (None: theirs),
    `limits` what it can hold a container to (of `_LIMITS`)."""

    name: EngineName
    version: str
    owner: str | None = None
    limits: frozenset[str] = _LIMITS


def probe(program: EngineName, runner: Runner) -> EngineInfo | None:
    """The engine behind the command `program`, or None: it is not there or does not answer.

    A `docker` that is Podman in disguise is told by its answer, and spoken to as Podman.
    """
    try:
        process = runner.run([program, "info", "--format", "{{json .}}"], timeout_seconds=_PROBE_SECONDS)
        reply = json.loads(process.stdout) if process.exit_code == 0 else {}
    except (TransientError, ValueError):
        return None
    if isinstance(host := reply.get("host"), dict):
        controllers = host.get("cgroupControllers")
        return EngineInfo(
            name=EngineName.PODMAN,
            version=str(reply.get("version", {}).get("Version")),
            # Without root, Podman holds containers to what the system lets its user steer: on cgroup v1 nothing.
            limits=_LIMITS & frozenset(controllers) if isinstance(controllers, list) else _LIMITS,
        )
    if reply.get("ServerVersion"):
        rootless = any("rootless" in str(option) for option in reply.get("SecurityOptions") or ())
        owner = None if rootless else _this_user()
        limits = frozenset(name for name, key in _DOCKERS_LIMITS.items() if reply.get(key, True))
        return EngineInfo(name=EngineName.DOCKER, version=str(reply["ServerVersion"]), owner=owner, limits=limits)
    return None


_NO_BUILDX = "the buildx component is missing or broken"
"""How Docker from 23 on says that it cannot build with BuildKit."""


class CliEngine:
    """An engine spoken to through its command line."""

    def __init__(self, info: EngineInfo, runner: Runner) -> None:
        self.info = info
        self._runner = runner

    @property
    def name(self) -> EngineName:
        return self.info.name

    @property
    def limits(self) -> frozenset[str]:
        return self.info.limits

    def create_arguments(self, spec: ContainerSpec) -> tuple[str, ...]:
        program, *rest = spec.command
        return (
            "create",
            *("--pull", "never", "--name", spec.name),
            *_pairs("--label", spec.labels),
            *_pairs("--env", spec.environment),
            *(word for name in spec.private for word in ("--env", name)),  # the values are in its environment
            *(word for mount in spec.mounts for word in ("--mount", _mount(mount))),
            *_network(spec),
            *self._limits(spec),
            *self._gpus(spec.gpus),
            *(("--user", self.info.owner) if self.info.owner else ()),
            *("--security-opt", "label=disable"),  # mounted folders are the person's own, also under SELinux
            *("--entrypoint", program, spec.image),
            *rest,
        )

    def create(self, spec: ContainerSpec) -> None:
        self._change(self.create_arguments(spec), f"could not create the container {spec.name}", spec.private)

    def start(self, name: str) -> None:
        self._change(("start", name), f"could not start the container {name}")

    def container(self, name: str) -> Container | None:
        process = self._run(("container", "inspect", name))
        if process.exit_code == 0:
            return _container(json.loads(process.stdout)[0])
        # No container of this name, or no answer: only the list of all names tells the two apart.
        if name in self._query(("ps", "--all", "--format", "{{.Names}}")).stdout.replace(",", " ").split():
            raise TransientError(f"{self.name} could not tell about {name}: {process.complaint}")
        return None

    def containers(self, label: str) -> Sequence[Container]:
        complaint = ""
        # A container that goes away between the two calls spoils the second; then the list is read again.
        for _ in range(3):
            ids = self._query((*_ALL, "--filter", f"label={label}")).stdout.split()
            if not ids:
                return []
            process = self._run(("container", "inspect", *ids))
            if process.exit_code == 0:
                return [_container(reply) for reply in json.loads(process.stdout)]
            complaint = process.complaint
        raise TransientError(f"{self.name} could not list its containers: {complaint}")

    def signal(self, name: str, signal: str) -> None:
        process = self._run(("kill", "--signal", signal, name))
        container = self.container(name) if process.exit_code else None
        if container and container.status is ContainerStatus.RUNNING:
            raise TransientError(f"{self.name} could not signal {name}: {process.complaint}")

    def remove(self, name: str) -> None:
        # Killed first: Podman's rm gives a running container ten seconds to end.
        self._run(("kill", "--signal", "KILL", name))
        process = self._run(("rm", "--force", "--volumes", name), _CHANGE_SECONDS)
        if process.exit_code and self.container(name) is not None:
            raise TransientError(f"{self.name} could not remove {name}: {process.complaint}")

    def logs(self, name: str, lines: int) -> Sequence[str]:
        process = self._run(("logs", "--tail", str(lines), name))
        return (process.stdout + process.stderr).splitlines() if process.exit_code == 0 else []

    def has_image(self, tag: str) -> bool:
        """See `Engine.has_image`."""
        return self._run(("image", "inspect", "--format", "{{.Id}}", tag)).exit_code == 0

    def why_not_at_registry(self, image: str) -> str:
        process = self._run(("manifest", "inspect", image), _CHANGE_SECONDS)
        return process.complaint if process.exit_code else ""

    def images(self, label: str) -> Sequence[str]:
        process = self._query(("images", "--filter", f"label={label}", "--format", "{{.Repository}}:{{.Tag}}"))
        return [line for line in process.stdout.split() if "<none>" not in line]

    def build(self, spec: BuildSpec, report: Callable[[str], None]) -> None:
        words = (
            *(self.name, "build", "--tag", spec.tag, "--file", str(spec.context / "Containerfile")),
            *_pairs("--build-arg", spec.arguments),
            *_pairs("--label", spec.labels),
            *(word for key, path in spec.secrets.items() for word in ("--secret", f"id={key},src={path}")),
            *(*spec.flags, str(spec.context)),
        )
        self._follow(words, report, f"{self.name} could not build {spec.tag}")

    def pull(self, image: str, report: Callable[[str], None]) -> None:
        self._follow((self.name, "pull", image), report, f"{self.name} could not fetch {image}")

    def remove_image(self, tag: str) -> None:
        self._run(("image", "rm", tag), _CHANGE_SECONDS)

    def _gpus(self, indices: tuple[int, ...]) -> tuple[str, ...]:
        if not indices:
            return ()
        if self.name is EngineName.PODMAN:
            return tuple(word for index in indices for word in ("--device", f"nvidia.com/gpu={index}"))
        return ("--gpus", f'"device={",".join(map(str, indices))}"')

    def _limits(self, spec: ContainerSpec) -> tuple[str, ...]:
        words: tuple[str, ...] = () if spec.shm_gib is None else ("--shm-size", f"{spec.shm_gib}g")
        held = self.info.limits
        if spec.vcpus is not None and "cpu" in held:
            words += ("--cpus", str(spec.vcpus))
        if spec.memory_gib is not None and "memory" in held:
            size = f"{int(spec.memory_gib * 1024)}m"
            words += ("--memory", size, "--memory-swap", size)  # equal: no swap on top
        if spec.processes is not None and "pids" in held:
            words += ("--pids-limit", str(spec.processes))
        return words

    def _run(
        self,
        arguments: Sequence[str],
        seconds: float = _QUERY_SECONDS,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Completed:
        return self._runner.run([self.name, *arguments], timeout_seconds=seconds, environment=environment)

    def _query(self, arguments: Sequence[str]) -> Completed:
        process = self._run(arguments)
        if process.exit_code:
            raise TransientError(f"{self.name} does not answer: {process.complaint}", hint=f"try `{self.name} info`")
        return process

    def _change(
        self, arguments: Sequence[str], failure: str, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        process = self._run(arguments, _CHANGE_SECONDS, environment)
        if process.exit_code:
            lacking = next((name for name in _NETWORKS if name in process.complaint), "")
            hint = f"install {lacking}: Podman without root needs it to reach the network" if lacking else ""
            failure = f"{self.name} {failure}: {process.complaint}"
            raise MachineError(failure, hint=hint or f"try `{self.name} info`")

    def _follow(self, words: Sequence[str], report: Callable[[str], None], failure: str) -> None:
        process = self._runner.follow(words, report)
        if process.exit_code:
            cause, hint = why_not_built(process.stdout)
            raise MachineError(f"{failure}: {cause}", hint=hint)


_CAUSES = (
    (
        (_NO_BUILDX,),
        "install Docker's build component: docker-buildx-plugin of Docker's own packages, docker-buildx of Ubuntu or "
        "Debian 13",
    ),
    (
        ("unknown flag", "unknown shorthand", "unsupported isolation", "invalid argument"),
        "correct build_flags (docs/settings.md): they are given to the engine as they are",
    ),
    (
        ("do not match the hashes", "different python", "not a supported wheel on this platform"),
        "the packages are pinned for Python 3.12 on Linux (x86-64 and ARM64): name a base_image with it "
        "(docs/settings.md), or train without a container: PLAN_ENGINE=process",
    ),
    (("no space left", "disk quota exceeded"), "free some space on the disk of the engine"),
    (
        (
            *("connection broken", "could not find a version", "temporary failure", "no such host", "timed out"),
            *("timeout", "connection refused", "network is unreachable", "certificate", "proxy", "pinging container"),
        ),
        "the package index or the registry was not reached: try again later, or name what leads there as for pip and "
        "the engine (PIP_INDEX_URL, PIP_CERT, HTTPS_PROXY)",
    ),
)
"""What an engine or pip prints of the cause, in small letters, and what a person does about it."""
_STEERING = "the engine's own lines are above; build_flags and base_image steer how it is built"


def why_not_built(output: str) -> tuple[str, str]:
    """The line of an engine's output that says why it could not build or fetch an image, and what to do."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    complaints = [line for line in lines if re.search(r"error|warning|fail", line, re.IGNORECASE)] or lines[-1:]
    for signs, hint in _CAUSES:
        if found := [line for line in complaints if any(sign in line.lower() for sign in signs)]:
            return found[-1][:_LINE], hint
    errors = [line for line in complaints if "error" in line.lower()]
    return next(iter((errors or complaints)[-1:]), "it ended without a word")[:_LINE], _STEERING


def _this_user() -> str | None:
    if not hasattr(os, "getuid"):
        return None
    return f"{os.getuid()}:{os.getgid()}"


def _pairs(option: str, values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for key, value in values.items() for word in (option, f"{key}={value}"))


def _mount(mount: Mount) -> str:
    fields = [
        "type=bind",
        f"source={mount.source}",
        f"target={mount.target}",
        *(["readonly"] if mount.read_only else []),
    ]
    return ",".join(f'"{word}"' if "," in word else word for word in fields)


def _network(spec: ContainerSpec) -> tuple[str, ...]:
    if not spec.network:
        return ("--network", "none")
    return ("--network", "host") if spec.uses_host_network else ()


def _container(reply: Mapping[str, Any]) -> Container:
    state = reply["State"]
    status = _status(str(state["Status"]))
    return Container(
        id=str(reply["Id"]),
        name=str(reply["Name"]).lstrip("/"),
        labels={str(key): str(value) for key, value in (reply["Config"].get("Labels") or {}).items()},
        status=status,
        created_at=_instant(str(reply["Created"])),
        exit_code=int(state["ExitCode"]) if status is ContainerStatus.EXITED else None,
        out_of_memory=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
    )


def _status(word: str) -> ContainerStatus:
    if word in _NEVER_STARTED:
        return ContainerStatus.CREATED
    return ContainerStatus.EXITED if word in _OVER else ContainerStatus.RUNNING


def _instant(text: str) -> datetime | None:
    """Engines write nanoseconds, which datetime does not read on every Python."""
    seconds, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    try:
        instant = datetime.fromisoformat(f"{seconds}{dot}{digits[:6]}{rest[len(digits) :]}")
    except ValueError:
        return None
    return instant if instant.tzinfo else None
