"""What the trainer has said so far, read from the run directory as it grows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from providers.base import RunStore

Line = dict[str, Any]


class ProgressReader:
    """Reads an attempt's progress.jsonl on from where it stopped; half a line waits for its other half."""

    def __init__(self, store: RunStore, attempt: int) -> None:
        self._store = store
        self._path = f"attempts/{attempt}/progress.jsonl"
        self._offset = 0
        self._rest = b""

    def new_lines(self) -> Iterator[Line]:
        try:
            data = self._store.get(self._path, start=self._offset)
        except KeyError:
            return
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        for raw in whole:
            line = _parsed(raw)
            if line is not None:
                yield line


def _parsed(raw: bytes) -> Line | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("event"), str) else None


@dataclass(slots=True)
class Story:
    """What one attempt's progress adds up to. Seconds are the trainer's own."""

    start: Line | None = None
    end: Line | None = None
    last_step: Line | None = None
    checkpoint_step: int = 0
    epochs: list[Line] = field(default_factory=list)
    phase_seconds: dict[str, float] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        match line["event"]:
            case "start":
                self.start = line
            case "step":
                self.last_step = line
            case "epoch":
                self.epochs.append(line)
            case "phase":
                name = str(line["name"])
                self.phase_seconds[name] = self.phase_seconds.get(name, 0.0) + float(line["seconds"])
            case "checkpoint":
                self.checkpoint_step = int(line["step"])
            case "end":
                self.end = line
            case _:
                pass

    @property
    def step(self) -> int:
        for line in (self.end, self.last_step):
            if line is not None:
                return int(line["step"])
        return int(self.start["resumed_from_step"]) if self.start else 0

    @property
    def images_per_second(self) -> float | None:
        for line in (self.end, self.last_step):
            if line is not None and line.get("images_per_second"):
                return float(line["images_per_second"])
        return None

    @property
    def last_epoch_at(self) -> datetime | None:
        """When the last whole epoch ended."""
        return datetime.fromisoformat(self.epochs[-1]["time"]) if self.epochs else None

    @property
    def first_step_at(self) -> datetime | None:
        """When the trainer was ready for its first step."""
        return datetime.fromisoformat(self.start["time"]) if self.start else None


def story_of(store: RunStore, attempt: int) -> Story:
    """The whole of an attempt's progress as it stands."""
    story = Story()
    for line in ProgressReader(store, attempt).new_lines():
        story.add(line)
    return story
