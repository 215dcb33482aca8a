"""One run as data: which moves there are, what an attempt and a run cost, and when an instance ends itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from tests.builders import BILLING, a_run, a_target, an_attempt
from tests.doubles.clock import NOON
from tests.rows import each_row
from trainplan.planner.runs.run import (
    INTERRUPTIONS,
    MOVES,
    OUTCOMES,
    Attempt,
    MoveError,
    Outcome,
    Phase,
    attempt_deadline,
)
from trainplan.pricing.offers import Market
from trainplan.providers.base import EndKind

HOUR = timedelta(hours=1)

P, L, B, R, C, T, I, D = Phase  # noqa: E741  in the order of the class
ALLOWED = {
    *((P, L), (L, B), (B, R), (R, C), (C, T), (T, D)),  # a plain run
    (B, C),  # over before it was looked at
    *((P, T), (L, T), (B, T), (R, T)),  # ended early
    *((L, I), (B, I), (R, I), (I, L), (I, T)),  # interrupted
    (D, L),  # the person launches the same job again
    *((I, C), (D, C)),  # what it left in its store is brought home
}


@each_row(("start", "target"), list(product(Phase, Phase)))
def test_a_run_makes_the_allowed_moves_and_no_other(start: Phase, target: Phase) -> None:
    run = a_run(start)
    if (start, target) in ALLOWED:
        assert run.moved(target) == replace(run, phase=target)
    else:
        with pytest.raises(MoveError, match=f"cannot go from {start} to {target}"):
            run.moved(target)


def test_every_phase_has_a_way_on_and_every_phase_but_the_first_a_way_in() -> None:
    assert set(MOVES) == set(Phase)
    assert all(MOVES.values())
    assert set().union(*MOVES.values()) == set(Phase) - {P}


def test_from_every_phase_there_is_a_way_to_done() -> None:
    reaching = {D}
    for _ in Phase:
        reaching |= {phase for phase, targets in MOVES.items() if targets & reaching}
    assert reaching == set(Phase)


def test_done_is_never_reached_past_teardown() -> None:
    assert {phase for phase, targets in MOVES.items() if D in targets} == {T}


def test_every_way_an_instance_can_end_has_an_outcome() -> None:
    assert set(OUTCOMES) == set(EndKind)
    assert {outcome for outcome in Outcome if not outcome.resumable} == {Outcome.SUCCEEDED}


def test_what_takes_an_instance_away_does_not_end_the_run() -> None:
    taken = {EndKind.KILLED, EndKind.LOST, EndKind.RECLAIMED, EndKind.DEVICE_LOST}
    assert taken == INTERRUPTIONS


def test_an_attempt_takes_the_place_of_its_number_or_comes_last() -> None:
    run = a_run(attempts=2)
    assert run.attempt == an_attempt(2)
    again = run.with_attempt(an_attempt(2, exit_code=70))
    assert [(attempt.number, attempt.exit_code) for attempt in again.attempts] == [(1, None), (2, 70)]
    third = again.with_attempt(Attempt(number=3))
    assert [attempt.number for attempt in third.attempts] == [1, 2, 3]
    assert (a_run().attempt, a_run().live, a_run(D).live) == (None, True, False)


# --- what it costs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "usd"),
    [
        ({}, "0.72"),  # two hours at $0.36
        ({"ended_at": NOON + HOUR}, "0.36"),
        ({"ended_at": NOON + HOUR, "cleared": True}, "0.36"),
        ({"ref": None}, "0.72"),  # a create whose reply is awaited may have made something
        ({"ref": None, "cleared": True, "ended_at": NOON + HOUR}, "0"),  # refused: nothing was made
        ({"asked_at": None}, "0"),
        ({"asked_at": NOON + 3 * HOUR}, "0"),  # a clock that was set back
        ({"queued": True}, "0"),  # nothing is charged for waiting
        ({"bills_from": NOON + HOUR}, "0.36"),
        ({"bills_from": NOON + HOUR, "ended_at": NOON + 1.5 * HOUR, "cleared": True}, "0.18"),
        ({"bills_from": NOON - HOUR}, "0.72"),  # clocks that go apart
        ({"end": EndKind.NO_CAPACITY, "queued": True, "ended_at": NOON + HOUR, "cleared": True}, "0"),
    ],
)
def test_an_attempt_costs_from_the_request_to_its_end(changes: dict[str, Any], usd: str) -> None:
    assert an_attempt(**changes).cost_usd(NOON + 2 * HOUR) == Decimal(usd)


def test_an_attempt_of_an_earlier_version_names_no_price() -> None:
    attempt = Attempt(number=1, asked_at=NOON)
    assert (attempt.cost_usd(NOON + HOUR), attempt.usd_per_hour) == (0, 0)


def test_an_attempt_is_billed_as_its_offer_is() -> None:
    """A minute at least."""
    target = a_target("3600", billing=BILLING)
    assert an_attempt(target=target).cost_usd(NOON + timedelta(seconds=1)) == 60
    assert an_attempt(target=target).cost_usd(NOON + timedelta(seconds=61)) == 61


def test_a_run_costs_what_its_attempts_cost_with_disk_and_address_and_once_what_was_transferred() -> None:
    attached = {"disk_usd_per_hour": Decimal("0.02"), "address_usd_per_hour": Decimal("0.01")}
    sent = {"traffic_usd": Decimal("0.5"), "download_usd": Decimal(1)}
    dear, cheap = a_target("3.6", **attached, **sent), a_target("0.36", traffic_usd=Decimal("0.2"))
    run = a_run(
        R,
        made=(
            an_attempt(1, dear, ended_at=NOON + HOUR, gone_at=NOON + 2 * HOUR, cleared=True),
            an_attempt(2, dear, ref=None, ended_at=NOON + HOUR, cleared=True),
            an_attempt(3, cheap, asked_at=NOON + HOUR),
        ),
        budget_usd=Decimal(10),
    )
    now = NOON + 2 * HOUR
    assert run.cost_usd(now) == Decimal("3.96")
    # The disk and the address of the first outlived their machine by an hour; the model has not come home.
    assert run.billed_usd(now) == (Decimal("3.96"), Decimal("0.04"), Decimal("0.02"), Decimal("0.5"))
    assert run.total_usd(now) == Decimal("4.52")
    assert run.left_usd(now) == Decimal("6.04")
    assert a_run().left_usd(now) is None
    assert a_run().total_usd(now) == 0


def test_the_models_way_home_is_paid_once_it_is_at_home() -> None:
    made = (an_attempt(1, a_target(download_usd=Decimal("0.5")), ended_at=NOON, cleared=True),)
    assert a_run(D, made=made, outcome=Outcome.SUCCEEDED).billed_usd(NOON).transfer == Decimal("0.5")
    assert a_run(D, made=made, outcome=Outcome.STOPPED).billed_usd(NOON).transfer == 0
    home = (replace(made[0], results_at_home=True),)
    assert a_run(D, made=home, outcome=Outcome.BUDGET).billed_usd(NOON).transfer == Decimal("0.5")
    again = (*home, replace(home[0], number=2))
    assert a_run(D, made=again, outcome=Outcome.SUCCEEDED).billed_usd(NOON).transfer == 1
    assert a_run(D, made=made, outcome=Outcome.SUCCEEDED, model_folder="").billed_usd(NOON).transfer == 0


def test_what_may_not_have_been_billed_is_what_lies_between_the_earliest_and_the_latest_end() -> None:
    target = a_target("3.6", disk_usd_per_hour=Decimal("0.02"), address_usd_per_hour=Decimal("0.01"))
    told = an_attempt(1, target, ended_at=NOON + HOUR, gone_at=NOON + HOUR, cleared=True)
    assert told.uncertain_usd == (0, 0, 0, 0)
    found_later = replace(told, gone_at=NOON + 3 * HOUR, gone_after=NOON + HOUR)
    assert found_later.uncertain_usd == (0, Decimal("0.04"), Decimal("0.02"), 0)
    assert replace(found_later, ended_after=NOON).uncertain_usd == (Decimal("3.6"), Decimal("0.04"), Decimal("0.02"), 0)


def test_a_disk_that_goes_with_its_machine_costs_until_then_whenever_somebody_looks() -> None:
    target = a_target("3.6", disk_usd_per_hour=Decimal("0.02"), address_usd_per_hour=Decimal("0.01"))
    late = an_attempt(1, target, ended_at=NOON + HOUR, gone_at=NOON + 9 * HOUR, gone_after=NOON + HOUR, cleared=True)
    both = replace(late, disk_gone_at=NOON + HOUR, address_gone_at=NOON + HOUR)
    assert both.attached_usd(NOON + 10 * HOUR) == (Decimal("0.02"), Decimal("0.01"))
    assert both.uncertain_usd == (0, 0, 0, 0)
    disk_stayed = replace(both, disk_gone_at=None, gone_after=NOON + 9 * HOUR)
    assert disk_stayed.attached_usd(NOON + 10 * HOUR) == (Decimal("0.18"), Decimal("0.01"))
    assert disk_stayed.uncertain_usd == (0, 0, 0, 0)
    unsure = replace(both, ended_after=NOON, ended_before=None)
    assert unsure.uncertain_usd == (Decimal("3.6"), Decimal("0.02"), Decimal("0.01"), 0)


def test_at_the_latest_a_machine_ended_as_late_as_it_can_have() -> None:
    silent = an_attempt(1, a_target("3.6"), ended_at=NOON + HOUR, ended_after=NOON, ended_before=NOON + 2 * HOUR)
    run = a_run(B, made=(silent,))
    assert run.cost_usd(NOON + 3 * HOUR) == Decimal("3.6")  # what is decided rests on the likeliest
    assert run.at_latest.cost_usd(NOON + 3 * HOUR) == run.at_latest.uncertain_usd.compute == Decimal("7.2")


def test_what_nobody_saw_begin_is_charged_from_its_request_on_at_most() -> None:
    unseen = an_attempt(1, a_target("3.6"), ended_at=NOON + 4 * HOUR, bills_by=NOON + 3 * HOUR, cleared=True)
    assert (unseen.cost_usd(NOON + 9 * HOUR), unseen.uncertain_usd.compute) == (Decimal("14.4"), Decimal("10.8"))


def test_where_a_run_waits_nothing_is_stored_or_sent_either() -> None:
    run = a_run(B, made=(an_attempt(1, a_target("3.6", traffic_usd=Decimal("0.5")), queued=True),))
    assert run.total_usd(NOON + HOUR) == 0
    assert run.bills, "it may get its machine at any time"


def test_what_an_hour_costs_is_that_of_the_newest_attempt_or_of_the_first_placement() -> None:
    placements = (a_target("1"), a_target("2"))
    assert a_run(targets=placements).usd_per_hour == 1
    assert a_run(R, targets=placements, made=(an_attempt(1, placements[1]),)).usd_per_hour == 2
    assert a_run(targets=()).usd_per_hour == 0


@pytest.mark.parametrize(
    ("phase", "attempts", "bills"),
    [
        (P, (), False),
        (L, (an_attempt(ref=None),), True),
        (B, (an_attempt(),), True),
        (T, (an_attempt(),), True),
        (I, (an_attempt(),), True),
        (I, (an_attempt(cleared=True),), False),
        (L, (an_attempt(cleared=True), an_attempt(2, ref=None)), True),
        (D, (an_attempt(),), False),
    ],
)
def test_a_run_bills_until_nothing_of_its_newest_attempt_is_left(
    phase: Phase, attempts: tuple[Attempt, ...], bills: bool
) -> None:
    assert a_run(phase, made=attempts).bills is bills


@pytest.mark.parametrize(
    ("target", "budget", "spent_hours", "lasting"),
    [
        (a_target("1"), None, 0, timedelta(hours=1)),
        (a_target("1"), "100", 0, timedelta(hours=1)),
        (a_target("4"), "2", 0, timedelta(minutes=30)),
        (a_target("4", fixed_usd=Decimal(1)), "2", 0, timedelta(minutes=15)),
        # Spot may cost what on demand does.
        (a_target("1", market=Market.SPOT, on_demand_usd_per_hour=Decimal(8)), "2", 0, timedelta(minutes=15)),
        # An hour of the first attempt, at $0.36, is gone.
        (a_target("4"), "2.36", 1, timedelta(minutes=30)),
        (a_target("0"), "1", 0, timedelta(hours=1)),
    ],
)
def test_an_instance_ends_itself_at_the_deadline_or_when_the_budget_is_spent_at_the_highest_price(
    target: Any, budget: str | None, spent_hours: int, lasting: timedelta
) -> None:
    now = NOON + spent_hours * HOUR
    ended = (an_attempt(ended_at=now, cleared=True),) if spent_hours else ()
    run = a_run(deadline=now + HOUR, made=ended, budget_usd=Decimal(budget) if budget else None, targets=(target,))
    assert attempt_deadline(run, target, now) == now + lasting
