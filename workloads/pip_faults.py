"""What pip's output says of an installation that failed: whether the packages are at fault, or what lies between."""

from __future__ import annotations

from enum import StrEnum


class PipFault(StrEnum):
    """Why pip failed. PACKAGES: for a reason of the packages themselves, and of all that is not known."""

    PACKAGES = "packages"
    UNREACHABLE = "unreachable"
    NOT_TRUSTED = "not trusted"
    DISK_FULL = "disk full"


# In small letters, as pip 23 to 25 write them: their urllib3, and their own NetworkConnectionError.
_SIGNS = (
    (PipFault.DISK_FULL, ("no space left on device",)),
    (PipFault.NOT_TRUSTED, ("certificate_verify_failed", "certificate verify failed")),
    (PipFault.PACKAGES, ("do not match the hashes",)),
    (
        PipFault.UNREACHABLE,
        (
            *("connection broken by", "connection error", "connectionerror", "read timed out", "incompleteread"),
            *("max retries exceeded", "http error 5", "429 client error", "server error:"),
        ),
    ),
)


def pip_fault(output: str) -> PipFault:
    """The fault by pip's output or log: an index that is not reached ends in `No matching distribution found` too."""
    text = output.lower()
    return next((fault for fault, signs in _SIGNS if any(sign in text for sign in signs)), PipFault.PACKAGES)
