"""One run as data: which moves there are, and what to do next in every phase."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from planner.run import (
    BOOT_GRACE,
    MOVES,
    OUTCOMES,
    Action,
    AskToStop,
    Attempt,
    Collect,
    End,
    Launch,
    MoveError,
    Nothing,
    Outcome,
    Phase,
    Wait,
    next_action,
)
from providers.base import EndKind, InstanceState
from tests.builders import a_ref, a_run, an_instance
from tests.doubles.clock import NOON

if TYPE_CHECKING:
    from datetime import datetime

    from providers.base import Instance

SOON = NOON + timedelta(minutes=5)
LATE = NOON + timedelta(hours=1) + BOOT_GRACE + timedelta(seconds=1)

P, L, B, R, C, T, I, D = Phase  # noqa: E741  in the order of the class
ALLOWED = {
    *((P, L), (L, B), (B, R), (R, C), (C, T), (T, D)),  # a plain run
    (B, C),  # over before it was looked at
    *((P, T), (L, T), (B, T), (R, T)),  # ended early
    *((L, I), (B, I), (R, I), (I, L), (I, T)),  # interrupted
    (D, L),  # the person launches the same job again
}


@pytest.mark.parametrize(("start", "target"), list(product(Phase, Phase)))
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


PENDING, WORKING, STOPPING = (
    an_instance(state) for state in (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.STOPPING)
)
LOST = End(Outcome.FAILED, "the instance disappeared")
LATE_END = End(Outcome.DEADLINE, "the deadline has passed")


def ended(kind: EndKind | None, reason: str | None = "why") -> Instance:
    return an_instance(InstanceState.ENDED, end=kind, reason=reason)


def _while_training() -> list[tuple[dict[str, Any], Instance | None, datetime, Action]]:
    asked = {"stop_asked": NOON}
    measuring = {"model_folder": ""}
    return [
        ({}, None, SOON, LOST),
        ({}, PENDING, SOON, Wait()),
        ({}, WORKING, SOON, Wait()),
        ({}, STOPPING, SOON, Wait()),
        (asked, PENDING, SOON, AskToStop()),
        (asked, WORKING, SOON, AskToStop()),
        (asked, STOPPING, SOON, Wait()),
        (asked, None, SOON, LOST),
        ({}, PENDING, LATE, LATE_END),
        ({}, WORKING, LATE, LATE_END),
        (asked, STOPPING, LATE, LATE_END),
        ({}, WORKING, LATE - timedelta(seconds=1), Wait()),
        ({}, ended(EndKind.DONE), SOON, Collect()),
        ({}, ended(EndKind.DONE), LATE, Collect()),
        (asked, ended(EndKind.DONE), SOON, Collect()),
        (measuring, ended(EndKind.DONE), SOON, End(Outcome.SUCCEEDED, "")),
        ({}, ended(EndKind.STOPPED), SOON, End(Outcome.STOPPED, "why")),
        ({}, ended(EndKind.DEADLINE), LATE, End(Outcome.DEADLINE, "why")),
        ({}, ended(EndKind.BAD_JOB), SOON, End(Outcome.FAILED, "why")),
        ({}, ended(EndKind.FAILED), SOON, End(Outcome.FAILED, "why")),
        ({}, ended(EndKind.OUT_OF_MEMORY), SOON, End(Outcome.FAILED, "why")),
        ({}, ended(EndKind.KILLED, None), SOON, End(Outcome.FAILED, "killed")),
        ({}, ended(EndKind.LOST), SOON, End(Outcome.FAILED, "why")),
        ({}, ended(None, None), SOON, End(Outcome.FAILED, "lost")),
    ]


@pytest.mark.parametrize("phase", [B, R])
@pytest.mark.parametrize(("changes", "seen", "now", "action"), _while_training())
def test_what_to_do_while_an_instance_is_there(
    phase: Phase, changes: dict[str, Any], seen: Instance | None, now: datetime, action: Action
) -> None:
    assert next_action(a_run(phase, attempts=1, **changes), seen, now) == action


@pytest.mark.parametrize("seen", [None, PENDING, WORKING, STOPPING, ended(EndKind.DONE), ended(EndKind.LOST)])
@pytest.mark.parametrize("now", [SOON, LATE])
@pytest.mark.parametrize(
    ("phase", "attempts", "changes", "action"),
    [
        (P, 0, {}, Launch(1)),
        (L, 0, {}, Launch(1)),
        (L, 1, {}, Launch(1)),
        (L, 2, {}, Launch(2)),
        (I, 1, {}, Launch(2)),
        (C, 1, {}, Collect()),
        (T, 1, {"outcome": Outcome.STOPPED, "message": "why"}, End(Outcome.STOPPED, "why")),
        (T, 1, {"outcome": Outcome.SUCCEEDED}, End(Outcome.SUCCEEDED, "")),
        (T, 1, {}, End(Outcome.FAILED, "")),
        (D, 1, {"outcome": Outcome.SUCCEEDED}, Nothing()),
    ],
)
def test_otherwise_what_is_recorded_decides_alone(
    phase: Phase, attempts: int, changes: dict[str, Any], action: Action, seen: Instance | None, now: datetime
) -> None:
    assert next_action(a_run(phase, attempts=attempts, **changes), seen, now) == action


def test_an_attempt_takes_the_place_of_its_number_or_comes_last() -> None:
    run = a_run(attempts=2)
    assert run.attempt == Attempt(number=2, ref=a_ref(2))
    again = run.with_attempt(Attempt(number=2, ref=a_ref(2), exit_code=70))
    assert [(attempt.number, attempt.exit_code) for attempt in again.attempts] == [(1, None), (2, 70)]
    third = again.with_attempt(Attempt(number=3))
    assert [attempt.number for attempt in third.attempts] == [1, 2, 3]
    assert (a_run().attempt, a_run().live, a_run(D).live) == (None, True, False)
