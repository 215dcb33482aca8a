"""The question before a person's own Python file runs to read its network, and what asks it for a command."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from trainplan.planner.api.ask import confirm
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import BadInputError

if TYPE_CHECKING:
    from pathlib import Path

    from trainplan.workloads.job import TrainingJob


def with_network(job: TrainingJob, *, may_ask: bool = True, agreed: bool = False) -> TrainingJob:
    """The job with the network of its own file, if it has one. `agreed`: the person has said yes on the command line.

    Raises BadInputError where the file gives no network, or where nobody has agreed to run it and nobody can be asked.
    """
    if job.model.file is None:
        return job
    from trainplan.planner.planning.own_networks import Reading
    from trainplan.planner.planning.own_networks import with_network as read
    from trainplan.planner.settings import home_of

    agree = partial(_agree, may_ask=may_ask, agreed=agreed)
    return read(job, Reading(home_of(os.environ), SystemClock().now().date(), agree))


def _agree(file: Path, *, may_ask: bool, agreed: bool) -> None:
    if agreed:
        return
    hint = "plan estimate JOB.yaml --run-file agrees without a question, for every command"
    unasked = BadInputError(f"{file} was not run before with this content, and nobody has agreed to it", hint)
    if not may_ask:
        raise unasked
    confirm(
        f"{file} is Python, and has to run once so that its network is known. It runs in a process of its own on this "
        "computer, without the internet and your credentials, and can change no file. Run it now (asked once for this "
        "content)?",
        hint=hint,
        left_alone="it was not run",
        default=False,
        nobody=unasked,
    )
