"""What to do next with a run, from what is recorded and what the provider says of its live attempt. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from trainplan.planner.runs.decision.market import NOTHING_YET, SpotUp, Trained, decide_market, has_choice
from trainplan.planner.runs.decision.search import FIRST_PAUSE, MOST_CREATES, Search, search
from trainplan.planner.runs.decision.spot_policy import Action as MarketAction
from trainplan.planner.runs.decision.stay import Comparison, compare, is_to_compare
from trainplan.planner.runs.directory.signs import BOOT_LIMIT as BOOT_LIMIT
from trainplan.planner.runs.directory.signs import SILENCE_LIMIT as SILENCE_LIMIT
from trainplan.planner.runs.directory.signs import Sign, disobeys, silent_since
from trainplan.planner.runs.run import INTERRUPTIONS, OUTCOMES, Attempt, Outcome, Phase, Run, Speed
from trainplan.planner.runs.targets import Refusal, Target, affordable, open_targets, opens_again
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind, Instance, InstanceState
from trainplan.workloads.job import OnSlow

TIMER_GRACE = timedelta(minutes=15)
"""How long after its deadline an instance may take to end by itself before it is ended from here."""
MOST_WITHOUT_PROGRESS = 3
"""Interruptions in a row that left no newer checkpoint: then a run is given up, or, where all were its vendor's, goes
where it has not been taken back."""
ASK_SPOT_AGAIN = timedelta(minutes=5)
"""How soon a run that waits for spot asks a placement again that had none."""
LOOK_AGAIN = timedelta(minutes=5)
"""How often a run that waits for a placement looks whether its deadline allows more waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is known of the world when the next action is chosen.

    `instance` is the live instance (None: the provider knows none), `has_answer` whether the provider answered at all;
    `recorded_end` is how the run directory says that the attempt ended. `sign` is the newest sign of life in the run
    directory (None: there is none); without `knows_ages`, nothing may be concluded from how old it is. Without
    `tells_time` nobody knows what time it is there, and nothing is ended for any age, deadline included: the machine's
    own timer holds that. `told_to_stop_at` is when the machine was first told that a person wants the run to stop
    (None: it was not). `lag` is how long a new instance may not be listed yet. `slow` says in words that training is
    slower than the low end of its estimate. `speed` is how fast it trains, once that is known well enough.
    """

    instance: Instance | None = None
    has_answer: bool = True
    recorded_end: EndKind | None = None
    sign: Sign | None = None
    knows_ages: bool = True
    tells_time: bool = True
    told_to_stop_at: datetime | None = None
    lag: timedelta = timedelta(0)
    refusals: tuple[Refusal, ...] = ()
    slow: str = ""
    speed: Speed | None = None
    trained: Trained = NOTHING_YET
    spot_up: SpotUp | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """Ask for an instance for attempt `number` at a target; asking twice gives the same one.

    `target` is None where the attempt is in the journal already and its request is sent again.
    """

    number: int
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again; not before `until` where it is given."""

    until: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class AskToStop:
    """Tell the trainer to write a checkpoint and end."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Training is slower than promised: ask the person, or do what the job says."""

    text: str


@dataclass(frozen=True, slots=True)
class Compare:
    """It is measured how fast this machine trains: the run stays, or goes where its rest is cheaper."""

    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Move:
    """Training goes on in another market: stop it with a checkpoint first."""

    market: Market
    why: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The attempt is over and the run is not."""

    end: EndKind
    reason: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Delete what is left of the attempts, and look until nothing is."""


@dataclass(frozen=True, slots=True)
class Examine:
    """Ask the store what the last attempt left: a complete output, or a checkpoint."""


@dataclass(frozen=True, slots=True)
class Collect:
    """Bring the model home."""


@dataclass(frozen=True, slots=True)
class End:
    """Delete everything of the run, and look until nothing is left; `outcome` is what it will have been."""

    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """The run is done."""


_GIVEN_UP = End(Outcome.STOPPED, "its results were given up")
Action = Launch | Wait | AskToStop | Decide | Compare | Move | Interrupt | Clear | Examine | Collect | End | Nothing


def next_action(run: Run, look: Look, now: datetime) -> Action:
    """What to do next with a run, from what is recorded and what the provider says of its live attempt."""
    match run.phase:
        case Phase.PLANNED:
            return where_next(run, look, now)
        case Phase.INTERRUPTED:
            return _after_interruption(run, look, now)
        case Phase.LAUNCHING:
            return _end_of(run, now) or Launch(run.attempts[-1].number)
        case Phase.BOOTING | Phase.RUNNING:
            return _while_training(run, look, now)
        case Phase.COLLECTING:
            return _GIVEN_UP if run.results_given_up else Collect()
        case Phase.TEARING_DOWN:
            return End(run.outcome or Outcome.FAILED, run.message or "")
        case Phase.DONE:
            return Nothing()
        case _:
            assert_never(run.phase)


def _after_interruption(run: Run, look: Look, now: datetime) -> Action:
    attempt = run.attempts[-1]
    if not attempt.cleared:
        return Clear()
    # Nothing is trained anew before the store has answered what there is already.
    is_examined = attempt.step is not None or not attempt.had_instance
    return where_next(run, look, now) if is_examined else _wanted_end(run, now) or Examine()


def where_next(run: Run, look: Look, now: datetime) -> Action:
    """Where a run without an instance goes: the next placement of the plan, a wait for one, or its end."""
    end = _end_of(run, now)
    if end is not None:
        return end
    remaining_usd = run.left_usd(now)
    payable = [
        target
        for target in run.targets
        # A machine that the budget cannot keep until its first step would be paid for nothing.
        if remaining_usd is None or affordable(target, remaining_usd).total_seconds() > target.overhead_seconds
    ]
    if run.targets and not payable:
        return End(Outcome.BUDGET, f"the rest of the budget of ${run.budget_usd} is not enough for any offer")
    taken = taken_back_in_vain(run)
    is_unlucky = run.phase is not Phase.DONE and len(taken) >= MOST_WITHOUT_PROGRESS
    if is_unlucky:
        payable = _steadier(payable, taken)
        if not payable:
            why = f"its machine was taken back {len(taken)} times in a row before there was a newer checkpoint"
            return End(Outcome.INTERRUPTED, f"{why}, and plan and budget have no other placement")
    # Under a deadline of the person's own, full spot placements must not keep the run from asking on demand.
    by_market = has_choice(run) and not is_unlucky
    refusals = look.refusals
    searches = _searches(run, payable, refusals, now, by_market=by_market)
    placements = open_targets(payable, (*refusals, *_held_refusals(searches)), now)
    if not placements:
        # What other runs were refused is passed over, unless it leaves this one without any placement to ask. Whoever
        # launches an ended run again is not put off by what it was refused in its former life either.
        since = now if run.phase is Phase.DONE else run.again_at or run.created_at
        refusals = tuple(refusal for refusal in refusals if refusal.at >= since)
        searches = _searches(run, payable, refusals, now, by_market=by_market)
        placements = open_targets(payable, (*refusals, *_held_refusals(searches)), now)
    # Asked before the open placements count: the policy may wait for spot though a placement on demand is open.
    action = _by_policy(run, look, payable, refusals, now) if by_market else None
    if action is not None:
        return action
    if placements:
        return Launch(len(run.attempts) + 1, placements[0])
    all_refusals = (*refusals, *_held_refusals(searches))
    opens = opens_again(payable, all_refusals, now)
    # A run that measures does not wait for room: that there is none is what it came to know.
    waits = run.max_steps is None and (_got_somewhere(run) or _held_refusals(searches))
    if waits and opens is not None and opens < run.deadline:
        return Wait(min(opens, now + LOOK_AGAIN), _waiting_text(searches, opens))
    return _nowhere(run, all_refusals, searches, now)


def _searches(
    run: Run,
    placements: list[Target],
    refusals: tuple[Refusal, ...],
    now: datetime,
    *,
    by_market: bool,
    spot_pause: timedelta = FIRST_PAUSE,
) -> tuple[Search, ...]:
    """How far the search is in each group of placements: in each market, where the policy decides between them."""
    if not by_market:
        return (search(run, placements, refusals, now),)
    groups = {market: [placement for placement in placements if placement.offer.market is market] for market in Market}
    pauses = {Market.SPOT: spot_pause}
    return tuple(search(run, group, refusals, now, pauses.get(market, FIRST_PAUSE)) for market, group in groups.items())


def _held_refusals(searches: tuple[Search, ...]) -> tuple[Refusal, ...]:
    return tuple(refusal for each in searches for refusal in each.refusals)


def _waiting_text(searches: tuple[Search, ...], opens: datetime) -> str:
    """What was asked so far and when the next pass begins, for the person who waits."""
    following = next((each for each in searches if each.next_pass == opens), None)
    if following is None:
        return f"no placement has capacity; trying again from {opens:%H:%M} UTC"
    return (
        f"asked {_counted(following.placement_count, 'placement')}, none has room; pass {following.passes + 1} begins "
        f"at {opens:%H:%M} UTC; at most {MOST_CREATES} creates in all"
    )


def _by_policy(
    run: Run, look: Look, payable: list[Target], refusals: tuple[Refusal, ...], now: datetime
) -> Action | None:
    """The action that the policy between the markets chooses; None where the market that it names has no place open."""
    # A run that waits for spot asks again sooner than other runs pass the placement over.
    recent = tuple(
        refusal
        for refusal in refusals
        if refusal.market is not Market.SPOT or refusal.quota or now - refusal.at < ASK_SPOT_AGAIN
    )
    searches = _searches(run, payable, recent, now, by_market=True, spot_pause=ASK_SPOT_AGAIN)
    all_refusals = (*recent, *_held_refusals(searches))
    decision = decide_market(run, look.trained, all_refusals, now, look.spot_up)
    if decision is None:
        return None
    if decision.action is MarketAction.WAIT:
        return Wait(now + timedelta(seconds=decision.wait_seconds), f"waiting for spot: {decision.why}")
    market = _market(decision.action)
    placements = [target for target in payable if target.offer.market is market]
    targets = open_targets(placements, all_refusals, now)
    return Launch(len(run.attempts) + 1, targets[0]) if targets else None


def _market(action: MarketAction) -> Market:
    return Market.SPOT if action is MarketAction.USE_SPOT else Market.ON_DEMAND


def _in_vain(run: Run) -> list[Attempt]:
    """The last attempts in a row that were interrupted without a newer checkpoint than there was before."""
    best_step, in_vain = 0, list[Attempt]()
    for attempt in run.attempts:
        if not attempt.had_instance:
            continue  # refused: nothing ran
        gained = (attempt.step or 0) > best_step
        best_step = max(best_step, attempt.step or 0)
        # What ended otherwise was ended by the person, or by a limit that has been raised since.
        in_vain = [] if gained or attempt.end not in INTERRUPTIONS else [*in_vain, attempt]
    return [one for one in in_vain if run.again_at is None or one.asked_at is None or one.asked_at >= run.again_at]


def stuck(run: Run) -> bool:
    """Whether the run was interrupted three times in a row without a newer checkpoint, and not by its vendor: the job
    itself may be what ends its machines."""
    return len(_in_vain(run)) - len(taken_back_in_vain(run)) >= MOST_WITHOUT_PROGRESS


def taken_back_in_vain(run: Run) -> list[Attempt]:
    """The last attempts whose machines their vendor took back without a newer checkpoint: no fault of the job."""
    return [attempt for attempt in _in_vain(run) if attempt.end is EndKind.RECLAIMED]


def _steadier(targets: list[Target], taken: list[Attempt]) -> list[Target]:
    """Those on demand, else those in placements that have not taken the run back."""
    before = [attempt.target for attempt in taken if attempt.target is not None]
    on_demand = sum(target.offer.market is Market.ON_DEMAND for target in before)
    if on_demand < MOST_WITHOUT_PROGRESS:
        steadier = [target for target in targets if target.offer.market is Market.ON_DEMAND]
        if steadier:
            return steadier
    places = {target.where for target in before}
    return [target for target in targets if target.where not in places]


def _wanted_end(run: Run, now: datetime) -> End | None:
    """The end that a person wants of a run without an instance, now or by its deadline."""
    if run.stop_asked is not None:
        return End(Outcome.STOPPED, "stopped while nothing of it was running")
    return End(Outcome.DEADLINE, "the deadline has passed") if now >= run.deadline else None


def _end_of(run: Run, now: datetime) -> End | None:
    """The end of a run without an instance, where there is a reason not to look for one."""
    end = _wanted_end(run, now)
    if end is not None:
        return end
    # Whoever launches an ended run again wants it tried again.
    if run.phase is not Phase.DONE and stuck(run):
        return End(Outcome.FAILED, f"interrupted {MOST_WITHOUT_PROGRESS} times without a newer checkpoint")
    return None


def _got_somewhere(run: Run) -> bool:
    return any(attempt.had_instance for attempt in run.attempts)


def _nowhere(run: Run, refusals: tuple[Refusal, ...], searches: tuple[Search, ...], now: datetime) -> End:
    current = [
        each for each in refusals if each.until > now and any(each.covers(placement) for placement in run.targets)
    ]
    quotas = sorted({refusal.quota for refusal in current if refusal.quota})
    # Room may come back by itself, a quota has to be raised by a person: the outcome tells which of the two it is.
    if quotas and all(refusal.quota for refusal in current):
        return End(Outcome.REFUSED, f"the account's quota is too small: {', '.join(quotas)}")
    why = next((refusal.why for refusal in reversed(current) if refusal.why), "none is in the plan")
    quota_text = f"; quotas that are too small: {', '.join(quotas)}" if quotas else ""
    return End(Outcome.NO_CAPACITY, f"{_asked_text(run, searches)}, none has room: {why}{quota_text}")


def _asked_text(run: Run, searches: tuple[Search, ...]) -> str:
    """How many placements were asked; and how often, where the run asked them more than once."""
    question = f"{_counted(len(run.targets), 'placement')} {'was' if len(run.targets) == 1 else 'were'} asked"
    creates, passes = sum(each.creates for each in searches), max((each.passes for each in searches), default=0)
    return f"{question} in {passes} passes with {creates} creates" if passes > 1 else question


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _while_training(run: Run, look: Look, now: datetime) -> Action:
    instance = look.instance
    if not look.has_answer:
        if run.stop_asked is not None and run.results_given_up:
            return _GIVEN_UP
        return _past_its_time(run, look, now) or Wait(why="the provider does not answer")
    if instance is not None and instance.state is not InstanceState.ENDED:
        return _still_training(run, look, instance, now)
    # A machine may end itself as soon as its results are complete: the run directory knows better than its absence.
    if look.recorded_end is not None:
        return _after_training(
            run, look.recorded_end, instance.reason if instance and instance.reason else look.recorded_end
        )
    if instance is None:
        instant = run.attempts[-1].sent_at or run.attempts[-1].asked_at
        # No list need show a new instance at once: within the lag its absence proves nothing.
        young = instant is not None and now - instant < look.lag
        return Wait() if young else _after_training(run, EndKind.LOST, "the instance disappeared")
    return _after_training(run, instance.end or EndKind.LOST, instance.reason or instance.end or "ended")


def _after_training(run: Run, end: EndKind, reason: str) -> Action:
    if end is EndKind.DONE:
        # A measuring run leaves no model to fetch.
        return Collect() if run.model_folder else End(Outcome.SUCCEEDED, "")
    if end is EndKind.STOPPED and run.stop_asked is None:
        if run.moving is not None:
            return Interrupt(end, f"going on {run.moving.replace('_', ' ')}")
        if run.attempts[-1].leaves:
            return Interrupt(end, "going on where the rest is cheaper, by what was measured here")
        if run.slow is OnSlow.REPLAN:
            return Interrupt(end, "slower than its estimate: continuing on another machine")
    outcome = OUTCOMES[end]
    if outcome is None:
        if run.stop_asked is not None:
            return End(Outcome.STOPPED, reason)
        # A run that was resumed measures nothing (receipt.measurement_of), so a measuring run is not continued.
        goes_on = run.model_folder or end is EndKind.NO_CAPACITY
        return Interrupt(end, reason) if goes_on else End(Outcome.FAILED, reason)
    if outcome is Outcome.DEADLINE:
        return _at_its_limit(run)
    return End(outcome, reason)


def _still_training(run: Run, look: Look, instance: Instance, now: datetime) -> Action:
    end = _past_its_time(run, look, now)
    if end is not None:
        return end
    silence = silent_since(run.attempts[-1], instance, look.sign, now) if look.knows_ages and look.tells_time else ""
    if silence:
        return _after_training(run, EndKind.LOST, silence)
    if run.stop_asked is not None and look.tells_time:
        is_stopping = not look.knows_ages or (look.sign is not None and look.sign.stops)
        disobedience = disobeys(look.told_to_stop_at, is_stopping=is_stopping, now=now)
        if disobedience:
            return End(Outcome.STOPPED, disobedience)
    wants_end = _wants_end(run)
    # It waits in the provider's queue: no trainer is there that could write a checkpoint.
    if wants_end and not instance.bills:
        return _after_training(run, EndKind.STOPPED, "stopped while it waited for a machine")
    # One that is ending for a move is told once more where a person stops the run meanwhile: that is for good.
    is_told = instance.state is InstanceState.STOPPING and (run.stop_asked is None or look.told_to_stop_at is not None)
    if wants_end and not is_told:
        return AskToStop()
    if look.speed is not None and is_to_compare(run) and not wants_end:
        comparison = compare(run, look.speed, look.trained.step, look.refusals, now)
        if comparison is not None:
            return Compare(comparison)
    if look.slow and run.slow is None:
        return Decide(look.slow)
    return (None if wants_end else _other_market(run, look, now)) or Wait()


def _wants_end(run: Run) -> bool:
    """Whether the machine is to be told to end, while the run may go on elsewhere."""
    leaves = run.moving is not None or run.attempts[-1].leaves
    return run.stop_asked is not None or leaves or run.slow in (OnSlow.STOP, OnSlow.REPLAN)


def _other_market(run: Run, look: Look, now: datetime) -> Move | None:
    """Where the policy would have a run that trains in another market."""
    target = run.attempts[-1].target
    decision = decide_market(run, look.trained, look.refusals, now, look.spot_up)
    if target is None or decision is None or decision.action is MarketAction.WAIT:
        return None
    market = _market(decision.action)
    return None if market is target.offer.market else Move(market, decision.why)


def _past_its_time(run: Run, look: Look, now: datetime) -> End | None:
    """The instance ends itself at its deadline; when it has not, some time later, it is ended from here."""
    attempt_end = run.attempts[-1].deadline or run.deadline
    if not look.tells_time or now <= min(attempt_end, run.deadline) + TIMER_GRACE:
        return None
    return _at_its_limit(run)


def _at_its_limit(run: Run) -> End:
    if _by_budget(run):
        return End(Outcome.BUDGET, "the budget is used up")
    return End(Outcome.DEADLINE, "the deadline has passed")


def early_end(run: Run, why: str) -> End:
    """The end of a run whose results are at home though its time or money was up before all was trained; `why` says
    what they are."""
    limit, outcome = ("budget", Outcome.BUDGET) if _by_budget(run) else ("deadline", Outcome.DEADLINE)
    return End(outcome, f"the {limit} was reached before {why}")


def _by_budget(run: Run) -> bool:
    """Whether the newest attempt ends before the run's deadline: its own deadline is when the budget is used up."""
    attempt_end = run.attempts[-1].deadline
    return attempt_end is not None and attempt_end < run.deadline
