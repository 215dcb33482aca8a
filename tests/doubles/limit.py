"""A limit for the lines of a doctor or a preflight that is over when a test wants it to be: nothing waits for it."""

from __future__ import annotations

from itertools import chain, repeat

from trainplan.providers.cloud.checks import Limit

_SECONDS = 600.0


def limit_after(answers: int) -> Limit:
    """A limit that is over once so many lines have answered; its clock is read once at first and before each wait."""
    instants = chain(repeat(0.0, 1 + answers), repeat(_SECONDS))
    return Limit(_SECONDS, lambda: next(instants))
