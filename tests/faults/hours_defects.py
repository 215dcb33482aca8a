"""Planted defects that show when a launch is left alone: each was in the code once, or may easily come there."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import trainplan.planner.api.ask as ask
import trainplan.planner.home.client as client
import trainplan.planner.runs.decision.next_action as next_action
import trainplan.planner.runs.directory.signs as signs
import trainplan.planner.runs.execution.create as create
import trainplan.planner.runs.execution.end as end
import trainplan.planner.runs.execution.observe as looking
import trainplan.planner.runs.journal.rows as rows
from tests.faults.defects import defect
from trainplan.planner.api.living_run import Beside
from trainplan.planner.runs.decision.search import Search
from trainplan.planner.runs.execution.end import Finisher
from trainplan.planner.runs.execution.recorder import Recorder
from trainplan.planner.runs.run import Outcome, Run
from trainplan.planner.runs.runner import Runner
from trainplan.planner.runs.telling.news import News
from trainplan.providers import interrupts
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


@defect("the handler of a signal raises")
def _() -> None:
    """Where Python ignores exceptions the signal is lost."""

    def raises(number: int, frame: object) -> None:
        del frame
        raise interrupts.error_of(number)

    interrupts._note = raises


@defect("what was read before the lock is acted on inside it")
def _() -> None:
    """A command acts on the run as it read it before the lock, and the journal accepts every record."""
    rows._refuse_outdated = lambda *_: None

    def followed(self: Any, run: Run, make_request: Any, *, until_launched: bool, patience: Any) -> Any:
        with self._notifications.sent(), self._locks.holding(run.run_id) as has_lock:
            if has_lock:
                run = self._executor(run).follow(run, make_request, until_launched=until_launched)
                return run, self._receipts.write(run)
        return self._look_on(run, make_request, until_launched=until_launched, patience=patience)

    Runner._followed = followed


@defect("the store is emptied before the end is recorded")
def _() -> None:
    real = Finisher._fetch

    def fetched(self: Finisher, run: Run) -> None:
        real(self, run)
        self._drop_stored(run)

    Finisher._fetch = fetched


@defect("a stop for good is not marked in the store")
def _() -> None:
    end.note_stop_for_good = lambda *_: None


@defect("a stop for good is marked after the request")
def _() -> None:
    """What trains is asked without a mark, and ends without its results."""
    real, put = Finisher.tell_to_stop, end.note_stop_for_good
    late: list[Any] = []

    def told(self: Finisher, run: Run) -> None:
        late.clear()
        end.note_stop_for_good = lambda *given: late.append(given)
        real(self, run)
        for given in late:
            put(*given)

    Finisher.tell_to_stop = told


@defect("what a stopped run left in the store stays there")
def _() -> None:
    real, collected = Finisher._with_results, Finisher.collect

    def left(self: Finisher, run: Run) -> Run:
        return run if run.outcome is Outcome.STOPPED else real(self, run)

    def stopped(self: Finisher, run: Run) -> Run:
        if run.stop_asked is None:
            return collected(self, run)
        return self.end(replace(run, has_results_settled=True), next_action.End(Outcome.STOPPED, "stopped"))

    Finisher._with_results, Finisher.collect = left, stopped


@defect("results that lie in the store are passed over at a launch")
def _() -> None:
    Runner.results_of = lambda *_: None


@defect("another computer's live run of this home is passed over")
def _() -> None:
    real = Runner.living

    def living(self: Runner, job: Any, beside: Any = ()) -> Run | None:
        run = real(self, job, beside)
        here = os.environ.get("PLAN_COMPUTER", "")
        return None if run is not None and here == "another-login-node" else run

    Runner.living = living
