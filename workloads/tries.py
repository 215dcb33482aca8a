"""Which micro-batch, and XLA or not, trains a job the fastest: short tries one after another, within a time. Pure.

Every try does the same work: a step of the optimizer is over the same images, of which `accumulate` parts are trained
one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

MOST_SECONDS = 120.0
"""Of all tries together, from the start of the first one's process."""
TRY_SECONDS = 15.0
"""How long a try trains behind its first step at most; it ends sooner where its windows agree."""
UNKNOWN_WIDTH = 0.1
"""What the half width of a rate is taken to be that too few windows tell (assumed)."""


class TrySettings(NamedTuple):
    """What a try trains with: in how many parts a batch is trained, and whether XLA compiles the step."""

    accumulate: int
    xla: bool


class TryEnd(StrEnum):
    """How a try ended. FAILED is anything but a want of memory: a crash of XLA, say."""

    MEASURED = "measured"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"
    OUT_OF_TIME = "out_of_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One try: how it ended after how long, and what it measured where it did. `half_width` is that of the 80 %
    interval of the rate, as a share of it (None: too few windows tell)."""

    settings: TrySettings
    ended: TryEnd
    seconds: float
    images_per_second: float | None = None
    half_width: float | None = None
    message: str = ""

    @property
    def rate(self) -> float:
        """Images per second; 0 where nothing was measured."""
        return self.images_per_second or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """All tries in order, how many settings were not tried, and whether it was for want of time."""

    tries: tuple[Try, ...]
    not_tried: int
    is_time_up: bool

    @property
    def best(self) -> Try | None:
        """The fastest; of those that are within its spread or their own of it, the first that was tried, which is the
        nearest to the job as it is written. None where nothing was measured."""
        fastest = _fastest(self.tries)
        if fastest is None:
            return None
        return next(
            one for one in self.tries if _is_measured(one) and one.rate >= fastest.rate * (1 - _width(fastest, one))
        )


def possible(job: TrainingJob, devices: int = 1) -> list[TrySettings]:
    """All settings that do the same work on so many devices, the largest micro-batch first, each at most half as large
    as the one before.

    Batch norm takes its statistics of the micro-batch: of such a net it stays as it is, and so it does where the job
    keeps moving averages of its weights, which `accumulate` goes without.
    """
    batch = job.global_batch_size
    parts = [count for count in range(1, batch + 1) if batch % count == 0 and batch // count % devices == 0]
    if job.graph().statistics or job.optimizer.ema is not None:
        rungs = [job.accumulate]
    else:
        rungs = [1]
        for count in parts:
            if count >= 2 * rungs[-1]:
                rungs.append(count)
        rungs = sorted({*rungs, job.accumulate})
    both = (job.xla, not job.xla) if job.framework is Framework.TENSORFLOW else (job.xla,)
    return [TrySettings(count, xla) for count in rungs for xla in both]


def next_settings(known: Sequence[TrySettings], first: TrySettings, tries: Sequence[Try]) -> TrySettings | None:
    """What to try next; None where nothing near the fastest is left, or nothing works.

    Begins with `first`, the job as it is. Until something fits, the micro-batch is made smaller; from then on what
    differs from the fastest in one thing is tried: XLA, then the next smaller micro-batch, then the next larger one.
    """
    if not tries:
        return first
    left = left_of(known, tries)
    fastest = _fastest(tries)
    if fastest is None:
        return _until_it_fits(left, tries[-1])
    at = fastest.settings
    rungs = sorted({one.accumulate for one in known})
    beside = {a: b for a, b in pairwise(rungs)}, {b: a for a, b in pairwise(rungs)}
    near = [TrySettings(at.accumulate, not at.xla)]
    near += [TrySettings(rung[at.accumulate], at.xla) for rung in beside if at.accumulate in rung]
    return next((one for one in near if one in left), None)


def left_of(known: Sequence[TrySettings], tries: Sequence[Try]) -> list[TrySettings]:
    """What was not tried, without micro-batches at least as large as one that ran out of memory."""
    tried = {one.settings for one in tries}
    too_large = [one.settings for one in tries if one.ended is TryEnd.OUT_OF_MEMORY]
    return [
        one
        for one in known
        if one not in tried and not any(one.xla == big.xla and one.accumulate <= big.accumulate for big in too_large)
    ]


def search(
    known: Callable[[], Sequence[TrySettings]],
    first: TrySettings,
    run_one: Callable[[TrySettings, float], Try],
    now: Callable[[], float],
    most_seconds: float = MOST_SECONDS,
) -> Search:
    """Try settings within a time. `run_one` runs a try that ends after so many seconds at the latest; `known` tells
    the settings that are possible, which may become fewer once a first try has told its devices; `now` is in seconds.
    """
    ends_at = now() + most_seconds
    tries: list[Try] = []
    while (settings := next_settings(known(), first, tries)) is not None:
        left = ends_at - now()
        if left <= _least_seconds(tries) or _has_run_out(tries):
            break
        tries.append(run_one(settings, left))
    untried = len(left_of(known(), tries))
    return Search(tries=tuple(tries), not_tried=untried, is_time_up=settings is not None or _has_run_out(tries))


def _until_it_fits(left: Sequence[TrySettings], last: Try) -> TrySettings | None:
    at = last.settings
    smaller = [one for one in left if one.xla == at.xla and one.accumulate > at.accumulate]
    if last.ended is TryEnd.OUT_OF_MEMORY and smaller:
        return smaller[0]
    return next((one for one in left if one.accumulate == at.accumulate), None)


def _has_run_out(tries: Sequence[Try]) -> bool:
    return bool(tries) and tries[-1].ended is TryEnd.OUT_OF_TIME


def _least_seconds(tries: Sequence[Try]) -> float:
    """What a further try takes at least; 0 where none has measured anything yet."""
    return min((one.seconds for one in tries if _is_measured(one)), default=0.0)


def _fastest(tries: Sequence[Try]) -> Try | None:
    return max(filter(_is_measured, tries), key=lambda one: one.rate, default=None)


def _is_measured(one: Try) -> bool:
    return one.ended is TryEnd.MEASURED and one.rate > 0


def _width(*tries: Try) -> float:
    return max(UNKNOWN_WIDTH if one.half_width is None else one.half_width for one in tries)
