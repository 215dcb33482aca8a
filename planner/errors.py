"""Errors that end a command: each class below PlanError has its exit code, and says what to do next.

PlanError
├── BadInputError          2   a job file, an option or a value is wrong
│   ├── UnknownRunError    2   the journal has no such run
│   └── TooSmallHereError  2   the batch does not fit this machine's memory
├── NothingLeftError       3   every offer was filtered out
│   └── NothingFitsError   3   the batch fits no offer's memory
├── RefusedError           4   credentials, permission, quota or a person
│   └── DeclinedError      130 the person who was asked said no
├── NoCapacityError        5   no placement has any left, or leaves a run its machine
├── TrainingFailedError    6   the training itself ended badly
├── TeardownUnverifiedError 7  something may still be there
├── ResultsUnknownError    7   a store has not said whether results are there
├── LimitReachedError      8   deadline or budget
├── OutdatedError          9   another command has ended the run meanwhile
└── ThisMachineError       9   engine, disk, journal
    └── StateError         9   the journal or the locks cannot be used
        └── RunKeyError    9   the secret that results are checked with cannot be read
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
)

if TYPE_CHECKING:
    from trainplan.workloads.wording import Option


class ExitCode(IntEnum):
    """The exit codes of `plan` (docs/output.md)."""

    OK = 0
    BAD_INPUT = 2
    NOTHING_LEFT = 3
    REFUSED = 4
    NO_CAPACITY = 5
    TRAINING_FAILED = 6
    TEARDOWN_UNVERIFIED = 7
    LIMIT_REACHED = 8
    THIS_MACHINE = 9
    INTERRUPTED = 130


class PlanError(Exception):
    """`message` says what happened and on which input, `hint` what to do next, `field` which option, or argument in
    Python, it is about (None: about none alone)."""

    exit_code: ClassVar[ExitCode] = ExitCode.THIS_MACHINE

    def __init__(self, message: str, hint: str = "", *, field: Option | str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = None if field is None else str(field)


TrainplanError = PlanError
"""Its name in the Python API."""


class BadInputError(PlanError):
    """A job file, an option or a value is wrong."""

    exit_code = ExitCode.BAD_INPUT


class NothingLeftError(PlanError):
    """Every offer was filtered out."""

    exit_code = ExitCode.NOTHING_LEFT


class NothingFitsError(NothingLeftError):
    """The batch fits the memory of no offer that was left."""


class TooSmallHereError(BadInputError):
    """The batch does not fit this machine's memory."""


class RefusedError(PlanError):
    """Credentials, a permission, a quota or a person refused."""

    exit_code = ExitCode.REFUSED


class NoCapacityError(PlanError):
    """No placement has capacity left, or leaves a run its machine."""

    exit_code = ExitCode.NO_CAPACITY


class TrainingFailedError(PlanError):
    """The training itself failed."""

    exit_code = ExitCode.TRAINING_FAILED


class TeardownUnverifiedError(PlanError):
    """It is not confirmed that everything of a run is deleted."""

    exit_code = ExitCode.TEARDOWN_UNVERIFIED


class ResultsUnknownError(PlanError):
    """The store of a run has not answered whether a complete output is there, or has not let it be fetched: the run is
    not over."""

    exit_code = ExitCode.TEARDOWN_UNVERIFIED


class LimitReachedError(PlanError):
    """The deadline or the budget is reached."""

    exit_code = ExitCode.LIMIT_REACHED


class ThisMachineError(PlanError):
    """Engine, disk or journal of this computer failed."""

    exit_code = ExitCode.THIS_MACHINE


class StateError(ThisMachineError):
    """The journal or the locks in this computer's state folder cannot be read or written."""


class RunKeyError(StateError):
    """The secret of this home, with which the results of runs are checked, cannot be read."""


class OutdatedError(PlanError):
    """What was to be recorded of a run follows from a state that it has no more: another command has ended it."""


class UnknownRunError(BadInputError):
    """The journal has no run of that name."""


class DeclinedError(RefusedError):
    """The person who was asked said no: nothing was done."""

    exit_code = ExitCode.INTERRUPTED


def from_provider(error: ProviderError) -> PlanError:
    """The error of a provider as the one that ends the command."""
    match error:
        case CredentialsError() | PermissionDeniedError() | QuotaError():
            kind: type[PlanError] = RefusedError
        case CapacityError():
            kind = NoCapacityError
        case BadRequestError():
            kind = BadInputError
        case MachineError():
            kind = ThisMachineError
        case _:
            kind = ThisMachineError
    code = f" ({error.code})" if error.code else ""
    return kind(f"{error.message}{code}", error.hint)
