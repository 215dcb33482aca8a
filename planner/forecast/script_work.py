"""The work of a script of the person's own: not known until measured, and never longer than its deadline. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from trainplan.planner.forecast.times import RunTime
from trainplan.planner.throughput.values import Basis, Throughput

if TYPE_CHECKING:
    from trainplan.planner.forecast.allowances import Allowances
    from trainplan.workloads.job import TrainingJob

NOT_MEASURED = "not measured: plan pilot"
AS_MEASURED = "if every trial trains as fast and as long as what was measured"
"""What the figures of a sweep over a script rest on."""


def cap_of(job: TrainingJob) -> timedelta:
    """How long a script may take. Raises ValueError where the job does not say."""
    if job.constraints.deadline is None:
        raise ValueError("how long a script takes is unknown until it has been measured; set a limit")
    return job.constraints.deadline


def unmeasured(job: TrainingJob) -> Throughput:
    """What stands for the speed of a script that nobody has measured: the one at which it takes all of its time."""
    rate = (job.train_images or 1) / cap_of(job).total_seconds()
    return Throughput(
        images_per_second=rate, low=rate, high=rate, basis=Basis.UNMEASURED, evidence=(NOT_MEASURED,), as_fed=True
    )


def known_rate(throughput: Throughput) -> float | None:
    """Its images per second; None for a script that nobody has measured."""
    return None if throughput.basis is Basis.UNMEASURED else throughput.images_per_second


def assumption(job: TrainingJob, throughput: Throughput | None) -> str:
    """What the estimate of a sweep over a script rests on, as the end of a sentence; "" where nothing was measured, and
    for any other job."""
    is_measured = throughput is not None and throughput.basis is not Basis.UNMEASURED
    return f", {AS_MEASURED}" if job.script is not None and job.sweep is not None and is_measured else ""


def up_to(text: str, basis: str) -> str:
    """The text of a time or a cost. For a script that was not measured it is an upper limit, from its deadline."""
    return f"up to {text}" if basis == Basis.UNMEASURED else text


def capped_time(job: TrainingJob, setup: timedelta, after: timedelta) -> RunTime:
    """The whole run of such a script: it ends at its deadline, at the latest."""
    cap = cap_of(job)
    setup, after = min(setup, cap), min(after, max(timedelta(0), cap - setup))
    train = max(timedelta(0), cap - setup - after)
    return RunTime(setup=setup, train=train, train_low=train, train_high=train, after=after)


def capped_on(job: TrainingJob, around: Allowances) -> RunTime:
    """The same on a rented machine."""
    return capped_time(job, timedelta(seconds=around.before_training.expected), timedelta(seconds=around.end.expected))
