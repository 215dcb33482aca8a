"""The wait in the queue of the person's own cluster: what the scheduler says of a job now, and how long others waited.

It adds to the time of a run and not to its cost, and it is no search: nobody refuses, and the run stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.durations import format_duration

if TYPE_CHECKING:
    from trainplan.planner.forecast.times import RunTime
    from trainplan.providers.abilities import QueueAnswer


class QueueWait(NamedTuple):
    """`expected`, with the ends `low` and `high` of an interval (P10 and P90 of what others waited); `ground` says what
    it rests on."""

    expected: timedelta
    low: timedelta
    high: timedelta
    ground: str

    def delayed(self, time: RunTime) -> RunTime:
        """The run with the wait in its training time, as that of a search is; the low end with the shortest wait."""
        return time.later(self.expected, self.low, self.high)


def queue_wait(answer: QueueAnswer, lasting: timedelta, own: Sequence[timedelta]) -> QueueWait | None:
    """What is expected: the scheduler's word, or else the median of the past. The past is that of the partition, or,
    where no accounting tells it, of this home's own runs there. None where nobody knows anything."""
    past = answer.past or tuple(own)
    grounds, ends = [_of_scheduler(answer, lasting)], None
    if past:
        ends = _ends(past)
        waited = f"waited {_text(ends[1])} ({_text(ends[0])} to {_text(ends[2])})"
        one, more = ("job", "jobs") if answer.past else ("run of this home", "runs of this home")
        which = "that began in this partition lately" if answer.past else "in this partition"
        grounds.append(f"{len(past)} {one if len(past) == 1 else more} {which} {waited}")
    if answer.past is None:
        grounds.append("the cluster has no accounting that can be read")
    elif not answer.past:
        grounds.append("its accounting has no job that began there lately")
    if not past:
        grounds.append("no run of this home began there")
    expected = answer.starts_in if answer.starts_in is not None else (ends[1] if ends else None)
    if expected is None:
        return None
    span = (expected, ends[0], ends[2]) if ends else (expected,)
    return QueueWait(expected, min(span), max(span), "; ".join(grounds))


def _ends(past: Sequence[timedelta]) -> tuple[timedelta, timedelta, timedelta]:
    """P10, median and P90."""
    seconds = [wait.total_seconds() for wait in past]
    tenths = quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else seconds * 9
    return timedelta(seconds=tenths[0]), timedelta(seconds=median(seconds)), timedelta(seconds=tenths[8])


def explain_queue(wait: QueueWait) -> list[str]:
    """What `--explain` says of it."""
    return [
        f"{_text(wait.expected)} ({_text(wait.low)} to {_text(wait.high)}), counted in the time, not in the cost",
        *wait.ground.split("; "),
    ]


def _of_scheduler(answer: QueueAnswer, lasting: timedelta) -> str:
    if answer.refusal:
        return f"`sbatch --test-only` refuses a job of {_text(lasting)}: {answer.refusal}"
    if answer.starts_in is None:
        return "`sbatch --test-only` names no instant"
    when = "at once" if answer.starts_in < timedelta(minutes=1) else f"in {_text(answer.starts_in)}"
    return f"`sbatch --test-only`: a job of {_text(lasting)} would begin {when}"


def _text(duration: timedelta) -> str:
    return format_duration(duration)
