"""What an executor sees before it chooses the next action: the instance, its run directory, and the market."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from planner.runs.decision.market import SpotUp, Trained
from planner.runs.decision.next_action import Look
from planner.runs.provider_clock import tells_time
from planner.runs.run import Phase
from planner.runs.run_directory import Watcher, finished
from planner.runs.signs import FRESH, Sign, newest_sign
from pricing.offers import Market
from providers.base import EndKind, InstanceState, SpotScout
from providers.errors import InstanceNotFoundError, ProviderError, ThrottledError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from decimal import Decimal

    from planner.runs.execution.recorder import Book
    from planner.runs.run import Attempt, Run
    from providers.base import Instance, Provider


SCOUT_EVERY = timedelta(minutes=2)
_REFUSED = re.compile(r"trainplan: STORE_REFUSED: (.+)")
"""What the agent writes (providers/agent/endings.py), and start.sh before there is one."""
_LOOK_AT = "plan doctor tells what its role lacks"
CONSOLE_PAUSES_SECONDS = (5.0, 10.0, 20.0)
"""After each try to read the console of a machine that ended in boot."""
MOST_SCOUTED = 5
"""Places that are asked about spot while a run trains on demand."""


class Scout:
    """What a provider hints of spot, asked now and then while a run trains on demand and might go there."""

    def __init__(self) -> None:
        self._asked_at: datetime | None = None
        self._up: SpotUp | None = None

    def spot_up(self, provider: Provider, run: Run, now: datetime) -> SpotUp | None:
        """None where nobody knows, or it does not matter. Raises ProviderError."""
        target = run.attempts[-1].target
        if not run.deadline_given or target is None or target.offer.market is Market.SPOT:
            return None
        if not isinstance(provider, SpotScout):
            return None
        if self._asked_at is None or now - self._asked_at >= SCOUT_EVERY:
            self._asked_at = now
            places = [other_target for other_target in run.targets if other_target.offer.market is Market.SPOT][
                :MOST_SCOUTED
            ]
            up = any(provider.has_spot(other_target.offer, other_target.zone) for other_target in places)
            if self._up is None or self._up.up is not up:
                self._up = SpotUp(up=up, since=now)
        return self._up


class SignReading(NamedTuple):
    """The newest sign of life; `answered`: the store let itself be read."""

    sign: Sign | None
    answered: bool


class Ear:
    """What one process hears of a run's newest attempt through the run directory, look by look."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self._away_since: datetime | None = None
        self._away_until: datetime | None = None

    def listen(self, run: Run, provider: Provider, book: Book) -> SignReading:
        """Tell what the trainer has said since the last look. A store that does not answer is told, and no error."""
        attempt = run.attempt
        if attempt is None or attempt.ref is None:
            return SignReading(None, answered=True)
        try:
            store = provider.store(run.run_id)
            if self.watcher is None or self.watcher.attempt != attempt.number:
                self.watcher = Watcher(store, attempt.number, book.listen)
            self.watcher.look(spent_by(run, self.watcher, book.clock.now))
            story, is_to_stop = self.watcher.story, run.stop_asked is not None
            sign = newest_sign(store, attempt.number, story, book.clock.now(), is_to_stop=is_to_stop)
        except ProviderError as error:
            book.unanswered(error, "store")
            self._away_since = self._away_since or book.clock.now()
            return SignReading(None, answered=False)
        book.answered("store")
        return SignReading(self._after_outage(sign, book.clock.now()), answered=True)

    def step_of(self, attempt: int) -> int | None:
        """The newest step that an attempt has told; None where nobody has listened to it."""
        return self.watcher.story.step if self.watcher and self.watcher.attempt == attempt else None

    def _after_outage(self, sign: Sign | None, now: datetime) -> Sign | None:
        """While the store was away for long, the machine could not write either: silence counts from its return."""
        if self._away_since is not None and now - self._away_since > FRESH:
            self._away_until = now
        self._away_since = None
        if self._away_until is None:
            return sign
        return replace(sign or Sign(now, trains=False), at=max(sign.at if sign else now, self._away_until))


def spent_by(run: Run, watcher: Watcher, now: Callable[[], datetime]) -> Callable[[], Decimal]:
    """What the run had cost when the line that is being told was written: lines may be read long after the end."""
    return lambda: run.total_usd(min(now(), watcher.story.last_at or now()))


def look(run: Run, provider: Provider, ear: Ear, scout: Scout, book: Book) -> Look:
    """Everything that the next action rests on. What the provider does not answer is told, and is no error."""
    now = book.clock.now()
    refusals = book.refusals()
    attempt = run.attempt
    if attempt is None or run.phase not in (Phase.BOOTING, Phase.RUNNING):
        return Look(refusals=refusals, trained=_kept_so_far(run))
    try:
        instance = _seen(provider, run)
        end_kind = finished(provider.store(run.run_id), attempt.number, instance)
        if instance is not None and end_kind is None and run.phase is Phase.BOOTING:
            instance = _with_its_refusal(provider, instance, book)
        spot_up = scout.spot_up(provider, run, now)
    except ProviderError as error:
        book.unanswered(error)
        return Look(answered=False, tells_time=tells_time(provider), refusals=refusals, trained=_kept_so_far(run))
    book.answered()
    heard = ear.listen(run, provider, book)
    watcher = ear.watcher
    return Look(
        seen=instance,
        finished=end_kind,
        sign=heard.sign,
        knows_ages=heard.answered,
        tells_time=tells_time(provider),
        told_to_stop_at=book.told_to_stop_at(run) if run.stop_asked is not None else None,
        lag=provider.listing_lag,
        refusals=refusals,
        slow=watcher.slowness(run, now) if watcher else "",
        trained=watcher.trained(run) if watcher else _kept_so_far(run),
        spot_up=spot_up,
    )


def _seen(provider: Provider, run: Run) -> Instance | None:
    ref = run.attempts[-1].ref
    try:
        return provider.get(ref) if ref is not None else None
    except InstanceNotFoundError:
        return None


def _with_its_refusal(provider: Provider, instance: Instance, book: Book) -> Instance:
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
            book.clock.sleep(seconds)
            continue
        except ProviderError:
            return instance  # it has no console, or nobody may read it
        why = next((match.group(1).strip() for match in matches if match), "")
        return replace(instance, end=EndKind.REFUSED, reason=f"{why}; {_LOOK_AT}") if why else instance
    book.say_once(f"the console of {instance.ref.id} cannot be read: why the machine ended is not known", "console")
    return instance


def _kept_so_far(run: Run) -> Trained:
    step = max((attempt.step or 0 for attempt in run.attempts), default=0)
    return Trained(step=step, checkpoint_step=step)


class Meter:
    """What one process has seen of it, look by look. What it says is too much rather than too little: a provider tells
    the earliest instant, which is moved on to the last look that found nothing charged."""

    def __init__(self) -> None:
        self._free_until: dict[int, datetime] = {}

    def read(self, attempt: Attempt, instance: Instance | None, asked_at: datetime) -> Attempt:
        """The attempt after a look that was asked for at an instant; None: the provider knows of no instance."""
        if instance is not None and not instance.bills:
            self._free_until[attempt.number] = asked_at
            return replace(attempt, queued=True)
        if attempt.bills_from is not None:
            return attempt
        told_at = instance.bills_from if instance is not None else None
        instants = [at for at in (self._free_until.get(attempt.number), told_at) if at is not None]
        return replace(attempt, queued=False, bills_from=max(instants, default=None))
