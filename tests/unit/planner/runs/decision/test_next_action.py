"""What to do next with a run, in every phase and for everything that can be known of the world."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_run, a_target, an_attempt, an_instance
from tests.doubles.clock import NOON
from tests.rows import each_row
from trainplan.planner.runs.decision.next_action import (
    LOOK_AGAIN,
    MOST_WITHOUT_PROGRESS,
    TIMER_GRACE,
    Action,
    AskToStop,
    Clear,
    Collect,
    Decide,
    End,
    Examine,
    Interrupt,
    Launch,
    Look,
    Nothing,
    Wait,
    next_action,
    stuck,
    where_next,
)
from trainplan.planner.runs.decision.search import MOST_CREATES
from trainplan.planner.runs.directory.signs import BOOT_LIMIT
from trainplan.planner.runs.run import INTERRUPTIONS, Attempt, Outcome, Phase, Run
from trainplan.planner.runs.targets import Refusal, Target, no_capacity, refusal_of
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind, InstanceState
from trainplan.providers.errors import QuotaError
from trainplan.workloads.job import OnSlow

HOUR = timedelta(hours=1)
SOON = NOON + timedelta(minutes=5)
LATE = NOON + HOUR + TIMER_GRACE + timedelta(seconds=1)

P, L, B, R, C, T, I, D = Phase  # noqa: E741  in the order of the class
PENDING, WORKING, STOPPING = (
    an_instance(state) for state in (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.STOPPING)
)
QUEUED = an_instance(InstanceState.PENDING, bills=False)
LATE_END = End(Outcome.DEADLINE, "the deadline has passed")
BUDGET_END = End(Outcome.BUDGET, "the budget is used up")
SILENCE = Wait(why="the provider does not answer")
STOP_REQUEST = {"stop_asked": NOON}
MEASURING = {"model_folder": ""}
WITHIN_BUDGET = {"made": (an_attempt(deadline=NOON + HOUR / 2),)}
LATE_BY_BUDGET = NOON + HOUR / 2 + TIMER_GRACE + timedelta(seconds=1)


def look_at_end(kind: EndKind | None, reason: str | None = "why") -> Look:
    return Look(instance=an_instance(InstanceState.ENDED, end=kind, reason=reason))


# --- while there is an instance ----------------------------------------------------------------------------------

CASES: list[tuple[dict[str, Any], Look, datetime, Action]] = [
    # It trains.
    ({}, Look(instance=PENDING), SOON, Wait()),
    ({}, Look(instance=WORKING), SOON, Wait()),
    ({}, Look(instance=STOPPING), SOON, Wait()),
    (STOP_REQUEST, Look(instance=PENDING), SOON, AskToStop()),
    (STOP_REQUEST, Look(instance=WORKING), SOON, AskToStop()),
    # One that ends already is told that it is for good.
    (STOP_REQUEST, Look(instance=STOPPING), SOON, AskToStop()),
    (STOP_REQUEST, Look(instance=STOPPING, told_to_stop_at=NOON), SOON, Wait()),
    # It waits for a machine, which nobody need be asked to stop.
    ({}, Look(instance=QUEUED), SOON, Wait()),
    (STOP_REQUEST, Look(instance=QUEUED), SOON, End(Outcome.STOPPED, "stopped while it waited for a machine")),
    ({}, look_at_end(EndKind.NO_CAPACITY), SOON, Interrupt(EndKind.NO_CAPACITY, "why")),
    (MEASURING, look_at_end(EndKind.NO_CAPACITY), SOON, Interrupt(EndKind.NO_CAPACITY, "why")),
    (STOP_REQUEST, look_at_end(EndKind.NO_CAPACITY), SOON, End(Outcome.STOPPED, "why")),
    # It has outlived its time.
    ({}, Look(instance=PENDING), LATE, LATE_END),
    ({}, Look(instance=WORKING), LATE, LATE_END),
    (STOP_REQUEST, Look(instance=STOPPING), LATE, LATE_END),
    ({}, Look(instance=WORKING, slow="slow"), LATE, LATE_END),
    (WITHIN_BUDGET, Look(instance=WORKING), LATE_BY_BUDGET, BUDGET_END),
    (WITHIN_BUDGET, Look(instance=WORKING), LATE_BY_BUDGET - timedelta(seconds=1), Wait()),
    # Nobody answers.
    ({}, Look(has_answer=False), SOON, SILENCE),
    (STOP_REQUEST, Look(has_answer=False), SOON, SILENCE),
    ({}, Look(has_answer=False), LATE, LATE_END),
    (WITHIN_BUDGET, Look(has_answer=False), LATE_BY_BUDGET, BUDGET_END),
    # It has ended and says how.
    ({}, look_at_end(EndKind.DONE), SOON, Collect()),
    ({}, look_at_end(EndKind.DONE), LATE, Collect()),
    (STOP_REQUEST, look_at_end(EndKind.DONE), SOON, Collect()),
    (MEASURING, look_at_end(EndKind.DONE), SOON, End(Outcome.SUCCEEDED, "")),
    ({}, look_at_end(EndKind.STOPPED), SOON, End(Outcome.STOPPED, "why")),
    (STOP_REQUEST, look_at_end(EndKind.STOPPED), SOON, End(Outcome.STOPPED, "why")),
    ({}, look_at_end(EndKind.DEADLINE), LATE, LATE_END),
    (WITHIN_BUDGET, look_at_end(EndKind.DEADLINE), SOON, BUDGET_END),
    ({}, look_at_end(EndKind.BAD_JOB), SOON, End(Outcome.FAILED, "why")),
    ({}, look_at_end(EndKind.FAILED), SOON, End(Outcome.FAILED, "why")),
    ({}, look_at_end(EndKind.OUT_OF_MEMORY), SOON, End(Outcome.FAILED, "why")),
    *[({}, look_at_end(kind), SOON, Interrupt(kind, "why")) for kind in sorted(INTERRUPTIONS)],
    *[(STOP_REQUEST, look_at_end(kind), SOON, End(Outcome.STOPPED, "why")) for kind in sorted(INTERRUPTIONS)],
    *[(MEASURING, look_at_end(kind), SOON, End(Outcome.FAILED, "why")) for kind in sorted(INTERRUPTIONS)],
    ({}, look_at_end(EndKind.KILLED, None), SOON, Interrupt(EndKind.KILLED, "killed")),
    ({}, look_at_end(None, None), SOON, Interrupt(EndKind.LOST, "ended")),
    # It is not there.
    ({}, Look(), SOON, Interrupt(EndKind.LOST, "the instance disappeared")),
    (STOP_REQUEST, Look(), SOON, End(Outcome.STOPPED, "the instance disappeared")),
    ({}, Look(lag=timedelta(minutes=5)), SOON, Interrupt(EndKind.LOST, "the instance disappeared")),
    ({}, Look(lag=timedelta(minutes=5, seconds=1)), SOON, Wait()),
    # It is not there, or has been lost, and its run directory knows better.
    ({}, Look(recorded_end=EndKind.DONE), SOON, Collect()),
    ({}, Look(recorded_end=EndKind.DONE, lag=HOUR), SOON, Collect()),
    (STOP_REQUEST, Look(recorded_end=EndKind.DONE), SOON, Collect()),
    ({}, replace(look_at_end(EndKind.RECLAIMED), recorded_end=EndKind.DONE), SOON, Collect()),
    ({}, Look(recorded_end=EndKind.FAILED), SOON, End(Outcome.FAILED, "failed")),
    ({}, Look(recorded_end=EndKind.DEADLINE), SOON, LATE_END),
    (WITHIN_BUDGET, Look(recorded_end=EndKind.DEADLINE), SOON, BUDGET_END),
    # It is slower than promised.
    ({}, Look(instance=WORKING, slow="slow"), SOON, Decide("slow")),
    ({"slow": OnSlow.CONTINUE}, Look(instance=WORKING, slow="slow"), SOON, Wait()),
    ({"slow": OnSlow.STOP}, Look(instance=WORKING, slow="slow"), SOON, AskToStop()),
    ({"slow": OnSlow.REPLAN}, Look(instance=WORKING, slow="slow"), SOON, AskToStop()),
    ({"slow": OnSlow.REPLAN}, Look(instance=STOPPING, slow="slow"), SOON, Wait()),
    (STOP_REQUEST, Look(instance=WORKING, slow="slow"), SOON, AskToStop()),
    ({"slow": OnSlow.STOP}, look_at_end(EndKind.STOPPED), SOON, End(Outcome.STOPPED, "why")),
    ({"slow": OnSlow.REPLAN}, look_at_end(EndKind.STOPPED), SOON,
     Interrupt(EndKind.STOPPED, "slower than its estimate: continuing on another machine")),
    ({"slow": OnSlow.REPLAN} | STOP_REQUEST, look_at_end(EndKind.STOPPED), SOON, End(Outcome.STOPPED, "why")),
]  # fmt: skip


@each_row("phase", [B, R])
@each_row(("changes", "look", "now", "action"), CASES)
def test_what_to_do_while_an_instance_is_there(
    phase: Phase, changes: dict[str, Any], look: Look, now: datetime, action: Action
) -> None:
    assert next_action(a_run(phase, attempts=1, **changes), look, now) == action


@pytest.mark.parametrize(("phase", "sighting"), list(product((B, R), (PENDING, WORKING))))
def test_an_instance_that_gives_no_sign_of_life_is_given_up(phase: Phase, sighting: Any) -> None:
    run = a_run(phase, attempts=1, deadline=NOON + 24 * HOUR)
    assert next_action(run, Look(instance=sighting), NOON + BOOT_LIMIT) == Wait()
    action = next_action(run, Look(instance=sighting), NOON + BOOT_LIMIT + timedelta(seconds=1))
    assert action == Interrupt(EndKind.LOST, "no sign of life within 45 minutes of the launch")


def test_a_newborn_is_young_from_the_last_time_it_was_asked_for() -> None:
    """It may have been made by the tenth try, long after the first."""
    attempt = an_attempt(sent_at=SOON, tries=9)
    run = a_run(B, made=(attempt,))
    look = Look(lag=timedelta(seconds=30))
    assert next_action(run, look, SOON + timedelta(seconds=29)) == Wait()
    assert isinstance(next_action(run, look, SOON + timedelta(seconds=30)), Interrupt)


@pytest.mark.parametrize("phase", [B, R])
def test_every_end_an_instance_can_have_is_in_the_table(phase: Phase) -> None:
    for end in [None, *EndKind]:
        action = next_action(a_run(phase, attempts=1), look_at_end(end), SOON)
        assert isinstance(action, Collect | End | Interrupt), end


# --- otherwise what is recorded decides alone --------------------------------------------------------------------

LOOKS = [
    Look(),
    Look(has_answer=False),
    Look(instance=PENDING),
    Look(instance=WORKING),
    look_at_end(EndKind.DONE),
    look_at_end(EndKind.LOST),
]


@each_row("look", LOOKS)
@each_row("now", [SOON, LATE])
@each_row(
    ("phase", "changes", "action"),
    [
        (C, {}, Collect()),
        (C, STOP_REQUEST, Collect()),
        (T, {"outcome": Outcome.STOPPED, "message": "why"}, End(Outcome.STOPPED, "why")),
        (T, {"outcome": Outcome.SUCCEEDED}, End(Outcome.SUCCEEDED, "")),
        (T, {}, End(Outcome.FAILED, "")),
        (I, {}, Clear()),
        (I, STOP_REQUEST, Clear()),
        (D, {"outcome": Outcome.SUCCEEDED}, Nothing()),
        (D, {"outcome": Outcome.INTERRUPTED}, Nothing()),
    ],
)
def test_otherwise_what_is_recorded_decides_alone(
    phase: Phase, changes: dict[str, Any], action: Action, look: Look, now: datetime
) -> None:
    assert next_action(a_run(phase, attempts=1, **changes), look, now) == action


@pytest.mark.parametrize("look", LOOKS)
def test_a_create_without_an_answer_is_sent_again_while_it_is_wanted(look: Look) -> None:
    run = a_run(L, made=(an_attempt(cleared=True), an_attempt(2, ref=None)))
    assert next_action(run, look, SOON) == Launch(2)
    assert next_action(replace(run, stop_asked=SOON), look, SOON) == End(
        Outcome.STOPPED, "stopped while nothing of it was running"
    )
    assert next_action(run, look, NOON + HOUR) == LATE_END


# --- where to go -------------------------------------------------------------------------------------------------

FIRST, SECOND, OTHER_REGION, OTHER_TYPE = PLACEMENTS = (
    a_target("1", provider="aws", region="r1", zone="r1a", instance_type="g4", family="g4"),
    a_target("2", provider="aws", region="r1", zone="r1b", instance_type="g4", family="g4"),
    a_target("3", provider="aws", region="r2", zone="r2a", instance_type="g4", family="g4"),
    a_target("4", provider="aws", region="r1", zone="r1a", instance_type="p3", family="p3"),
)


def a_search(*, attempts: tuple[Attempt, ...] = (), **changes: Any) -> Run:
    run = a_run(I if attempts else P, made=attempts, **({"targets": PLACEMENTS, "provider": "aws"} | changes))
    return replace(run, deadline=NOON + 24 * HOUR) if "deadline" not in changes else run


def refused(*targets: Target, at: datetime = NOON, why: str = "no room") -> tuple[Refusal, ...]:
    return tuple(no_capacity(target, at, why) for target in targets)


def quota(target: Target, name: str = "vCPUs") -> Refusal:
    return refusal_of(QuotaError("too many", quota=name), target, NOON)


WENT = an_attempt(1, FIRST, cleared=True, end=EndKind.RECLAIMED, ended_at=NOON, step=10)
REFUSED = an_attempt(1, FIRST, ref=None, cleared=True, ended_at=NOON, reason="no room")


@pytest.mark.parametrize(
    ("attempts", "refusals", "placement"),
    [
        ((), (), FIRST),
        ((), refused(FIRST), SECOND),
        ((), refused(FIRST, SECOND), OTHER_REGION),
        ((REFUSED,), refused(FIRST, SECOND, OTHER_REGION), OTHER_TYPE),
        # A quota is for the family in the region.
        ((REFUSED,), (quota(FIRST),), OTHER_REGION),
        ((REFUSED,), (quota(FIRST), quota(OTHER_REGION)), OTHER_TYPE),
        ((WENT,), (), FIRST),
        ((WENT,), refused(FIRST), SECOND),
        # What is long ago is forgotten.
        ((WENT,), refused(FIRST, at=NOON - HOUR), FIRST),
    ],
)
def test_the_next_placement_is_the_first_that_nobody_refused_lately(
    attempts: tuple[Attempt, ...], refusals: tuple[Refusal, ...], placement: Target
) -> None:
    run = a_search(attempts=attempts)
    for action in (next_action(run, Look(refusals=refusals), SOON), where_next(run, Look(refusals=refusals), SOON)):
        assert action == Launch(len(attempts) + 1, placement)


def test_a_fresh_run_asks_anyway_when_what_others_were_refused_leaves_nothing() -> None:
    others = refused(*PLACEMENTS, at=NOON - timedelta(minutes=1))
    assert next_action(a_search(), Look(refusals=others), SOON) == Launch(1, FIRST)
    # And what it is refused itself still counts.
    own = (*others, *refused(FIRST))
    assert next_action(a_search(), Look(refusals=own), SOON) == Launch(1, SECOND)
    assert next_action(a_search(attempts=(REFUSED,)), Look(refusals=own), SOON) == Launch(2, SECOND)


def test_whoever_launches_an_ended_run_again_is_not_put_off_by_its_former_life() -> None:
    run = replace(a_search(attempts=(WENT,)), phase=D, outcome=Outcome.NO_CAPACITY)
    assert where_next(run, Look(refusals=refused(*PLACEMENTS)), SOON) == Launch(2, FIRST)
    assert where_next(run, Look(refusals=refused(FIRST)), SOON) == Launch(2, SECOND)


def test_a_run_that_was_refused_everywhere_ends_and_says_why() -> None:
    run = a_search(attempts=(REFUSED,), deadline=NOON + timedelta(minutes=10))
    assert next_action(run, Look(refusals=refused(*PLACEMENTS)), SOON) == End(
        Outcome.NO_CAPACITY, "4 placements were asked, none has room: no room"
    )
    mixed = (*refused(FIRST, SECOND, OTHER_TYPE), quota(OTHER_REGION, "G vCPUs"))
    assert next_action(run, Look(refusals=mixed), SOON) == End(
        Outcome.NO_CAPACITY, "4 placements were asked, none has room: no room; quotas that are too small: G vCPUs"
    )
    alone = (quota(FIRST, "G vCPUs"), quota(OTHER_REGION, "G vCPUs"), quota(OTHER_TYPE, "P vCPUs"))
    assert next_action(run, Look(refusals=alone), SOON) == End(
        Outcome.REFUSED, "the account's quota is too small: G vCPUs, P vCPUs"
    )


def test_a_run_that_was_refused_everywhere_waits_for_the_next_pass_while_its_deadline_allows_one() -> None:
    run = a_search(attempts=(REFUSED,), targets=(FIRST,))
    action = next_action(run, Look(refusals=refused(FIRST)), SOON)
    assert action == Wait(
        SOON + LOOK_AGAIN,
        f"asked 1 placement, none has room; pass 2 begins at 12:15 UTC; at most {MOST_CREATES} creates in all",
    )


def test_a_run_that_got_somewhere_waits_for_a_placement_until_its_deadline() -> None:
    run = a_search(attempts=(WENT,))
    refusals = refused(*PLACEMENTS)
    opens = refusals[0].until
    action = next_action(run, Look(refusals=refusals), SOON)
    assert isinstance(action, Wait)
    assert (action.until, f"{opens:%H:%M}" in action.why) == (SOON + LOOK_AGAIN, True)
    action = next_action(run, Look(refusals=refusals), opens - timedelta(seconds=1))
    assert isinstance(action, Wait)
    assert action.until == opens
    assert next_action(run, Look(refusals=refusals), opens) == Launch(2, FIRST)
    # No placement opens in time.
    early = replace(run, deadline=opens)
    assert isinstance(next_action(early, Look(refusals=refusals), SOON), End)


@pytest.mark.parametrize(
    ("changes", "now", "outcome"),
    [
        (STOP_REQUEST, SOON, Outcome.STOPPED),
        ({}, NOON + 24 * HOUR, Outcome.DEADLINE),
        (STOP_REQUEST, NOON + 24 * HOUR, Outcome.STOPPED),
        ({"budget_usd": Decimal("0.001")}, SOON, Outcome.BUDGET),
    ],
)
@pytest.mark.parametrize("attempts", [(), (WENT,)])
def test_a_run_that_may_not_go_on_ends(
    changes: dict[str, Any], now: datetime, outcome: Outcome, attempts: tuple[Attempt, ...]
) -> None:
    run = a_search(attempts=attempts, **changes)
    if outcome is Outcome.BUDGET:
        run = replace(run, targets=tuple(replace(placement, overhead_seconds=60.0) for placement in PLACEMENTS))
    action = next_action(run, Look(), now)
    assert isinstance(action, End)
    assert action.outcome is outcome


def test_placements_that_the_budget_does_not_pay_for_are_passed_over() -> None:
    """A quarter of an hour until the first step costs a dollar at $4 an hour."""
    dear = replace(OTHER_TYPE, overhead_seconds=900.0)
    run = a_search(targets=(dear, FIRST), budget_usd=Decimal("0.99"))
    assert next_action(run, Look(), SOON) == Launch(1, FIRST)
    assert next_action(replace(run, budget_usd=Decimal("1.01")), Look(), SOON) == Launch(1, dear)


def test_a_run_without_placements_does_not_blame_its_budget() -> None:
    """As an earlier version of plan recorded it."""
    assert next_action(a_search(targets=()), Look(), SOON) == End(
        Outcome.NO_CAPACITY, "0 placements were asked, none has room: none is in the plan"
    )


# --- three times without progress --------------------------------------------------------------------------------


def reclaimed_attempts(*steps: int, end: EndKind = EndKind.RECLAIMED) -> tuple[Attempt, ...]:
    """Attempts that were taken away with these newest checkpoints; -1: refused, -2: stopped by the person."""
    kinds: dict[int, dict[str, Any]] = {-1: {"ref": None, "end": None}, -2: {"end": EndKind.STOPPED, "step": 0}}
    return tuple(
        an_attempt(number, cleared=True, **kinds.get(step, {"end": end, "step": step}))
        for number, step in enumerate(steps, 1)
    )


@each_row(
    ("steps", "is_stuck"),
    [
        ((), False),
        ((0,), False),
        ((0, 0), False),
        ((0, 0, 0), True),
        ((5, 5, 5), False),
        ((5, 5, 5, 5), True),
        ((5, 0, 0, 0), True),
        ((0, 0, 1), False),
        ((0, 0, 1, 1, 1), False),
        ((0, 0, 1, 1, 1, 1), True),
        ((1, 2, 3, 4, 5, 6), False),
        ((-1, -1, -1, -1), False),
        ((0, -1, 0, -1), False),
        ((0, -1, 0, -1, 0), True),
        # Who stops a run and goes on with it has not been interrupted.
        ((-2, -2, -2, -2), False),
        ((0, 0, -2), False),
        ((0, 0, -2, 0), False),
    ],
)
def test_three_in_a_row_without_a_newer_checkpoint_are_enough(steps: tuple[int, ...], is_stuck: bool) -> None:
    run = a_search(attempts=reclaimed_attempts(*steps, end=EndKind.KILLED))
    assert stuck(run) is is_stuck
    action = next_action(run, Look(), SOON)
    if is_stuck:
        said = f"interrupted {MOST_WITHOUT_PROGRESS} times without a newer checkpoint"
        assert action == End(Outcome.FAILED, said)
    else:
        assert action == Launch(len(steps) + 1, FIRST)


def test_a_run_that_is_taken_back_again_and_again_goes_on_demand_or_elsewhere_and_has_not_failed() -> None:
    """Of a job that its vendor interrupts, nothing is known."""
    spot = [replace(each, offer=replace(each.offer, market=Market.SPOT)) for each in PLACEMENTS]
    taken = tuple(an_attempt(number, spot[0], cleared=True, end=EndKind.RECLAIMED, step=0) for number in (1, 2, 3))
    assert next_action(a_search(attempts=taken[:2], targets=(*spot, SECOND)), Look(), SOON) == Launch(3, spot[0])
    run = a_search(attempts=taken, targets=(*spot, SECOND))
    assert not stuck(run)
    assert next_action(run, Look(), SOON) == Launch(4, SECOND)
    assert next_action(replace(run, targets=tuple(spot)), Look(), SOON) == Launch(4, spot[1])
    alone = replace(run, targets=(spot[0],))
    assert next_action(alone, Look(), SOON) == End(
        Outcome.INTERRUPTED,
        "its machine was taken back 3 times in a row before there was a newer checkpoint, and plan and budget have no "
        "other placement",
    )
    assert next_action(replace(alone, again_at=SOON), Look(), SOON) == Launch(4, spot[0])


def test_a_run_that_is_taken_back_on_demand_too_ends() -> None:
    taken = reclaimed_attempts(0, 0, 0)
    action = next_action(a_search(attempts=taken, targets=(taken[0].target,)), Look(), SOON)
    assert isinstance(action, End)
    assert action.outcome is Outcome.INTERRUPTED


def test_nothing_is_launched_before_the_store_has_answered_what_the_last_attempt_left() -> None:
    attempts = reclaimed_attempts(0, 0, 0)
    run = a_search(attempts=(*attempts[:2], replace(attempts[2], step=None)))
    assert next_action(run, Look(), SOON) == Examine()
    assert isinstance(next_action(replace(run, stop_asked=SOON), Look(), SOON), End)
    assert isinstance(next_action(run, Look(), run.deadline), End)


def test_a_machine_whose_create_has_no_recorded_send_is_new_from_when_it_was_asked_for() -> None:
    """As in a journal of an earlier version: a list that does not show it yet is no reason to rent another."""
    before = an_attempt(1, cleared=True, asked_at=NOON - HOUR, sent_at=None)
    run = a_run(B, made=(before, an_attempt(2, asked_at=NOON, sent_at=None)))
    assert next_action(run, Look(lag=timedelta(minutes=10)), SOON) == Wait()
    assert isinstance(next_action(run, Look(lag=timedelta(minutes=5)), SOON), Interrupt)


def test_whoever_launches_a_stuck_run_again_gets_another_try() -> None:
    killed = reclaimed_attempts(0, 0, 0, end=EndKind.KILLED)
    run = replace(a_search(attempts=killed), phase=D, outcome=Outcome.FAILED)
    assert where_next(run, Look(), SOON) == Launch(4, FIRST)


@given(st.lists(st.integers(0, 3), max_size=12))
def test_however_it_goes_a_run_without_progress_is_not_launched_for_ever(steps: list[int]) -> None:
    """Each newer checkpoint is worth at most three attempts."""
    launched: list[int] = []
    for step in steps:
        if stuck(a_search(attempts=reclaimed_attempts(*launched, end=EndKind.LOST))):
            break
        launched.append(step)
    gains = len({step for step in launched if step})
    assert len(launched) <= (gains + 1) * MOST_WITHOUT_PROGRESS
