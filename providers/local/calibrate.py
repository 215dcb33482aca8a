"""How fast this machine trains now: the trainer itself, for seconds, where this Python has the framework."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.hardware import MeasuredSpeed
from workloads.processor_time import ProcessorTime, busy_seconds, others_share

if TYPE_CHECKING:
    from workloads.job import TrainingJob

SECONDS = 2.0
"""Of training behind the first step, which compiles."""
# Import, compilation and the steps took 5 to 15 s with TensorFlow 2.21 on 2 busy cores of an AMD EPYC (Zen 4),
# 2026-11-23; an allowance for slower disks and processors. Nobody waits longer for a better estimate.
PATIENCE_SECONDS = 60.0
_MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopwatch:
    """What a measurement reads: seconds of a clock, of all programs on the processors (None: not told), and of our own
    children; `processors` are those that the system has."""

    now: Callable[[], float] = time.monotonic
    busy: Callable[[], float | None] = busy_seconds
    own: Callable[[], float] = lambda: sum(os.times()[2:4])
    processors: int = os.cpu_count() or 1


def measure_speed(
    job: TrainingJob,
    program: tuple[str, ...],
    environment: Mapping[str, str],
    seconds: float = SECONDS,
    stopwatch: Stopwatch | None = None,
) -> MeasuredSpeed | None:
    """Trains the job for `seconds` by the trainer's command `program`; None where that fails, or takes too long.

    Nothing of it stays: neither a model nor a run.
    """
    watch = stopwatch or Stopwatch()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job.json").write_text(job.to_json(), encoding="utf-8")
        arguments = ("--job", str(folder / "job.json"), "--run-dir", name, "--attempt", "1")
        limits = ("--max-steps", str(_MOST_STEPS), "--max-seconds", f"{seconds:g}")
        before = ProcessorTime(watch.now(), watch.busy(), watch.own())
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*program, *arguments, *limits],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PATIENCE_SECONDS,
                env={**environment, "CUDA_VISIBLE_DEVICES": "-1"},
            )
        after = ProcessorTime(watch.now(), watch.busy(), watch.own())
        events = _events(folder / "attempts" / "1" / "progress.jsonl")
    start, end = events.get("start"), events.get("end")
    if start is None or end is None or not end.get("images_per_second", 0) > 0:
        return None
    return MeasuredSpeed(
        images_per_second=float(end["images_per_second"]),
        others=others_share(before, after, watch.processors) or 0.0,
        framework=f"{start['framework']} {start['framework_version']}",
    )


def _events(path: Path) -> dict[str, dict[str, Any]]:
    """The last event of each name that the trainer has told; a line that cannot be read is passed over."""
    events: dict[str, dict[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return events
    for line in lines:
        with suppress(ValueError, TypeError, KeyError):
            event = dict(json.loads(line))
            events[str(event["event"])] = event
    return events
