"""The one container of the machine: Docker's command lines, and how it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Sequence

if TYPE_CHECKING:
    from trainplan.providers.agent.processes import Processes, ProcessResult, Running
    from trainplan.providers.agent.spec import Paths, Spec

NAME = "trainplan-job"
STOP_SECONDS = 110
"""From SIGTERM to SIGKILL where nothing presses: time for the largest checkpoint on a slow disk."""
RUN_DIR = "/run-dir"
TPU_ACCESS = ("--privileged", "--network", "host")
"""libtpu reads the slice's layout (`tpu-env`) from the metadata service, and its parts talk to each other on the
machine's own addresses (docs/adr/0014). What trains on a TPU can therefore become the machine's identity."""
METADATA_ADDRESSES = ("169.254.169.254/32", "168.63.129.16/32")
"""The metadata service of every cloud, and Azure's host agent."""
MOST_PROCESSES = 16_384
"""Processes and threads of a container: a trainer has hundreds; a machine of Linux has 32,768 numbers for them at least
(kernel.pid_max, proc(5)), which its own services need too."""
MOST_OPEN_FILES = 65_536
MOST_SHARED_MEMORY_GIB = 8
_QUICK_SECONDS = 60.0
_DAEMON = "Error response from daemon: "


class EngineError(Exception):
    """Docker did not do what it was asked to; the text is its own."""


@dataclass(frozen=True)
class Exit:
    """How the container ended."""

    code: int
    out_of_memory: bool
    error: str


def container_memory_gib(machine_bytes: int) -> float:
    """What a container may take of a machine's memory: all but a sixteenth, at least half a GiB and at most 4, which
    the system, Docker and the agent keep."""
    machine_gib = machine_bytes / 1024**3
    return machine_gib - min(4.0, max(0.5, machine_gib / 16))


def shared_memory_gib(machine_gib: float | None) -> int:
    """Shared memory of a container (/dev/shm): 8 GiB as promised, but never more than half of a small machine."""
    return MOST_SHARED_MEMORY_GIB if machine_gib is None else max(1, min(MOST_SHARED_MEMORY_GIB, int(machine_gib / 2)))


def firewall(verb: str, address: str) -> tuple[str, ...]:
    """The iptables rule that keeps containers from an address. Names still resolve: Google's resolver is there."""
    match = ("-d", address, "-p", "tcp", "!", "--dport", "53", "-j", "REJECT", "--reject-with", "tcp-reset")
    return ("iptables", "-w", "10", verb, "DOCKER-USER", *match)


def common_arguments(spec: Spec, paths: Paths) -> tuple[str, ...]:
    """What the gate, the setup and the training share."""
    gpus = ("--gpus", "all", "-e", "NVIDIA_DRIVER_CAPABILITIES=compute,utility") if spec.device.kind == "gpu" else ()
    words = [
        "--init",
        *("--shm-size", f"{spec.shm_gib:g}g", "--ulimit", "memlock=-1"),
        *("--pids-limit", str(MOST_PROCESSES), "--ulimit", f"nofile={MOST_OPEN_FILES}:{MOST_OPEN_FILES}"),
        *(() if spec.memory_gib is None else ("--memory", f"{int(spec.memory_gib * 1024)}m")),
        *gpus,
        *(TPU_ACCESS if spec.privileged and spec.device.kind == "tpu" else ()),
        *(("-e", "PJRT_DEVICE=TPU") if spec.device.kind == "tpu" else ()),
        *("-v", f"{paths.run_dir}:{RUN_DIR}", "-v", f"{paths.root / 'data'}:/data"),
        *("-v", f"{paths.root / 'machine'}:/machine"),
        *(word for name, value in sorted(spec.environment.items()) for word in ("-e", f"{name}={value}")),
    ]
    return tuple(words)


def create_arguments(spec: Spec, paths: Paths, image: str, env_file: str | None) -> tuple[str, ...]:
    """The training container. Its log is bounded on the disk; it is not removed by itself: its end must be readable."""
    return (
        *("docker", "create", "--name", NAME, "--stop-timeout", str(STOP_SECONDS)),
        *("--log-driver", "local", "--log-opt", "max-size=20m", "--log-opt", "max-file=3"),
        *(() if env_file is None else ("--env-file", env_file)),
        *common_arguments(spec, paths),
        image,
        *spec.command,
    )


def once_arguments(spec: Spec, paths: Paths, image: str, command: Sequence[str]) -> tuple[str, ...]:
    """A container that does one thing and is gone; the image's own entry point is its trainer, and not asked."""
    name = ("--name", f"{NAME}-once", "--entrypoint", command[0])
    return ("docker", "run", "--rm", *name, *common_arguments(spec, paths), image, *command[1:])


class Container:
    """Docker, asked for the one container. Every method raises EngineError where Docker does not do it."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def close_metadata(self) -> None:
        """Containers reach no metadata service from here on, but for a TPU's, which is on the machine's own network."""
        for address in METADATA_ADDRESSES:
            if self._processes.run(firewall("-C", address), _QUICK_SECONDS).code:
                self._must(firewall("-I", address))

    def login(self, host: str, user: str, password: str) -> None:
        """Sign Docker in to a registry. Raises EngineError where the registry refuses."""
        words = ("docker", "login", "--username", user, "--password-stdin", host)
        process = self._processes.run(words, _QUICK_SECONDS, password)
        if process.code:
            raise EngineError(f"login to {host}: {process.last_line}")

    def pull(self, image: str) -> Running:
        """Begin to pull the image."""
        return self._processes.start(("docker", "pull", "--quiet", image))

    def once(self, spec: Spec, paths: Paths, image: str, command: Sequence[str]) -> Running:
        """Begin a command in a container of its own that ends with it; an older one of this name is removed first."""
        self._processes.run(("docker", "rm", "-f", f"{NAME}-once"), _QUICK_SECONDS)
        return self._processes.start(once_arguments(spec, paths, image, command))

    def create(self, words: Sequence[str]) -> None:
        """What an earlier life of the machine left goes first."""
        self._processes.run(("docker", "rm", "-f", NAME), _QUICK_SECONDS)
        self._must(words)

    def start(self) -> None:
        """Start the container that `create` made. Raises EngineError."""
        self._must(("docker", "start", NAME))

    def follow(self, since: float = 0.0) -> Running:
        """Start to read the container's output, from the instant `since` on and as it comes."""
        begin = ("--since", f"{since:.3f}") if since else ()
        return self._processes.start(("docker", "logs", "--follow", *begin, NAME))

    def exit(self) -> Exit | None:
        """How it ended; None while it runs."""
        text = self._must(("docker", "inspect", "--format", "{{json .State}}", NAME)).output
        try:
            state = json.loads(text)
        except ValueError as error:
            raise EngineError(f"docker inspect: {text[:300]}") from error
        if state.get("Status") not in ("exited", "dead"):
            return None
        return Exit(int(state["ExitCode"]), bool(state.get("OOMKilled")), str(state.get("Error") or ""))

    def stop(self, seconds: int) -> Running:
        """SIGTERM now, SIGKILL after so many seconds."""
        return self._processes.start(("docker", "stop", "--time", str(seconds), NAME))

    def inside(self, words: Sequence[str]) -> Running:
        """A command that runs in the trainer's container."""
        return self._processes.start(("docker", "exec", NAME, *words))

    def _must(self, words: Sequence[str]) -> ProcessResult:
        process = self._processes.run(words, _QUICK_SECONDS)
        if process.code:
            raise EngineError(f"{' '.join(words[:2])}: {_reason(process)}")
        return process


def _reason(process: ProcessResult) -> str:
    """The daemon's own reason where it gave one; after it comes only that it failed."""
    said = (line.partition(_DAEMON)[2] for line in process.output.splitlines() if _DAEMON in line)
    return next(said, process.last_line)[:300]
