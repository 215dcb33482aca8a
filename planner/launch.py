"""The executor: carries out a run's next action through a provider, a journal and a clock, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from planner.collect import collect
from planner.errors import PlanError, TeardownUnverifiedError, from_provider
from planner.events import Event, PhaseReached, Progressed, Said, TrainerStarted
from planner.progress import ProgressReader, Story
from planner.requests import request_from_record, request_record
from planner.run import (
    Action,
    AskToStop,
    Attempt,
    Collect,
    End,
    Launch,
    Nothing,
    Outcome,
    Phase,
    Run,
    Wait,
    next_action,
)
from pricing.money import PER_SECOND, UsdPerHour, amount
from providers.base import InstanceState, LaunchRequest
from providers.errors import InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from decimal import Decimal

    from planner.clock import Clock
    from planner.journal import Journal
    from planner.progress import Line
    from providers.base import Instance, Provider

MakeRequest = Callable[[Run, int], LaunchRequest]

# Asking an engine takes it 0.04 s of processor time, which is taken from the training.
POLL_SECONDS = 1.0
KEPT_LINES = 10_000
TEARDOWN_PATIENCE = timedelta(minutes=2)


class Executor:
    """Follows one run to its end. Every step may be the last this process takes: the journal knows enough to go on."""

    def __init__(self, provider: Provider, journal: Journal, clock: Clock, listen: Callable[[Event], None]) -> None:
        self._provider = provider
        self._journal = journal
        self._clock = clock
        self._listen = listen
        self._reader: tuple[int, ProgressReader] | None = None
        self.story = Story()

    def follow(self, run: Run, make_request: MakeRequest) -> Run:
        """Take actions until the run is done. Raises PlanError; the journal then holds where it stands.

        `make_request` builds the request of a new attempt; a run that is done goes on with one. The first Ctrl-C asks
        the trainer to write a checkpoint and end, the second ends it at once. The run is read from the journal before
        each action: another command may have asked it to stop, or finished it.
        """
        goes_on = run.phase is Phase.DONE
        while goes_on or run.phase is not Phase.DONE:
            try:
                action = Launch(len(run.attempts) + 1) if goes_on else self._next(run)
                goes_on = False
                self._take(run, action, make_request)
                run = self._journal.run(run.run_id)
            except KeyboardInterrupt:
                goes_on = False
                run = self._interrupted(self._journal.run(run.run_id))
        return run

    def settle(self, run: Run) -> Run:
        """Take a run as far as it goes without waiting for its training, and without launching anything.

        What trains goes on; what has ended is collected and removed; a launch that was cut off is ended.
        """
        while run.phase is not Phase.DONE:
            action = self._next(run)
            if isinstance(action, Wait | AskToStop):
                return self._watched(run)
            if isinstance(action, Launch):
                action = End(Outcome.FAILED, "the launch was cut off before training began")
            run = self._take(run, action, _no_request)
        return run

    def _next(self, run: Run) -> Action:
        try:
            return next_action(run, self._see(run), self._clock.now())
        except ProviderError as error:
            raise from_provider(error) from error

    def _take(self, run: Run, action: Action, make_request: MakeRequest) -> Run:
        try:
            return self._step(run, action, make_request)
        except ProviderError as error:
            raise from_provider(error) from error

    def _step(self, run: Run, action: Action, make_request: MakeRequest) -> Run:
        match action:
            case Launch():
                return self._launch(run, action.number, make_request)
            case Wait():
                self._clock.sleep(POLL_SECONDS)
                return self._watched(run)
            case AskToStop():
                return self._ask_to_stop(run)
            case Collect():
                return self._collect(self._watched(run))
            case End():
                return self._end(self._watched(run), action)
            case Nothing():
                return run
            case _:
                assert_never(action)

    def _see(self, run: Run) -> Instance | None:
        attempt = run.attempt
        if attempt is None or attempt.ref is None or run.phase not in (Phase.BOOTING, Phase.RUNNING):
            return None
        try:
            return self._provider.get(attempt.ref)
        except InstanceNotFoundError:
            return None

    def _launch(self, run: Run, number: int, make_request: MakeRequest) -> Run:
        if run.phase is not Phase.LAUNCHING:
            request = make_request(run, number)
            self._journal.add_attempt(run.run_id, number, request_record(request), self._clock.now())
            run = self._moved(run.with_attempt(Attempt(number=number)), Phase.LAUNCHING)
        # What is sent is what was recorded, also when this is the second try after a crash.
        request = request_from_record(self._journal.request(run.run_id, number))
        try:
            instance = self._provider.launch(request)
        except ProviderError as error:
            self._end(run, End(Outcome.FAILED, error.message))
            raise
        return self._moved(run.with_attempt(Attempt(number=number, ref=instance.ref)), Phase.BOOTING)

    def _watched(self, run: Run) -> Run:
        attempt = run.attempt
        if attempt is None:
            return run
        if self._reader is None or self._reader[0] != attempt.number:
            self._reader = (attempt.number, ProgressReader(self._provider.store(run.run_id), attempt.number))
            self.story = Story()
        for line in self._reader[1].new_lines():
            self.story.add(line)
            if run.phase is Phase.BOOTING:
                run = self._moved(run, Phase.RUNNING)
            self._tell(run, line)
        return run

    def _tell(self, run: Run, line: Line) -> None:
        match line["event"]:
            case "start":
                self._listen(_started(line))
            case "step":
                spent = self._spent(run)
                self._listen(_progressed(line, self.story, spent))
            case "warning":
                self._listen(Said(str(line.get("message", ""))))
            case _:
                pass

    def _spent(self, run: Run) -> Decimal:
        lasting = self._clock.now() - self._journal.asked_at(run.run_id)
        return amount(UsdPerHour(run.usd_per_hour), max(lasting, timedelta(0)), PER_SECOND)

    def _ask_to_stop(self, run: Run) -> Run:
        if run.attempt and run.attempt.ref:
            self._provider.stop(run.attempt.ref)
        self._clock.sleep(POLL_SECONDS)
        return self._watched(run)

    def _collect(self, run: Run) -> Run:
        if run.phase is not Phase.COLLECTING:
            run = self._moved(run, Phase.COLLECTING)
        try:
            collect(self._provider.store(run.run_id), Path(run.model_folder))
        except PlanError as error:
            self._end(run, End(Outcome.FAILED, error.message))
            raise
        return self._end(run, End(Outcome.SUCCEEDED, ""))

    def _end(self, run: Run, action: End) -> Run:
        if run.phase is not Phase.TEARING_DOWN:
            run = replace(run, outcome=action.outcome, message=action.message or None)
            run = self._moved(self._with_exit(run), Phase.TEARING_DOWN)
        self._keep_output(run)
        self._tear_down(run)
        if run.outcome is Outcome.SUCCEEDED:
            for prefix in ("checkpoints", "output"):
                self._provider.store(run.run_id).delete(prefix)
        return self._moved(run, Phase.DONE)

    def _with_exit(self, run: Run) -> Run:
        attempt = run.attempt
        if attempt is None or attempt.ref is None:
            return run
        try:
            seen = self._provider.get(attempt.ref)
        except InstanceNotFoundError:
            return run
        if seen.state is not InstanceState.ENDED:
            return run
        return run.with_attempt(replace(attempt, exit_code=seen.exit_code, reason=seen.reason))

    def _keep_output(self, run: Run) -> None:
        """What the instance printed goes with it: its last lines are put into the run directory before."""
        attempt = run.attempt
        if attempt is None or attempt.ref is None:
            return
        try:
            lines = deque(self._provider.logs(attempt.ref), maxlen=KEPT_LINES)
        except ProviderError:
            return  # already gone, or it never said anything: ending it must not wait for that
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        self._provider.store(run.run_id).put(f"attempts/{attempt.number}/log/output.log", text.encode())

    def _tear_down(self, run: Run) -> None:
        """Delete until the provider says that nothing of the run is left."""
        until = self._clock.now() + TEARDOWN_PATIENCE
        while left := self._provider.list_owned(run.run_id):
            for resource in left:
                self._provider.delete(resource)
            if self._clock.now() > until:
                names = ", ".join(f"{resource.kind} {resource.id}" for resource in left)
                raise TeardownUnverifiedError(
                    f"teardown unverified: {names} of run {run.run_id} may still be there", "plan status looks again"
                )
            self._clock.sleep(POLL_SECONDS)

    def _interrupted(self, run: Run) -> Run:
        if run.phase is Phase.DONE:
            return run
        now = self._clock.now()
        if run.stop_asked is None and run.phase in _FIRST_CTRL_C:
            self._journal.ask_to_stop(run.run_id, now)
            self._listen(Said(_FIRST_CTRL_C[run.phase]))
            return replace(run, stop_asked=now)
        return self._take(run, End(Outcome.STOPPED, "ended at once by Ctrl-C"), _no_request)

    def _moved(self, run: Run, phase: Phase) -> Run:
        run = run.moved(phase)
        self._journal.save(run, self._clock.now(), run.message or "")
        self._listen(PhaseReached(phase, run.message or ""))
        return run


_STOPPING = "stopping: the trainer writes a checkpoint and ends; Ctrl-C again ends it at once"
_FIRST_CTRL_C = {
    Phase.BOOTING: _STOPPING,
    Phase.RUNNING: _STOPPING,
    Phase.COLLECTING: "training is over, the model is on its way; Ctrl-C again ends without it",
}


def _no_request(run: Run, number: int) -> LaunchRequest:
    raise AssertionError(f"run {run.run_id}: attempt {number} must not be launched here")


def _started(line: Line) -> TrainerStarted:
    return TrainerStarted(
        device=f"{line['device_count']} x {line['device_name']}" if line["device_count"] > 1 else line["device_name"],
        strategy=str(line.get("strategy", "")),
        framework=f"{line['framework']} {line['framework_version']}",
        epochs=int(line["epochs"]),
        total_steps=int(line["total_steps"]),
        resumed_from_step=int(line["resumed_from_step"]),
    )


def _progressed(line: Line, story: Story, usd_so_far: Decimal) -> Progressed:
    start = story.start or {}
    total, rate = int(start.get("total_steps", 0)), line.get("images_per_second")
    batch = start.get("images", 0) / max(1, start.get("steps_per_epoch", 1))
    left = max(0, total - int(line["step"]))
    eta = timedelta(seconds=left * batch / rate) if rate and batch else None
    return Progressed(
        epoch=int(line["epoch"]),
        epochs=int(start.get("epochs", 0)),
        step=int(line["step"]),
        total_steps=total,
        loss=line.get("loss"),
        accuracy=line.get("accuracy"),
        images_per_second=rate,
        eta=eta,
        usd_so_far=usd_so_far,
    )
