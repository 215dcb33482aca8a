"""What an exit code of the trainer, or of what holds it to its deadline, says about how the attempt ended."""

from __future__ import annotations

from trainplan.providers.agent import endings
from trainplan.providers.agent.endings import BEFORE_CHECKPOINT, BUS_ERROR, WITH_CHECKPOINT
from trainplan.providers.base import EndKind

OUT_OF_MEMORY_EXIT = 86
"""What the deadline script turns a kill into when the memory limit's own counter says it was the cause."""

HARD_DEADLINE_EXIT = 124
"""What coreutils' timeout exits with when it had to end its command."""

_SIGBUS, _SIGKILL, _SIGTERM = 7, 9, 15
ENDS = {
    0: (EndKind.DONE, "done"),
    65: (EndKind.BAD_JOB, "the trainer cannot train this job or read its data"),
    69: (EndKind.FAILED, "something that the job downloads could not be reached"),
    70: (EndKind.FAILED, "training failed"),
    75: (EndKind.STOPPED, WITH_CHECKPOINT),
    76: (EndKind.DEADLINE, "the deadline was reached"),
    77: (EndKind.DONE, "training did not end well, and left results"),
    OUT_OF_MEMORY_EXIT: (EndKind.OUT_OF_MEMORY, "killed: the memory limit was reached"),
    HARD_DEADLINE_EXIT: (EndKind.DEADLINE, "the deadline was reached, and the trainer was ended"),
    128 + _SIGTERM: (EndKind.STOPPED, BEFORE_CHECKPOINT),
    128 + _SIGBUS: (EndKind.FAILED, BUS_ERROR),
    128 + _SIGKILL: (EndKind.KILLED, "killed (signal 9), often for want of memory"),
}
"""By exit code. Whatever reads an exit code elsewhere (providers/slurm/data/job.sh) has to agree with it."""


def may_be_a_limit(exit_code: int | None) -> bool:
    """Whether `how_it_ended` asks what the attempt printed last."""
    return exit_code is not None and endings.may_be_a_limit(exit_code)


def how_it_ended(exit_code: int | None, *, out_of_memory: bool = False, output: str = "") -> tuple[EndKind, str]:
    """The kind and a text for a person. A negative code is a signal's number, as Python has it; None: nobody knows.

    `output` has the last lines that it printed, where limits of its container are those of a rented machine.
    """
    if exit_code is None:
        return EndKind.LOST, "gone without an exit code: the machine restarted, or it was ended from outside"
    code = 128 - exit_code if exit_code < 0 else exit_code
    if out_of_memory and code in endings.FOR_WANT_OF_MEMORY:
        code = OUT_OF_MEMORY_EXIT
    if limit := endings.limit_reached(code, output):
        return EndKind.FAILED, limit.message
    if code in ENDS:
        return ENDS[code]
    if code > 128:
        return EndKind.FAILED, f"the trainer died of signal {code - 128}"
    return EndKind.FAILED, f"the trainer ended with exit code {code}"
