"""The question before a person's own Python file runs to read its network, and what asks it for a command."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from trainplan.planner.api.ask import confirm
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import BadInputError
from trainplan.workloads.network_reader.confinement import Part, could_do
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainplan.workloads.job import TrainingJob

_RUN_FILE = Command("estimate", "JOB.yaml", Option.RUN_FILE)


def with_network(job: TrainingJob, *, may_ask: bool = True, agreed: bool = False) -> TrainingJob:
    """The job with the network of its own file, if it has one. `agreed`: the person has said yes on the command line.

    Raises BadInputError where the file gives no network, or where nobody has agreed to run it and nobody can be asked.
    """
    if job.model.file is None:
        return job
    from trainplan.planner.planning.own_networks import Reading
    from trainplan.planner.planning.own_networks import with_network as read
    from trainplan.planner.settings import home_of

    question = partial(agree, may_ask=may_ask, agreed=agreed)
    return read(job, Reading(home_of(os.environ), SystemClock().now().date(), question))


def agree(file: Path, parts: frozenset[str], *, may_ask: bool, agreed: bool) -> None:
    """Ask whether to run the file, which these parts of the kernel confine. Raises BadInputError and DeclinedError.

    In CI a file does not run where less holds than is promised, whoever has agreed to it.
    """
    could = could_do(parts)
    if agreed and could and os.environ.get("CI"):
        raise BadInputError(
            f"{file} was not run: without {_missing(parts)} of the kernel, it could {_listed(could)}",
            f"read it where Linux has them; CI= {_RUN_FILE.typed} runs it nevertheless",
        )
    if agreed:
        return
    hint = f"{_RUN_FILE} agrees without a question, for every command"
    unasked = BadInputError(f"{file} was not run before with this content, and nobody has agreed to it", hint)
    if not may_ask:
        raise unasked
    confirm(
        f"{file} is Python, and has to run once so that its network is known. {promise(parts)} Run it now (asked once "
        "for this content)?",
        hint=hint,
        left_alone="it was not run",
        default=False,
        nobody=unasked,
    )


def promise(parts: frozenset[str]) -> str:
    """What holds of a file that these parts of the kernel confine, in sentences for the person who is asked."""
    could = could_do(parts)
    if not could:
        without = f" (by {_listed(sorted(parts))}; this computer has no {_missing(parts)})" if set(Part) - parts else ""
        return (
            "It runs in a process of its own on this computer, which sees Python's files alone, changes none, has no "
            f"network, reaches no other program and ends within a minute{without}."
        )
    return (
        "It runs in a process of its own on this computer, without your environment variables, for a minute at most. "
        f"Without {_missing(parts)} of the kernel, it could {_listed(could)}."
    )


def _missing(parts: frozenset[str]) -> str:
    return _listed([part for part in Part if part not in parts])


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
