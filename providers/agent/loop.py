"""The agent's time: a story in small pieces, and duties that are done between them when they are due."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Callable, TypeVar

from trainplan.providers.agent.store import AwayError, RefusedError, Steps

if TYPE_CHECKING:
    from trainplan.providers.agent.clock import Clock

Result = TypeVar("Result")
TICK_SECONDS = 1.0


class Duty:
    """Something done every so many seconds. A store that is away does not disturb; the next time it is tried again."""

    def __init__(self, every_seconds: float, action: Callable[[], object]) -> None:
        self.every_seconds = every_seconds
        self._action = action
        self._due = float("-inf")

    def when_due(self, now: float) -> None:
        """Do it where its interval is over. A store that is away or refuses is asked again next time."""
        if now < self._due:
            return
        with contextlib.suppress(AwayError, RefusedError):
            self._action()
        self._due = now + self.every_seconds


class Chore:
    """Work in small pieces that goes on beside the story, one at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steps: Steps[object] | None = None
        self._due = 0.0

    @property
    def busy(self) -> bool:
        """Whether it has begun and is not over."""
        return self._steps is not None

    @property
    def due(self) -> bool:
        """A piece could be done now."""
        return self.busy and self._clock.steady() >= self._due

    def begin(self, steps: Steps[object]) -> None:
        """Do these steps from the next tick on, in the place of what was going on."""
        self._steps, self._due = steps, 0.0

    def go_on(self) -> None:
        """Pieces that are due, for a tick at most. Raises what the work raises; it is over then."""
        began = self._clock.steady()
        while self._steps is not None and self.due and self._clock.steady() - began < TICK_SECONDS:
            try:
                pause = next(self._steps)
            except StopIteration:
                self._steps = None
            except BaseException:
                self._steps = None
                raise
            else:
                self._due = self._clock.steady() + pause

    def drop(self) -> None:
        """Give it up, at the step where it is."""
        if self._steps is not None:
            self._steps.close()
        self._steps = None


def drive(story: Steps[Result], duties: Callable[[], bool], clock: Clock) -> Result:
    """The story to its end, with the duties looked after at least every tick, at once again where they return True."""
    due = 0.0
    while True:
        more = duties()
        if clock.steady() >= due:
            try:
                due = clock.steady() + next(story)
            except StopIteration as end:
                result: Result = end.value
                return result
        if not more:
            clock.sleep(max(0.0, min(TICK_SECONDS, due - clock.steady())))


def together(clock: Clock, first: Steps[object], second: Steps[Result]) -> Steps[Result]:
    """Both at the same time; the second's answer. What one raises ends both."""
    beside = Chore(clock)
    beside.begin(first)
    answer: list[Result] = []

    def keep() -> Steps[None]:
        answer.append((yield from second))

    chores = [beside, Chore(clock)]
    chores[1].begin(keep())
    try:
        while any(chore.busy for chore in chores):
            for chore in chores:
                chore.go_on()
            yield 0.2
    finally:
        for chore in chores:
            chore.drop()
    return answer[0]


def until(clock: Clock, instant: float, steps: Steps[object]) -> Steps[bool]:
    """The steps, but no longer than to `instant` (unix). False: they were not done."""
    while True:
        if clock.now() >= instant:
            steps.close()
            return False
        try:
            pause = next(steps)
        except StopIteration:
            return True
        yield min(pause, max(0.0, instant - clock.now()))
