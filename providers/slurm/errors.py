"""What Slurm's commands complain of, and the reaction each calls for: one table. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainplan.providers.errors import (
    BadRequestError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    TransientError,
    UnrecognizedError,
)

if TYPE_CHECKING:
    from trainplan.providers.slurm.api import Completed

# Texts of slurm_strerror in Slurm 22.05 to 25.05; those of tests/data/slurm were recorded from real commands.
_BAD = (
    "Invalid partition name specified",
    "Invalid generic resource",
    "Invalid account or account/partition combination",
    "Invalid qos specification",
    "Requested node configuration is not available",
    "Node count specification invalid",
    "More processors requested than permitted",
    "Memory required by task is not available",
    "Requested time limit is invalid",
    "Batch script contains DOS line breaks",
    "Invalid feature specification",
    "unrecognized option",
    "Unable to open file",
)
_DENIED = ("Access/permission denied", "User's group not permitted to use this partition", "Invalid user id")
_QUOTA = ("Job violates accounting/QOS policy", "Job exceeds account, QOS", "Reached job count limit")
_LATER = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted or received",
    "Slurm temporarily unable to accept job",
    "Resource temporarily unavailable",
    "Connection refused",
    "Slurm backup controller in standby mode",
    "Unable to process configuration file",
)


def error_of(completed: Completed, what: str) -> ProviderError:
    """The error of a command that failed; `what` says what was tried.

    A refusal that nobody knows is UnrecognizedError with Slurm's own words, so that nothing is taken for absence.
    """
    text = complaint(completed)
    message = f"{what}: {text}"
    for signs, make in _REACTIONS:
        if any(sign.lower() in text.lower() for sign in signs):
            return make(message)
    return UnrecognizedError(message, hint="see the cluster's own documentation", code=str(completed.exit_code))


def complaint(completed: Completed) -> str:
    """What a command said of its failure: its lines with `error:`, without the command's name."""
    lines = [re.sub(r"^\w+: (?:error|fatal): ", "", line.strip()) for line in completed.stderr.splitlines()]
    return "; ".join(line for line in lines if line) or f"exit code {completed.exit_code}"


def _bad(message: str) -> ProviderError:
    hint = "`sinfo` shows what the cluster has; flags in [slurm] are more words for sbatch"
    return BadRequestError(message, hint=hint)


def _denied(message: str) -> ProviderError:
    return PermissionDeniedError(message, hint="ask the cluster's administrator, or name another of its partitions")


def _quota(message: str) -> ProviderError:
    hint = "`sacctmgr show qos` lists it"
    return QuotaError(message, quota="limit of your account or QOS", everywhere=True, hint=hint)


def _later(message: str) -> ProviderError:
    return TransientError(message, hint="look again when the controller answers: `scontrol ping`")


_REACTIONS: tuple[tuple[tuple[str, ...], Callable[[str], ProviderError]], ...] = (
    (_LATER, _later),
    (_QUOTA, _quota),
    (_DENIED, _denied),
    (_BAD, _bad),
)
