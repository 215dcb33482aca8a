"""The commands as they leave: a protocol, and this computer's shell or the person's own ssh behind it."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainplan.providers.errors import CredentialsError, MachineError, TransientError

ANSWER_SECONDS = 30.0
"""For a command that asks or tells Slurm something. Slurm's own limit for a reply is 10 s (MessageTimeout)."""
FILE_SECONDS = 3600.0
"""For a file that is moved: 20 GB at 6 MB/s."""
_CONNECT_SECONDS = 10
_NO_PROGRAM = 127
_SSH_FAILED = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a command ended; `stdout` is empty where it went into a file."""

    exit_code: int
    stdout: bytes = b""
    stderr: str = ""

    @property
    def text(self) -> str:
        """The standard output as text."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Where a command's input comes from and its output goes to: `source` replaces `data`, `target` the reply."""

    data: bytes = b""
    source: Path | None = None
    target: Path | None = None


NO_STREAMS = Streams()


class Shell(Protocol):
    """Runs a command where Slurm's commands are and the shared file system is."""

    def run(
        self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = ANSWER_SECONDS
    ) -> Completed:
        """Run to its end. Raises TransientError where it takes longer, or where the login node does not answer,
        CredentialsError where it does not let us in, MachineError where there is no such program, OSError where
        `target` cannot be written."""
        ...


@dataclass(frozen=True, slots=True)
class ShellHere:
    """This computer is part of the cluster. `environment` is the command's."""

    environment: Mapping[str, str]

    def run(
        self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = ANSWER_SECONDS
    ) -> Completed:
        completed = _run(command, streams, timeout_seconds, self.environment)
        if completed.exit_code == _NO_PROGRAM:
            raise MachineError(
                f"{command[0]} is not installed on this computer",
                hint="set login in [slurm] to a host of the cluster that ssh can reach",
            )
        return completed


@dataclass(frozen=True, slots=True)
class ShellOverSsh:
    """A login node, over the person's own ssh: their configuration, keys and agent. It never asks anything."""

    login: str
    environment: Mapping[str, str]

    def run(
        self, command: Sequence[str], streams: Streams = NO_STREAMS, timeout_seconds: float = ANSWER_SECONDS
    ) -> Completed:
        options = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}")
        completed = _run(
            ("ssh", *options, self.login, "--", shlex.join(command)), streams, timeout_seconds, self.environment
        )
        if completed.exit_code == _SSH_FAILED:
            raise _ssh_error(self.login, completed.stderr)
        if completed.exit_code == _NO_PROGRAM:
            raise MachineError(f"{self.login} has no {command[0]}", hint="login in [slurm] must be a login node")
        return completed


def _run(command: Sequence[str], streams: Streams, seconds: float, environment: Mapping[str, str]) -> Completed:
    source = streams.source.open("rb") if streams.source else None
    target = streams.target.open("wb") if streams.target else None
    try:
        process = subprocess.run(
            command,
            stdin=source,
            input=None if source else streams.data,
            stdout=target or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=seconds,
            check=False,
            env=dict(environment),
        )
    except FileNotFoundError:
        return Completed(exit_code=_NO_PROGRAM, stderr=f"{command[0]}: not found")
    except subprocess.TimeoutExpired:
        raise TransientError(
            f"`{' '.join(command[:2])}` did not end within {seconds:.0f} s", hint="see whether the cluster answers"
        ) from None
    finally:
        for file in (source, target):
            if file:
                file.close()
    return Completed(
        exit_code=process.returncode, stdout=process.stdout or b"", stderr=process.stderr.decode("utf-8", "replace")
    )


def _ssh_error(login: str, stderr: str) -> CredentialsError | TransientError:
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "no reason given")
    if "Permission denied" in stderr or "Host key verification failed" in stderr:
        return CredentialsError(f"{login} does not let us in: {last}", hint=f"`ssh {login} true` must work by itself")
    return TransientError(f"{login} does not answer: {last}", hint=f"see whether `ssh {login} true` works")
