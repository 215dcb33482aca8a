"""How many sessions a job takes where machines cost nothing, and what that makes of its time. Pure, but for the table.

A notebook there ends with its session, at the latest a while before the longest one with a checkpoint; the next session
sets up anew and goes on. What a week has of sessions is used first, then the next week is waited for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from trainplan.planner.forecast.estimate import TPU_LEAST_MACS, device_kind, more_weights
from trainplan.planner.forecast.plan import Estimate, Reason, Sessions
from trainplan.pricing.free_places import free_place
from trainplan.workloads.durations import format_duration
from trainplan.workloads.memory import optimizer_slots
from trainplan.workloads.sessions.needed import SessionRules, sessions_needed
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainplan.planner.forecast.estimate import Workload
    from trainplan.planner.forecast.plan import Candidate
    from trainplan.planner.forecast.times import RunTime
    from trainplan.pricing.free_places import FreePlace
    from trainplan.pricing.offers import Rental
    from trainplan.workloads.job import TrainingJob

MOST_ADVISED = 3
"""Somebody who starts a notebook more often than that has a job for a rented machine."""
KEPT_CHECKPOINTS = 3
"""Two, and one that is being written."""
_WEEK = timedelta(days=7)
_GB = 1_000_000_000


def checkpoint_bytes(job: TrainingJob) -> int:
    """Of one checkpoint: the weights, the optimizer's copies of them, and those kept beside, in 32 bits each."""
    graph = job.graph()
    copies = 1 + optimizer_slots(job.optimizer.name) + more_weights(job)
    return 4 * (copies * graph.parameters + graph.statistics)


def kept_bytes(job: TrainingJob) -> int:
    """What is kept from one session to the next: two checkpoints, one that is being written, and the model."""
    return KEPT_CHECKPOINTS * checkpoint_bytes(job) + 4 * job.graph().parameters


def lacks_room(work: Workload, rental: Rental) -> bool:
    """Whether a place that costs nothing cannot keep the images of a job, or its checkpoints."""
    place = free_place(rental.provider, rental.instance_type)
    if place is None:
        return False
    job, data = work.job, work.job.data_bytes or 0
    kept = kept_bytes(job) if job.script is None else work.least_disk_bytes - data
    return data > place.data_gb * _GB or kept + (data if place.has_one_store else 0) > place.storage_gb * _GB


def in_sessions(estimated: Estimate, checkpoint_every: timedelta) -> Estimate | Reason:
    """The estimate with the time that its sessions take, or why it never ends; as it is for what costs money."""
    rental = estimated.rental
    place = free_place(rental.provider, rental.instance_type)
    if place is None:
        return estimated
    time = estimated.time
    rules = SessionRules(
        *(hours * 3600.0 for hours in (place.session_hours, place.planned_hours)),
        *(span.total_seconds() for span in (time.setup, checkpoint_every)),
    )
    trains = (time.train, time.train_low, time.train_high)
    try:
        counts = [sessions_needed((train + time.after).total_seconds(), rules) for train in trains]
    except ValueError:
        return Reason.SESSION_TOO_SHORT
    added = [(count - 1) * timedelta(seconds=rules.each_further) for count in counts]
    lasting = [_lasting(time, train, more, place) for train, more in zip(trains, added, strict=True)]
    used = time.setup + time.train + time.after + added[0]
    sessions = Sessions(counts[0], counts[1], counts[2], math.ceil(used / place.week), place)
    return replace(estimated, time=time.with_train(*lasting), sessions=sessions)


def _lasting(time: RunTime, train: timedelta, added: timedelta, place: FreePlace) -> timedelta:
    """The training with what further sessions add to it, and with the wait for hours of another week."""
    used = time.setup + train + added + time.after
    weeks_before = math.ceil(used / place.week) - 1
    return train + added + weeks_before * (_WEEK - place.week)


def sessions_text(sessions: Sessions) -> str:
    """`sessions needed: 3 (2 to 5) of 4h 00m each`, and what of it is assumed or goes beyond a week."""
    place = sessions.place
    ends = "" if sessions.low == sessions.high else f" ({sessions.low} to {sessions.high})"
    assumed = ", assumed" if "planned_hours" in place.assumed else ""
    length = "on average" if place.ends_at_random else "at most"
    text = f"sessions needed: {sessions.needed}{ends} of {format_duration(place.session)} {length}{assumed}"
    if sessions.weeks > 1:
        of_a_week = ", assumed" if "weekly_hours" in place.assumed else ""
        week = f"more than a week has ({place.weekly_hours:g} h{of_a_week}): {sessions.weeks} weeks"
        return f"{text}; {week}"
    return text


def fewest_sessions(candidates: Iterable[Candidate], macs: int) -> Candidate | None:
    """Of machines that cost nothing the one with the fewest sessions, of several the fastest; None where there is none.

    No TPU where the job, with so many multiply-accumulates of one image, is too small for one. An estimate advises this
    machine, and `plan export` writes a job for it.
    """
    fitting = [
        (sessions.needed, one.estimate.time.total, rank, one)
        for rank, one in enumerate(candidates)
        if (sessions := one.estimate.sessions) is not None
        and not (macs < TPU_LEAST_MACS and device_kind(one.estimate.rental.device) == "tpu")
    ]
    return min(fitting)[-1] if fitting else None


def free_line(candidates: Iterable[Candidate], macs: int) -> str:
    """What costs nothing and takes few sessions of one week, in a line of advice; "" where nothing does."""
    best = fewest_sessions(filter(_is_advised, candidates), macs)
    if best is None or best.estimate.sessions is None:
        return ""
    time, count = best.estimate.time.text, best.estimate.sessions.needed
    rental = best.estimate.rental
    return (
        f"{rental.provider} has {rental.devices_text} at no cost: "
        f"{time} in {count} session{'' if count == 1 else 's'} ({Option.FREE})"
    )


def _is_advised(candidate: Candidate) -> bool:
    sessions = candidate.estimate.sessions
    return sessions is not None and sessions.needed <= MOST_ADVISED and sessions.weeks == 1
