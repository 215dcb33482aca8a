"""Why a training process ends early, and the exit code that tells its launcher."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_BAD_INPUT = 65
EXIT_FAILED = 70
EXIT_STOPPED = 75
EXIT_DEADLINE = 76


class TrainerError(Exception):
    """Training cannot go on; the message says what happened, on what, and what to do next."""

    exit_code = EXIT_FAILED


class BadInputError(TrainerError):
    """The job or its data cannot be trained as written; trying again changes nothing."""

    exit_code = EXIT_BAD_INPUT


class TrainingStopped(TrainerError):
    """SIGTERM or SIGINT came; what was trained is in the newest checkpoint."""

    exit_code = EXIT_STOPPED


class DeadlineReached(TrainerError):
    """The deadline came; what was trained is in the newest checkpoint."""

    exit_code = EXIT_DEADLINE
