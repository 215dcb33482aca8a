"""What tests write into a journal: runs, numbered runs, attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.builders import RUN_ID, a_job, a_run, a_target
from tests.doubles.clock import NOON
from trainplan.planner.runs.run import Attempt, Phase, Run
from trainplan.providers.base import RunId

if TYPE_CHECKING:
    from trainplan.planner.runs.journal.journal import Journal

LATER = NOON + timedelta(minutes=1)


def add(journal: Journal, run: Run, **estimate: object) -> Run:
    journal.add_run(run, a_job().to_json(), estimate, NOON)
    return run


def a_numbered_run(number: int, phase: Phase = Phase.PLANNED, **changes: Any) -> Run:
    created = NOON + timedelta(minutes=number)
    return a_run(phase, run_id=RunId(f"run-{number}"), created_at=created, **changes)


def attempted(journal: Journal, number: int = 1, at: datetime = NOON, **request: object) -> None:
    """The run with its next attempt, asked for."""
    run = journal.run(RUN_ID)
    attempt = Attempt(number=number, target=a_target(), asked_at=at, sent_at=at)
    journal.add_attempt(replace(run.with_attempt(attempt), phase=Phase.LAUNCHING), dict(request), at)
