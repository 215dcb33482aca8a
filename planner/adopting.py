"""A create that was cut off: what it made is found again, dead or alive, before anything is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.run import Attempt, Phase, Run
from planner.watch import finished, when_ended
from providers.base import EndKind
from providers.errors import ProviderError

if TYPE_CHECKING:
    from datetime import datetime

    from planner.book import Book
    from providers.base import Provider

_GIVEN_UP = "its create was cut off and made nothing, and {provider} may have forgotten its token: it is not sent again"


def adopt(run: Run, provider: Provider, book: Book, poll_seconds: float) -> Run | None:
    """The run BOOTING with what its last create made; None: it made nothing.

    Still LAUNCHING where the provider does not answer; that is told. Waits until a list must show what was made.
    """
    attempt, began = run.attempts[-1], book.now()
    while True:
        asked_at = book.now()
        try:
            made = [
                known for known in provider.list_owned(run.run_id) if known.instance and known.attempt == attempt.number
            ]
            if made:
                return book.moved(run.with_attempt(replace(attempt, ref=made[0].ref)), Phase.BOOTING)
            # When the create took effect, only who sent it could tell: no later than now.
            left = provider.listing_lag - (asked_at - began)
            if left.total_seconds() <= 0:
                return _come_and_gone(run, attempt, provider, book)
        except ProviderError as error:
            book.unanswered(error)
            return run
        book.say_once(f"run {run.run_id}: waiting until {provider.name} must list what it made")
        book.clock.sleep(max(poll_seconds, left.total_seconds()))


def is_forgotten(attempt: Attempt, provider: Provider, now: datetime) -> bool:
    """Whether the vendor may have forgotten the token of an attempt's create: sent again it would make another."""
    return attempt.asked_at is not None and now - attempt.asked_at >= provider.token_memory


def adopt_or_give_up(run: Run, provider: Provider, book: Book, poll_seconds: float) -> Run:
    """What becomes of a create that was cut off and must not be sent again.

    BOOTING with what it made; INTERRUPTED where it made nothing, so that the run goes on with a request of its own;
    after a pause still LAUNCHING where the provider does not answer.
    """
    adopted = adopt(run, provider, book, poll_seconds)
    if adopted is None:
        attempt = run.attempts[-1]
        ended = replace(attempt, reason=_GIVEN_UP.format(provider=provider.name), ended_at=book.now())
        return book.moved(run.with_attempt(ended), Phase.INTERRUPTED, ended.reason or "")
    if adopted.phase is Phase.LAUNCHING:
        book.clock.sleep(poll_seconds)
    return adopted


def _come_and_gone(run: Run, attempt: Attempt, provider: Provider, book: Book) -> Run | None:
    """Nothing is there: nothing was made, or it has ended by itself and left word in the run directory."""
    store = provider.store(run.run_id)
    before = f"attempts/{attempt.number}/machine/"  # put there ahead of the create
    if all(path.startswith(before) for path in store.list(f"attempts/{attempt.number}")):
        return None
    end = finished(store, attempt.number, None) or EndKind.LOST
    over = replace(attempt, end=end, ended_at=when_ended(store, attempt, None, book.now()))
    return book.moved(run.with_attempt(over), Phase.BOOTING)
