"""What an executor sees before it chooses the next action: the instance, its run directory, and the market."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from planner.clock import tells_time
from planner.market import SpotUp, Trained
from planner.next_action import Look
from planner.run import Phase
from planner.signs import FRESH, Sign, newest_sign
from planner.watch import Watcher, finished
from pricing.offers import Market
from providers.base import EndKind, InstanceState, SpotScout
from providers.errors import InstanceNotFoundError, ProviderError, ThrottledError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from decimal import Decimal

    from planner.book import Book
    from planner.run import Run
    from providers.base import Instance, Provider

SCOUT_EVERY = timedelta(minutes=2)
_REFUSED = re.compile(r"trainplan: STORE_REFUSED: (.+)")
"""What the agent writes (providers/agent/endings.py), and start.sh before there is one."""
_LOOK_AT = "plan doctor tells what its role lacks"
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
            places = [known for known in run.targets if known.offer.market is Market.SPOT][:MOST_SCOUTED]
            up = any(provider.has_spot(known.offer, known.zone) for known in places)
            if self._up is None or self._up.up is not up:
                self._up = SpotUp(up=up, since=now)
        return self._up


class Heard(NamedTuple):
    """The newest sign of life; `answered`: the store let itself be read."""

    sign: Sign | None
    answered: bool


class Ear:
    """What one process hears of a run's newest attempt through the run directory, look by look."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self._away_since: datetime | None = None
        self._away_until: datetime | None = None

    def listen(self, run: Run, provider: Provider, book: Book) -> Heard:
        """Tell what the trainer has said since the last look. A store that does not answer is told, and no error."""
        attempt = run.attempt
        if attempt is None or attempt.ref is None:
            return Heard(None, answered=True)
        try:
            store = provider.store(run.run_id)
            if self.watcher is None or self.watcher.attempt != attempt.number:
                self.watcher = Watcher(store, attempt.number, book.listen)
            self.watcher.look(spent_by(run, self.watcher, book.now))
            story, is_to_stop = self.watcher.story, run.stop_asked is not None
            sign = newest_sign(store, attempt.number, story, book.now(), is_to_stop=is_to_stop)
        except ProviderError as error:
            book.unanswered(error, "store")
            self._away_since = self._away_since or book.now()
            return Heard(None, answered=False)
        book.answered("store")
        return Heard(self._after_outage(sign, book.now()), answered=True)

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
    now = book.now()
    refusals = book.refusals()
    attempt = run.attempt
    if attempt is None or run.phase not in (Phase.BOOTING, Phase.RUNNING):
        return Look(refusals=refusals, trained=_kept_so_far(run))
    try:
        seen = _seen(provider, run)
        ended = finished(provider.store(run.run_id), attempt.number, seen)
        if seen is not None and ended is None and run.phase is Phase.BOOTING:
            seen = _with_its_refusal(provider, seen)
        spot_up = scout.spot_up(provider, run, now)
    except ProviderError as error:
        book.unanswered(error)
        return Look(answered=False, tells_time=tells_time(provider), refusals=refusals, trained=_kept_so_far(run))
    book.answered()
    heard = ear.listen(run, provider, book)
    watcher = ear.watcher
    return Look(
        seen=seen,
        finished=ended,
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


def _with_its_refusal(provider: Provider, seen: Instance) -> Instance:
    """A machine that its store lets neither read nor write has said so on its console alone.

    Raises ThrottledError, TransientError.
    """
    if seen.state is not InstanceState.ENDED or seen.end not in (None, EndKind.LOST):
        return seen
    try:
        said = [_REFUSED.search(line) for line in provider.logs(seen.ref)]
    except (ThrottledError, TransientError):
        raise
    except ProviderError:
        return seen  # it has no console, or nobody may read it
    why = next((found.group(1).strip() for found in said if found), "")
    return replace(seen, end=EndKind.REFUSED, reason=f"{why}; {_LOOK_AT}") if why else seen


def _kept_so_far(run: Run) -> Trained:
    step = max((attempt.step or 0 for attempt in run.attempts), default=0)
    return Trained(step=step, checkpoint_step=step)
