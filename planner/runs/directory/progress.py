"""What the trainer has said so far, read from the run directory as it grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from trainplan.providers.agent.schema import LONGEST_LINE_BYTES, instant, progress_line
from trainplan.workloads.secret_rules import may_hold_secrets, without_secret_fields
from trainplan.workloads.terminal_text import one_line

Line = dict[str, Any]

MOST_BYTES = 64 * 1024 * 1024
"""Of one attempt's progress; the agent of a rented machine sends at most 8 MiB (providers/agent/progress.py)."""
_PIECE_BYTES = 1024 * 1024
# A rented machine writes these lines: what is kept of them in memory has to be bounded.
_MOST_PHASES = 50
_MOST_EPOCHS = 100_000
_MOST_TRIES = 100
_MOST_PHASE_SECONDS = 1e6
MOST_RATES = 200
"""Of the first that are reported, from which it is told how fast an attempt trains."""


class Reads(Protocol):
    """What of a run directory (trainplan.providers.base.RunStore) is needed here."""

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        """Read at most `size` bytes from `start` on; b"" past the end. Raises KeyError where there is no such file."""
        ...


class ProgressReader:
    """Reads an attempt's progress.jsonl on from where it stopped; half a line waits for its other half.

    Lines come checked (trainplan.providers.agent.schema), without control characters and without what looks like a
    secret. What cannot be used is skipped: `unreadable` counts these lines. No content of the file raises an error.
    """

    def __init__(self, store: Reads, attempt: int) -> None:
        self.unreadable = 0
        self._store = store
        self._path = f"attempts/{attempt}/progress.jsonl"
        self._offset = 0
        self._rest = b""
        self._is_too_long = False

    def new_lines(self) -> Iterator[Line]:
        """Raises ProviderError."""
        is_more = True
        while is_more:
            data = self._piece()
            is_more = len(data) == _PIECE_BYTES
            *whole, self._rest = (self._rest + data).split(b"\n")
            for raw in whole:
                yield from self._checked(raw)
            if len(self._rest) > LONGEST_LINE_BYTES:  # its end may never come
                self._rest, self._is_too_long = b"", True

    def _piece(self) -> bytes:
        size = min(_PIECE_BYTES, MOST_BYTES - self._offset)
        try:
            data = self._store.get(self._path, start=self._offset, size=size) if size > 0 else b""
        except KeyError:
            return b""
        self._offset += len(data)
        return data

    def _checked(self, raw: bytes) -> Iterator[Line]:
        line = None if self._is_too_long else progress_line(raw)
        self._is_too_long = False
        if line is not None:
            if may_hold_secrets(raw.decode("utf-8", "replace")):  # a program of the person's own may write the file too
                line = without_secret_fields(line)
            yield {name: one_line(value) if isinstance(value, str) else value for name, value in line.items()}
        elif raw.strip():
            self.unreadable += 1


def unreadable_text(lines: int) -> str:
    """Say how many lines of progress were skipped; "" for none."""
    if not lines:
        return ""
    return f"{lines:,} line{'s' if lines > 1 else ''} of progress could not be read"


@dataclass(slots=True)
class Story:
    """What one attempt's progress adds up to. Seconds are the trainer's own; `unreadable` lines were skipped."""

    unreadable: int = 0
    start: Line | None = None
    end: Line | None = None
    early_end: Line | None = None
    last_step: Line | None = None
    resumed_from: int | None = None
    """The step that it first began at; None where it has not told."""
    restarts: int = 0
    """How often training began again within the attempt: on a cluster, which requeues its jobs, and on a machine that
    restarted."""
    lost_steps: int = 0
    """What was trained before these beyond the checkpoints that they went on from."""
    checkpoint_step: int = 0
    epochs: list[Line] = field(default_factory=list)
    tries: list[Line] = field(default_factory=list)
    phase_seconds: dict[str, float] = field(default_factory=dict)
    began_at: datetime | None = None
    """When the attempt's trainer began, by its first line."""
    last_at: datetime | None = None
    """When the newest line was written."""
    rates: list[float] = field(default_factory=list)
    """In images per second, since the report before; the first is left out, while caches fill."""
    _is_warm: bool = False

    def add(self, line: Line) -> None:
        """Take in the next line; a line of an event that this version does not know changes the instant alone."""
        self._add_instant(line)
        match line["event"]:
            case "start":
                self._begin(line)
            case "step":
                self.last_step = line
                self._add_rate(line)
            case "epoch":
                _add_bounded(self.epochs, line, _MOST_EPOCHS)
            case "phase":
                self._add_phase(str(line["name"]), float(line["seconds"]))
            case "checkpoint":
                self.checkpoint_step = int(line["step"])
            case "end":
                self.end = line
            case "try":
                _add_bounded(self.tries, line, _MOST_TRIES)
            case "early_end":
                self.early_end = line
            case _:
                pass

    @property
    def step(self) -> int:
        """The newest step that was reported; before the first one, the step that the attempt started from."""
        for line in (self.end, self.last_step):
            if line is not None and "step" in line:
                return int(line["step"])
        return int(self.start.get("resumed_from_step", 0)) if self.start else 0

    @property
    def total_steps(self) -> int | None:
        """None where the trainer has not told."""
        return self.start.get("total_steps") if self.start else None

    @property
    def device(self) -> str | None:
        """What it trains on, in words; None where it has not begun."""
        return device_text(self.start) if self.start else None

    @property
    def framework(self) -> str | None:
        """Return name and version of the framework; None where training has not begun."""
        return framework_text(self.start) if self.start else None

    @property
    def images_per_second(self) -> float | None:
        """The rate of the whole training, else the newest that was reported; None before there is one."""
        for line in (self.end, self.last_step):
            if line is not None and line.get("images_per_second"):
                return float(line["images_per_second"])
        return None

    @property
    def validation_accuracy(self) -> float | None:
        """Return the accuracy of the last validation, as a share of 1; None before the first."""
        values = (line.get("validation_accuracy") for line in reversed(self.epochs))
        return next((float(value) for value in values if value is not None), None)

    @property
    def last_epoch_at(self) -> datetime | None:
        """When the last whole epoch ended."""
        return instant(self.epochs[-1].get("time")) if self.epochs else None

    @property
    def first_step_at(self) -> datetime | None:
        """When the trainer was ready for its first step."""
        return instant(self.start.get("time")) if self.start else None

    def _begin(self, line: Line) -> None:
        if self.start is not None:
            self.restarts += 1
            self.lost_steps += max(0, self.step - int(line.get("resumed_from_step") or 0))
        elif "resumed_from_step" in line:
            self.resumed_from = int(line["resumed_from_step"])
        self.start, self.end, self.last_step = line, None, None

    def _add_instant(self, line: Line) -> None:
        self.last_at = instant(line.get("time")) or self.last_at
        if self.began_at is None and self.last_at is not None:
            # A phase is told when it has ended.
            seconds = min(float(line.get("seconds", 0)), _MOST_PHASE_SECONDS)
            self.began_at = self.last_at - timedelta(seconds=seconds)

    def _add_rate(self, line: Line) -> None:
        rate = line.get("images_per_second")
        if rate and self._is_warm and len(self.rates) < MOST_RATES:
            self.rates.append(float(rate))
        self._is_warm = self._is_warm or bool(rate)

    def _add_phase(self, name: str, seconds: float) -> None:
        if name in self.phase_seconds or len(self.phase_seconds) < _MOST_PHASES:
            self.phase_seconds[name] = self.phase_seconds.get(name, 0.0) + seconds


def _add_bounded(lines: list[Line], line: Line, most: int) -> None:
    """A rented machine writes these lines, so their number is limited here."""
    if len(lines) < most:
        lines.append(line)


def device_text(start: Line) -> str:
    """The count and name of the devices of a `start` line; a container need not tell either."""
    return f"{start.get('device_count', 1)} x {start.get('device_name', 'an unnamed device')}"


def framework_text(start: Line) -> str:
    """The framework of a `start` line with its version; a container need not tell either."""
    return f"{start.get('framework', 'an unnamed framework')} {start.get('framework_version', '')}".rstrip()


def try_text(line: Line) -> str:
    """A `try` line in words: what was trained with, and what became of it."""
    how = f"micro-batch {line['micro_batch_size']:,}{', XLA' if line['xla'] is True else ''}"
    rate, width = line.get("images_per_second"), line.get("half_width")
    if not rate:
        return f"{how}: {str(line['state']).replace('_', ' ')}"
    return f"{how}: {rate:,.0f} images/s{'' if width is None else f' ± {width:.1%}'}"


def story_of(store: Reads, attempt: int) -> Story:
    """The whole of an attempt's progress as it stands. Raises ProviderError."""
    story = Story()
    reader = ProgressReader(store, attempt)
    for line in reader.new_lines():
        story.add(line)
    story.unreadable = reader.unreadable
    return story
