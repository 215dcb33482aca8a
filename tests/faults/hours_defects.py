"""Planted defects that show when a launch is left alone: each was in the code once, or may easily come there."""

from __future__ import annotations

from datetime import timedelta

import trainplan.planner.api.ask as ask
import trainplan.planner.home.client as client
import trainplan.planner.runs.decision.next_action as next_action
import trainplan.planner.runs.directory.signs as signs
import trainplan.planner.runs.execution.create as create
import trainplan.planner.runs.execution.observe as looking
from tests.faults.defects import defect
from trainplan.planner.api.living_run import Beside
from trainplan.planner.runs.decision.search import Search
from trainplan.planner.runs.execution.end import Finisher
from trainplan.planner.runs.execution.recorder import Recorder
from trainplan.planner.runs.run import Run
from trainplan.planner.runs.telling.news import News
from trainplan.providers.errors import ProviderError


@defect("concludes from age")
def _() -> None:
    """What the run directory says is not heard."""
    looking.newest_sign = lambda *_, **__: None


@defect("second launch ignores a live run")
def _() -> None:
    Beside._living = lambda _: None


@defect("a question holds the lock")
def _() -> None:
    """Neither a wish to stop nor the time that passes ends it."""
    ask.ANSWER_WITHIN = timedelta(days=1000)
    News.of = lambda *_: ""


@defect("a wish to stop has no limit")
def _() -> None:
    """Whoever waits for the machine waits for its deadline."""
    signs.STOP_LIMIT = signs.FAREWELL_LIMIT = timedelta(days=1000)


@defect("same client id in two homes")
def _() -> None:
    client.client_of = lambda *_: client.Client(id="0123456789abcdef")


@defect("retry begins at the top")
def _() -> None:
    """Only the memory of full placements holds it back, of a quarter of an hour."""
    next_action.search = lambda *_, **__: Search()


@defect("a refused placement is asked for ever")
def _() -> None:
    """Neither the memory of full placements nor the order of passes holds it back."""
    next_action.search = lambda *_, **__: Search()
    Recorder.remember = lambda *_: None


@defect("replays a forgotten token")
def _() -> None:
    create.is_forgotten = lambda *_: False


@defect("an end without an answer of the store")
def _() -> None:
    """Whatever lies there, the clock alone says how a run has ended."""
    Finisher._with_results = lambda _, run: run


@defect("a store that does not answer is taken for an empty one")
def _() -> None:
    real = Finisher.has_finished

    def finished(self: Finisher, run: Run) -> bool:
        try:
            return real(self, run)
        except ProviderError:
            return False

    Finisher.has_finished = finished
