"""What other programs leave of this machine's processors."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainplan.providers.hardware import queue_length, this_machine
from trainplan.workloads.processor_time import busy_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainplan.planner.throughput.values import Throughput

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
        return f"other programs are running, which leave {self.free_share:.0%} of its processors to this job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A look at the system: seconds of a clock, processor seconds of all programs (None: not told) and of our own, and
    the threads that had or wanted a processor in the last minute."""

    at: float
    busy: float | None
    own: float
    queue: float


def read_system() -> Reading:
    """The system as it is now."""
    return Reading(at=time.monotonic(), busy=busy_seconds(), own=time.process_time(), queue=queue_length())


def load_since(first: Reading, last: Reading, vcpus: int, processors: int | None = None) -> Load:
    """What is left for a training of `vcpus` threads on a system of so many `processors` (None: those of this one), as
    the scheduler shares them out: evenly among all threads that want one.

    Others count as many threads as the processors they kept busy between the two readings. Where nothing was free, the
    mean of the last minute counts if that is more; alone it would count a program of ours that has just ended.
    """
    processors = processors or os.cpu_count() or 1
    seconds = last.at - first.at
    if first.busy is None or last.busy is None or seconds <= 0:
        return Load()
    own = (last.own - first.own) / seconds
    others = max(0.0, (last.busy - first.busy) / seconds - own)
    if others + own >= _FULL * processors:
        others = max(others, last.queue - own)
    return Load(free_share=min(1.0, processors / (vcpus + others)))


def load_from_here_on() -> Callable[[], Load]:
    """What gives the load of this machine since this call: what other programs take is seen while the plan is made, and
    nobody waits for it."""
    before = read_system()
    return lambda: load_since(before, read_system(), this_machine().vcpus)


def under_load(answer: Throughput, load: Load) -> Throughput:
    """The answer for a machine that others use too; its interval reaches up to the machine at rest."""
    if not load.text:
        return answer
    return replace(
        answer,
        images_per_second=answer.images_per_second * load.free_share,
        low=answer.low * load.free_share,
        note=f"{answer.note}; {load.text}" if answer.note else load.text,
    )
