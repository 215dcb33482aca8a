"""Every field of a run and of its attempts comes back from the journal as it was put: the fields are those of the type,
so that one that is added is tried here without an edit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import count
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import pytest

from tests.builders import RUN_ID
from tests.doubles.clock import NOON
from trainplan.planner.errors import OutdatedError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.rows import SET_BESIDE, SET_ONCE
from trainplan.planner.runs.run import Attempt, Outcome, Phase, Run
from trainplan.pricing.offers import Market


class Maker:
    """Values of a type, each another one: two fields that are mixed up do not pass for each other."""

    def __init__(self, first: int = 1) -> None:
        self.numbers = count(first)

    def value(self, kind: Any, unlike: object = MISSING) -> Any:
        """A value of the type that is not the one given."""
        if isinstance(kind, NewType):
            return self.value(kind.__supertype__, unlike)
        if get_origin(kind) in (Union, UnionType):
            return self.value(next(part for part in get_args(kind) if part is not NoneType), unlike)
        if get_origin(kind) is tuple:
            parts = get_args(kind)
            parts = (parts[0], parts[0]) if parts[-1] is ... else parts
            return tuple(self.value(part) for part in parts)
        if is_dataclass(kind):
            return self.whole(kind)
        if issubclass(kind, Enum):
            return next(member for member in reversed(kind) if member is not unlike)
        if issubclass(kind, tuple):  # a NamedTuple
            return kind(*(self.value(part) for part in get_type_hints(kind).values()))
        return self._plain(kind, unlike)

    def whole(self, kind: Any) -> Any:
        """One of a dataclass with no field at its default."""
        hints = get_type_hints(kind)
        return kind(**{known.name: self.value(hints[known.name], known.default) for known in fields(kind)})

    def _plain(self, kind: type, unlike: object) -> Any:
        number = next(self.numbers)
        made = {
            str: f"text {number} ü\n",
            bool: unlike is not True,
            int: number,
            float: number + 0.123456,
            Decimal: Decimal(f"{number}.10"),
            Fraction: Fraction(number, 7),
            dt.datetime: NOON + timedelta(minutes=number, microseconds=7),
            dt.date: NOON.date() + timedelta(days=number),
        }
        assert kind in made, f"say here how a {kind} is made"
        return made[kind]


# Not done: what has ended is changed by a new launch alone.
RUN: Run = replace(Maker().whole(Run), run_id=RUN_ID, phase=Phase.TEARING_DOWN)
RUN_FIELDS = [known.name for known in fields(Run)]
ATTEMPT_FIELDS = [known.name for known in fields(Attempt)]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "home" / "journal.sqlite") as opened:
        yield opened


def written_by_others(journal: Journal) -> None:
    """What other commands write of a run: it was launched again, asked to stop, and taken over."""
    assert RUN.again_at is not None
    assert RUN.stop_asked is not None
    journal.go_on(RUN_ID, RUN.again_at)
    journal.ask_to_stop(RUN_ID, RUN.stop_asked)
    journal.take_over(RUN_ID, NOON)
    journal.give_up_results(RUN_ID, NOON)


@pytest.mark.parametrize("value", [RUN, RUN.attempts[0]], ids=["run", "attempt"])
def test_no_field_has_the_value_that_it_would_have_unset(value: Run | Attempt) -> None:
    """Else a field that the journal forgets would look kept."""
    for known in fields(value):
        if known.default is not MISSING:
            assert getattr(value, known.name) != known.default, known.name


def test_every_field_comes_back_as_a_run_was_added(journal: Journal) -> None:
    journal.add_run(RUN, "{}", {}, NOON)
    assert journal.run(RUN_ID) == RUN


def test_every_field_comes_back_after_a_save(journal: Journal) -> None:
    journal.add_run(replace(RUN, attempts=(), targets=()), "{}", {}, NOON)
    journal.add_attempt(RUN, {}, NOON)
    written_by_others(journal)
    journal.save(RUN, NOON)
    assert journal.run(RUN_ID) == RUN


@pytest.mark.parametrize("name", [name for name in RUN_FIELDS if name not in ("run_id", "attempts", *SET_BESIDE)])
def test_each_field_of_a_run_is_saved_and_unset(journal: Journal, name: str) -> None:
    """But for those that other commands set; they are in test_journal.py."""
    known = next(known for known in fields(Run) if known.name == name)
    other: Any = known.default
    if other is MISSING:
        other = Maker(1000).value(get_type_hints(Run)[name], getattr(RUN, name))
    other = Phase.COLLECTING if name == "phase" else other  # what has ended does not go back
    assert other != getattr(RUN, name)
    journal.add_run(RUN, "{}", {}, NOON)
    for run in (replace(RUN, **{name: other}), RUN):
        journal.save(run, NOON)
        assert journal.run(RUN_ID) == run


@pytest.mark.parametrize("name", [name for name in ATTEMPT_FIELDS if name not in ("number", *SET_ONCE)])
def test_each_field_of_an_attempt_is_saved_and_unset(journal: Journal, name: str) -> None:
    """But for those of its request: they stay as they were when it was sent."""
    known = next(known for known in fields(Attempt) if known.name == name)
    unset = RUN.with_attempt(replace(RUN.attempts[-1], **{name: known.default}))  # type: ignore[arg-type]
    assert unset != RUN
    journal.add_run(RUN, "{}", {}, NOON)
    for run in (unset, RUN):
        journal.save(run, NOON)
        assert journal.run(RUN_ID) == run


def test_every_field_comes_back_after_a_new_attempt(journal: Journal) -> None:
    """Which has no outcome, and nothing that may be left of its former life."""
    journal.add_run(replace(RUN, moving=None, slow=None, targets=(), budget_usd=None), "{}", {}, NOON)
    written_by_others(journal)
    journal.add_attempt(RUN, {}, NOON)
    assert journal.run(RUN_ID) == replace(RUN, outcome=None, message=None, unverified=None)


@pytest.mark.parametrize("market", [Market.SPOT, Market.ON_DEMAND, None])
def test_a_decided_move_is_remembered_until_it_is_over(journal: Journal, market: Market | None) -> None:
    journal.add_run(replace(RUN, attempts=(), moving=None), "{}", {}, NOON)
    journal.save(replace(RUN, attempts=(), moving=market), NOON)
    assert journal.run(RUN_ID).moving is market


ENDED = replace(RUN, phase=Phase.DONE, outcome=Outcome.SUCCEEDED)


@pytest.mark.parametrize(
    ("ended", "later"),
    [
        (ENDED, replace(ENDED, outcome=Outcome.DEADLINE)),
        (ENDED, replace(RUN, phase=Phase.TEARING_DOWN)),
        (ENDED, replace(RUN, phase=Phase.LAUNCHING)),
        (ENDED, replace(RUN, phase=Phase.COLLECTING)),
        (replace(ENDED, outcome=Outcome.DEADLINE), replace(ENDED, outcome=Outcome.FAILED)),
        (replace(ENDED, outcome=Outcome.STOPPED), replace(RUN, phase=Phase.RUNNING)),
    ],
)
def test_the_end_of_a_run_is_not_replaced_by_whoever_acts_on_what_it_was_before(
    journal: Journal, ended: Run, later: Run
) -> None:
    journal.add_run(ended, "{}", {}, NOON)
    refused = f"ended by another command meanwhile: {ended.outcome}"
    with pytest.raises(OutdatedError, match=refused):
        journal.save(later, NOON)
    with pytest.raises(OutdatedError, match=refused):
        journal.add_attempt(later, {}, NOON)
    assert journal.run(RUN_ID) == ended


@pytest.mark.parametrize("phase", [Phase.LAUNCHING, Phase.COLLECTING])
def test_an_end_that_was_no_success_is_left_for_a_new_launch_or_for_results_in_the_store(
    journal: Journal, phase: Phase
) -> None:
    journal.add_run(replace(ENDED, outcome=Outcome.DEADLINE), "{}", {}, NOON)
    journal.save(replace(RUN, phase=phase, outcome=None), NOON)
    assert journal.run(RUN_ID).phase is phase
