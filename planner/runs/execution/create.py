"""Getting an instance: the request on disk, then the create, until it is had or refused; one cut off is adopted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

from trainplan.planner.runs.directory.run_directory import has_written, recorded_end, when_ended
from trainplan.planner.runs.journal.records import request_from_record, request_record
from trainplan.planner.runs.run import Attempt, Phase, Run
from trainplan.planner.runs.targets import Target, recommended_first, refusal_of
from trainplan.providers import interrupts
from trainplan.providers.abilities import Resolver
from trainplan.providers.base import EndKind, Instance, LaunchRequest, Provider
from trainplan.providers.errors import (
    AnotherVersionError,
    BadRequestError,
    CapacityError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
)

if TYPE_CHECKING:
    from trainplan.planner.runs.execution.recorder import Recorder


MakeRequest = Callable[[Run, int, Target], LaunchRequest]

MOST_TRIES = 5
"""How often a create without a clear answer is sent, with the same token, before it is looked up."""
# More than of unclear answers: the same call will do later, so that the vendor only asks for patience.
MOST_THROTTLED = 10
_LONGEST_PAUSE = timedelta(minutes=1)
# EC2 forgets a token after 24 hours, Google and Azure after one (docs/maintainers/reliability.md).
FORGOTTEN = "its create was cut off and made nothing, and {provider} may have forgotten its token: it is not sent again"
ANOTHER_VERSION = (
    "its create was cut off and made nothing, and another version of trainplan prepared it: not sent again"
)


def record(
    run: Run, number: int, target: Target, provider: Provider, make_request: MakeRequest, recorder: Recorder
) -> Run:
    """The run LAUNCHING attempt `number`, with its request in the journal as it will be sent.

    Raises ProviderError where what the request leaves open cannot be looked up, ThisMachineError where the journal
    cannot be written; nothing is recorded or created then.
    """
    now = recorder.clock.now()
    request = make_request(run, number, target)
    if isinstance(provider, Resolver):
        request = _resolved(provider, request, recorder)
    # Recorded as they will be sent: a vendor rejects a token that comes again with another request.
    request = replace(request, calls=tuple(provider.requests(request)))
    target = replace(target, offer=request.offer)  # the price may have changed since the plan
    sent_at = recorder.clock.now()  # what was looked up before may have taken its time
    attempt = Attempt(
        number=number, target=target, asked_at=now, sent_at=sent_at, deadline=request.deadline,
        client=request.client or None,
    )  # fmt: skip
    run = replace(run.with_attempt(attempt), provider=provider.name, outcome=None, message=None, unverified=None)
    run = run.moved(Phase.LAUNCHING)
    recorder.journal.add_attempt(run, request_record(request), now)
    return run


def send(run: Run, provider: Provider, recorder: Recorder, *, again: bool = False) -> Run:
    """Send the newest attempt's recorded request: BOOTING with an instance, or INTERRUPTED where the placement has
    none.

    Every try is in the journal before it leaves. `again`: the process that sent it first has died, and nobody knows
    whether it arrived. A request that an earlier try may have carried out in part is given up where it is refused as
    wrong: what that try made and took back may be what is missing now. Raises ProviderError where another placement
    would not help: the caller ends the run.
    """
    if again:
        run = _with_try(run, recorder)
    while True:
        interrupts.ask()
        # What is sent is what was recorded, also when this is the second try after a crash.
        request = _recorded_request(run, provider, recorder)
        try:
            instance = provider.launch(request)
        except (CapacityError, QuotaError) as error:
            return _refused(run, error, recorder)
        except (ThrottledError, TransientError) as error:
            tries = run.attempts[-1].tries + 1
            if tries >= (MOST_THROTTLED if isinstance(error, ThrottledError) else MOST_TRIES):
                return _looked_up(run, provider, error, recorder)
            pause = _pause(run, tries)
            recorder.say(f"{error.message}; the same request again in {pause.total_seconds():.0f} s")
            recorder.clock.sleep(pause.total_seconds())
            run = _with_try(run, recorder)
        except BadRequestError as error:
            if run.attempts[-1].tries == 0 or isinstance(error, AnotherVersionError):
                raise
            return _looked_up(run, provider, error, recorder)
        else:
            return _booting(run, instance, recorder)


def _recorded_request(run: Run, provider: Provider, recorder: Recorder) -> LaunchRequest:
    """The newest attempt's request out of the journal. Raises BadRequestError where it cannot be read."""
    number = run.attempts[-1].number
    try:
        return request_from_record(recorder.journal.request(run.run_id, number), provider)
    except (ValueError, TypeError) as error:
        raise BadRequestError(
            f"the request of attempt {number} of run {run.run_id} in the journal cannot be read",
            hint="plan launch with the job file continues from the newest checkpoint, or starts again",
        ) from error


def _with_try(run: Run, recorder: Recorder) -> Run:
    """The run with one more try of its newest attempt, in the journal."""
    attempt = run.attempts[-1]
    attempt = replace(attempt, tries=attempt.tries + 1, sent_at=recorder.clock.now())
    return recorder.keep(run.with_attempt(attempt), f"try {attempt.tries + 1}")


def _booting(run: Run, instance: Instance, recorder: Recorder) -> Run:
    # A slow create may have taken effect as late as its answer came.
    attempt = replace(run.attempts[-1], ref=instance.ref, sent_at=recorder.clock.now(), queued=not instance.bills)
    return recorder.moved(run.with_attempt(attempt), Phase.BOOTING)


def _refused(run: Run, error: ProviderError, recorder: Recorder) -> Run:
    """The refusal is kept for later searches, and the placements that the provider recommends come first.

    Nothing was made, unless an earlier try had no clear answer: then the attempt is cleared before the run goes on.
    """
    attempt, now = run.attempts[-1], recorder.clock.now()
    assert attempt.target is not None
    recorder.remember(refusal_of(error, attempt.target, now))
    run = run.with_attempt(replace(attempt, reason=error.message, ended_at=now, cleared=attempt.tries == 0))
    if isinstance(error, CapacityError) and error.elsewhere:
        run = replace(run, targets=tuple(recommended_first(run.targets, error.elsewhere, attempt.target)))
    return recorder.moved(run, Phase.INTERRUPTED, f"{attempt.target.where}: {error.message}")


def _looked_up(run: Run, provider: Provider, error: ProviderError, recorder: Recorder) -> Run:
    """Where it is unclear what a create has made: what exists is adopted; else the placement is given up, and cleared
    first."""
    attempt = run.attempts[-1]
    assert attempt.target is not None
    instance = _listed_instance(run, provider)
    if instance is not None:
        return _booting(run, instance, recorder)
    now = recorder.clock.now()
    recorder.remember(refusal_of(error, attempt.target, now))
    attempt_over = replace(attempt, reason=error.message, sent_at=now)
    return recorder.moved(run.with_attempt(attempt_over), Phase.INTERRUPTED, f"{attempt.target.where}: {error.message}")


def _listed_instance(run: Run, provider: Provider) -> Instance | None:
    """The newest attempt's instance, where a listing shows one."""
    number = run.attempts[-1].number
    try:
        for resource in provider.list_owned(run.run_id):
            if resource.instance and resource.attempt == number:
                return provider.get(resource.ref)
    except ProviderError:
        pass  # the clearing that follows looks until it is answered
    return None


def _resolved(provider: Resolver, request: LaunchRequest, recorder: Recorder) -> LaunchRequest:
    """The request with what it leaves open (image, network). A look-up without an answer is made again."""
    for tries in range(1, MOST_TRIES):
        try:
            return provider.resolve(request)
        except (ThrottledError, TransientError) as error:
            recorder.say(f"{error.message}; looking again")
            recorder.clock.sleep(2.0**tries)
    return provider.resolve(request)


def _pause(run: Run, tries: int) -> timedelta:
    """Twice as long each time, up to a minute, apart from other runs' by a random half; the same for the same run."""
    spread = Random(f"{run.run_id}/{len(run.attempts)}/{tries}").uniform(0.5, 1.0)
    return min(_LONGEST_PAUSE, timedelta(seconds=2.0**tries)) * spread


def adopt(run: Run, provider: Provider, recorder: Recorder, poll_seconds: float) -> Run | None:
    """The run BOOTING with what its last create made; None: it made nothing.

    Still LAUNCHING where the provider does not answer; that is told. Waits until a list must show what was made.
    """
    attempt, began_at = run.attempts[-1], recorder.clock.now()
    while True:
        # Taken before the request: what was created while the reply was on its way may not be in it.
        asked_at = recorder.clock.now()
        try:
            for resource in provider.list_owned(run.run_id):
                if resource.instance and resource.attempt == attempt.number:
                    return recorder.moved(run.with_attempt(replace(attempt, ref=resource.ref)), Phase.BOOTING)
            # When the create took effect, only who sent it could tell: no later than now.
            rest = provider.listing_lag - (asked_at - began_at)
            if rest.total_seconds() <= 0:
                return _come_and_gone(run, attempt, provider, recorder)
        except ProviderError as error:
            recorder.report_no_answer(error)
            return run
        recorder.say_once(f"run {run.run_id}: waiting until {provider.name} must list what it made")
        recorder.clock.sleep(max(poll_seconds, rest.total_seconds()))


def is_forgotten(attempt: Attempt, provider: Provider, now: datetime) -> bool:
    """Whether the vendor may have forgotten the token of an attempt's create: sent again it would make another."""
    return attempt.asked_at is not None and now - attempt.asked_at >= provider.token_memory


def adopt_or_give_up(run: Run, provider: Provider, recorder: Recorder, poll_seconds: float, why: str) -> Run:
    """What becomes of a create that was cut off and must not be sent again, for the reason `why`.

    BOOTING with what it made; INTERRUPTED where it made nothing, so that the run continues with a request of its own;
    after a pause still LAUNCHING where the provider does not answer.
    """
    adopted = adopt(run, provider, recorder, poll_seconds)
    if adopted is None:
        attempt = run.attempts[-1]
        attempt_over = replace(attempt, reason=why.format(provider=provider.name), ended_at=recorder.clock.now())
        return recorder.moved(run.with_attempt(attempt_over), Phase.INTERRUPTED, attempt_over.reason or "")
    if adopted.phase is Phase.LAUNCHING:
        recorder.clock.sleep(poll_seconds)
    return adopted


def _come_and_gone(run: Run, attempt: Attempt, provider: Provider, recorder: Recorder) -> Run | None:
    """Return the run where an instance has ended by itself and left a record in the run directory; None where no
    instance was created.
    """
    # A machine that has ended by itself may be in no list any more though it trained to the end:
    # its files tell.
    store = provider.store(run.run_id)
    if not has_written(store, attempt.number):
        return None
    end = recorded_end(store, attempt.number, None) or EndKind.LOST
    ended = when_ended(store, attempt, None, recorder.clock.now())
    attempt = replace(ended.of(attempt), end=end)
    return recorder.moved(run.with_attempt(attempt), Phase.BOOTING)
