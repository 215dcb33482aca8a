"""The process that trains one trial of a sweep. A process each: what a framework keeps of one net ends with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Protocol


class TrialProcess(Protocol):
    """A trainer that was started."""

    def wait(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal; None where it is still running after so many seconds."""
        ...

    def stop(self) -> None:
        """Ask it to write a checkpoint and end."""
        ...


Start = Callable[[Sequence[str]], TrialProcess]
"""Starts the trainer with these arguments."""


class ChildProcess:
    """The trainer in a process of this Python. It ends when this process does, however that ends."""

    def __init__(self, arguments: Sequence[str]) -> None:
        safe = ("-P",) if sys.flags.safe_path else ()
        command = [sys.executable, *safe, "-m", "trainplan.workloads.trainer", *arguments, "--with-parent"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        self._process.terminate()
