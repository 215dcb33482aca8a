"""Why a training process ends early, and the exit code that tells its launcher."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_BAD_INPUT = 65
EXIT_UNREACHABLE = 69
EXIT_FAILED = 70
EXIT_STOPPED = 75
EXIT_DEADLINE = 76
EXIT_WITH_RESULTS = 77
"""Training has failed, was stopped or reached its deadline, and left results all the same; metrics.json has the reason
(`failure`)."""


class TrainerError(Exception):
    """Training cannot go on; the message says what happened, on what, and what to do next."""

    exit_code = EXIT_FAILED


class BadInputError(TrainerError):
    """The job or its data cannot be trained as written; trying again changes nothing."""

    exit_code = EXIT_BAD_INPUT


class UnreachableError(TrainerError):
    """A server that the job downloads from was not reached, however often it was tried; the job may be right."""

    exit_code = EXIT_UNREACHABLE


class FailedWithResultsError(TrainerError):
    """A script has failed, or was ended by a person or at its deadline, and what it had saved is in output/."""

    exit_code = EXIT_WITH_RESULTS


class DivergedError(TrainerError):
    """A loss, a weight or a prediction is no number any more. Where a checkpoint from before gives numbers, its model
    is in output/, and the exit code says so (EXIT_WITH_RESULTS)."""

    def __init__(self, message: str, *, has_model: bool = False) -> None:
        super().__init__(message)
        self.exit_code = EXIT_WITH_RESULTS if has_model else EXIT_FAILED


def diverged(what: str) -> DivergedError:
    """The error; `what` became no number, and when."""
    return DivergedError(f"{what}; lower optimizer.learning_rate, or add batch_norm")


class TrainingStopped(TrainerError):
    """SIGTERM or SIGINT came; what was trained is in the newest checkpoint."""

    exit_code = EXIT_STOPPED


class DeadlineReached(TrainerError):
    """The deadline came; what was trained is in the newest checkpoint."""

    exit_code = EXIT_DEADLINE
