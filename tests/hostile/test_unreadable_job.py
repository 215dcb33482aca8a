"""A job in the journal that cannot be read any more: the run ends as it would, and a sentence says what is missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import a_target
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import SIGHTING_OF_END, FakeMachine, Sighting, trains_well
from tests.doubles.fake_provider import FakeProvider
from trainplan.planner.errors import StateError
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.providers.base import EndKind

BAD_JOBS = ("{", "null", "[]", "", "[" * 10_000, '{"name": "\x1b]0;x\x07"}')


@pytest.mark.parametrize("name", ["local", "aws"])
@pytest.mark.parametrize("job_json", BAD_JOBS, ids=range(len(BAD_JOBS)))
def test_a_job_that_cannot_be_read_costs_the_receipt_a_line(tmp_path: Path, name: str, job_json: str) -> None:
    desk = Desk(tmp_path)
    desk.provider = FakeProvider(desk.clock, name=name)

    def spoilt(machine: FakeMachine) -> Iterator[Sighting]:
        for seen in trains_well(machine):
            if seen is SIGHTING_OF_END[EndKind.DONE]:
                with closing(sqlite3.connect(desk.settings.journal)) as db, db:
                    db.execute("UPDATE runs SET job_json = ?", (job_json,))
            yield seen

    desk.scripts(spoilt)
    run, receipt = desk.launch(targets=[a_target(provider=name)])
    assert (run.phase, run.outcome) == (Phase.DONE, Outcome.SUCCEEDED)
    assert desk.leaked == []
    assert desk.journal.receipt(run.run_id) == receipt.to_json()
    told = " ".join(event.text for event in desk.events_of(Message))
    assert f"the job of run {run.run_id} in the journal cannot be read" in told
    with pytest.raises(StateError, match="cannot be read"):
        desk.runner().request_maker(run, client="")
    desk.close()
