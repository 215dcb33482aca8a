"""Commands of the machine: run to their end, or left running and looked after."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import IO, Any, Sequence

KEPT_BYTES = 16_384
"""Of what a command says, the end is kept."""
NOT_STARTED = 127
TIMED_OUT = 124


@dataclass(frozen=True)
class Done:
    """`said` is the end of stdout and stderr together."""

    code: int
    said: str

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"exit code {self.code}"


class Running(Protocol):
    """A command that goes on beside the agent; both streams are one."""

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        ...

    def read(self, most: int) -> bytes:
        """What it said and nobody read yet, without waiting; b"" for nothing."""
        ...

    def rest(self, seconds: float) -> None:
        """Wait for its end, and end it after `seconds`; `read` then gives what is left."""

    def kill(self) -> None: ...


class Processes(Protocol):
    """What commands are run with."""

    def run(self, words: Sequence[str], seconds: float, given: str = "") -> Done:
        """To its end, at most so many seconds; `given` on its stdin. A command that is not there is code 127."""
        ...

    def start(self, words: Sequence[str]) -> Running: ...


class MachineProcesses:
    """The machine's own. `environment` replaces the agent's where it is given."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = environment

    def run(self, words: Sequence[str], seconds: float, given: str = "") -> Done:
        with tempfile.TemporaryFile() as said:
            try:
                ran = subprocess.run(
                    list(words),
                    input=given.encode(),
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                    check=False,
                    env=self._environment,
                )
                code = ran.returncode
            except subprocess.TimeoutExpired:
                return Done(TIMED_OUT, f"{_end(said)}\nno end after {seconds:.0f} s")
            except OSError as error:
                return Done(NOT_STARTED, f"{words[0]}: {error.strerror}")
            return Done(code, _end(said))

    def start(self, words: Sequence[str]) -> Running:
        return _Beside(words, self._environment)


class _Beside:
    """Its output goes through a pipe that is read as it comes, so that nothing piles up on the disk."""

    def __init__(self, words: Sequence[str], environment: dict[str, str] | None) -> None:
        self._code: int | None = None
        self._left = b""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self._code, self._left = NOT_STARTED, f"{words[0]}: {error.strerror}\n".encode()
        else:
            os.set_blocking(self._pipe.fileno(), False)

    def poll(self) -> int | None:
        if self._process is not None and self._code is None:
            self._code = self._process.poll()
        return self._code

    def read(self, most: int) -> bytes:
        if self._process is None or self._pipe.closed:
            data, self._left = self._left[:most], self._left[most:]
            return data
        return self._pipe.read(most) or b""

    def rest(self, seconds: float) -> None:
        if self._process is None:
            return
        os.set_blocking(self._pipe.fileno(), True)
        try:
            said, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            said, _ = self._process.communicate()
        self._left = said or b""

    def kill(self) -> None:
        if self._process is not None and self.poll() is None:
            self._process.kill()

    @property
    def _pipe(self) -> Any:
        if self._process is None or self._process.stdout is None:
            raise AssertionError("it never started")
        return self._process.stdout


def _end(said: IO[bytes]) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - KEPT_BYTES))
    return said.read().decode(errors="replace")
