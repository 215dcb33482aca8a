"""The lines of a doctor and of a preflight: each is looked up by itself, has a time limit, and hides no other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread

from trainplan.providers.base import Check, PreflightState
from trainplan.providers.errors import ProviderError

Look = Callable[[], Check | Sequence[Check]]
"""Looks up one line, or the several that one answer gives. Raises ProviderError."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a line may take, by a clock that counts seconds.

    The doctor waits 7 s for an account (planner/planning/check.py): a line that hangs is told before that.
    """

    seconds: float = 6.0
    clock: Callable[[], float] = time.monotonic


LIMIT = Limit()
_AT_ONCE = True
"""False where calls must come in one order (tests/faults): then lines are looked up in turn."""


def ok(name: str, detail: str, fix: str = "") -> Check:
    """A line that stands in no launch's way; `fix` is what could be better."""
    return Check(name=name, state=PreflightState.OK, detail=detail, fix=fix)


def refused(name: str, detail: str, fix: str = "") -> Check:
    """A line that a launch fails on."""
    return Check(name=name, state=PreflightState.REFUSED, detail=detail, fix=fix)


def unknown(name: str, detail: str, fix: str = "") -> Check:
    """A line of which nobody can tell."""
    return Check(name=name, state=PreflightState.UNKNOWN, detail=detail, fix=fix)


def failed(name: str, error: ProviderError, refusing: tuple[type[ProviderError], ...] = ()) -> Check:
    """The line of a look that raised: refused for these errors, unknown for any other."""
    return (refused if isinstance(error, refusing) else unknown)(name, error.message, error.hint)


def check_lines(
    looks: Mapping[str, Look],
    of_error: Callable[[str, ProviderError], Check] = failed,
    limit: Limit = LIMIT,
) -> Sequence[Check]:
    """The checks of each look, in their order, all looked up at once. `of_error` makes the line of a look that raises
    ProviderError; whatever else one raises is raised here.

    One that has not answered within the limit is `unknown`. Its thread is left behind: it does not keep the command
    from ending.
    """
    answers: Queue[tuple[str, Sequence[Check] | BaseException]] = Queue()
    for name, look in looks.items():
        if _AT_ONCE:
            Thread(target=_answer, args=(name, look, of_error, answers), daemon=True).start()
        else:
            _answer(name, look, of_error, answers)
    lines: dict[str, Sequence[Check]] = {}
    until = limit.clock() + limit.seconds
    while len(lines) < len(looks) and (remaining := until - limit.clock()) > 0:
        with contextlib.suppress(Empty):
            name, answer = answers.get(timeout=remaining)
            if isinstance(answer, BaseException):
                raise answer
            lines[name] = answer
    for name in looks:
        lines.setdefault(
            name, (unknown(name, f"no answer within {limit.seconds:g} s", "check the network connection"),)
        )
    return [check for name in looks for check in lines[name]]


def _answer(
    name: str,
    look: Look,
    of_error: Callable[[str, ProviderError], Check],
    answers: Queue[tuple[str, Sequence[Check] | BaseException]],
) -> None:
    try:
        lines = look()
        answers.put((name, (lines,) if isinstance(lines, Check) else lines))
    except ProviderError as error:
        answers.put((name, (of_error(name, error),)))
    except BaseException as error:  # noqa: BLE001 - raised by whoever waits for the lines
        answers.put((name, error))
