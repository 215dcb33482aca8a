"""Bringing a run to its end: the model home, the output kept, everything deleted, the absence made sure of."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.errors import PlanError, TeardownUnverifiedError
from trainplan.planner.runs.decision.next_action import End, early_end
from trainplan.planner.runs.directory.proofs import Vouched
from trainplan.planner.runs.directory.run_directory import Ended, has_written, status_of, when_ended
from trainplan.planner.runs.execution.collect import collect, failure_of
from trainplan.planner.runs.execution.teardown import Seen, Teardown
from trainplan.planner.runs.run import Attempt, Outcome, Phase, Run
from trainplan.planner.runs.sweep_table import early_text
from trainplan.providers.agent.schema import MOST_TEXT
from trainplan.providers.base import Instance, InstanceState, Provider
from trainplan.providers.errors import BadRequestError, InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.recorder import Recorder
    from trainplan.providers.agent.signatures import Vouching

KEPT_LINES = 10_000
TEARDOWN_PATIENCE = timedelta(minutes=15)
SETTLE_PATIENCE = timedelta(minutes=3)
"""For commands that only look: nobody waits a quarter of an hour for a table. The next command continues."""
COLLECT_PATIENCE = timedelta(minutes=10)
"""How long a store that does not answer is asked again for the model."""


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
        """The model at home and the run done. Raises PlanError and ProviderError; the run is ended then too."""
        if run.phase is not Phase.COLLECTING:
            run = self._recorder.moved(self.with_exit(run), Phase.COLLECTING)
        vouched = self._vouched(run)  # where the key cannot be read, the run is not over
        try:
            self._fetch(run, vouched)
        except (PlanError, ProviderError) as error:
            # Its checkpoints stay: only a success deletes them, and the same job can go on from them.
            self.end(run, End(Outcome.FAILED, error.message))
            raise
        folder = Path(run.model_folder)
        if failure := failure_of(folder):
            return self.end(run, End(Outcome.FAILED, failure))
        early = early_text(folder)
        return self.end(run, early_end(run, early) if early else End(Outcome.SUCCEEDED, ""))

    def end(self, run: Run, action: End) -> Run:
        """Everything of the run deleted and looked for. Raises TeardownUnverifiedError where that is not sure."""
        if run.phase is not Phase.TEARING_DOWN:
            run = replace(run, outcome=action.outcome, message=self._with_cause(run, action) or None)
            run = self._recorder.moved(self.with_exit(run), Phase.TEARING_DOWN)
        else:
            run = self.with_exit(run)  # it may have ended since another process gave up
        self.keep_output(run)
        run = self._torn_down(run)
        # A run with any other outcome can be continued, and needs its checkpoints for that.
        if run.outcome is Outcome.SUCCEEDED:
            self._drop_stored(run)
        return self._recorder.moved(replace(run, unverified=None), Phase.DONE)

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
        words = words[:MOST_TEXT]
        return action.message if not words or words in action.message else f"{action.message}: {words}"

    def clear(self, run: Run) -> Run:
        """What the attempts made is gone, and the run goes on. Raises TeardownUnverifiedError."""
        return self._recorder.keep(self._torn_down(run), "cleared")

    def tell_to_stop(self, run: Run) -> None:
        """Ask the machine for a checkpoint and its end. A provider that does not answer is told, and the wish of a
        person counts as told all the same: the limit holds for a machine that cannot be asked too."""
        try:
            if run.attempt and run.attempt.ref:
                self._provider_of(run.provider).stop(run.attempt.ref)
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
            text = "".join(f"{line.rstrip()}\n" for line in lines)
            provider.store(run.run_id).put(f"attempts/{attempt.number}/log/output.log", text.encode())
        except ProviderError:
            return  # already gone, or it never said anything: ending it must not wait for that

    def _vouched(self, run: Run) -> Vouched | None:
        """Raises StateError."""
        vouching = self.vouching(run)
        if vouching is None or not run.attempts:
            return None
        if not vouching.is_on:
            self._recorder.say(f"the model of run {run.run_id} cannot be verified: this home has no key of that run")
            return None
        return Vouched(vouching, run.attempts[-1].number)

    def _fetch(self, run: Run, vouched: Vouched | None) -> None:
        until = self._recorder.clock.now() + COLLECT_PATIENCE
        while True:
            try:
                collect(self._provider_of(run.provider).store(run.run_id), Path(run.model_folder), vouched)
            # The same request would be rejected again.
            except BadRequestError:
                raise
            except ProviderError as error:
                if self._recorder.clock.now() > until:
                    raise
                self._recorder.report_no_answer(error, "store")
                self._recorder.clock.sleep(self._poll_seconds)
            else:
                return

    def _torn_down(self, run: Run) -> Run:
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
        attempts = [self._found(run, attempt, seen) for attempt in run.attempts]
        return replace(run, attempts=tuple(self._cleared(attempt, seen) for attempt in attempts))

    def _found(self, run: Run, attempt: Attempt, seen: Seen) -> Attempt:
        """An attempt of which no answer told an instance, with the one that this teardown or its files show."""
        if attempt.cleared or attempt.had_instance or attempt.end is not None or attempt.target is None:
            return attempt
        now, seen_at = self._recorder.clock.now(), seen.machines.get(attempt.number)
        ended = Ended(now, seen_at or attempt.asked_at)
        try:
            store = self._provider_of(attempt.target.offer.provider).store(run.run_id)
            was_there = has_written(store, attempt.number)
            if was_there and seen_at is None:
                ended = when_ended(store, attempt, None, now)
        except ProviderError:
            was_there = False
        if was_there or seen.shows(attempt.number):
            return ended.of(replace(attempt, found=True))
        return attempt

    def _cleared(self, attempt: Attempt, seen: Seen) -> Attempt:
        """An attempt after the provider has said that nothing of it is left: nothing bills any more."""
        now = self._recorder.clock.now()
        if attempt.cleared:
            return attempt
        attempt = self._with_end(attempt, seen.machines.get(attempt.number), now)
        earliest = attempt.ended_after or attempt.ended_at or now
        # A disk and an address that this teardown found were there until then.
        gone_after = seen.there_until(attempt.number, ("disk", "address"), earliest)
        return replace(attempt, cleared=True, gone_at=now, gone_after=min(now, gone_after))

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
        if attempt.ref is None:
            return None
        try:
            return self._provider_of(attempt.ref.provider).get(attempt.ref).ended_at
        except ProviderError:
            return None

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
            ended = when_ended(provider.store(run.run_id), attempt, instance, self._recorder.clock.now())
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
