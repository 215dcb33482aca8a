"""What an account was asked: kept, so that a second offer or a second check of the doctor costs nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from trainplan.providers.errors import BadRequestError, InstanceNotFoundError, PermissionDeniedError, ProviderError

Answer = TypeVar("Answer")

KEPT_REFUSALS = (BadRequestError, InstanceNotFoundError, PermissionDeniedError)
"""Refusals that say something about the account: the same question gets the same one until somebody changes it. No
answer, a full placement, a sign-in that has ended and an unknown code may be another the next time, and are asked
again."""


class Answers:
    """Answers to questions, each asked once by whichever thread comes first, until `forget`."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}
        self._asking: dict[Hashable, threading.RLock] = {}
        self._lock = threading.RLock()

    def once(self, question: Hashable, ask: Callable[[], Answer]) -> Answer:
        """What `ask` returns, or the ProviderError that it raises; KEPT_REFUSALS are raised again without asking."""
        with self._lock:
            asking = self._asking.setdefault(question, threading.RLock())
        with asking:
            if question not in self._answers:
                try:
                    self._answers[question] = ask()
                except KEPT_REFUSALS as error:
                    self._answers[question] = error
            answer = self._answers[question]
        if isinstance(answer, ProviderError):
            raise answer
        kept: Answer = answer
        return kept

    def forget(self) -> None:
        """Ask anew from now on: a set-up has been carried out, or what was looked up may have changed otherwise."""
        with self._lock:
            self._answers.clear()
