"""How long a job would wait: what the scheduler says of it now, and what the accounting says of others. Pure, but for
the commands that it is given a shell for."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from trainplan.providers.abilities import QueueAnswer, QueueQuestion
from trainplan.providers.slurm.api import Completed, Shell, Streams
from trainplan.providers.slurm.errors import complaint, error_of
from trainplan.providers.slurm.offers import SINFO, node_groups
from trainplan.providers.slurm.request import device_words

if TYPE_CHECKING:
    from trainplan.providers.slurm.settings import SlurmSettings

TEST_ONLY = ("sh", "-c", 'date +%s; SLURM_TIME_FORMAT=%s exec sbatch --test-only "$@"', "sh")
"""The cluster's own clock and the instant at which the job would begin, both in seconds since 1970: the time of day
that sbatch prints otherwise has no zone."""
PAST_DAYS = 2
"""So long ago counts as lately: a queue of last month says nothing of today (assumed)."""
SACCT = (
    *("env", "SLURM_TIME_FORMAT=%s", "sacct", "--allusers", "--allocations", "--noheader", "--parsable2"),
    *(f"--starttime=now-{PAST_DAYS}days", "--format=Eligible,Start,NodeList"),
)
"""When each job might have begun, when it did, and on which nodes (sacct(1)): a job that waited for another one by its
own wish did not wait in the queue."""
SECONDS = 10.0
"""For each command: an estimate does not wait longer."""
_SCRIPT = b"#!/bin/sh\n"
_STARTS = re.compile(r"to start at (\d+)")
_SECONDS_PER_MINUTE = 60
_NO_NODES = "None assigned"


def queue_answers(shell: Shell, settings: SlurmSettings, questions: Sequence[QueueQuestion]) -> tuple[QueueAnswer, ...]:
    """An answer for each question. Raises ProviderError where the cluster does not answer."""
    completed = shell.run(SINFO, timeout_seconds=SECONDS)
    if completed.exit_code:
        raise error_of(completed, "the partitions cannot be read")
    limits = {
        group.partition: group.time_limit_minutes
        for group in node_groups(completed.text)
        if group.time_limit_minutes is not None
    }
    pasts: dict[str, tuple[timedelta, ...] | None] = {}
    answers = []
    for question in questions:
        if question.region not in pasts:
            past = shell.run((*SACCT, f"--partition={question.region}"), timeout_seconds=SECONDS)
            pasts[question.region] = past_waits(past)
        words = (*TEST_ONLY, *_words(question, limits.get(question.region)), *settings.flags)
        reply = shell.run(words, Streams(data=_SCRIPT), SECONDS)
        if reply.exit_code:
            answers.append(QueueAnswer(starts_in=None, refusal=complaint(reply), past=pasts[question.region]))
        else:
            answers.append(QueueAnswer(starts_in=starts_in(reply), past=pasts[question.region]))
    return tuple(answers)


def starts_in(reply: Completed) -> timedelta | None:
    """What `TEST_ONLY` answered, as a wait; None where it names no instant."""
    starts, now = _STARTS.search(reply.stderr), reply.text.strip()
    if starts is None or not now.isdigit():
        return None
    return timedelta(seconds=max(0, int(starts[1]) - int(now)))


def past_waits(reply: Completed) -> tuple[timedelta, ...] | None:
    """The waits of the jobs that have begun, of the lines of `SACCT`; None where there is no accounting, or it may not
    be read."""
    if reply.exit_code:
        return None
    cells = [line.split("|") for line in reply.text.splitlines()]
    # A job that was cancelled in the queue has its end for a start, and no nodes.
    begun = [row for row in cells if len(row) == 3 and row[0].isdigit() and row[1].isdigit() and row[2] != _NO_NODES]
    return tuple(timedelta(seconds=max(0, int(start) - int(eligible))) for eligible, start, _ in begun)


def _words(question: QueueQuestion, limit_minutes: int | None) -> tuple[str, ...]:
    """What a launch would ask for: a job that is asked about for a minute would fit into gaps that it does not."""
    minutes = max(1, math.ceil(question.lasting.total_seconds() / _SECONDS_PER_MINUTE))
    rental = question.rental
    return (
        f"--partition={question.region}",
        f"--nodes={question.machines}",
        f"--time={minutes if limit_minutes is None else min(minutes, limit_minutes)}",
        *device_words(rental.instance_type, rental.vcpus, rental.memory_gib),
    )
