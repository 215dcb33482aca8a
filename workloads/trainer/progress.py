"""What a launcher can read while training runs: progress.jsonl, appended, and status.json, replaced."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from trainplan.workloads.processor_time import ProcessorTime, processor_time
from trainplan.workloads.secret_rules import without_secret_fields, without_secrets


class State(StrEnum):
    """What the trainer does, as its status file says it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """`wall` in seconds since 1970, for stamps and deadlines; `monotonic` in seconds, for durations; `processors` tells
    who uses them."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    processors: Callable[[], ProcessorTime] = processor_time


class Progress:
    """Writes one attempt's folder. A full disk costs lines, never the training."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Makes the folder. Raises OSError where it cannot be made."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._clock = clock
        self._complained = False
        self._epoch = 0
        self._step = 0

    def event(self, name: str, /, **fields: object) -> None:
        """Append one line to progress.jsonl and hand it to the system at once. Its texts are without secrets, as all
        that is written here: an error of a person's program may hold some."""
        numbers = {key: None if _is_no_number(value) else value for key, value in without_secret_fields(fields).items()}
        line = json.dumps({"event": name, "time": self._now(), **numbers}, default=str, allow_nan=False)
        self._attempt(lambda: self._append(line))

    def status(self, state: State, message: str = "", *, epoch: int | None = None, step: int | None = None) -> None:
        """Replace status.json, so that a reader never sees half of it; without epoch and step the last ones stay."""
        self._epoch = self._epoch if epoch is None else epoch
        self._step = self._step if step is None else step
        record = {"state": state.value, "time": self._now(), "epoch": self._epoch, "step": self._step}
        text = json.dumps({**record, "message": without_secrets(message)})
        self._attempt(lambda: write_atomically(self._folder / "status.json", text))

    def details(self, text: str) -> None:
        """What only somebody who repairs the trainer wants to read: log/traceback.txt."""
        self._attempt(lambda: self._log(without_secrets(text)))

    def warn(self, message: str) -> None:
        """Something went wrong that training survives: a line in progress.jsonl and on stderr."""
        complain(f"warning: {message}")
        self.event("warning", message=message)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times a phase, however it ends."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.event("phase", name=name, seconds=round(self._clock.monotonic() - began, 3))

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.wall(), tz=UTC).isoformat(timespec="milliseconds")

    def _append(self, line: str) -> None:
        with (self._folder / "progress.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _log(self, text: str) -> None:
        folder = self._folder / "log"
        folder.mkdir(exist_ok=True)
        (folder / "traceback.txt").write_text(text, encoding="utf-8", errors="backslashreplace")

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            if not self._complained:
                complain(f"warning: progress cannot be written: {error}")
            self._complained = True


def _is_no_number(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def write_atomically(path: Path, text: str) -> None:
    """The whole text or the file as it was; on disk when this returns. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def complain(message: str) -> None:
    """Write one line to standard error, without secrets."""
    sys.stderr.write(without_secrets(message) + "\n")
    sys.stderr.flush()
