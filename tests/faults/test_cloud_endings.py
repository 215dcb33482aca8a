"""Each cloud's double says who ended its machines, and what they had been doing, for every way in which they end."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.doubles.clock import NOON
from tests.doubles.endings import end_record, fields_of, is_sign_of_training
from tests.faults.cases import CASES, Then
from tests.faults.clouds import REAL as REAL_ROWS
from tests.faults.clouds import cloud_of
from tests.faults.harness import Cloud, EndedBy, Lived, Work
from tests.faults.trial import Trial, run_trial

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")

REAL = tuple(row.name for row in REAL_ROWS)
LATE_POINT = 45
"""The machine is there by then, and its trainer has begun; the launch has fewer than 50 points where it hangs."""


def machines(provider: str, case_name: str, then: Then, point: int | None) -> list[Lived]:
    """Our machines in the ledger, after a launch of this case and what is done at its point."""
    made: list[Cloud] = []

    def cloud(case: str) -> Cloud:
        made.append(cloud_of(provider)(case))
        return made[-1]

    (case,) = [known for known in CASES if known.name == case_name]
    verdict = run_trial(Trial(case, then, point), cloud)  # type: ignore[arg-type]
    assert verdict.good, verdict
    rows = made[-1].ledger()
    made[-1].let_go()
    return [row for row in rows if row.machine and row.ours]


def work_of(row: Lived) -> Work:
    assert row.work is not None
    return row.work


@pytest.mark.parametrize("provider", REAL)
def test_a_machine_whose_trainer_is_done_is_ended_by_its_agent(provider: str) -> None:
    (row,) = machines(provider, "plain", Then.STATUS, None)
    work = work_of(row)
    assert row.ended_by is EndedBy.AGENT
    assert row.why
    assert work.deadline is not None
    assert work.progress_at is not None
    assert work.trained_at is not None
    assert row.ended_at is not None
    assert row.created_at < work.progress_at <= work.trained_at <= row.ended_at <= work.deadline
    assert work.home_at == work.trained_at
    assert (work.stop_asked_at, work.taken_at) == (None, None)
    assert work.boots_since is not None
    assert row.created_at <= work.boots_since < work.progress_at


@pytest.mark.parametrize("provider", REAL)
def test_a_machine_that_is_taken_back_is_ended_by_its_provider(provider: str) -> None:
    first, second = machines(provider, "reclaim", Then.STATUS, None)
    assert (first.ended_by, second.ended_by) == (EndedBy.PROVIDER, EndedBy.AGENT)
    assert first.why
    assert work_of(first).progress_at is not None


@pytest.mark.parametrize("provider", REAL)
def test_a_machine_that_hangs_until_its_deadline_is_ended_by_its_own_timer(provider: str) -> None:
    (row,) = machines(provider, "machine's timer", Then.NEVER, LATE_POINT)
    work = work_of(row)
    assert row.ended_by is EndedBy.MACHINE_TIMER
    assert work.trained_at is None
    assert work.progress_at is not None
    assert row.ended_at is not None
    assert work.deadline is not None
    assert work.deadline <= row.ended_at


@pytest.mark.parametrize("provider", ["aws", "gcp", "tpu", "slurm"])
def test_a_machine_whose_own_timer_fails_is_ended_by_the_clouds(provider: str) -> None:
    """Azure's own only deallocates; tests/contract has that."""
    (row,) = machines(provider, "cloud's timer", Then.NEVER, LATE_POINT)
    assert row.ended_by is EndedBy.CLOUD_TIMER
    assert work_of(row).trained_at is None


@pytest.mark.parametrize("provider", REAL)
def test_a_machine_that_a_cleanup_deletes_is_ended_by_a_command(provider: str) -> None:
    rows = machines(provider, "cleanup", Then.CLEANUP, LATE_POINT)
    assert [row.ended_by for row in rows] == [EndedBy.COMMAND]


def a_row(**changes: Any) -> dict[str, Any]:
    return {"id": "i-1", "ended_at": NOON.isoformat(), **end_record(EndedBy.COMMAND, "a delete", Work()), **changes}


def test_an_end_that_nobody_can_be_named_for_is_an_error_of_the_double() -> None:
    assert fields_of(a_row())["ended_by"] is EndedBy.COMMAND
    for wrong in ({"ended_by": None}, {"ended_at": None}, {"why": ""}):
        with pytest.raises(AssertionError):
            fields_of(a_row(**wrong))


def test_what_was_done_comes_back_as_it_was_told() -> None:
    work = Work(deadline=NOON, progress_at=NOON)
    assert fields_of({"id": "i-1", "ended_at": None, **end_record(None, "", work)})["work"] == work


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("attempts/1/progress.jsonl", True),
        ("attempts/12/status.json", True),
        ("attempts/1/machine/spec.json", False),
        ("checkpoints/step-00000010/complete.json", False),
        ("control/stop", False),
        (None, False),
    ],
)
def test_a_sign_of_training_is_what_a_trainer_alone_writes(path: str | None, is_one: bool) -> None:
    assert is_sign_of_training(path) is is_one
