"""What other programs leave of this machine's processors."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainplan.providers.hardware import running_threads, this_machine
from trainplan.workloads.processor_time import busy_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

# Others on so much of what we do not use ourselves leave nothing free: then it counts how many threads are waiting.
_FULL = 0.9
_NOT_IN_THE_WAY = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`free_share` is the share of the processors, 0 to 1, that a training would have now beside other programs."""

    free_share: float = 1.0

    @property
    def text(self) -> str:
        """Return the load in words; "" where no other program runs."""
        if self.free_share > _NOT_IN_THE_WAY:
            return ""
        return f"slower while other programs run (now: {self.free_share:.0%} free)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A look at the system: seconds of a clock, processor seconds of all programs (None: not told) and of our own, and
    the threads that have or want a processor at this instant, this one among them."""

    at: float
    busy: float | None
    own: float
    threads: int


def read_system() -> Reading:
    """The system as it is now."""
    return Reading(at=time.monotonic(), busy=busy_seconds(), own=time.process_time(), threads=running_threads())


def load_since(first: Reading, last: Reading, vcpus: int, processors: int | None = None) -> Load:
    """What is left for a training of `vcpus` threads on a system of so many `processors` (None: those of this one), as
    the scheduler shares them out: evenly among all threads that want one.

    Others count as many threads as the processors they kept busy between the two readings. Where nothing was free,
    those that wait count too: the fewer of the two readings, since a thread may run for a moment. A mean of the last
    minute would count a training of ours that has just ended.
    """
    processors = processors or os.cpu_count() or 1
    seconds = last.at - first.at
    if first.busy is None or last.busy is None or seconds <= 0:
        return Load()
    own = (last.own - first.own) / seconds
    others = max(0.0, (last.busy - first.busy) / seconds - own)
    if others + own >= _FULL * processors:
        others = max(others, min(first.threads, last.threads) - 1.0)
    return Load(free_share=min(1.0, processors / (vcpus + others)))


def load_from_here_on() -> Callable[[], Load]:
    """What gives the load of this machine since this call: what other programs take is seen while the plan is made, and
    nobody waits for it."""
    before = read_system()
    return lambda: load_since(before, read_system(), this_machine().vcpus)
