"""Running another program: its output, its exit code, and never longer than it may take."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from trainplan.providers.errors import TransientError

_BUILDS = {"DOCKER_BUILDKIT": "1"}
"""The trainer image mounts secrets while it is built, which Docker's older builder does not know; it is the default of
Docker 20.10 as Debian 12 has it, and of every later one without buildx."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """`exit_code` 127: there is no such program."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The last line of what it said of its failure."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.exit_code}"


class Runner(Protocol):
    """Runs command lines on this computer."""

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Completed:
        """Run to its end, with these variables besides its own. Raises TransientError when it takes longer."""
        ...

    def follow(self, command: Sequence[str], report: Callable[[str], None]) -> Completed:
        """Run to its end, however long; `report` gets each line of either stream, `stdout` of the result has all."""
        ...


class SystemRunner:
    """Programs of this machine, run in its folder for temporary files.

    Podman's conmon leaves a file `oom` where it was started when a container is killed for want of memory.
    """

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Completed:
        try:
            process = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_seconds,
                check=False,
                encoding="utf-8",
                errors="replace",
                cwd=tempfile.gettempdir(),
                env={**os.environ, **environment},
            )
        except FileNotFoundError:
            return Completed(exit_code=127, stdout="", stderr=f"{command[0]} is not installed")
        except OSError as error:
            return Completed(exit_code=126, stdout="", stderr=f"{command[0]}: {error.strerror}")
        except subprocess.TimeoutExpired:
            text = " ".join(command[:3])
            raise TransientError(
                f"`{text}` did not answer within {timeout_seconds:.0f} s", hint=f"see whether {command[0]} still works"
            ) from None
        return Completed(exit_code=process.returncode, stdout=process.stdout, stderr=process.stderr)

    def follow(self, command: Sequence[str], report: Callable[[str], None]) -> Completed:
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, **_BUILDS},
            )
            try:
                for line in process.stdout or ():
                    output.write(line)
                    report(line.rstrip())
            except BaseException:
                process.kill()
                raise
            finally:
                process.wait()
                if process.stdout:
                    process.stdout.close()
            output.seek(0)
            return Completed(exit_code=process.returncode, stdout=output.read(), stderr="")
