"""Bringing a run to its end: the model home, the output kept, everything deleted, the absence made sure of."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trainplan.planner.errors import (
    ResultsUnknownError,
    RunKeyError,
    TeardownUnverifiedError,
    ThisMachineError,
    TrainingFailedError,
)
from trainplan.planner.runs.decision.next_action import End, early_end
from trainplan.planner.runs.directory.progress import story_of
from trainplan.planner.runs.directory.proofs import Vouched
from trainplan.planner.runs.directory.results import finished_attempt
from trainplan.planner.runs.directory.run_directory import (
    LAST_WORDS,
    PARTS,
    Ended,
    has_written,
    newest_checkpoint,
    note_stop_for_good,
    outlived,
    status_of,
    when_ended,
)
from trainplan.planner.runs.execution.collect import collect, failure_of
from trainplan.planner.runs.execution.teardown import Seen, Teardown
from trainplan.planner.runs.run import Attempt, Outcome, Phase, Run
from trainplan.planner.runs.sweep_table import early_text
from trainplan.providers import interrupts
from trainplan.providers.abilities import AttachedDeleter, CreationTeller, DeletionTeller, EndTeller, PromptEnder
from trainplan.providers.agent.endings import BEFORE_CHECKPOINT, WITH_CHECKPOINT
from trainplan.providers.agent.schema import MOST_TEXT
from trainplan.providers.base import EndKind, Instance, InstanceState, Provider
from trainplan.providers.errors import BadRequestError, InstanceNotFoundError, ProviderError
from trainplan.providers.stores.files import KeptHere
from trainplan.workloads.job import OnSlow
from trainplan.workloads.secret_rules import LineCover, without_secrets
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.recorder import Recorder
    from trainplan.providers.agent.signatures import Vouching

_Answer = TypeVar("_Answer")

KEPT_LINES = 10_000
TEARDOWN_PATIENCE = timedelta(minutes=15)
SETTLE_PATIENCE = timedelta(minutes=3)
"""For commands that only look: nobody waits a quarter of an hour for a table. The next command continues."""
COLLECT_PATIENCE = timedelta(minutes=10)
"""How long a command waits for a store that does not answer; the next command asks again."""
RESULTS_PATIENCE = timedelta(days=30)
"""How long a run of which nothing bills any more waits for its store before its results are given up."""


_GIVEN_UP = f"its results are given up, since its store has not let them be read for {RESULTS_PATIENCE.days} days"
_STOPPED = (WITH_CHECKPOINT, BEFORE_CHECKPOINT, EndKind.STOPPED)
"""What an exit code, or a status alone, has as the reason of a stop."""
_CRASHES = "MACHINE_CRASHES"
"""What start.sh gives as the reason of a machine whose kernel crashed three times in a row."""
_KERNEL_LINE = re.compile(r"\[ *[0-9]+\.[0-9]{6}\] (.*)")
_BEGINS = "Linux version "
_CAUSES = ("Kernel panic - not syncing", "BUG: ", "Oops: ")
_MOST_CRASH_LINES = 5


def crash_lines(console: Iterable[str]) -> list[str]:
    """What the kernel said last before the machine started anew, from its console: what it says of a crash, else its
    last lines; without their times, `_MOST_CRASH_LINES` at most."""
    before: deque[str] = deque(maxlen=KEPT_LINES)
    now: deque[str] = deque(maxlen=KEPT_LINES)
    for line in console:
        match = _KERNEL_LINE.search(line)
        if match and match[1].startswith(_BEGINS):
            before, now = now, deque(maxlen=KEPT_LINES)
        if match:
            now.append(match[1].strip())
    lines = before or now
    causes = [line for line in lines if any(cause in line for cause in _CAUSES)]
    return (causes or list(lines))[-_MOST_CRASH_LINES:]


def _unknown(run: Run, error: ProviderError) -> ResultsUnknownError:
    return ResultsUnknownError(
        f"run {run.run_id} waits for its store at {run.provider}, which has not said whether its results are there: "
        f"{error.message}. Nothing of the run bills any more",
        f"{Command('attach', run.run_id)} asks again once the store can be "
        f"read{f' ({error.hint})' if error.hint else ''}; if "
        f"it is gone for good: {Command('stop', run.run_id, Option.GIVE_UP_RESULTS)}",
    )


def _with_results_at_home(run: Run) -> Run:
    """A run whose output was brought home."""
    return replace(run.with_attempt(replace(run.attempts[-1], results_at_home=True)), has_results_settled=True)


def _given_up(run: Run, error: ProviderError) -> Run:
    return replace(run, message=f"{run.message}; {_GIVEN_UP}: {error.message}")


def unchecked(run: Run) -> None:
    """Accept all results: only the run's own machine can write them."""
    del run


class InstanceEnd(NamedTuple):
    """An instance that has ended by itself: what the provider still says of it (None: nothing), and until when it
    billed."""

    instance: Instance | None
    ended: Ended


class Finisher:
    """Collects and ends runs. Doing any of it again, after a crash, comes to the same end."""

    def __init__(self, provider: Callable[[str], Provider], recorder: Recorder, poll_seconds: float) -> None:
        self.vouching: Callable[[Run], Vouching | None] = unchecked
        """What a run's results are checked with (trainplan.planner.runs.directory.run_keys)."""
        self._provider_of = provider
        self._recorder = recorder
        self.patience = TEARDOWN_PATIENCE
        self._poll_seconds = poll_seconds

    def collect(self, run: Run) -> Run:
        """The model at home and the run done. Raises PlanError.

        Where the store answers that the output is not whole, the run has failed. Where it does not answer, or this
        computer cannot write the files, what bills is deleted and the run stays COLLECTING: another command goes on.
        """
        if run.phase is not Phase.COLLECTING:
            run = self._recorder.moved(self.with_exit(run), Phase.COLLECTING)
        try:
            self._fetch(run)
        except TrainingFailedError as error:
            # Its checkpoints stay: only a success deletes them, and the same job can go on from them.
            self.end(replace(run, has_results_settled=True), End(Outcome.FAILED, error.message))
            raise
        except (ThisMachineError, ProviderError) as error:
            run = self.clear(self.with_exit(run))
            if isinstance(error, ThisMachineError):
                raise
            if self._waits(run):
                raise _unknown(run, error) from error
            return self.end(run, End(Outcome.FAILED, f"{_GIVEN_UP}: {error.message}"))
        return self.end(_with_results_at_home(run), self._collected_end(run))

    def _collected_end(self, run: Run) -> End:
        """How a run has ended whose output is at home."""
        if not run.model_folder:
            return End(Outcome.SUCCEEDED, "")
        folder = Path(run.model_folder)
        failure = failure_of(folder)
        if failure is not None and failure.outcome == "failed":
            return End(Outcome.FAILED, failure.text)
        early = early_text(folder)
        if failure is not None and (failure.outcome == "stopped" or run.stop_asked is not None):
            saved = f"; what its script had saved is at home, and {failure.text}"
            return End(Outcome.STOPPED, f"stopped before {early}" if early else f"stopped{saved}")
        if failure is not None:
            return early_end(run, f"its script had ended; {failure.text}")
        return early_end(run, early) if early else End(Outcome.SUCCEEDED, "")

    def end(self, run: Run, action: End) -> Run:
        """Everything of the run deleted and looked for, and its end recorded once the store has answered whether a
        complete output is there: that is brought home, and the run has succeeded.

        Raises TeardownUnverifiedError where the absence is not sure, ResultsUnknownError where the store does not
        answer, ThisMachineError where the files cannot be written; the run stays TEARING_DOWN then.
        """
        if run.phase is not Phase.TEARING_DOWN:
            run = replace(run, outcome=action.outcome, message=self._with_cause(run, action) or None)
            run = self._recorder.moved(self.with_exit(run), Phase.TEARING_DOWN)
        else:
            run = self.with_exit(run)  # it may have ended since another process gave up
        self.keep_output(run)
        run = self._with_newest_step(self._with_results(self._all_cleared(run, self._torn_down(run), is_end=True)))
        # A run with any other outcome can be continued, and needs its checkpoints for that. Nothing is deleted before
        # its end is on disk: another command would not find what the journal sends it for.
        if run.outcome is Outcome.SUCCEEDED and self._recorder.is_kept:
            self._drop_stored(run)
        return self._recorder.moved(replace(run, unverified=None), Phase.DONE)

    def has_finished(self, run: Run) -> bool:
        """Whether a complete output of the run is in its store. Raises ProviderError where that does not answer, and
        RunKeyError."""
        return finished_attempt(run, self._provider_of(run.provider).store(run.run_id), self.vouching) is not None

    def _with_results(self, run: Run) -> Run:
        """A run of which nothing bills any more, with what its store has of it at home. Raises as `end`."""
        may_have_some = any(attempt.had_instance for attempt in run.attempts)
        if run.has_results_settled or run.outcome is Outcome.SUCCEEDED or run.results_given_up or not may_have_some:
            return run
        run = self._recorder.keep(run, "nothing bills")
        try:
            if not self._patiently(run, lambda: self.has_finished(run)):
                return replace(run, has_results_settled=True)
            self._recorder.say(f"run {run.run_id} has left results in its store: they are brought home")
            self._fetch(run)
        except TrainingFailedError as error:
            return replace(run, has_results_settled=True, message=f"{run.message}; {error.message}")
        except RunKeyError as error:
            if run.outcome is not Outcome.STOPPED:
                raise
            return replace(run, message=f"{run.message}; what it left in its store stays there: {error.message}")
        except ProviderError as error:
            if self._waits(run):
                raise _unknown(run, error) from error
            return run if run.outcome is Outcome.STOPPED else _given_up(run, error)
        end, before = self._collected_end(run), run.message or run.outcome
        message = end.message or f"all of it was trained, and its results lay in the store ({before})"
        run = replace(_with_results_at_home(run), outcome=end.outcome, message=message)
        return self._recorder.keep(run, "brought home")

    def _with_newest_step(self, run: Run) -> Run:
        """A run that did not succeed, with the step of its newest checkpoint; where there is none, its message has so,
        and where its files are kept. As it is where its store does not answer."""
        if run.outcome is Outcome.SUCCEEDED or not run.has_results_settled or not run.attempts:
            return run
        store = self._provider_of(run.provider).store(run.run_id)
        try:
            step = newest_checkpoint(store) or 0
        except ProviderError:
            return run
        run = run.with_attempt(replace(run.attempts[-1], step=step))
        if step or run.outcome is not Outcome.STOPPED or run.message not in _STOPPED:
            return run
        work = store.root / "work" if isinstance(store, KeptHere) else None
        if work is None or not work.is_dir():  # only scripts have one
            return replace(run, message="stopped. It saved no checkpoint")
        return replace(run, message=f"stopped. The script saved no checkpoint; its files are in {work}")

    def _waits(self, run: Run) -> bool:
        """Whether a run whose store does not answer stays as it is until it does. Whoever has stopped it does not wait:
        plan attach looks again."""
        if run.results_given_up or run.outcome in (Outcome.STOPPED, Outcome.SUCCEEDED):
            return False
        return self._recorder.clock.now() - (run.nothing_bills_since or run.deadline) < RESULTS_PATIENCE

    def _with_cause(self, run: Run, action: End) -> str:
        """The action's message, with the machine's own last words where it failed and they say more."""
        attempt = run.attempt
        if action.outcome is not Outcome.FAILED or attempt is None:
            return action.message
        provider = self._provider_of(run.provider)
        try:
            status = status_of(provider.store(run.run_id), attempt.number)
        except ProviderError:
            return action.message
        words = status.get("message", "")
        if status.get("reason") == _CRASHES and attempt.ref is not None:
            # Where no console outlives its machine, there are the lines that the machine found on its disk.
            with contextlib.suppress(ProviderError):
                lines = crash_lines(provider.logs(attempt.ref))
                words = "; ".join([words, *(line for line in lines if line not in words)])
        words = without_secrets(words[:MOST_TEXT])
        return action.message if not words or words in action.message else f"{action.message}: {words}"

    def clear(self, run: Run) -> Run:
        """What the attempts made is gone, and the run goes on. Raises TeardownUnverifiedError."""
        return self._recorder.keep(self._all_cleared(run, self._torn_down(run), is_end=False), "cleared")

    def tell_to_stop(self, run: Run) -> None:
        """Ask the machine for a checkpoint and its end. A provider that does not answer is told, and the wish of a
        person counts as told all the same: the limit holds for a machine that cannot be asked too."""
        try:
            if run.attempt and run.attempt.ref:
                provider = self._provider_of(run.provider)
                if run.stop_asked is not None or run.slow is OnSlow.STOP:
                    note_stop_for_good(provider, run.run_id, run.attempt.number)
                provider.stop(run.attempt.ref)
        except InstanceNotFoundError:
            return  # the next look tells how it ended
        except ProviderError as error:
            self._recorder.report_no_answer(error)
        if run.stop_asked is not None:
            self._recorder.told_to_stop(run)

    def keep_output(self, run: Run) -> None:
        """What the instance printed goes with it: its last lines are put into the run directory before."""
        attempt = run.attempt
        if attempt is None or attempt.ref is None or attempt.cleared:
            return
        provider = self._provider_of(run.provider)
        try:
            # A training may print millions of lines; the last ones say why it ended.
            lines = deque(provider.logs(attempt.ref), maxlen=KEPT_LINES)
            cover = LineCover()
            text = "".join(f"{cover(line.rstrip())}\n" for line in lines)
            provider.store(run.run_id).put(f"attempts/{attempt.number}/log/output.log", text.encode())
        except ProviderError:
            return  # already gone, or it never said anything: ending it must not wait for that

    def _vouched(self, run: Run) -> Vouched | None:
        """Raises RunKeyError."""
        vouching = self.vouching(run)
        if vouching is None or not run.attempts:
            return None
        if not vouching.is_on:
            self._recorder.say(f"the model of run {run.run_id} cannot be verified: this home has no key of that run")
            return None
        return Vouched(vouching, run.attempts[-1].number)

    def _fetch(self, run: Run) -> None:
        """The output in the run's folder. Raises ProviderError where the store does not answer in time, PlanError."""
        if not run.model_folder:  # a measuring run leaves no model
            return
        vouched, folder = self._vouched(run), Path(run.model_folder)
        self._patiently(run, lambda: collect(self._provider_of(run.provider).store(run.run_id), folder, vouched))

    def _patiently(self, run: Run, ask: Callable[[], _Answer], *, waits: bool = True) -> _Answer:
        """The answer of the run's store, asked again while it does not answer, as long as this command waits (`waits`).
        Raises ProviderError."""
        is_urgent = not waits or run.outcome in (Outcome.STOPPED, Outcome.SUCCEEDED)
        until = self._recorder.clock.now() + (timedelta(0) if is_urgent else min(COLLECT_PATIENCE, self.patience))
        while True:
            interrupts.ask()
            try:
                answer = ask()
            # The same request would be rejected again.
            except BadRequestError:
                raise
            except ProviderError as error:
                if self._recorder.clock.now() >= until:
                    raise
                self._recorder.report_no_answer(error, "store")
                self._recorder.clock.sleep(self._poll_seconds)
            else:
                self._recorder.note_answer("store")
                return answer

    def _torn_down(self, run: Run) -> Seen:
        """What the teardown found; nothing of the run is there any more. Raises TeardownUnverifiedError."""
        # A run that moved to another provider may have left resources at the first one.
        names = {attempt.ref.provider for attempt in run.attempts if attempt.ref} | {run.provider}
        seen = Seen()
        try:
            for name in sorted(names):
                Teardown(
                    self._provider_of(name), self._recorder.clock, self._recorder.say, self.patience, seen=seen
                ).clear(run)
        except TeardownUnverifiedError as error:
            self._recorder.keep(replace(run, unverified=error.message), "teardown unverified")
            raise
        return seen

    def _all_cleared(self, run: Run, seen: Seen, *, is_end: bool) -> Run:
        """The run after its teardown. Raises ResultsUnknownError where it `is_end`, and the store does not answer
        whether a create without an answer made a machine."""
        attempts = []
        for attempt in run.attempts:
            try:
                found = self._patiently(run, partial(self._found, run, attempt, seen), waits=is_end)
            except ProviderError as error:
                if is_end and self._waits(run):
                    raise _unknown(run, error) from error
                found = attempt
            attempts.append(self._cleared(run, self._begun_unseen(run, found), seen))
        return replace(run, attempts=tuple(attempts))

    def _begun_unseen(self, run: Run, attempt: Attempt) -> Attempt:
        """An attempt that waited when somebody looked last, and whose files show that it got its machine since: it is
        charged for from its request on, at most."""
        if not attempt.queued or attempt.cleared or attempt.target is None:
            return attempt
        store = self._provider_of(run.provider).store(run.run_id)
        try:
            began_at = story_of(store, attempt.number).began_at
            has_begun = began_at is not None or bool(status_of(store, attempt.number))
        except ProviderError:
            return replace(attempt, queued=False)
        if not has_begun:
            return attempt
        if attempt.ended_at is None:
            told_at, now = self._told_end(attempt), self._recorder.clock.now()
            attempt = when_ended(store, attempt, told_at, now, deleted_at=self._deleted_at(attempt)).of(attempt)
        by = attempt.ended_at or self._recorder.clock.now()
        return replace(attempt, queued=False, bills_by=min(by, began_at or by))

    def _found(self, run: Run, attempt: Attempt, seen: Seen) -> Attempt:
        """An attempt of which no answer told an instance, with the one that this teardown or its files show. Raises
        ProviderError."""
        if attempt.cleared or attempt.had_instance or attempt.end is not None or attempt.target is None:
            return attempt
        now, seen_at = self._recorder.clock.now(), seen.machines.get(attempt.number)
        ended = Ended(now, seen_at or attempt.asked_at)
        store = self._provider_of(attempt.target.offer.provider).store(run.run_id)
        was_there = has_written(store, attempt.number)
        if was_there and seen_at is None:
            ended = when_ended(store, attempt, None, now)
        is_made = was_there or seen_at is not None
        with contextlib.suppress(ProviderError):  # no answer: it may have been made
            if not is_made and (not seen.shows(attempt.number) or self._was_never_made(run, attempt)):
                return attempt
        return ended.of(replace(attempt, found=True))

    def _was_never_made(self, run: Run, attempt: Attempt) -> bool:
        """Whether a machine of which a disk or a network alone was found was never there, by its provider's record: a
        create that was cut off may not have come to the machine. Raises ProviderError."""
        target, asked_at = attempt.target, attempt.sent_at or attempt.asked_at
        provider = self._provider_of(target.offer.provider) if target is not None else None
        if target is None or asked_at is None or not isinstance(provider, CreationTeller):
            return False
        return provider.was_made(run.run_id, attempt.number, target.offer.region, asked_at) is False

    def _cleared(self, run: Run, attempt: Attempt, seen: Seen) -> Attempt:
        """An attempt after the provider has said that nothing of it is left: nothing bills any more."""
        now = self._recorder.clock.now()
        if attempt.cleared:
            return attempt
        attempt = self._with_end(attempt, seen.machines.get(attempt.number), now)
        earliest = attempt.ended_after or attempt.ended_at or now
        found_at = self._outlived(run, attempt, seen)
        with_it = self._gone_with_machine(attempt, found_at)
        # A disk and an address that somebody found were there until then.
        there_until = [max(earliest, found_at.get(part) or earliest) for part in PARTS - with_it.keys()]
        gone_after = min(there_until, default=earliest)
        return replace(
            attempt,
            cleared=True,
            gone_at=now,
            gone_after=min(now, gone_after),
            disk_gone_at=with_it.get("disk"),
            address_gone_at=with_it.get("address"),
        )

    def _outlived(self, run: Run, attempt: Attempt, seen: Seen) -> dict[str, datetime | None]:
        """When disk and address of an attempt were last found, by this teardown or an earlier command; None: the
        time is not known; all of them where the store does not answer."""
        seen_at: dict[str, datetime | None] = {**seen.attached_of(attempt.number)}
        if attempt.ref is None:
            return seen_at
        try:
            return outlived(self._provider_of(run.provider).store(run.run_id), attempt.number) | seen_at
        except ProviderError:
            return dict.fromkeys(PARTS) | seen_at

    def _gone_with_machine(self, attempt: Attempt, found_at: dict[str, datetime | None]) -> dict[str, datetime]:
        """When disk and address were gone at the latest, of those that the provider has deleted with their machine."""
        if attempt.ref is None or attempt.ended_at is None:
            return {}
        provider = self._provider_of(attempt.ref.provider)
        outlast = provider.attached_outlast(attempt.ref) if isinstance(provider, AttachedDeleter) else None
        if outlast is None:
            return {}
        at = (attempt.ended_before or attempt.ended_at) + outlast
        return dict.fromkeys(PARTS - found_at.keys(), min(self._recorder.clock.now(), at))

    def _with_end(self, attempt: Attempt, seen_at: datetime | None, now: datetime) -> Attempt:
        """The attempt with its machine's end: as the provider tells it, else between when the teardown found it
        (`seen_at`) and now."""
        if attempt.ended_at is not None and attempt.ended_after is None:
            return attempt
        told_at = self._told_end(attempt)
        if told_at is not None:
            return Ended(min(now, max(attempt.asked_at or told_at, told_at))).of(attempt)
        is_unknown = attempt.ended_at is None or attempt.ended_after == attempt.asked_at
        if seen_at is not None and is_unknown:
            return Ended(now, seen_at).of(attempt)
        return attempt if attempt.ended_at else Ended(now, attempt.asked_at).of(attempt)

    def _told_end(self, attempt: Attempt) -> datetime | None:
        """As the provider shows its machine, or has it in its record of machines that are gone; None: it does not
        tell."""
        if attempt.ref is None:
            return None
        provider = self._provider_of(attempt.ref.provider)
        with contextlib.suppress(ProviderError):
            try:
                return provider.get(attempt.ref).ended_at
            except InstanceNotFoundError:
                return provider.ended_at(attempt.ref) if isinstance(provider, EndTeller) else None
        return None

    def _deleted_at(self, attempt: Attempt) -> datetime | None:
        """When the deletion of its machine had begun at the latest, by the provider's record and what was seen of it;
        None: neither tells."""
        provider = self._provider_of(attempt.ref.provider) if attempt.ref is not None else None
        if attempt.ref is None or not isinstance(provider, DeletionTeller):
            return attempt.deleted_by
        with contextlib.suppress(ProviderError):
            instants = (attempt.deleted_by, provider.deleted_at(attempt.ref))
            return min((at for at in instants if at is not None), default=None)
        return attempt.deleted_by

    def asked_again(self, run: Run) -> Run:
        """An ended run with the ends of its machines that were unknown and that its providers' records have by now.
        Raises ProviderError."""
        return replace(run, attempts=tuple(self._end_asked_again(run, attempt) for attempt in run.attempts))

    def _end_asked_again(self, run: Run, attempt: Attempt) -> Attempt:
        if attempt.ref is None and attempt.found and self._was_never_made(run, attempt):
            return replace(attempt, found=False)
        if attempt.ref is None or attempt.ended_at is None or attempt.ended_after is None:
            return attempt
        provider, latest = self._provider_of(attempt.ref.provider), attempt.ended_before or attempt.ended_at
        told_at = provider.ended_at(attempt.ref) if isinstance(provider, EndTeller) else None
        deleted_at = provider.deleted_at(attempt.ref) if isinstance(provider, DeletionTeller) else None
        if told_at is None and deleted_at is None:
            return attempt
        off_within = provider.off_within() if isinstance(provider, PromptEnder) else LAST_WORDS
        ended = when_ended(provider.store(run.run_id), attempt, told_at, latest, off_within, deleted_at)
        outlast = provider.attached_outlast(attempt.ref) if isinstance(provider, AttachedDeleter) else None
        attempt = ended.of(attempt)
        if outlast is None:
            return attempt
        gone_at = (ended.before or ended.at) + outlast
        disk, address = (at and min(at, gone_at) for at in (attempt.disk_gone_at, attempt.address_gone_at))
        return replace(attempt, disk_gone_at=disk, address_gone_at=address)

    def _drop_stored(self, run: Run) -> None:
        """A model that is at home is not kept twice; what cannot be deleted now is left to the store's age limit."""
        try:
            for prefix in ("checkpoints", "output"):
                self._provider_of(run.provider).store(run.run_id).delete(prefix)
        except ProviderError as error:
            self._recorder.say(f"the stored copy of the model is still there: {error.message}")

    def instance_end(self, run: Run) -> InstanceEnd | None:
        """How the newest attempt's instance ended by itself; None where it is still there, or nobody tells."""
        attempt, provider = run.attempts[-1], self._provider_of(run.provider)
        instance: Instance | None = None
        try:
            with contextlib.suppress(InstanceNotFoundError):
                instance = provider.get(attempt.ref) if attempt.ref else None
            if instance is not None and instance.state is not InstanceState.ENDED:
                return None
            told_at = self._told_end(attempt) if instance is None else instance.ended_at
            off_within = provider.off_within() if isinstance(provider, PromptEnder) else LAST_WORDS
            deleted_at = self._deleted_at(attempt) if instance is None and told_at is None else None
            store, now = provider.store(run.run_id), self._recorder.clock.now()
            ended = when_ended(store, attempt, told_at, now, off_within, deleted_at)
            return InstanceEnd(instance, ended)
        except ProviderError:
            return None

    def with_exit(self, run: Run) -> Run:
        """The run with how and when its newest machine ended by itself; as it is where that is not known."""
        attempt = run.attempt
        if attempt is None or attempt.ref is None or attempt.ended_at is not None:
            return run
        ending = self.instance_end(run)
        if ending is None:
            return run
        if ending.instance is not None and attempt.end is None:
            attempt = replace(
                attempt, exit_code=ending.instance.exit_code, reason=ending.instance.reason, end=ending.instance.end
            )
        return run.with_attempt(ending.ended.of(attempt))
