"""What an executor sees before it chooses the next action: the instance, its run directory, and the market."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from planner.market import SpotUp, Trained
from planner.next_action import Look
from planner.run import Phase
from planner.watch import finished
from pricing.offers import Market
from providers.base import SpotScout
from providers.errors import InstanceNotFoundError, ProviderError

if TYPE_CHECKING:
    from datetime import datetime

    from planner.book import Book
    from planner.run import Run
    from planner.watch import Watcher
    from providers.base import Instance, Provider

SCOUT_EVERY = timedelta(minutes=2)
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


def look(run: Run, provider: Provider, watcher: Watcher | None, scout: Scout, book: Book) -> Look:
    """Everything that the next action rests on. What the provider does not answer is told, and is no error."""
    now = book.now()
    refusals = book.refusals()
    attempt = run.attempt
    if attempt is None or run.phase not in (Phase.BOOTING, Phase.RUNNING):
        return Look(refusals=refusals, trained=_kept_so_far(run))
    try:
        seen = _seen(provider, run)
        ended = finished(provider.store(run.run_id), attempt.number, seen)
        spot_up = scout.spot_up(provider, run, now)
    except ProviderError as error:
        book.unanswered(error)
        return Look(answered=False, refusals=refusals, trained=_kept_so_far(run))
    book.answered()
    return Look(
        seen=seen,
        finished=ended,
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


def _kept_so_far(run: Run) -> Trained:
    step = max((attempt.step or 0 for attempt in run.attempts), default=0)
    return Trained(step=step, checkpoint_step=step)
