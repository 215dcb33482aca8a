"""A `plan` command in a process of its own, with somebody at its terminal (a pseudo-terminal)."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conftest import ROOT
from tests.doubles.waiting import PATIENCE_SECONDS, until
from trainplan.planner.api.ask import _has_text  # a descriptor above 1,023 too: many tests run in one process

CODE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "sys.argv[1:] = {arguments!r}; from trainplan.planner.cli.main import main; main()"
)
"""Ctrl-C is heard as at a terminal, also where the tests were started in the background, where it is ignored."""


def command_line(*arguments: object) -> list[str]:
    """What starts `plan` in an interpreter of this checkout."""
    return [sys.executable, "-c", CODE.format(arguments=[str(argument) for argument in arguments])]


def own_environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """State below `folder`, nothing of this computer's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLAN_")}
    # So wide that a test finds a sentence on one line.
    there = {"PLAN_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "400"}
    return kept | there | dict(more)


class AtPty:
    """The command with its standard input and error at the terminal; `shown` is what the terminal has shown so far."""

    is_output_there = False
    """Whether its standard output is at the terminal too."""

    def __init__(self, folder: Path, *arguments: object, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        self.screen = ""
        self.process = subprocess.Popen(
            command_line(*arguments), cwd=folder, env=own_environment(folder, environment), stdin=theirs,
            stdout=theirs if self.is_output_there else subprocess.PIPE, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.send(signal.SIGCONT)
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        os.close(self._ours)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def send(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def wait_for(self, text: str, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Until the terminal has shown it."""

        def shown_or_over() -> bool:
            over = self.process.poll() is not None
            return text in self._read() or over

        try:
            until(shown_or_over, f"{text!r} is shown", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen}") from None
        assert text in self.screen, self.screen

    def wait_for_end(self, *, seconds: float = PATIENCE_SECONDS) -> tuple[int, str]:
        """The exit code and what was printed, once it has ended."""
        until(lambda: self._read() is not None and self.process.poll() is not None, "it ends", seconds=seconds)
        self._read()
        out, _ = self.process.communicate()
        return self.process.returncode, (out or b"").decode()

    def _read(self) -> str:
        while _has_text(self._ours, 0):
            try:
                text = os.read(self._ours, 65536)
            except OSError:  # how a terminal ends whose other side has gone
                break
            if not text:
                break
            self.screen += text.decode(errors="replace")
        return self.screen


class AllAtPty(AtPty):
    """The command with all of its standard streams at the terminal."""

    is_output_there = True
