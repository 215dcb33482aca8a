"""A drill of each double: every step is proven, within its limits, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drill.defects import steps_of
from tests.drill.worlds import LIMITS, NAMES, Table, a_cloud
from trainplan.extensions.drill.behaviours import behaviours
from trainplan.extensions.drill.limits import MOST_MINUTES
from trainplan.extensions.drill.result import Verdict, read_result, write_result
from trainplan.extensions.drill.steps import PROVES, Step
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Phase


@pytest.mark.parametrize("name", NAMES)
def test_a_drill_proves_every_step_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    table = Table(tmp_path, a_cloud(name))
    result = table.drill()
    others = set(Step) - set(steps_of(name))
    open_steps = {row.step: (row.verdict, row.detail) for row in result.steps if row.verdict is not Verdict.PROVEN}
    why = {Step.ALARM: "--email ADDRESS tries it", Step.BILL: "--email ADDRESS tries it"}
    if name == "sim":
        why[Step.ALARM] = "this provider has no such service"
    assert open_steps == {
        step: (Verdict.NOT_TRIED, why.get(step, "this provider has no such question")) for step in others
    }
    assert [row.step for row in result.steps] == list(PROVES)
    assert table.remaining() == []
    assert result.seconds < MOST_MINUTES * 60
    assert 0 < result.usd_estimate <= LIMITS.max_usd
    assert all(row.proves == behaviours(name, row.step) for row in result.steps if row.step not in others)
    with Journal.open(table.settings.journal) as journal:
        assert {run.phase for run in journal.runs()} == {Phase.DONE}
        assert len(list(journal.runs())) == 2


def test_its_file_reads_back(tmp_path: Path) -> None:
    result = Table(tmp_path / "home", a_cloud("sim")).drill()
    assert read_result(write_result(result, tmp_path)) == result
