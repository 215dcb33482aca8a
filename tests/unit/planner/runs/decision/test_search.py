"""The order in which placements are asked: whole passes, pauses that grow, and a number of creates that is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from trainplan.planner.runs.decision.next_action import ASK_SPOT_AGAIN, Action, End, Launch, Look, Wait, where_next
from trainplan.planner.runs.decision.search import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_CREATES,
    pause_after,
    placement_of,
    search,
)
from trainplan.planner.runs.run import Attempt, Outcome, Phase, Run
from trainplan.planner.runs.targets import LOST_MEMORY, Refusal, Target, no_capacity, refusal_of
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind
from trainplan.providers.errors import CapacityError, QuotaError

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
PLACEMENTS = tuple(a_target(region=f"region-{number}", zone=f"zone-{number}", provider="aws") for number in range(29))


@dataclass
class Search:
    """A run that is carried from one decision to the next by clouds that answer as `refuses` says.

    Each create takes `create_takes`, and what it was refused is remembered as the executor does it.
    """

    run: Run
    now: datetime = NOON
    create_takes: timedelta = 45 * timedelta(seconds=1)
    refuses: Callable[[Target], bool] = lambda _: True
    quota: Callable[[Target], bool] = lambda _: False
    refusals: tuple[Refusal, ...] = ()
    waits: tuple[Wait, ...] = ()

    def goes_on(self, most: int = 10_000) -> Action:
        """Until the run ends or has a machine, or `most` decisions were taken; the last of them."""
        action: Action = Wait()
        for _ in range(most):
            self.refusals = tuple(known for known in self.refusals if known.until > self.now)
            action = where_next(self.run, Look(refusals=self.refusals), self.now)
            match action:
                case Wait(until) if until is not None:
                    assert until > self.now
                    self.now, self.waits = until, (*self.waits, action)
                case Launch(_, target) if target is not None and self.refuses(target):
                    self._refused(target)
                case _:
                    break
        return action

    def _refused(self, target: Target) -> None:
        asked_at = self.now
        self.now += self.create_takes
        error = QuotaError("too many", quota="vCPUs") if self.quota(target) else CapacityError("no room")
        self.refusals = (*self.refusals, refusal_of(error, target, self.now))
        number = len(self.run.attempts) + 1
        attempt = Attempt(
            number=number, target=target, asked_at=asked_at, ended_at=self.now, reason="no room", cleared=True
        )
        self.run = replace(self.run.with_attempt(attempt), phase=Phase.INTERRUPTED)

    @property
    def zones(self) -> list[str | None]:
        return [attempt.target.zone for attempt in self.run.attempts if attempt.target]


def a_search(targets: tuple[Target, ...] = PLACEMENTS, **changes: Any) -> Run:
    asked: dict[str, Any] = {"targets": targets, "provider": "aws", "deadline": NOON + 5 * 24 * HOUR}
    return a_run(**asked | changes)


# --- whole passes -------------------------------------------------------------------------------------------------


def test_the_one_placement_with_room_is_found_in_the_first_pass_though_it_is_the_last() -> None:
    """Each refusal takes 45 s, so the first placement is forgotten before the last one was asked."""
    last = PLACEMENTS[-1]
    tried = Search(a_search(), refuses=lambda target: target is not last)
    assert tried.goes_on() == Launch(29, last)
    assert (len(set(tried.zones)), tried.waits) == (28, ())


@pytest.mark.parametrize("number_of_placements", [29, 200])
def test_without_room_anywhere_the_creates_are_bounded_and_the_end_says_how_many(number_of_placements: int) -> None:
    placements = tuple(a_target(region=f"r{number}", provider="aws") for number in range(number_of_placements))
    tried = Search(a_search(placements, deadline=NOON + 100 * 24 * HOUR), create_takes=timedelta(seconds=2))
    action = tried.goes_on()
    assert isinstance(action, End)
    assert len(tried.run.attempts) == MOST_CREATES
    passes = MOST_CREATES // number_of_placements
    asked = f"{number_of_placements} placements were asked in {passes} passes with {MOST_CREATES} creates"
    assert action == End(Outcome.NO_CAPACITY, f"{asked}, none has room: no room")


def test_the_deadline_ends_the_search_as_soon_as_no_pass_begins_before_it() -> None:
    tried = Search(a_search(deadline=NOON + 36 * MINUTE))
    action = tried.goes_on()
    assert isinstance(action, End)
    assert action.outcome is Outcome.NO_CAPACITY
    assert tried.now < NOON + 36 * MINUTE
    assert Counter(tried.zones) == Counter({placement.zone: 1 for placement in PLACEMENTS}), (
        "the second pass would begin after 36.75 min"
    )


def test_each_pass_asks_every_placement_once_in_the_order_of_the_plan_and_the_pauses_grow() -> None:
    tried = Search(a_search())
    tried.goes_on()
    zones = [placement.zone for placement in PLACEMENTS]
    assert tried.zones[: 5 * 29] == 5 * zones
    ended = [attempt.ended_at for attempt in tried.run.attempts]
    began = [attempt.asked_at for attempt in tried.run.attempts]
    pauses = [began[29 * number] - ended[29 * number - 1] for number in range(1, 6)]  # type: ignore[operator]
    assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_who_waits_is_told_what_was_asked_and_when_the_next_pass_begins() -> None:
    tried = Search(a_search(PLACEMENTS[:3]))
    tried.goes_on(4)
    (wait,) = tried.waits
    assert (
        wait.why
        == f"asked 3 placements, none has room; pass 2 begins at 12:17 UTC; at most {MOST_CREATES} creates in all"
    )


def test_another_process_goes_on_with_the_same_pass() -> None:
    """All that is known of a search is in the journal's attempts."""
    tried = Search(a_search())
    tried.goes_on(25)
    other = Search(tried.run, now=tried.now + 3 * MINUTE, refuses=lambda target: target is not PLACEMENTS[-1])
    assert other.goes_on() == Launch(29, PLACEMENTS[-1])


@settings(max_examples=25)
@given(st.sets(st.integers(0, 28), min_size=1), st.integers(1, 120))
def test_wherever_there_is_room_it_is_found_before_any_placement_is_asked_again(room: set[int], seconds: int) -> None:
    placements = {PLACEMENTS[number] for number in room}
    tried = Search(a_search(), create_takes=timedelta(seconds=seconds), refuses=lambda target: target not in placements)
    assert tried.goes_on() == Launch(min(room) + 1, PLACEMENTS[min(room)])
    assert tried.waits == ()


# --- what other refusals mean for it ------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "waits"), [(NOON - MINUTE, 0), (NOON + MINUTE, 2)])
def test_a_placement_that_refused_another_run_is_asked_before_any_placement_is_asked_again(
    at: datetime, waits: int
) -> None:
    """At once where that was before this run began; else when its refusal is over."""
    other = no_capacity(PLACEMENTS[2], at, "no room", 10 * MINUTE)
    tried = Search(a_search(PLACEMENTS[:3]), refusals=(other,))
    tried.goes_on(3 + waits)
    assert tried.zones == ["zone-0", "zone-1", "zone-2"]
    assert len(tried.waits) == waits


def test_placements_that_a_quota_refuses_do_not_hold_the_others_up() -> None:
    tried = Search(a_search(), quota=lambda target: target in PLACEMENTS[:10])
    tried.goes_on(52)
    counts = Counter(tried.zones)
    assert {counts[placement.zone] for placement in PLACEMENTS[10:]} == {2}
    assert {counts[placement.zone] for placement in PLACEMENTS[:10]} == {1}


def test_a_fresh_run_that_a_quota_refuses_everywhere_does_not_wait() -> None:
    tried = Search(a_search(), quota=lambda _: True)
    assert tried.goes_on() == End(Outcome.REFUSED, "the account's quota is too small: vCPUs")
    assert (len(tried.run.attempts), tried.waits) == (29, ())


# --- where a search begins ----------------------------------------------------------------------------------------


def test_a_run_that_had_a_machine_begins_a_search_of_its_own() -> None:
    first, second = PLACEMENTS[:2]
    refused = an_attempt(1, first, ref=None, cleared=True, ended_at=NOON, reason="no room")
    went = an_attempt(2, second, cleared=True, end=EndKind.RECLAIMED, ended_at=NOON + HOUR, step=10)
    run = a_search((first, second), made=(refused, went), phase=Phase.INTERRUPTED)
    assert search(run, run.targets, (), NOON + HOUR).creates == 0
    assert where_next(run, Look(), NOON + HOUR) == Launch(3, first)


def test_a_run_that_is_launched_again_begins_a_search_of_its_own() -> None:
    tried = Search(a_search(PLACEMENTS[:3]))
    tried.goes_on(3)
    done = replace(tried.run, phase=Phase.DONE, outcome=Outcome.NO_CAPACITY, again_at=tried.now + MINUTE)
    again = Search(done, now=tried.now + MINUTE, refusals=tried.refusals, refuses=lambda _: False)
    assert again.goes_on() == Launch(4, PLACEMENTS[0])


def test_a_create_that_waited_in_vain_counts_as_one_and_one_that_was_reclaimed_does_not() -> None:
    vain = an_attempt(1, PLACEMENTS[0], cleared=True, end=EndKind.NO_CAPACITY, ended_at=NOON)
    assert search(a_search(made=(vain,)), PLACEMENTS, (), NOON).creates == 1
    lost = replace(vain, end=EndKind.LOST)
    assert search(a_search(made=(lost,)), PLACEMENTS, (), NOON).creates == 0


def test_a_placement_is_the_same_at_another_price_and_another_one_in_another_zone_or_market() -> None:
    here = PLACEMENTS[0]
    assert placement_of(here) == placement_of(
        replace(here, offer=replace(here.offer, usd_per_hour=here.offer.usd_per_hour * 2))
    )
    assert placement_of(here) != placement_of(replace(here, zone="zone-9"))
    assert placement_of(here) != placement_of(replace(here, offer=replace(here.offer, market=Market.SPOT)))


def test_pauses_double_up_to_the_longest() -> None:
    assert [pause_after(number) for number in (1, 2, 3, 4, 600)] == [
        15 * MINUTE, 30 * MINUTE, 60 * MINUTE, 60 * MINUTE, 60 * MINUTE
    ]  # fmt: skip
    assert pause_after(3, ASK_SPOT_AGAIN) == 20 * MINUTE
    assert FIRST_PAUSE >= LOST_MEMORY, "what a placement answered stands no longer than the first pause"


# --- under a deadline that spot and on demand are weighed against --------------------------------------------------


def spot_and_on_demand(number: int) -> tuple[Target, ...]:
    spot = [
        a_target("0.1", provider="aws", region=f"s{index}", zone=f"s{index}", market=Market.SPOT, seconds=7200.0)
        for index in range(number)
    ]
    demand = a_target("0.4", provider="aws", region="d", zone="d", seconds=7200.0)
    return (*spot, demand)


def test_spot_is_asked_in_whole_passes_with_pauses_that_grow_until_on_demand_has_to_take_over() -> None:
    """28 placements of spot, none with room, under a deadline of a day: a pass over spot takes longer than its
    memory."""
    placements = spot_and_on_demand(28)
    run = a_search(
        placements, deadline=NOON + 24 * HOUR, deadline_given=True, total_steps=1000, checkpoint_seconds=60.0
    )
    tried = Search(run, refuses=lambda target: target.offer.market is Market.SPOT)
    action = tried.goes_on()
    assert isinstance(action, Launch)
    assert action.target == placements[-1], "on demand is there when it is needed"
    assert tried.zones[:56] == 2 * [placement.zone for placement in placements[:28]]
    counts = Counter(tried.zones)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len(tried.run.attempts) <= MOST_CREATES
    assert tried.now < NOON + 22 * HOUR
