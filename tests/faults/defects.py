"""Planted defects: what careless software does, put into a client's code, each of which the harness has to notice."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import trainplan.planner.cli.commands.cleanup as cleanup_command
import trainplan.planner.runs.cleanup.cleanup as cleanup
import trainplan.planner.runs.execution.create as creating
import trainplan.planner.runs.execution.executor as launch
import trainplan.planner.runs.runner as runner
import trainplan.providers.sim.provider as sim
import trainplan.providers.sim.translate as translate
from tests.faults.points import nothing
from tests.faults.shared_defects import refused_without_an_answer, taken_as_whole
from trainplan.planner.cli import cleanups
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.decision.next_action import Action, Clear, Look, next_action, where_next
from trainplan.planner.runs.execution.end import Finisher
from trainplan.planner.runs.execution.observe import Observer
from trainplan.planner.runs.execution.teardown import Teardown
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.run import Phase, Run, attempt_deadline
from trainplan.planner.runs.runner import Runner
from trainplan.planner.runs.targets import Target
from trainplan.providers.base import LABEL_DEADLINE, InstanceState
from trainplan.providers.errors import (
    CredentialsError,
    InstanceNotFoundError,
)
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.store import SimStore
from trainplan.providers.sim.values import Kind


@dataclass(frozen=True, slots=True)
class Defect:
    """`plant` changes the code of the process it is called in, for good."""

    name: str
    plant: Callable[[], None]


DEFECTS: list[Defect] = []


def defect(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def known(plant: Callable[[], None]) -> Callable[[], None]:
        DEFECTS.append(Defect(name, plant))
        return plant

    return known


def _never_lists(kind: Kind) -> None:
    real = SimProvider._pages_of

    def listed(self: Any, region: str, asked: Any, run_id: Any) -> Any:
        return iter(()) if asked is kind else real(self, region, asked, run_id)

    SimProvider._pages_of = listed


# --- asking for a machine ----------------------------------------------------------------------------------------


@defect("no token: each create is a new one")
def _() -> None:
    real, count = SimProvider.launch, itertools.count()

    def send(self: Any, request: Any) -> Any:
        calls = tuple(
            replace(call, parameters={**call.parameters, "clientToken": f"{request.run_id}-{next(count)}"})
            if call.operation == "RunInstance"
            else call
            for call in request.calls
        )
        return real(self, replace(request, calls=calls))

    SimProvider.launch = send


@defect("the token of a run, without the number of the attempt")
def _() -> None:
    translate.token_of = sim.token_of = lambda request: hashlib.sha256(request.run_id.encode()).hexdigest()[:32]


@defect("the journal is written after the create")
def _() -> None:
    late: list[Any] = []
    write, read, create = Journal.add_attempt, Journal.request, SimProvider.launch

    def launched(self: Any, request: Any) -> Any:
        try:
            return create(self, request)
        finally:
            if late:
                write(*late[-1])

    Journal.add_attempt = lambda *given: late.append(given)
    Journal.request = lambda *given: dict(late[-1][2]) if late else read(*given)
    SimProvider.launch = launched


@defect("a request is built anew for its replay")
def _() -> None:
    read, send, at_work = creating.request_from_record, creating.send, []

    def sent(run: Run, provider: Any, recorder: Any, **named: Any) -> Any:
        at_work.append((recorder, run))
        return send(run, provider, recorder, **named)

    def rebuilt(record: Any, provider: Any) -> Any:
        recorder, run = at_work[-1]
        request = read(record, provider)
        deadline = attempt_deadline(run, run.attempts[-1].target, recorder.clock.now())  # type: ignore[arg-type]
        return replace(request, calls=(), deadline=deadline)

    creating.send = sent
    creating.request_from_record = rebuilt


defect("a create without an answer is taken as refused")(refused_without_an_answer(SimProvider))


@defect("a machine that died before its answer came is taken as running")
def _() -> None:
    real = Observer.look

    def looked(self: Any, run: Run, provider: Any) -> Look:
        look = real(self, run, provider)
        if look.instance is None or look.instance.state is not InstanceState.ENDED or not run.attempts[-1].tries:
            return look
        return replace(look, instance=replace(look.instance, state=InstanceState.RUNNING))

    Observer.look = looked


@defect("not found right after the create is taken as gone")
def _() -> None:
    real = Observer.look
    Observer.look = lambda *given: replace(real(*given), lag=timedelta(0))


@defect("the deadline is not armed")
def _() -> None:
    _without_deadline(user_data=True, label=True)


@defect("the machine's own timer is not armed")
def _() -> None:
    _without_deadline(user_data=True, label=False)


@defect("the cloud's timer is not armed")
def _() -> None:
    _without_deadline(user_data=False, label=True)


@defect("the budget does not shorten the deadline")
def _() -> None:
    runner.attempt_deadline = lambda run, *_: run.deadline


@defect("the budget is counted at the price of spot")
def _() -> None:
    Target.ceiling_usd_per_hour = property(lambda self: self.offer.usd_per_hour)


# --- after a crash -----------------------------------------------------------------------------------------------


@defect("a create that was cut off is never adopted")
def _() -> None:
    creating.adopt = lambda *_: None


@defect("an interrupted run is left as it is")
def _() -> None:
    real = launch.Executor.settle

    def settled(self: Any, run: Run) -> Run:
        return run if run.phase is Phase.INTERRUPTED else real(self, run)

    launch.Executor.settle = settled


@defect("the next attempt is launched before the last is cleared")
def _() -> None:
    def hasty(run: Run, look: Look, now: Any) -> Action:
        action = next_action(run, look, now)
        return where_next(run, look, now) if isinstance(action, Clear) else action

    launch.next_action = hasty


@defect("a settled run gets no receipt")
def _() -> None:
    def settled(self: Any, run: Run) -> Run:
        with self._locks.holding(run.run_id):
            return self._executor(run).settle(self.journal.run(run.run_id))

    Runner.settle = settled


@defect("no lock: two commands act on one run")
def _() -> None:
    @contextmanager
    def mine(self: Any, run_id: Any) -> Iterator[bool]:
        yield True

    RunLocks.holding = mine


@defect("whoever follows a run overwrites that it was asked to stop")
def _() -> None:
    real = Journal.save

    def saved(self: Any, run: Run, now: Any, detail: str = "") -> None:
        real(self, run, now, detail)
        asked = json.dumps({"stop_asked": run.stop_asked.isoformat() if run.stop_asked else None})
        self._db.execute("UPDATE runs SET run_json = json_patch(run_json, ?) WHERE run_id = ?", (asked, run.run_id))

    Journal.save = saved


@defect("an expired sign-in is taken as a machine that is gone")
def _() -> None:
    real, read = SimProvider.get, SimStore.get

    def got(self: Any, ref: Any) -> Any:
        try:
            return real(self, ref)
        except CredentialsError as error:
            raise InstanceNotFoundError(error.message) from error

    def fetched(self: Any, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        try:
            return read(self, path, start=start, size=size)
        except CredentialsError as error:
            raise KeyError(path) from error

    SimProvider.get, SimStore.get = got, fetched


# --- teardown ----------------------------------------------------------------------------------------------------


for _kind in Kind:
    defect(f"{'an' if _kind is Kind.ADDRESS else 'a'} {_kind} is never read back")(partial(_never_lists, _kind))


@defect("only the first page of a list is read")
def _() -> None:
    real = SimProvider._call

    def called(self: Any, operation: str, parameters: Any) -> Any:
        told = real(self, operation, parameters)
        return {**told, "nextPageToken": None} if operation.startswith("List") else told

    SimProvider._call = called


defect("a list that is not whole is taken as whole")(taken_as_whole(SimProvider))


@defect("the lag of lists is ignored")
def _() -> None:
    SimProvider.listing_lag = property(lambda _: timedelta(0))


@defect("a teardown is called done after a while")
def _() -> None:
    real = Teardown.clear

    def cleared(self: Any, run: Run) -> None:
        self.patience = timedelta(seconds=2)
        try:
            real(self, run)
        except TeardownUnverifiedError:
            return

    Teardown.clear = cleared


@defect("a delete is not looked after")
def _() -> None:
    def cleared(self: Any, run: Run) -> None:
        self._remaining_names(run)

    Teardown.clear = cleared


@defect("a run is called done before it is torn down")
def _() -> None:
    def ended(self: Any, run: Run, action: Any) -> Run:
        if run.phase is not Phase.TEARING_DOWN:
            run = self._recorder.moved(replace(run, outcome=action.outcome, message=None), Phase.TEARING_DOWN)
        done = self._recorder.moved(run, Phase.DONE)
        self._torn_down(run)
        return done

    Finisher.end = ended


# --- cleanup -------------------------------------------------------------------------------------------------------


@defect("cleanup ends what another computer made")
def _() -> None:
    real = cleanup.fate_of

    def mine(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        return cleanup.Fate.ORPHAN if found is cleanup.Fate.FOREIGN else found

    cleanup.fate_of = mine


@defect("cleanup knows only what the journal knows")
def _() -> None:
    real = cleanups.look

    def looked(provider: Any, runs: Any, *given: Any, **named: Any) -> Any:
        found = real(provider, runs, *given, **named)
        known = runs() or {}
        return replace(found, resources=tuple(row for row in found.resources if row.resource.run_id in known))

    cleanups.look = looked


@defect("cleanup does not look whether its deletes took")
def _() -> None:
    def told(provider: Any, resources: Any, clock: Any) -> list[str]:
        for resource in resources:
            provider.delete(resource)
        return []

    cleanup_command.end = told


def _without_deadline(*, user_data: bool, label: bool) -> None:
    real = sim.run_instance

    def made(request: Any) -> Any:
        call = real(request)
        given = dict(call.parameters)
        if user_data:
            given["userData"] = {key: value for key, value in given["userData"].items() if key != "deadline"}
        if label:
            given["labels"] = {key: value for key, value in given["labels"].items() if key != LABEL_DEADLINE}
        return replace(call, parameters=given)

    sim.run_instance = made


CONTROL = Defect("nothing is wrong", nothing)
"""For the test that only defects are caught."""
