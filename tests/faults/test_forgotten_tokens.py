"""A launch that is cut off right after its create, and taken up days later: one machine, and its model at home.

By then the vendor shows the machine no more, and has forgotten the create's token.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.faults import clients
from tests.faults.cases import CASES, Case
from tests.faults.clients import Desk
from tests.faults.clouds import NAMES, cloud_of, row_of
from tests.faults.forks import die, forked
from tests.faults.harness import Cloud
from tests.faults.planted import planted
from tests.faults.points import Points
from trainplan.planner.runs.run import Outcome

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")

CASE = replace(next(case for case in CASES if case.name == "plain"), deadline="120h")


def points_of(desk: Desk) -> list[str]:
    """Of a launch that nobody disturbs."""
    told: list[list[str]] = []

    def answer(message: tuple[Any, ...]) -> Any:
        if message[0] == "points":
            told.append(list(message[1]))
            return None
        return None if message[0] == "said" else desk.cloud.answer(message)

    forked(lambda ask: clients.launch(desk, ask, Points()), answer)
    desk.cloud.let_go()
    return told[-1]


def taken_up(provider: str, pause: timedelta, folder: Path, case: Case = CASE) -> tuple[Desk, list[str]]:
    """The desk after a launch that died right behind its create and was attached to after the pause; what was said."""

    def cloud() -> Cloud:
        return cloud_of(provider)("plain")

    names = points_of(Desk(home=folder / "first", case=CASE, cloud=cloud()))
    desk = Desk(home=folder / "home", case=case, cloud=cloud())
    after = names.index(f"after {row_of(provider).create}")
    said: list[str] = []

    def answer(message: tuple[Any, ...]) -> Any:
        if message[0] == "said":
            said.append(message[1])
        return None if message[0] in ("said", "points") else desk.cloud.answer(message)

    assert forked(lambda ask: clients.launch(desk, ask, Points(at=after, happens=die)), answer)
    rows = [row for row in desk.cloud.ledger() if row.ours]
    # What waits in a queue has no machine yet.
    assert [row.remaining for row in [row for row in rows if row.machine] or rows[:1]] == [True]
    desk.cloud.pass_time(desk.cloud.now() + pause)
    forked(lambda ask: clients.attach(desk, ask), answer)
    return desk, said


def machines_of(desk: Desk) -> int:
    """How many machines of ours there ever were."""
    made = [row for row in desk.cloud.ledger() if row.machine and row.ours]
    desk.cloud.let_go()
    return len(made)


@pytest.mark.parametrize("pause", [timedelta(hours=3), timedelta(days=2)])
@pytest.mark.parametrize("provider", NAMES)
def test_one_machine_was_made_and_its_model_comes_home(provider: str, pause: timedelta, tmp_path: Path) -> None:
    desk, said = taken_up(provider, pause, tmp_path)
    made, run = machines_of(desk), desk.recorded()
    assert run is not None
    assert (made, run.outcome) == (1, Outcome.SUCCEEDED), said
    assert (desk.home / "model" / "model.keras").is_file()


@pytest.mark.parametrize("provider", ["sim", "aws"])
def test_a_client_that_replays_a_forgotten_token_is_noticed_by_its_second_machine(
    provider: str, tmp_path: Path
) -> None:
    """It does no harm at Google and Azure: there the names and operations of the attempt are looked up before."""
    careless = replace(CASE, break_code=planted("replays a forgotten token").plant)
    desk, _ = taken_up(provider, timedelta(days=2), tmp_path, careless)
    assert machines_of(desk) > 1
