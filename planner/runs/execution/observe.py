"""What an executor sees before it chooses the next action: the instance, its run directory, and the market."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.decision.market import SpotUp, Trained
from trainplan.planner.runs.decision.next_action import Look
from trainplan.planner.runs.directory.printed import PrintedLines
from trainplan.planner.runs.directory.run_directory import Watcher, recorded_end
from trainplan.planner.runs.directory.signs import FRESH, Sign, newest_sign
from trainplan.planner.runs.events import Printed
from trainplan.planner.runs.provider_clock import tells_time
from trainplan.planner.runs.run import Attempt, Phase, Run
from trainplan.pricing.offers import Market
from trainplan.providers import interrupts
from trainplan.providers.abilities import ReclaimTeller, SpotScout
from trainplan.providers.base import EndKind, Instance, InstanceState, Provider
from trainplan.providers.errors import InstanceNotFoundError, ProviderError, ThrottledError, TransientError

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.recorder import Recorder


SCOUT_EVERY = timedelta(minutes=2)
_REFUSED = re.compile(r"trainplan: STORE_REFUSED: (.+)")
"""What the agent writes (providers/agent/endings.py), and start.sh before there is one."""
_LOOK_AT = "plan doctor tells what its role lacks"
CONSOLE_PAUSES_SECONDS = (5.0, 10.0, 20.0)
"""After each try to read the console of a machine that ended in boot."""
MOST_SCOUTED = 5
"""Placements that are asked about spot while a run trains on demand."""


class SignReading(NamedTuple):
    """The newest sign of life; `has_answer`: the store let itself be read."""

    sign: Sign | None
    has_answer: bool


class Observer:
    """What one process sees of one run, look by look: its instance, what its trainer writes, what is charged, and
    what the provider hints of spot."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._watcher: Watcher | None = None
        self._printed: PrintedLines | None = None
        self._away_since: datetime | None = None
        self._away_until: datetime | None = None
        self._free_until: dict[int, datetime] = {}
        self._spot_asked_at: datetime | None = None
        self._spot_up: SpotUp | None = None

    def look(self, run: Run, provider: Provider) -> Look:
        """Everything that the next action rests on. What the provider does not answer is said, and is no error."""
        recorder = self._recorder
        now, refusals = recorder.clock.now(), recorder.refusals()
        # There is no instance to ask about: the next action rests on the refusals and on the checkpoints alone.
        if run.phase not in (Phase.BOOTING, Phase.RUNNING):
            return Look(refusals=refusals, trained=_newest_checkpoint(run))
        attempt = run.attempts[-1]
        interrupts.ask()
        try:
            instance = _instance(provider, run)
            interrupts.ask()
            end_kind = recorded_end(provider.store(run.run_id), attempt.number, instance)
            if instance is None and end_kind is None and _was_taken_back(provider, attempt):
                end_kind = EndKind.RECLAIMED
            if instance is not None and end_kind is None and run.phase is Phase.BOOTING:
                instance = _with_its_refusal(provider, instance, recorder)
            spot_up = self._spot_hint(provider, run, now)
        except ProviderError as error:
            recorder.report_no_answer(error)
            return Look(
                has_answer=False, tells_time=tells_time(provider), refusals=refusals, trained=_newest_checkpoint(run)
            )
        recorder.note_answer()
        reading = self.listen(run, provider)
        if instance is not None and instance.state is InstanceState.PENDING and attempt.bills_from is not None:
            recorder.say_once(
                f"{instance.reason or 'its machine is gone'}; it goes on from its newest checkpoint", "lost"
            )
        else:
            recorder.note_answer("lost")
        watcher = self._watcher
        return Look(
            instance=instance,
            recorded_end=end_kind,
            sign=reading.sign,
            knows_ages=reading.has_answer,
            tells_time=tells_time(provider),
            told_to_stop_at=recorder.told_to_stop_at(run) if run.stop_asked is not None else None,
            lag=provider.listing_lag,
            refusals=refusals,
            slow=watcher.slowness(run, now) if watcher else "",
            speed=watcher.speed if watcher and run.measures_first else None,
            trained=watcher.trained(run) if watcher else _newest_checkpoint(run),
            spot_up=spot_up,
        )

    def listen(self, run: Run, provider: Provider, *, is_last: bool = False) -> SignReading:
        """Pass on what the trainer has written since the last look, and what a script has printed. A store that does
        not answer is said, and is no error."""
        attempt, recorder = run.attempt, self._recorder
        if attempt is None or attempt.ref is None:
            return SignReading(None, has_answer=True)
        try:
            store = provider.store(run.run_id)
            if self._watcher is None or self._watcher.attempt != attempt.number:
                self._watcher = Watcher(store, attempt.number, recorder.listen)
                self._printed = self._lines_of_script(run, attempt, provider)
            self._tell_printed(is_last=is_last)
            self._watcher.look(spent_by(run, self._watcher, recorder.clock.now))
            story, is_to_stop = self._watcher.story, run.stop_asked is not None
            sign = newest_sign(store, attempt.number, story, recorder.clock.now(), is_to_stop=is_to_stop)
        except ProviderError as error:
            recorder.report_no_answer(error, "store")
            self._away_since = self._away_since or recorder.clock.now()
            return SignReading(None, has_answer=False)
        recorder.note_answer("store")
        return SignReading(self._after_outage(sign, recorder.clock.now()), has_answer=True)

    def _lines_of_script(self, run: Run, attempt: Attempt, provider: Provider) -> PrintedLines | None:
        """What reads the output of a script; None for any other job, whose progress says more. A machine that bills is
        not asked: its console is read at a cost, and has the lines of the system too."""
        try:
            is_script = json.loads(self._recorder.journal.job_json(run.run_id)).get("script") is not None
        except (ThisMachineError, ValueError):  # a journal that cannot be read ends no run
            return None
        if not is_script or attempt.ref is None:
            return None
        ref, is_free = attempt.ref, not attempt.usd_per_hour
        store = provider.store(run.run_id)
        return PrintedLines(store, attempt.number, (lambda: provider.logs(ref)) if is_free else None)

    def _tell_printed(self, *, is_last: bool) -> None:
        try:
            lines = () if self._printed is None else self._printed.new(is_last=is_last)
        except ProviderError:
            return  # the progress, which is read next, tells whether the store answers
        if lines:
            self._recorder.listen(Printed(lines))

    def step_of(self, attempt: int) -> int | None:
        """The newest step that an attempt's trainer has written; None where this process has read none of it."""
        return self._watcher.story.step if self._watcher and self._watcher.attempt == attempt else None

    def with_billing(self, attempt: Attempt, instance: Instance | None, asked_at: datetime) -> Attempt:
        """The attempt with the instant from which it bills, after a look that was asked for at `asked_at`.

        `instance` is None where the provider knows of none. The instant is early rather than late: a provider tells
        the earliest, which is moved on to the last look that found nothing charged.
        """
        if instance is not None and instance.is_deleted and attempt.deleted_by is None:
            attempt = replace(attempt, deleted_by=asked_at)
        if instance is not None and not instance.bills:
            self._free_until[attempt.number] = asked_at
            return replace(attempt, queued=True)
        if attempt.bills_from is not None:
            return replace(attempt, queued=False)
        told_at = None if instance is None else instance.bills_from or _sent_again_at(attempt, instance)
        instants = [at for at in (self._free_until.get(attempt.number), told_at) if at is not None]
        # Charged for by now at the latest, and when its trainer has written something.
        seen_at = [asked_at, *([at] if (at := self._began_at(attempt)) is not None else [])]
        is_known = instance is None or instance.is_start_told
        return replace(
            attempt, queued=False, bills_from=max(instants, default=None), bills_by=None if is_known else min(seen_at)
        )

    def _began_at(self, attempt: Attempt) -> datetime | None:
        """When an attempt's trainer began; None where this process has read nothing of it."""
        watcher = self._watcher
        return watcher.story.began_at if watcher is not None and watcher.attempt == attempt.number else None

    def _spot_hint(self, provider: Provider, run: Run, now: datetime) -> SpotUp | None:
        """What a provider hints of spot, asked now and then while a run trains on demand and might go there.

        None where nobody knows, or it does not matter. Raises ProviderError.
        """
        target = run.attempts[-1].target
        if not run.deadline_given or target is None or target.offer.market is Market.SPOT:
            return None
        if not isinstance(provider, SpotScout):
            return None
        if self._spot_asked_at is None or now - self._spot_asked_at >= SCOUT_EVERY:
            self._spot_asked_at = now
            # Each placement is one call, which the vendor counts against its limit.
            placements = [placement for placement in run.targets if placement.offer.market is Market.SPOT][
                :MOST_SCOUTED
            ]
            up = any(provider.has_spot(placement.offer, placement.zone) for placement in placements)
            if self._spot_up is None or self._spot_up.up is not up:
                self._spot_up = SpotUp(up=up, since=now)
        return self._spot_up

    def _after_outage(self, sign: Sign | None, now: datetime) -> Sign | None:
        """While the store was away for long, the machine could not write either: silence counts from its return."""
        if self._away_since is not None and now - self._away_since > FRESH:
            self._away_until = now
        self._away_since = None
        if self._away_until is None:
            return sign
        return replace(sign or Sign(now, trains=False), at=max(sign.at if sign else now, self._away_until))


AT_ONCE = timedelta(minutes=1)
"""How long after it was asked for a machine may be made by the first create."""


def spent_by(run: Run, watcher: Watcher, now: Callable[[], datetime]) -> Callable[[], Decimal]:
    """What the run had cost when the line that is being told was written: lines may be read long after the end."""
    return lambda: run.total_usd(min(now(), watcher.story.last_at or now()))


def _instance(provider: Provider, run: Run) -> Instance | None:
    ref = run.attempts[-1].ref
    try:
        return provider.get(ref) if ref is not None else None
    except InstanceNotFoundError:
        return None


def _sent_again_at(attempt: Attempt, instance: Instance) -> datetime | None:
    """When a machine was made whose create was sent again after the client that asked for it had died."""
    made_at, asked_at = instance.launched_at, attempt.asked_at
    is_later = made_at is not None and asked_at is not None and made_at - asked_at > AT_ONCE
    return made_at if is_later else None


def _was_taken_back(provider: Provider, attempt: Attempt) -> bool:
    """Whether a provider's record has a spot machine that is gone as taken back; False where it cannot be read."""
    is_spot = attempt.target is not None and attempt.target.offer.market is Market.SPOT
    if attempt.ref is None or not is_spot or not isinstance(provider, ReclaimTeller):
        return False
    with suppress(ProviderError):
        return provider.was_taken_back(attempt.ref)
    return False


def _with_its_refusal(provider: Provider, instance: Instance, recorder: Recorder) -> Instance:
    """A machine that its store lets neither read nor write has said so on its console alone.

    Why a machine ended is worth some tries, and not the run's time: where its console cannot be read, the run goes on
    with what the provider tells.
    """
    if instance.state is not InstanceState.ENDED or instance.end not in (None, EndKind.LOST):
        return instance
    for seconds in CONSOLE_PAUSES_SECONDS:
        try:
            matches = [_REFUSED.search(line) for line in provider.logs(instance.ref)]
        except (ThrottledError, TransientError):
            recorder.clock.sleep(seconds)
            continue
        except ProviderError:
            return instance  # it has no console, or nobody may read it
        why = next((match.group(1).strip() for match in matches if match), "")
        return replace(instance, end=EndKind.REFUSED, reason=f"{why}; {_LOOK_AT}") if why else instance
    recorder.say_once(f"the console of {instance.ref.id} cannot be read: why the machine ended is not known", "console")
    return instance


def _newest_checkpoint(run: Run) -> Trained:
    """How far the earlier attempts came: without a machine, only what a checkpoint has counts."""
    step = max((attempt.step or 0 for attempt in run.attempts), default=0)
    return Trained(step=step, checkpoint_step=step)
