"""The lines of `plan doctor`: each is looked up by itself, has a time limit of its own, and hides no other."""

from __future__ import annotations

import contextlib
import time
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING

from providers.base import Check, PreflightState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LIMIT_SECONDS = 6.0
"""The doctor waits 7 s for an account (planner/doctoring.py): a line that hangs is told before that."""


def check_lines(looks: Mapping[str, Callable[[], Check]], limit_seconds: float = LIMIT_SECONDS) -> Sequence[Check]:
    """The check of each look, in their order, all looked up at once; a look raises nothing.

    One that has not answered within the limit is `unknown`. Its thread is left behind: it does not keep the command
    from ending.
    """
    answers: Queue[tuple[str, Check]] = Queue()
    for name, look in looks.items():
        Thread(target=_answer, args=(name, look, answers), daemon=True).start()
    found: dict[str, Check] = {}
    until = time.monotonic() + limit_seconds
    while len(found) < len(looks) and (left := until - time.monotonic()) > 0:
        with contextlib.suppress(Empty):
            name, check = answers.get(timeout=left)
            found[name] = check
    return [found.get(name) or _silent(name, limit_seconds) for name in looks]


def _answer(name: str, look: Callable[[], Check], answers: Queue[tuple[str, Check]]) -> None:
    answers.put((name, look()))


def _silent(name: str, limit_seconds: float) -> Check:
    detail = f"no answer within {limit_seconds:g} s"
    return Check(name=name, state=PreflightState.UNKNOWN, detail=detail, fix="look at the network")
