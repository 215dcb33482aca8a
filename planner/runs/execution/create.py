"""Getting an instance: the request on disk, then the create, until it is had or refused; one cut off is adopted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from planner.runs.journal.records import request_from_record, request_record
from planner.runs.run import Attempt, Phase, Run
from planner.runs.run_directory import finished, when_ended
from planner.runs.targets import Target, recommended_first, refusal_of
from providers.base import EndKind, LaunchRequest, Resolver
from providers.errors import BadRequestError, CapacityError, ProviderError, QuotaError, ThrottledError, TransientError

if TYPE_CHECKING:
    from datetime import datetime

    from planner.runs.execution.recorder import Book
    from providers.base import Instance, Provider


MakeRequest = Callable[[Run, int, Target], LaunchRequest]

MOST_TRIES = 5
"""How often a create without a clear answer is sent, with the same token, before it is looked up."""
MOST_THROTTLED = 10
_LONGEST_PAUSE = timedelta(minutes=1)
FORGOTTEN = "its create was cut off and made nothing, and {provider} may have forgotten its token: it is not sent again"
ANOTHER_VERSION = (
    "its create was cut off and made nothing, and another version of trainplan prepared it: not sent again"
)


class Creator:
    """One attempt's create. Every send is in the journal before it leaves."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def record(self, run: Run, number: int, target: Target, provider: Provider, make_request: MakeRequest) -> Run:
        """The run LAUNCHING its attempt, with the request as it will be sent, on disk.

        Raises ProviderError where what the request leaves open cannot be looked up, ThisMachineError where the
        journal cannot be written; nothing is recorded or created then.
        """
        now = self._book.clock.now()
        request = make_request(run, number, target)
        if isinstance(provider, Resolver):
            request = self._resolved(provider, request)
        request = replace(request, calls=tuple(provider.requests(request)))
        target = replace(target, offer=request.offer)  # its price may be another by now
        sent_at = self._book.clock.now()  # what was looked up before may have taken its time
        attempt = Attempt(
            number=number, target=target, asked_at=now, sent_at=sent_at, deadline=request.deadline,
            client=request.client or None,
        )  # fmt: skip
        run = replace(run.with_attempt(attempt), provider=provider.name, outcome=None, message=None, unverified=None)
        run = run.moved(Phase.LAUNCHING)
        self._book.journal.add_attempt(run, request_record(request), now)
        return run

    def send(self, run: Run, provider: Provider, *, again: bool = False) -> Run:
        """BOOTING with an instance, or INTERRUPTED where the place has none for us.

        `again`: whoever sent it first has died, and nobody knows whether it arrived. Raises ProviderError where
        another place would not help: the caller ends the run.
        """
        if again:
            run = self._about_to_try_again(run)
        while True:
            attempt = run.attempts[-1]
            # What is sent is what was recorded, also when this is the second try after a crash.
            request = self._recorded(run, provider)
            try:
                instance = provider.launch(request)
            except (CapacityError, QuotaError) as error:
                return self._refused(run, error)
            except (ThrottledError, TransientError) as error:
                most = MOST_THROTTLED if isinstance(error, ThrottledError) else MOST_TRIES
                if attempt.tries + 1 >= most:
                    return self._looked_up(run, provider, error)
                run = self._wait_to_try_again(run, error)
            else:
                return self._have(run, instance)

    def _recorded(self, run: Run, provider: Provider) -> LaunchRequest:
        """The newest attempt's request out of the journal. Raises BadRequestError where it cannot be read."""
        number = run.attempts[-1].number
        try:
            return request_from_record(self._book.journal.request(run.run_id, number), provider)
        except (ValueError, TypeError) as error:
            raise BadRequestError(
                f"the request of attempt {number} of run {run.run_id} in the journal cannot be read",
                hint="plan launch with the job file continues from the newest checkpoint, or starts again",
            ) from error

    def _have(self, run: Run, instance: Instance) -> Run:
        # A slow create may have taken effect as late as its answer came.
        attempt = replace(run.attempts[-1], ref=instance.ref, sent_at=self._book.clock.now(), queued=not instance.bills)
        return self._book.moved(run.with_attempt(attempt), Phase.BOOTING)

    def _refused(self, run: Run, error: ProviderError) -> Run:
        """The place is remembered, and what the provider recommends instead comes first.

        Nothing was made, unless an earlier try had no clear answer: then that is made sure of first.
        """
        attempt, now = run.attempts[-1], self._book.clock.now()
        assert attempt.target is not None
        self._book.remember(refusal_of(error, attempt.target, now))
        ended = replace(attempt, reason=error.message, ended_at=now, cleared=attempt.tries == 0)
        run = run.with_attempt(ended)
        if isinstance(error, CapacityError) and error.elsewhere:
            run = replace(run, targets=tuple(recommended_first(run.targets, error.elsewhere, attempt.target)))
        return self._book.moved(run, Phase.INTERRUPTED, f"{attempt.target.where}: {error.message}")

    def _looked_up(self, run: Run, provider: Provider, error: ProviderError) -> Run:
        """After so many unclear answers: what exists is adopted; else the place is given up, and cleared first."""
        attempt = run.attempts[-1]
        assert attempt.target is not None
        found = self._found(run, provider)
        if found is not None:
            return self._have(run, found)
        now = self._book.clock.now()
        self._book.remember(refusal_of(error, attempt.target, now))
        ended = replace(attempt, reason=error.message, sent_at=now)
        return self._book.moved(run.with_attempt(ended), Phase.INTERRUPTED, f"{attempt.target.where}: {error.message}")

    def _found(self, run: Run, provider: Provider) -> Instance | None:
        number = run.attempts[-1].number
        try:
            for known in provider.list_owned(run.run_id):
                if known.instance and known.attempt == number:
                    return provider.get(known.ref)
        except ProviderError:
            pass  # the clearing that follows looks until it is answered
        return None

    def _wait_to_try_again(self, run: Run, error: ProviderError) -> Run:
        pause = _pause(run, run.attempts[-1].tries + 1)
        self._book.say(f"{error.message}; the same request again in {pause.total_seconds():.0f} s")
        self._book.clock.sleep(pause.total_seconds())
        return self._about_to_try_again(run)

    def _about_to_try_again(self, run: Run) -> Run:
        attempt = run.attempts[-1]
        again = replace(attempt, tries=attempt.tries + 1, sent_at=self._book.clock.now())
        return self._book.keep(run.with_attempt(again), f"try {again.tries + 1}")

    def _resolved(self, provider: Resolver, request: LaunchRequest) -> LaunchRequest:
        for tries in range(1, MOST_TRIES):
            try:
                return provider.resolve(request)
            except (ThrottledError, TransientError) as error:
                self._book.say(f"{error.message}; looking again")
                self._book.clock.sleep(2.0**tries)
        return provider.resolve(request)


def _pause(run: Run, tries: int) -> timedelta:
    """Twice as long each time, up to a minute, apart from other runs' by a random half; the same for the same run."""
    spread = Random(f"{run.run_id}/{len(run.attempts)}/{tries}").uniform(0.5, 1.0)
    return min(_LONGEST_PAUSE, timedelta(seconds=2.0**tries)) * spread


def adopt(run: Run, provider: Provider, book: Book, poll_seconds: float) -> Run | None:
    """The run BOOTING with what its last create made; None: it made nothing.

    Still LAUNCHING where the provider does not answer; that is told. Waits until a list must show what was made.
    """
    attempt, began = run.attempts[-1], book.clock.now()
    while True:
        asked_at = book.clock.now()
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


def adopt_or_give_up(run: Run, provider: Provider, book: Book, poll_seconds: float, why: str) -> Run:
    """What becomes of a create that was cut off and must not be sent again, for the reason `why`.

    BOOTING with what it made; INTERRUPTED where it made nothing, so that the run goes on with a request of its own;
    after a pause still LAUNCHING where the provider does not answer.
    """
    adopted = adopt(run, provider, book, poll_seconds)
    if adopted is None:
        attempt = run.attempts[-1]
        ended = replace(attempt, reason=why.format(provider=provider.name), ended_at=book.clock.now())
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
    over = replace(attempt, end=end, ended_at=when_ended(store, attempt, None, book.clock.now()))
    return book.moved(run.with_attempt(over), Phase.BOOTING)
