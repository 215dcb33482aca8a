"""Commands of the machine: run to their end, or left running and looked after."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol, Sequence

if TYPE_CHECKING:
    from trainplan.providers.agent.clock import Clock
    from trainplan.providers.agent.store import Steps

KEPT_BYTES = 16_384
"""Of what a command says, the end is kept."""
NOT_STARTED = 127
TIMED_OUT = 124


@dataclass(frozen=True)
class ProcessResult:
    """`output` is the end of stdout and stderr together."""

    code: int
    output: str

    @property
    def last_line(self) -> str:
        """The last line of its output, at most 300 characters; else its exit code."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"exit code {self.code}"


class Running(Protocol):
    """A command that goes on beside the agent; both streams are one."""

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        ...

    def read(self, most: int) -> bytes:
        """Output that was not read yet, at most `most` bytes, without waiting; b"" where there is none."""
        ...

    def rest(self, seconds: float) -> None:
        """Wait for its end, and end it after `seconds`; `read` then gives what is left."""

    def kill(self) -> None:
        """End it at once."""
        ...


class Processes(Protocol):
    """What commands are run with."""

    def run(self, words: Sequence[str], seconds: float, value: str = "") -> ProcessResult:
        """Run a command to its end, for at most so many seconds, with `value` on its standard input. A command that
        does not exist gives exit code 127.
        """
        ...

    def start(self, words: Sequence[str]) -> Running:
        """Start a command and return without waiting for it."""
        ...


def watched(clock: Clock, running: Running, seconds: float) -> Steps[ProcessResult]:
    """A command that goes on beside, to its end; it is killed after so many seconds, or when nobody waits."""
    limit = clock.steady() + seconds
    output_tail = b""
    try:
        while running.poll() is None and clock.steady() < limit:
            output_tail = (output_tail + running.read(KEPT_BYTES))[-KEPT_BYTES:]
            yield 0.5
    finally:
        late = running.poll() is None
        running.kill()
        running.rest(5.0)
    while data := running.read(KEPT_BYTES):
        output_tail = (output_tail + data)[-KEPT_BYTES:]
    code = TIMED_OUT if late else running.poll()
    note = f"\nno end after {seconds:.0f} s" if late else ""
    return ProcessResult(TIMED_OUT if code is None else code, output_tail.decode(errors="replace") + note)


class MachineProcesses:
    """The machine's own. `environment` replaces the agent's where it is given."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = environment

    def run(self, words: Sequence[str], seconds: float, value: str = "") -> ProcessResult:
        with tempfile.TemporaryFile() as output_file:
            try:
                ran = subprocess.run(
                    list(words),
                    input=value.encode(),
                    stdout=output_file,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                    check=False,
                    env=self._environment,
                )
                code = ran.returncode
            except subprocess.TimeoutExpired:
                return ProcessResult(TIMED_OUT, f"{_end(output_file)}\nno end after {seconds:.0f} s")
            except OSError as error:
                return ProcessResult(NOT_STARTED, f"{words[0]}: {error.strerror}")
            return ProcessResult(code, _end(output_file))

    def start(self, words: Sequence[str]) -> Running:
        return _Beside(words, self._environment)


class _Beside:
    """A running process. Its output goes through a pipe that is read as it comes, so that none piles up on the disk."""

    def __init__(self, words: Sequence[str], environment: dict[str, str] | None) -> None:
        self._code: int | None = None
        self._rest = b""
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
            self._code, self._rest = NOT_STARTED, f"{words[0]}: {error.strerror}\n".encode()
        else:
            os.set_blocking(self._pipe.fileno(), False)

    def poll(self) -> int | None:
        if self._process is not None and self._code is None:
            self._code = self._process.poll()
        return self._code

    def read(self, most: int) -> bytes:
        if self._process is None or self._pipe.closed:
            data, self._rest = self._rest[:most], self._rest[most:]
            return data
        return self._pipe.read(most) or b""

    def rest(self, seconds: float) -> None:
        if self._process is None or self._pipe.closed:
            return
        os.set_blocking(self._pipe.fileno(), True)
        try:
            data, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            data, _ = self._process.communicate()
        self._rest = data or b""

    def kill(self) -> None:
        if self._process is not None and self.poll() is None:
            self._process.kill()

    @property
    def _pipe(self) -> Any:
        if self._process is None or self._process.stdout is None:
            raise AssertionError("it never started")
        return self._process.stdout


def _end(stream: IO[bytes]) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - KEPT_BYTES))
    return stream.read().decode(errors="replace")
