"""What `squeue` shows and what a job leaves in its run directory, as values of the seam. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from trainplan.providers.base import (
    LABEL_CLIENT,
    LABEL_DEADLINE,
    EndKind,
    Instance,
    InstanceRef,
    InstanceState,
    OwnedResource,
)
from trainplan.providers.cloud.exit_codes import how_it_ended
from trainplan.providers.cloud.labels import instant
from trainplan.providers.slurm.request import AttemptName, attempt_name, labels_in
from trainplan.providers.slurm.settings import PROVIDER

REGION = "cluster"
"""Jobs are found in all partitions by their name, so that no reference names one."""
SQUEUE = (
    *("env", "SLURM_TIME_FORMAT=%s", "squeue", "--me", "--states=all", "--noheader"),
    *("--format", "%i|%j|%T|%V|%S|%e|%r|%D|%k"),
)
"""Number, name, state, submitted, started, ends, reason, nodes, comment (squeue(1)); times in seconds since 1970."""
SACCT_OF_JOB = (
    *("env", "SLURM_TIME_FORMAT=%s", "sacct", "--allocations", "--noheader", "--parsable2", "--starttime=now-90days"),
    "--format=JobIDRaw,JobName,State,Submit,Start,End,Reason,NNodes,Comment",
)
"""The same of jobs that slurmctld has forgotten (MinJobAge, 300 s unless set), where there is an accounting."""
_COLUMNS = 9
_WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
# JOB STATE CODES of squeue(1), Slurm 22.05 to 25.05.
_END_STATES = {
    "BOOT_FAIL": (EndKind.LOST, "a node did not boot"),
    "CANCELLED": (EndKind.KILLED, "cancelled in Slurm"),
    "COMPLETED": (EndKind.LOST, "the job ended without saying how the training did"),
    "DEADLINE": (EndKind.DEADLINE, "Slurm ended it at its deadline"),
    "FAILED": (EndKind.FAILED, "the job failed before it trained; its log says why"),
    "NODE_FAIL": (EndKind.LOST, "a node failed, and Slurm did not requeue the job"),
    "OUT_OF_MEMORY": (EndKind.OUT_OF_MEMORY, "Slurm ended it for want of memory"),
    "PREEMPTED": (EndKind.RECLAIMED, "a job with more priority took its nodes"),
    "REVOKED": (EndKind.LOST, "another cluster of the federation took it"),
    "TIMEOUT": (EndKind.RECLAIMED, "Slurm's time limit was reached"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job of ours as squeue or sacct shows it. `started_at` is None while it waits, `ended_at` while it lives."""

    number: int
    name: AttemptName
    state: str
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    reason: str
    nodes: int
    labels: dict[str, str]

    @property
    def waits(self) -> bool:
        """Whether it waits in the queue."""
        return self.state in _WAITING

    @property
    def lives(self) -> bool:
        """Whether it waits or works. A state that nobody knows is taken for one of life: nothing is forgotten."""
        return self.state not in _END_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What of an attempt is in its run directory: whether a job began it, and when first; whether it is to stop; how it
    ended."""

    has_begun: bool = False
    began_at: datetime | None = None
    asked_to_stop: bool = False
    exit_code: int | None = None
    was_submitted: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether its end was written down."""
        return self.exit_code is not None


def slurm_jobs(text: str) -> list[SlurmJob]:
    """Our jobs among the lines of squeue, the oldest first. Lines of other jobs are left out."""
    jobs = (_job(line) for line in text.splitlines())
    return sorted((job for job in jobs if job is not None), key=lambda job: job.number)


def reference(name: AttemptName) -> InstanceRef:
    """Where an attempt is found again: by the name of its job, which every requeue and every client keeps."""
    return InstanceRef(provider=PROVIDER, region=REGION, id=name.text)


def instance(name: AttemptName, jobs: Sequence[SlurmJob], traces: Traces) -> Instance | None:
    """The attempt's instance out of the jobs of its name and its traces; None where there is neither.

    A job that waits again after a requeue has begun already, and its run goes on.
    """
    living = [job for job in jobs if job.lives]
    latest = (living or list(jobs))[0] if jobs else None
    base = Instance(
        ref=reference(name),
        state=InstanceState.ENDED,
        run_id=name.run_id,
        attempt=name.attempt,
        # After a wait in the queue its silence is counted from the newest start: a requeue may have taken hours.
        launched_at=(latest.started_at or latest.submitted_at) if latest else None,
        bills=traces.has_begun or (latest is not None and latest.started_at is not None),
        bills_from=traces.began_at or (latest.started_at if latest and not latest.waits else None),
        ended_at=latest.ended_at if latest else None,
    )
    if living:
        state, waits = _living_state(living[0], traces), living[0].waits
        # Slurm says BeginTime or the like of a requeued job, and nowhere what it lost.
        reason = (
            "Slurm has requeued its job: a node was lost, or it had to give way" if waits and traces.has_begun else None
        )
        return replace(base, state=state, bills=base.bills and not waits, reason=reason)
    if traces.has_ended:
        end, reason = how_it_ended(traces.exit_code)
        return replace(base, end=end, reason=reason, exit_code=traces.exit_code)
    if latest is not None:
        end, reason = _END_STATES[latest.state]
        if latest.state == "FAILED" and traces.has_begun:
            end, reason = EndKind.LOST, "its script was ended from outside"
        if end is EndKind.KILLED and traces.asked_to_stop:
            end, reason = EndKind.STOPPED, "stopped before it began"
        return replace(base, end=end, reason=f"{reason} (job {latest.number}, {latest.state})")
    if traces.has_begun or traces.was_submitted:
        return replace(base, end=EndKind.LOST, reason="Slurm no longer knows its job, which left no exit code")
    return None


def owned(job: SlurmJob, usd_per_hour: Decimal | None) -> OwnedResource:
    """A living job as something of ours. `usd_per_hour` is of one node."""
    price = None if usd_per_hour is None or job.waits else usd_per_hour * job.nodes
    return OwnedResource(
        provider=PROVIDER,
        region=REGION,
        kind="job",
        id=job.name.text,
        run_id=job.name.run_id,
        created_at=job.submitted_at,
        usd_per_hour=price,
        attempt=job.name.attempt,
        client=job.labels.get(LABEL_CLIENT),
        deadline=instant(job.labels.get(LABEL_DEADLINE)),
    )


def _living_state(job: SlurmJob, traces: Traces) -> InstanceState:
    # A job that has written down its end goes within moments; one that was deleted, when Slurm has killed it.
    if traces.asked_to_stop or traces.has_ended:
        return InstanceState.STOPPING
    return InstanceState.PENDING if job.waits else InstanceState.RUNNING


def _job(line: str) -> SlurmJob | None:
    cells = line.split("|", _COLUMNS - 1)
    name = attempt_name(cells[1]) if len(cells) == _COLUMNS else None
    if name is None or not cells[0].isdigit():
        return None
    # sacct says who cancelled a job: CANCELLED by 0.
    state = cells[2].strip().partition(" ")[0]
    return SlurmJob(
        number=int(cells[0]),
        name=name,
        state=state,
        submitted_at=_seconds(cells[3]),
        started_at=None if state in _WAITING else _seconds(cells[4]),
        ended_at=_seconds(cells[5]) if state in _END_STATES else None,
        reason=cells[6].strip(),
        nodes=int(cells[7]) if cells[7].strip().isdigit() else 1,
        labels=labels_in(cells[8].strip()),
    )


def _seconds(text: str) -> datetime | None:
    """An instant in seconds since 1970; None for `N/A`."""
    return datetime.fromtimestamp(int(text), UTC) if text.strip().isdigit() else None
