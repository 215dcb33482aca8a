"""What a script has told of itself in progress.jsonl, read as it grows. Nothing in it is believed."""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeGuard

from trainplan.workloads.secret_rules import secret_kinds, without_secrets
from trainplan.workloads.sweep import FIGURE_NAME
from trainplan.workloads.trainer.devices import cpu_name

_READ_BYTES = 1024 * 1024
_MOST_LINE_BYTES = 16 * 1024
_LEAST_SECONDS, _ENOUGH_SECONDS, _MOST_SECONDS = 16.0, 60.0, 120.0
_LEAST_REPORTS, _ENOUGH_REPORTS = 4, 50
_STEADY = 0.03
_MOST_NAMES, _LARGEST = 20, 1e300
_TRAINED_WITH = ("framework", "framework_version", "python_version", "device_kind", "device_name")
_GPU_DRIVER = Path("/dev/nvidiactl")
"""Without it a script that names no framework computes on the processor."""
_MOST_TEXT = 100
_NO_FIGURES = frozenset(
    {"event", "time", "step", "epoch", "reports", "images_per_second", "half_width", "began_anew_after"}
)
_FIGURE_NAME = re.compile(FIGURE_NAME, re.ASCII)
OF_EVERY_TRAINER = ("loss", "accuracy", "validation_loss", "validation_accuracy")
"""Figures that our trainer has too, under the same names."""


class Reports:
    """The newest figures of one attempt. `now` is steady, in seconds. With `skips` what is there already is passed
    over. `figure` is the name of one that is looked for: `value` is its newest value (None: no number), `told_figure`
    whether it was told at all, and `names` what else was. `figures` are the newest numbers by name, the first 20 names
    of them. `began_anew` is the step after which a lower one was told (None: never). `trained_with` says what the
    script trains with, `resumed_step` from where it went on."""

    def __init__(self, path: Path, *, skips: bool = False, figure: str = "") -> None:
        self.step = 0
        self.first_step = 0
        self.resumed_step = 0
        self.trained_with: dict[str, str] = {}
        self.count = 0
        self.images_per_second: float | None = None
        self.half_width: float | None = None
        self.checkpoint_seconds: float | None = None
        self.has_checkpoint = False
        self.checkpoints = 0
        self.figures: dict[str, float] = {}
        self.began_anew: int | None = None
        self.total_steps: int | None = None
        self.told_figure = False
        self.value: float | None = None
        self.names: set[str] = set()
        self.dropped: set[str] = set()
        self._figure = figure
        self.first_at: float | None = None
        self._path = path
        self._offset = path.stat().st_size if skips and path.is_file() else 0
        self._rest = b""

    def read(self, now: float) -> None:
        """Read on, a bounded piece."""
        data = self._piece()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_MOST_LINE_BYTES:]
        for line in lines:
            with suppress(ValueError, RecursionError):
                document = json.loads(line) if len(line) <= _MOST_LINE_BYTES else None
                if isinstance(document, dict):
                    self._add(document, now)

    @property
    def are_of_all(self) -> bool:
        """Whether the script has told that all of its steps are done."""
        return self.total_steps is not None and self.step >= self.total_steps

    def remarks(self) -> list[str]:
        """What the steps that were told cannot mean, and which figures are not kept."""
        return [*self._of_steps(), *self._of_figures()]

    def _of_figures(self) -> list[str]:
        if not self.dropped:
            return []
        more = ", …" if len(self.dropped) > 3 else ""
        names = ", ".join(repr(without_secrets(name)[:40]) for name in sorted(self.dropped)[:3])
        return [
            f"figures that are not kept: {names}{more}; the first {_MOST_NAMES} are, by names of letters, digits, "
            "_ . / - and blanks within"
        ]

    def _of_steps(self) -> list[str]:
        if self.began_anew is not None:
            return [
                f"the steps that the script told began anew after {self.began_anew}: how far it is was not known; "
                "report(step) counts from the beginning of the training, through all epochs"
            ]
        if self.total_steps is not None and self.step > self.total_steps:
            return [f"the script told {self.step} steps, and total_steps={self.total_steps} as all that it does"]
        return []

    def is_enough(self, now: float, most_steps: int) -> bool:
        """Whether a pilot knows the rate, or there is no time for more of it."""
        if self.first_at is None or self.images_per_second is None:
            return False
        seconds = now - self.first_at
        if self.step - self.first_step >= most_steps or (seconds >= _MOST_SECONDS and self.count >= _LEAST_REPORTS):
            return True
        if self.count < _ENOUGH_REPORTS or self.half_width is None or seconds < _LEAST_SECONDS:
            return False
        return self.half_width < _STEADY or seconds >= _ENOUGH_SECONDS

    def _piece(self) -> bytes:
        """b"" also for what is no plain file: a pipe would hold the trainer up."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(self._path, flags)
        except OSError:
            return b""
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            os.lseek(descriptor, self._offset, os.SEEK_SET)
            return os.read(descriptor, _READ_BYTES)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def _add(self, line: dict[str, Any], now: float) -> None:
        event, step = line.get("event"), line.get("step")
        if event == "start":
            total = line.get("total_steps")
            self.total_steps = int(total) if isinstance(total, int) and _positive(total) else self.total_steps
            resumed = line.get("resumed_from_step")
            self.resumed_step = resumed if _is_step(resumed) else 0
            texts = {name: line[name] for name in _TRAINED_WITH if isinstance(line.get(name), str)}
            if texts.get("device_kind", "gpu" if _GPU_DRIVER.exists() else "cpu") == "cpu":
                texts["device_name"] = cpu_name()  # no framework has a name for it
            self.trained_with = {name: text[:_MOST_TEXT] for name, text in texts.items()}
        if event == "checkpoint":
            self.has_checkpoint = True
            self.checkpoints += 1
            self.checkpoint_seconds = _positive(line.get("seconds")) or self.checkpoint_seconds
        if not _is_step(step) or event not in ("step", "checkpoint"):
            return
        before = self.step
        self.step = step  # of a checkpoint too: not every report is a line
        if event == "checkpoint":
            return
        # Not every report is a line: the script's side notes what it saw between two of them.
        after = line.get("began_anew_after", before if step < before else None)
        self.began_anew = after if _is_step(after) else self.began_anew
        if self.first_at is None:
            self.first_at, self.first_step = now, self.step
        count = line.get("reports")
        self.count = count if isinstance(count, int) and not isinstance(count, bool) else self.count + 1
        self.images_per_second = _positive(line.get("images_per_second")) or self.images_per_second
        self.half_width = _positive(line.get("half_width")) or self.half_width
        self._add_figures(line)

    def _add_figures(self, line: dict[str, Any]) -> None:
        self.names |= {name for name in line if name not in _NO_FIGURES and len(self.names) < _MOST_NAMES}
        for name, value in line.items():
            is_one = name in self.figures or (len(self.figures) < _MOST_NAMES and is_figure_name(name))
            if is_one and name not in _NO_FIGURES and (number := _number(value)) is not None:
                self.figures[name] = number
            elif name not in _NO_FIGURES and len(self.dropped) < _MOST_NAMES and _number(value) is not None:
                self.dropped.add(name)
        if self._figure in line:
            self.told_figure, self.value = True, _number(line[self._figure])


def is_figure_name(name: str) -> bool:
    """Whether a figure of this name is kept: it has plain letters, and looks like no secret."""
    return _FIGURE_NAME.fullmatch(name) is not None and not any(secret_kinds(name))


def _is_step(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < _LARGEST else None  # type: ignore[arg-type]


def _positive(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e15 else None  # type: ignore[arg-type,operator]
