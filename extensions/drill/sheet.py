"""The results of a drill's steps as they come in; what nobody has tried when it ends says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from trainplan.extensions.drill.behaviours import behaviours
from trainplan.extensions.drill.result import StepResult, Verdict
from trainplan.extensions.drill.steps import PROVES, Step
from trainplan.planner.errors import PlanError
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock


class FailedError(Exception):
    """The step has not shown what it is to show; the message says what was seen instead."""


class SkippedError(Exception):
    """Steps cannot be tried any more; the message says why."""


class BrokenOffError(BaseException):
    """The drill was interrupted. It is no error of a step: only the end of the drill catches it."""


class Sheet:
    """One drill's results, each told as it comes in. `way` is how it comes to its machines
    (trainplan.extensions.drill.behaviours.way_of)."""

    def __init__(self, way: str, clock: Clock, tell: Callable[[StepResult], None]) -> None:
        self._way = way
        self._clock = clock
        self._tell = tell
        self._results: dict[Step, StepResult] = {}
        self._why: dict[Step, str] = {}
        self.broken_off = False

    @contextmanager
    def step(self, step: Step) -> Iterator[list[str]]:
        """Tries one step in the block, which puts what was seen into the list. The step is proven where the block ends
        by itself, and failed where it raises FailedError, a ProviderError or a PlanError: SkippedError then."""
        names: list[str] = []
        began = self._clock.now()
        with self.fails_only(step):
            yield names
        self._put(step, Verdict.PROVEN, "; ".join(names), began)

    @contextmanager
    def fails_only(self, step: Step) -> Iterator[None]:
        """What has to go before a step can be tried: an error in the block fails the step, its end proves nothing.

        Raises SkippedError in the place of such an error.
        """
        began = self._clock.now()
        try:
            yield
        except FailedError as error:
            self._put(step, Verdict.FAILED, str(error), began)
            raise SkippedError(f"{step} failed") from error
        except (ProviderError, PlanError) as error:
            self._put(step, Verdict.FAILED, words(error), began)
            raise SkippedError(f"{step} failed") from error

    def leave_out(self, steps: tuple[Step, ...], why: str) -> None:
        """These will not be tried, for this reason."""
        for step in steps:
            # The first reason is the cause, later ones follow from it.
            self._why.setdefault(step, why)

    def break_off(self, why: str) -> None:
        """Skip all further steps, for this reason."""
        self.broken_off = True
        self.leave_out(tuple(Step), why)

    def proven(self, step: Step) -> bool:
        """Whether this step was seen to work."""
        result = self._results.get(step)
        return result is not None and result.verdict is Verdict.PROVEN

    @property
    def results(self) -> tuple[StepResult, ...]:
        """Every step in order."""
        return tuple(
            self._results.get(step)
            or StepResult(step=step, verdict=Verdict.NOT_TRIED, detail=self._why.get(step, "the drill ended before"))
            for step in PROVES
        )

    def _put(self, step: Step, verdict: Verdict, detail: str, began: datetime) -> None:
        seconds = max(0.0, round((self._clock.now() - began).total_seconds(), 1))
        proves = behaviours(self._way, step) if verdict is Verdict.PROVEN else ()
        result = StepResult(
            step=step, verdict=verdict, detail=detail[:400], seconds=min(seconds, 7200.0), proves=proves
        )
        self._results[step] = result
        self._tell(result)


def words(error: ProviderError | PlanError) -> str:
    """The vendor's own words, with the vendor's code where it is not among them."""
    code = getattr(error, "code", None)
    return f"{error.message} ({code})" if code and code not in error.message else error.message
