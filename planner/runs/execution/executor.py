"""The executor: carries out a run's next action through a provider, a journal and a clock, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, assert_never

from trainplan.planner.errors import (
    LimitReachedError,
    NoCapacityError,
    PlanError,
    RefusedError,
    RunKeyError,
    TrainingFailedError,
    from_provider,
)
from trainplan.planner.runs.decision.next_action import (
    Action,
    AskToStop,
    Clear,
    Collect,
    Compare,
    Decide,
    End,
    Examine,
    Interrupt,
    Launch,
    Move,
    Nothing,
    Wait,
    next_action,
    where_next,
)
from trainplan.planner.runs.decision.stay import comparison_text
from trainplan.planner.runs.directory.run_directory import Ended, newest_checkpoint
from trainplan.planner.runs.events import Event, PhaseReached
from trainplan.planner.runs.execution import create
from trainplan.planner.runs.execution.checkpoint_transfer import carry
from trainplan.planner.runs.execution.end import SETTLE_PATIENCE, Finisher
from trainplan.planner.runs.execution.observe import Observer
from trainplan.planner.runs.execution.recorder import Recorder
from trainplan.planner.runs.provider_clock import correction
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.runs.targets import Target, no_capacity, refusal_of
from trainplan.providers import interrupts
from trainplan.providers.base import EndKind, LaunchRequest, PreflightState, Provider
from trainplan.providers.errors import (
    AnotherVersionError,
    CapacityError,
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
)
from trainplan.providers.interrupts import HungUp
from trainplan.workloads.job import OnSlow
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.planner.clock import Clock
    from trainplan.planner.runs.decision.stay import Comparison
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.journal.journal import Journal

LONGEST_NAP_SECONDS = 60.0
"""A run that waits for a placement is looked at so often: the person may have asked it to stop."""


class CtrlC(StrEnum):
    """What a person wants who has pressed Ctrl-C."""

    STOP = "stop"
    DETACH = "detach"
    END_NOW = "end now"
    GO_ON = "go on"
    """Nobody answered, or something else has happened meanwhile: the run is followed on."""


class Person(Protocol):
    """The person who started the command, as far as they can be asked."""

    def pressed_ctrl_c(self, run: Run, times: int) -> CtrlC:
        """What the person wants who has pressed Ctrl-C, `times` times since the command began (from 1)."""
        ...

    def runs_slow(self, run: Run, text: str) -> OnSlow:
        """CONTINUE, STOP or REPLAN."""
        ...


class Detached(Exception):
    """The command stops following the run, which continues and ends itself at its deadline."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.run_id)
        self.run = run


class Executor:
    """Follows one run to its end. Every step may be the last this process takes: the journal knows enough to go on.

    `poll_seconds` lies between two looks at a run that trains. Asking a container engine takes it 0.04 s of
    processor time, which is taken from the training; a cloud counts the calls.
    """

    def __init__(
        self,
        provider: Callable[[str], Provider],
        journal: Journal,
        clock: Clock,
        listen: Callable[[Event], None],
        person: Person,
        *,
        poll_seconds: float = 1.0,
    ) -> None:
        self._provider_of = provider
        self._recorder = Recorder(journal, clock, listen)
        self._person = person
        self._poll_seconds = poll_seconds
        self.finisher = Finisher(provider, self._recorder, poll_seconds)
        self._observer = Observer(self._recorder)
        self._ctrl_c = 0

    def follow(self, run: Run, make_request: MakeRequest, *, until_launched: bool = False) -> Run:
        """Take actions until the run is done. Raises PlanError; the journal then holds where it stands.

        `make_request` builds the request of a new attempt; a run that is done is continued by one. With
        `until_launched` it ends, raising Detached, as soon as there is an instance. The run is read from the journal
        before each action: another command may have asked it to stop.
        """
        if run.phase is Phase.DONE:
            run = self._guarded(run, lambda run: self._gone_on(run, make_request))
        while run.phase is not Phase.DONE:
            if until_launched and run.phase in (Phase.BOOTING, Phase.RUNNING):
                raise Detached(run)
            run = self._guarded(run, lambda run: self._take(*self._next(run), make_request))
        return run

    def settle(self, run: Run) -> Run:
        """Take a run as far as it goes without waiting for its training, and without launching anything.

        What trains goes on; what has ended is collected and removed; a create that was cut off is adopted where it
        took effect, and ended where not.
        """
        self.finisher.patience = SETTLE_PATIENCE
        if run.phase is Phase.LAUNCHING:
            run = self._adopted(run)
        while run.phase not in (Phase.DONE, Phase.LAUNCHING):
            run, action = self._next(run)
            # A command that only reads the state must not start something that bills (ADR 6).
            if isinstance(action, Launch | Wait) and run.phase in (Phase.PLANNED, Phase.INTERRUPTED):
                action = End(Outcome.INTERRUPTED, _why_interrupted(run))
            if isinstance(action, AskToStop) and run.stop_asked is not None:
                self.finisher.tell_to_stop(run)  # whoever asked for it may have died before the machine was told
            if isinstance(action, Wait | AskToStop | Decide | Compare | Move):
                return run
            run = self._recorder.fresh(self._take(run, action, _no_request))
            if isinstance(action, Examine) and run.phase is Phase.INTERRUPTED and run.attempts[-1].step is None:
                return run  # its store does not answer: the next command asks again
        return run

    def with_end(self, run: Run) -> Run:
        """The run with the end of its machine, where the provider tells of one that nobody has written down."""
        return self.finisher.with_exit(run)

    def _guarded(self, run: Run, step: Callable[[Run], Run]) -> Run:
        """The run after a step, as the journal has it; the person may break off any of them."""
        try:
            interrupts.ask()
            return self._recorder.fresh(step(run))
        except KeyboardInterrupt:
            return self._guarded(self._recorder.fresh(run), self._interrupted)
        except HungUp:
            raise Detached(self._recorder.fresh(run)) from None

    def _next(self, run: Run) -> tuple[Run, Action]:
        """The run after one look, and the action that follows from it."""
        # What a provider shows is as old as the question: billing is counted from when it was asked, not answered.
        provider = self._provider_of(run.provider)
        before, asked_at = correction(provider), self._recorder.clock.now()
        look = self._observer.look(run, provider)
        asked_at += correction(provider) - before  # the first answer tells whether the clocks agree
        if look.has_answer and run.phase in (Phase.BOOTING, Phase.RUNNING):
            attempt = self._observer.with_billing(run.attempts[-1], look.instance, asked_at)
            run = run if attempt == run.attempts[-1] else self._recorder.keep(run.with_attempt(attempt), "charged")
        if run.stop_asked is not None:
            self._recorder.still_stopping(run)
        if run.phase is Phase.BOOTING and look.sign is not None and look.sign.trains:
            run = self._recorder.moved(run, Phase.RUNNING)
        return run, next_action(run, look, asked_at)

    def _gone_on(self, run: Run, make_request: MakeRequest) -> Run:
        """A run that had ended, with its next attempt under way."""
        action = where_next(run, self._observer.look(run, self._provider_of(run.provider)), self._recorder.clock.now())
        while isinstance(action, Wait):
            self._wait(run, action)
            action = where_next(
                run, self._observer.look(run, self._provider_of(run.provider)), self._recorder.clock.now()
            )
        if isinstance(action, End):
            raise ended_error(replace(run, outcome=action.outcome, message=action.message))
        return self._take(run, action, make_request)

    def _take(self, run: Run, action: Action, make_request: MakeRequest) -> Run:
        try:
            return self._step(run, action, make_request)
        except ProviderError as error:
            raise from_provider(error) from error

    def _step(self, run: Run, action: Action, make_request: MakeRequest) -> Run:
        match action:
            case Launch():
                return self._launch(run, action, make_request)
            case Wait():
                return self._wait(run, action)
            case AskToStop():
                return self._ask_to_stop(run)
            case Decide() | Move() | Compare():
                return self._decide(run, action)
            case Interrupt():
                return self._interrupt(run, action)
            case Clear() | Examine() | Collect() | End():
                return self._finish(run, action)
            case Nothing():
                return run
            case _:
                assert_never(action)

    def _finish(self, run: Run, action: Clear | Examine | Collect | End) -> Run:
        match action:
            case Clear():
                return self.finisher.clear(run)
            case Examine():
                return self._examine(run)
            case Collect():
                return self.finisher.collect(self._listened(run))
            case End():
                return self.finisher.end(self._listened(run), action)
            case _:
                assert_never(action)

    def _listened(self, run: Run) -> Run:
        """The same run, once the newest lines of its trainer have been passed on."""
        self._observer.listen(run, self._provider_of(run.provider), is_last=True)
        return run

    def _launch(self, run: Run, action: Launch, make_request: MakeRequest) -> Run:
        if action.target is not None:
            run = self._record_attempt(run, action.number, action.target, make_request)
            if run.phase is not Phase.LAUNCHING:
                return run
        elif create.is_forgotten(run.attempts[-1], self._provider_of(run.provider), self._recorder.clock.now()):
            return self._adopted_or_given_up(run, create.FORGOTTEN)
        try:
            return create.send(run, self._provider_of(run.provider), self._recorder, again=action.target is None)
        except AnotherVersionError:
            # Agent and trainer are not in the journal: a request of an older version cannot be sent by this one.
            return self._adopted_or_given_up(run, create.ANOTHER_VERSION)
        except ProviderError as error:
            self.finisher.end(run, End(_outcome_of(error), error.message))
            raise

    def _record_attempt(self, run: Run, number: int, target: Target, make_request: MakeRequest) -> Run:
        provider = self._provider_of(target.offer.provider)
        try:
            if run.attempts and provider.name != run.provider:
                self._carry(run, provider)
            run = create.record(run, number, target, provider, make_request, self._recorder)
        except (CapacityError, QuotaError) as error:
            if run.phase is Phase.DONE:
                raise
            self._recorder.say(f"{target.where}: {error.message}")
            self._recorder.remember(refusal_of(error, target, self._recorder.clock.now()))
            return run
        except ProviderError as error:
            if run.phase is not Phase.DONE:
                self.finisher.end(run, End(_outcome_of(error), error.message))
            raise
        self._recorder.listen(PhaseReached(run.phase, target.where if target.zone or len(run.targets) > 1 else ""))
        return run

    def _carry(self, run: Run, provider: Provider) -> None:
        """A run that goes on at another provider takes its newest checkpoint with it."""
        here, there = self._provider_of(run.provider).store(run.run_id), provider.store(run.run_id)
        is_ours = self.finisher.vouching(run) is None
        key = self.finisher.vouching(replace(run, provider=provider.name)) if is_ours else None

        def report(step: int) -> None:
            self._recorder.say(f"taking the checkpoint of step {step} from {run.provider} to {provider.name}")

        carry(here, there, key, report)

    def _wait(self, run: Run, action: Wait) -> Run:
        if action.until is None:
            self._recorder.clock.sleep(self._poll_seconds)
            return run
        self._recorder.say_once(action.why)
        seconds = (action.until - self._recorder.clock.now()).total_seconds()
        self._recorder.clock.sleep(min(max(seconds, self._poll_seconds), LONGEST_NAP_SECONDS))
        return run

    def _ask_to_stop(self, run: Run) -> Run:
        self.finisher.tell_to_stop(run)
        self._recorder.clock.sleep(self._poll_seconds)
        return run

    def _decide(self, run: Run, action: Decide | Move | Compare) -> Run:
        if isinstance(action, Compare):
            return self._compare(run, action.comparison)
        if isinstance(action, Move):
            self._recorder.say(f"leaving for {action.market.replace('_', ' ')}: {action.why}")
            return self._recorder.keep(replace(run, moving=action.market), "moving")
        choice = run.on_slow if run.on_slow is not OnSlow.ASK else self._person.runs_slow(run, action.text)
        self._recorder.say(f"{action.text}: {_SLOW[choice]}")
        return self._recorder.keep(replace(run, slow=choice), "slow")

    def _compare(self, run: Run, comparison: Comparison) -> Run:
        comparison = self._let_in(comparison)
        self._recorder.say(comparison_text(comparison))
        cheaper, speed = comparison.cheaper, comparison.speed
        attempt = replace(run.attempts[-1], speed=replace(speed, leaves=bool(cheaper)))
        others = tuple(target for target in run.targets if target not in cheaper)
        return self._recorder.keep(replace(run.with_attempt(attempt), targets=(*cheaper, *others)), "measured")

    def _let_in(self, comparison: Comparison) -> Comparison:
        """The comparison without cheaper placements that would refuse us: what trains is not left for them."""
        while comparison.cheaper:
            offer = comparison.cheaper[0].offer
            try:
                state = self._provider_of(offer.provider).preflight(offer).state
            except ProviderError:
                state = PreflightState.REFUSED  # who does not answer now may not launch either
            if state is not PreflightState.REFUSED:
                break
            comparison = comparison.without(offer)
        return comparison

    def _interrupt(self, run: Run, action: Interrupt) -> Run:
        self.finisher.keep_output(run)
        attempt, now = run.attempts[-1], self._recorder.clock.now()
        step = None
        # What does not answer now is asked once the machine is gone (Examine).
        with suppress(ProviderError, RunKeyError):
            if self.finisher.has_finished(run):
                return self.finisher.collect(self._listened(run))
            step = newest_checkpoint(self._provider_of(run.provider).store(run.run_id)) or 0
        last_step = self._observer.step_of(attempt.number) or step or 0
        ending = self.finisher.instance_end(run)
        ended = ending.ended if ending else Ended(now, attempt.asked_at)
        attempt_over = replace(
            ended.of(attempt), end=action.end, reason=action.reason, step=step,
            lost_steps=max(0, last_step - (step or 0)),
        )  # fmt: skip
        if action.end in (EndKind.RECLAIMED, EndKind.NO_CAPACITY) and attempt.target is not None:
            self._recorder.remember(no_capacity(attempt.target, now, action.reason))
        run = replace(elsewhere(run.with_attempt(attempt_over)), moving=None)
        return self._recorder.moved(run, Phase.INTERRUPTED, action.reason)

    def _examine(self, run: Run) -> Run:
        """The run with what its store has of its last attempt; as it is, after a pause, where that does not answer."""
        attempt, provider = run.attempts[-1], self._provider_of(run.provider)
        try:
            has_finished = self.finisher.has_finished(run)
            step = newest_checkpoint(provider.store(run.run_id)) or 0
        except ProviderError as error:
            self._recorder.report_no_answer(error, "store")
            self._recorder.clock.sleep(self._poll_seconds)
            return run
        self._recorder.note_answer("store")
        if has_finished:
            return self.finisher.collect(run)
        lost_steps = max(0, (self._observer.step_of(attempt.number) or step) - step)
        return self._recorder.keep(run.with_attempt(replace(attempt, step=step, lost_steps=lost_steps)), "examined")

    def _adopted(self, run: Run) -> Run:
        """A run whose create was cut off, with the instance that it made after all, or ended where it made none."""
        adopted = create.adopt(run, self._provider_of(run.provider), self._recorder, self._poll_seconds)
        return adopted or self._take(run, End(Outcome.INTERRUPTED, _why_interrupted(run)), _no_request)

    def _adopted_or_given_up(self, run: Run, why: str) -> Run:
        return create.adopt_or_give_up(run, self._provider_of(run.provider), self._recorder, self._poll_seconds, why)

    def _interrupted(self, run: Run) -> Run:
        if run.phase is Phase.DONE:
            return run
        self._ctrl_c += 1
        choice = self._person.pressed_ctrl_c(run, self._ctrl_c)
        if choice is CtrlC.DETACH:
            raise Detached(run)
        if choice is CtrlC.GO_ON:
            return run
        if choice is CtrlC.STOP and run.phase in _FIRST_CTRL_C and run.stop_asked is None:
            self._recorder.say(_FIRST_CTRL_C[run.phase])
            return self._recorder.ask_to_stop(run)
        # What was on its way home stays in the store.
        run = replace(run, results_given_up=run.results_given_up or run.phase is Phase.COLLECTING)
        return self._take(run, End(Outcome.STOPPED, "ended at once by Ctrl-C"), _no_request)


def ended_error(run: Run) -> PlanError:
    """The error that ends a command whose run was not trained to its end."""
    kinds: dict[Outcome, type[PlanError]] = {
        Outcome.DEADLINE: LimitReachedError,
        Outcome.BUDGET: LimitReachedError,
        Outcome.NO_CAPACITY: NoCapacityError,
        Outcome.INTERRUPTED: NoCapacityError,
        Outcome.REFUSED: RefusedError,
    }
    kind = kinds.get(run.outcome or Outcome.FAILED, TrainingFailedError)
    return kind(f"run {run.run_id}: {run.message}", _what_to_do(run))


def _what_to_do(run: Run) -> str:
    if run.outcome is Outcome.INTERRUPTED:
        return (
            f"{Command('attach', run.run_id)} tries again; a shorter checkpoint_every loses less, and a launch with "
            f"{Option.MARKET('on_demand')} is not taken back"
        )
    if any(attempt.had_instance for attempt in run.attempts):
        return f"plan logs {run.run_id} shows its output"
    if run.outcome is Outcome.NO_CAPACITY:
        return "launch it again later, or with more regions, devices or markets"
    return f"plan doctor {run.provider} shows what a launch there needs"


def elsewhere(run: Run) -> Run:
    """A run that is slower than its estimate, with the targets of other devices; it stays where there are none."""
    target = run.attempts[-1].target
    if run.slow is not OnSlow.REPLAN or target is None:
        return run
    targets = tuple(other for other in run.targets if other.offer.device != target.offer.device)
    return replace(run, targets=targets, slow=None) if targets else replace(run, slow=OnSlow.CONTINUE)


_SLOW = {
    OnSlow.CONTINUE: "it goes on; deadline and budget hold",
    OnSlow.STOP: "it is stopped, with a checkpoint",
    OnSlow.REPLAN: "it goes elsewhere, from its checkpoint",
}
_STOPPING = "stopping: the trainer writes a checkpoint and ends; Ctrl-C again ends it at once"
_FIRST_CTRL_C = {
    Phase.BOOTING: _STOPPING,
    Phase.RUNNING: _STOPPING,
    Phase.COLLECTING: "training is over, the model is on its way; Ctrl-C again ends without it",
    Phase.INTERRUPTED: "stopping: nothing of it runs at this moment",
}


def _why_interrupted(run: Run) -> str:
    step = max((attempt.step or 0 for attempt in run.attempts), default=0)
    if not step and not any(attempt.ref for attempt in run.attempts):
        return "the launch was cut off before anything was made"
    since = f"from step {step}" if step else "from the beginning"
    return f"{run.attempts[-1].reason or 'taken away'}; plan attach goes on {since}"


def _outcome_of(error: ProviderError) -> Outcome:
    if isinstance(error, CredentialsError | PermissionDeniedError):
        return Outcome.REFUSED
    # Of a provider that does not answer nothing follows about the job: plan attach tries it again.
    return Outcome.INTERRUPTED if isinstance(error, ThrottledError | TransientError) else Outcome.FAILED


def _no_request(run: Run, number: int, target: Target) -> LaunchRequest:
    raise AssertionError(f"run {run.run_id}: attempt {number} must not be launched in {target.where} here")
