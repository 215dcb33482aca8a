"""The command line as it was typed: for messages that say how to go on, and for answers that say what made them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

_WORDS: list[str] = []
_NOT_AGAIN = ("--fresh", "--another")
"""What would begin another run."""


def remember(words: Iterable[str]) -> None:
    """Keep the words of this command line."""
    _WORDS[:] = words


def whole() -> str:
    """The command line as a shell takes it."""
    return shlex.join(["plan", *_WORDS])


def launch_again(provider: str) -> str:
    """The command that goes on with a run at this provider: the launch that was typed, with all that it needs."""
    if _WORDS[:1] != ["launch"]:
        return f"plan launch JOB.yaml --provider {provider}"
    return f"plan {shlex.join(word for word in _WORDS if word not in _NOT_AGAIN)}"
