"""How an attempt ends, in the words of status.json, and what an exit code of the container says of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainplan.providers.agent.container import MOST_OPEN_FILES, MOST_PROCESSES
from trainplan.providers.agent.notices import Notice

if TYPE_CHECKING:
    from trainplan.providers.agent.container import Exit


@dataclass(frozen=True)
class Ending:
    """`state` and `reason` as status.json has them. `by`: when the machine goes, whatever it is doing (unix).
    `unstored_state` is the state where results are to be stored and cannot be."""

    state: str
    reason: str
    message: str
    by: float | None = None
    notice: Notice | None = None
    exit_code: int | None = None
    unstored_state: str = "failed"


RESTARTING = "restarting"
"""The one state of an ending that is none of the attempt: it goes on once the machine is back."""

STORE_REFUSED = "STORE_REFUSED"
"""The reason of a machine that may not use its run directory: its console alone has it. start.sh says the same of one
that may not even read."""


class EndedError(Exception):
    """The attempt is over before training began, or beyond it."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.message)
        self.ending = ending


def failed(reason: str, message: str) -> Ending:
    """An ending of a training that failed."""
    return Ending("failed", reason, message)


WITH_CHECKPOINT = "stopped, with a checkpoint"
BEFORE_CHECKPOINT = "stopped before it could write a checkpoint"
BUS_ERROR = "ended by signal 7 (a bus error): mostly shared memory (/dev/shm) or the disk was full"

_BY_CODE = {
    65: failed("BAD_JOB", "the trainer cannot train this job or read its data"),
    69: failed("UNREACHABLE", "something that the job downloads could not be reached"),
    70: failed("TRAINING_FAILED", "training failed"),
    75: Ending("stopped", "STOPPED", WITH_CHECKPOINT),
    76: Ending("deadline", "DEADLINE", "the deadline was reached"),
    86: failed("OUT_OF_MEMORY", "killed: the memory limit was reached"),
    125: failed("CONTAINER_NOT_STARTED", "the container could not be started"),
    126: failed("CONTAINER_NOT_STARTED", "the command in the container cannot be run"),
    127: failed("CONTAINER_NOT_STARTED", "the command is not in the image"),
    135: failed("BUS_ERROR", BUS_ERROR),
    137: failed("KILLED", "killed (signal 9), often for want of memory"),
}


_LIMITS = (
    (("no space left on device", "disk quota exceeded"), failed("DISK_FULL", "the disk was full (see the log)")),
    (
        ("too many open files",),
        failed(
            "OPEN_FILE_LIMIT", f"the limit of {MOST_OPEN_FILES:,} open files of a process was reached (see the log)"
        ),
    ),
    (
        ("can't start new thread", "can't fork", "cannot fork", "fork: retry", "resource temporarily unavailable"),
        failed("PROCESS_LIMIT", f"the limit of {MOST_PROCESSES:,} processes and threads was reached (see the log)"),
    ),
)
"""What a program prints that has met a limit of its container or its disk (strerror(3) of ENOSPC, EDQUOT, EMFILE and
EAGAIN; CPython, dash, bash), and how that is told."""
_OTHER_FAULTS = frozenset({0, 69, 75, 76, 77, 86, 124, 125, 126, 127, 135, 137, 143})
FOR_WANT_OF_MEMORY = frozenset({1, 70, 137})
"""It was killed itself, or fails since the kernel killed a process that it had started."""
WITH_RESULTS = 77
"""The exit code of a training that has failed, was stopped or reached its deadline, and left results: those of its last
good checkpoint where it diverged, of a script what it had saved."""


def judge_ending(exited: Exit, requested_end: Ending | None, message: str, output: str = "") -> Ending:
    """How it ended. `requested_end`: why the container was told to end; `message`: the trainer's last words;
    `output`: the last lines of the container's output."""
    if exited.code in (0, WITH_RESULTS):
        said = _with_limit(exited, message, output) if exited.code else "done"
        ending = Ending("done", "DONE", said, exit_code=exited.code)
        if requested_end is None:
            return ending
        state = requested_end.state if exited.code else ending.unstored_state
        return replace(ending, by=requested_end.by, notice=requested_end.notice, unstored_state=state)
    if requested_end is not None:
        return replace(requested_end, exit_code=exited.code)
    code = 86 if exited.out_of_memory and exited.code in FOR_WANT_OF_MEMORY else exited.code
    ending = limit_reached(code, f"{message}\n{output}") or _BY_CODE.get(
        code, failed("TRAINING_FAILED", f"the trainer ended with exit code {code}")
    )
    parts = [ending.message, *(part for part in (message, exited.error) if part and part != ending.message)]
    return replace(ending, message=": ".join(parts), exit_code=exited.code)


def may_be_a_limit(code: int) -> bool:
    """Whether the exit code has no cause of its own, so that what was printed may tell of a limit."""
    return code not in _OTHER_FAULTS


def _with_limit(exited: Exit, message: str, output: str) -> str:
    """The message of a training that failed and left results, with the limit of its container that it had met."""
    limit = _BY_CODE[86] if exited.out_of_memory else limit_reached(70, f"{message}\n{output}")
    return message if limit is None else f"{limit.message}: {message}"


def limit_reached(code: int, said: str) -> Ending | None:
    """The limit that what was said speaks of; None where the exit code has a cause of its own."""
    if not may_be_a_limit(code):
        return None
    words = said.lower()
    return next((ending for signs, ending in _LIMITS if any(sign in words for sign in signs)), None)
