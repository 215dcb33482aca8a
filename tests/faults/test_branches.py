"""Trials of one launch are played together: each ends as it does alone, whatever the others have done before it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.all_points import MOST_TOGETHER, all_trials, named_points, together
from tests.faults.aws import AwsCloud
from tests.faults.branches import at_point, launch_of, played
from tests.faults.cases import CASES, Then
from tests.faults.clients import Desk
from tests.faults.defects import DEFECTS
from tests.faults.gcp import GcpCloud
from tests.faults.hours import Scene as LongScene
from tests.faults.hours import Typed
from tests.faults.sim import SimCloud
from tests.faults.trial import Scene, run_trial, tried_together
from tests.faults.verdict import MakeCloud, Trial, Verdict

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")

PLAIN, DETACHED = (next(case for case in CASES if case.name == name) for name in ("plain", "absent"))
POINTS = (30, 60, 85)
"""While the machine boots, while it trains, while the results are brought home."""


def ends(trials: Sequence[Trial], folder: Path) -> dict[str, list[str]]:
    """What each trial leaves in the cloud's ledger and in the journal. Several trials are played together."""
    folder.mkdir()

    class Told(Scene):
        def verdict(self) -> Verdict:
            _tell(self.desk, self.trial, folder)
            return super().verdict()

    class LongTold(LongScene):
        def verdict(self) -> Verdict:
            _tell(self.desk, self.trial, folder)
            return super().verdict()

    drawn = (Typed.STATUS, Typed.ATTACH, Typed.STOP)  # a second launch would have another name each time
    make_long = partial(LongTold, drawn=drawn)
    found = played(trials, SimCloud, make_long if trials[0].case.hours else Told)
    assert [verdict.trial for verdict in found] == list(trials)
    return {trial.name: json.loads((folder / trial.name).read_text()) for trial in trials}


def _tell(desk: Desk, trial: Trial, folder: Path) -> None:
    run = desk.recorded()
    told = [f"{desk.cloud.now()}", *map(str, desk.cloud.ledger()), str(run.outcome if run else None)]
    (folder / trial.name).write_text(json.dumps(told))


@pytest.mark.parametrize(
    "trials",
    [
        [Trial(PLAIN, then, point) for then in PLAIN.then for point in POINTS],
        [Trial(DETACHED, Then.LEFT, number) for number in range(3)],
    ],
    ids=["killed or disturbed at points", "detached"],
)
def test_trials_end_together_as_they_end_alone(trials: list[Trial], tmp_path: Path) -> None:
    alone: dict[Any, Any] = {}
    for number, trial in enumerate(trials):
        alone |= ends([trial], tmp_path / f"{number}")
    assert ends(trials, tmp_path / "together") == alone


def test_a_lock_that_is_missing_shows_in_a_copy_of_the_client() -> None:
    """That copies hold the locks of the client is what keeps the command beside them from acting."""
    found = next(known for known in DEFECTS if known.name == "no lock: two commands act on one run")
    reclaimed = next(case for case in CASES if case.name == "reclaim")
    broken = replace(reclaimed, break_code=found.plant)
    trials = [Trial(broken, Then.BESIDE, point) for point in range(56, 80, 4)]
    assert not all(verdict.good for verdict in tried_together(trials, SimCloud))
    assert all(verdict.good for verdict in tried_together([replace(row, case=reclaimed) for row in trials], SimCloud))


def test_points_that_a_launch_never_comes_to_are_its_end() -> None:
    trials = [Trial(PLAIN, Then.STATUS, 30), Trial(PLAIN, Then.STATUS, 5_000), Trial(PLAIN, Then.STATUS, 5_001)]
    assert [verdict.wrong for verdict in tried_together(trials, SimCloud)] == [{}, {}, {}]


def test_every_trial_is_in_one_group_of_its_launch() -> None:
    began = [run_trial(Trial(case, case.then[0]), SimCloud) for case in CASES if case.name in ("plain", "failover")]
    trials = all_trials(began)
    groups = together(trials)
    assert sorted(trial.name for group in groups for trial in group) == sorted(trial.name for trial in trials)
    for group in groups:
        assert len({launch_of(trial) for trial in group}) == 1
        assert len(group) <= MOST_TOGETHER
        assert group == sorted(group, key=at_point)
    assert named_points(began)


@pytest.mark.parametrize("make_cloud", [AwsCloud, GcpCloud])
def test_a_double_is_taken_up_as_it_was_put_aside(make_cloud: MakeCloud) -> None:
    cloud = make_cloud("plain")
    began = cloud.now()
    for _ in range(2):
        cloud.put_aside()
        cloud.plant()
        cloud.pass_time(began + timedelta(minutes=1))
        cloud.put_aside()  # within what was put aside
        cloud.pass_time(began + timedelta(minutes=2))
        cloud.take_up()
        assert cloud.now() == began + timedelta(minutes=1)
        assert len(cloud.ledger()) > 1
        cloud.take_up()
        assert (cloud.now(), cloud.ledger()) == (began, [])
    cloud.let_go()
