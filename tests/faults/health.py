"""Which machines were destroyed and which were kept, by the double's ledger: the harness's own verdict.

Destroyed: a healthy machine of ours that something of ours ended. Healthy is one that is on its way to its first sign
of training and within the limit of that, one that trains, and one that brings its results home; before its deadline,
while nobody has asked the run to stop and the provider has not announced to take it back.

Kept: a machine that has been silent for longer than the limit, has never begun to train, has finished, or is past its
deadline, and still bills after a command that looked at it.

The limits are the product's (they are part of what is promised), what a machine was doing is the double's.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from tests.faults.harness import EndedBy, Lived, Work
from trainplan.planner.runs.decision.next_action import TIMER_GRACE

BOOT_LIMIT = timedelta(minutes=45)
"""How long a machine may take to its first sign of training."""
SILENCE_LIMIT = timedelta(minutes=45)
"""How long a machine that has begun to train may write nothing."""
SLACK = timedelta(minutes=3)
"""A client counts from when it sent a create and by what it has read, the double from when it made the machine: near a
limit they may differ by so much, and neither verdict is given."""
FINISHED_GRACE = timedelta(minutes=5)
"""How long a machine may take from its last result to its own end."""
_OURS = frozenset(EndedBy) - {EndedBy.PROVIDER}


class Doing(StrEnum):
    """What a machine was doing at one instant."""

    WAITING = "waiting for a machine"
    BOOTING = "booting"
    TRAINING = "training"
    BRINGING_HOME = "bringing its results home"
    NEVER_BEGAN = "silent since its creation"
    SILENT = "silent"
    FINISHED = "finished"

    @property
    def healthy(self) -> bool:
        return self in (Doing.BOOTING, Doing.TRAINING, Doing.BRINGING_HOME)


def doing(work: Work, at: datetime, slack: timedelta = timedelta(0)) -> Doing:
    """What the machine was doing then. A limit counts as passed from `slack` after it on (before it, if negative)."""
    if work.trained_at is not None and work.trained_at <= at:
        return Doing.FINISHED if work.home_at is not None and work.home_at <= at else Doing.BRINGING_HOME
    if work.progress_at is not None:
        return Doing.SILENT if at - work.progress_at > SILENCE_LIMIT + slack else Doing.TRAINING
    if work.boots_since is None:
        return Doing.WAITING
    return Doing.NEVER_BEGAN if at - work.boots_since > BOOT_LIMIT + slack else Doing.BOOTING


def destroyed(rows: Iterable[Lived], wished_at: datetime | None = None) -> list[str]:
    """In words, the machines among these that were healthy, and that something of ours ended.

    `wished_at` is when a person asked for the end of the run (None: nobody has): what ends from then on may end.
    """
    return [text for row in rows if row.machine and row.ours and (text := _destroyed(row, wished_at))]


def useless_machines(before: Iterable[Lived], looked_at: datetime, after: Iterable[Lived]) -> list[str]:
    """In words, the machines that were of no use any more when a command began (`looked_at`, with the ledger as it was
    `before`), and still bill when it is over (`after`)."""
    billing = {row.id for row in after if row.machine and row.ours and row.ended_at is None}
    return [text for row in before if row.id in billing and (text := _useless(row, looked_at))]


def _destroyed(row: Lived, wished_at: datetime | None) -> str:
    work, at = row.work, row.ended_at
    if work is None or at is None or row.ended_by not in _OURS:
        return ""
    if work.taken_at is not None or (wished_at is not None and wished_at <= at):
        return ""
    if work.deadline is not None and at >= work.deadline:
        return ""
    what = doing(work, at, slack=-SLACK)
    if what.healthy:
        return f"{row.id}, {what}{_since(row, what)}, ended by {row.ended_by} at {at:%d %H:%M:%S} ({row.why})"
    if what is Doing.FINISHED and _was_told_to_stop(work):
        return f"{row.id}, {what} because a command asked it to stop, which nobody wanted ({row.why})"
    return ""


def _was_told_to_stop(work: Work) -> bool:
    return work.stop_asked_at is not None and work.trained_at is not None and work.stop_asked_at < work.trained_at


def _useless(row: Lived, at: datetime) -> str:
    work = row.work
    if work is None or row.ended_at is not None:
        return ""
    what = doing(work, at, slack=SLACK)
    if what is Doing.FINISHED and work.home_at is not None and at - work.home_at <= FINISHED_GRACE:
        return ""
    still = f"still bills after a command at {at:%d %H:%M:%S}"
    if work.deadline is not None and at > work.deadline + TIMER_GRACE + SLACK:
        return f"{row.id}, past its deadline of {work.deadline:%d %H:%M:%S}, {still}"
    if what in (Doing.SILENT, Doing.NEVER_BEGAN, Doing.FINISHED):
        return f"{row.id}, {what}{_since(row, what)}, {still}"
    return ""


def _since(row: Lived, what: Doing) -> str:
    work = row.work
    assert work is not None
    since = {
        Doing.BOOTING: work.boots_since,
        Doing.NEVER_BEGAN: work.boots_since,
        Doing.TRAINING: work.progress_at,
        Doing.SILENT: work.progress_at,
        Doing.BRINGING_HOME: work.trained_at,
        Doing.FINISHED: work.home_at,
    }.get(what)
    word = "with its last sign at" if what is Doing.TRAINING else "since"
    return f" {word} {since:%d %H:%M:%S}" if since is not None else ""
