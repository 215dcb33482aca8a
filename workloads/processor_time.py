"""Who uses the processors of this computer: this process with its children, and all programs together."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

_STAT_FIELDS = 8
"""Of a line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (proc(5))."""
_TICKS_PER_SECOND = 100
"""USER_HZ, in which /proc/stat counts: 100 on every architecture that frameworks are built for (proc(5))."""


class ProcessorTime(NamedTuple):
    """A reading: seconds of a clock, processor seconds of all programs (None: not told) and of this process."""

    at: float
    busy: float | None
    own: float


def processor_time() -> ProcessorTime:
    """The reading of now. Children count once they have ended."""
    return ProcessorTime(time.monotonic(), busy_seconds(), sum(os.times()[:4]))


def others_share(first: ProcessorTime, last: ProcessorTime, processors: int | None = None) -> float | None:
    """The share, 0 to 1, of so many processors (None: those of this computer) that other programs had between two
    readings; None where the system does not tell."""
    seconds = last.at - first.at
    if first.busy is None or last.busy is None or seconds <= 0:
        return None
    others = last.busy - first.busy - (last.own - first.own)
    return min(1.0, max(0.0, others / (seconds * (processors or os.cpu_count() or 1))))


def busy_seconds(root: Path = Path("/")) -> float | None:
    """Processor seconds that were not idle since the system started, of all programs and of what the hypervisor gave to
    others (steal), over all logical processors of the system; None where it does not tell."""
    try:
        lines = (root / "proc/stat").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    fields = next((line.split() for line in lines if line.startswith("cpu ")), [])
    ticks = [int(field) for field in fields[1:9] if field.isdigit()]
    if len(ticks) < _STAT_FIELDS:
        return None
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / _TICKS_PER_SECOND
