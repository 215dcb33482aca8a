"""`plan history`: the newest runs unless all are asked for; an estimate is compared with whole runs alone."""

from __future__ import annotations

import csv
from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders import a_run
from tests.doubles.clock import NOON
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli.commands.history import SHOWN, _json, _over_time, _row, _write_csv
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.rows import RunSummary
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.providers.base import RunId

RECEIPT = {
    "outcome": "succeeded", "estimated_seconds": 400.0, "actual_seconds": 44.0, "actual_images_per_second": 6.6,
}  # fmt: skip


def summary(steps: int, total: int, model_folder: str | None = None) -> RunSummary:
    receipt = {**RECEIPT, "steps": steps, "total_steps": total, "model_folder": model_folder}
    return RunSummary(RunId("run-1"), "job", "local", NOON, Phase.DONE, Outcome.SUCCEEDED, receipt)


@pytest.mark.parametrize(
    ("steps", "model_folder", "columns", "off"),
    [
        (40, None, ("measured", "-", "44s", "-"), None),
        (40, "/model", ("succeeded", "6m 40s", "44s", "-"), None),
        (62, "/model", ("succeeded", "6m 40s", "44s", "-89%"), -0.89),
    ],
    ids=["plan measure", "ended early", "to the last step"],
)
def test_the_outcome_of_a_run_and_how_far_off_its_estimate_was(
    steps: int, model_folder: str | None, columns: tuple[str, ...], off: float | None
) -> None:
    run = summary(steps, 62, model_folder)
    assert _row(run)[4:8] == columns
    assert _json(run)["off"] == off
    assert bool(_over_time([run.receipt])) == (off is not None)


@pytest.mark.parametrize(("at_most", "text"), [(True, "at most $5,420.91"), (False, "$5,420.91")])
def test_a_cost_that_may_be_less_is_told_as_at_most(at_most: bool, text: str) -> None:
    run = summary(62, 62)
    assert text in _row(run._replace(receipt={**run.receipt, "actual_usd": 5420.91, "at_most": at_most}))


def test_a_csv_row_has_the_figures_as_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    _write_csv([summary(62, 62)])
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (row["run_id"], row["job_name"], row["outcome"]) == ("run-1", "job", "succeeded")
    assert (row["estimated_seconds"], row["actual_images_per_second"], row["off"]) == ("400.0", "6.6", "-0.89")
    assert row["accuracy"] == "", "a figure that the run does not have"


def test_the_newest_runs_are_shown_and_all_where_somebody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    count = SHOWN + 2
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for number in range(count):
            run_id = RunId(f"261122-{number:08x}")
            run = a_run(run_id=run_id, created_at=NOON + timedelta(minutes=number), model_folder="/model")
            journal.add_run(run, "{}", {}, NOON)
    said = plan("history")
    assert said.out.count("261122-") == SHOWN
    assert "261122-00000033" in said.out
    assert said.out.splitlines()[-1] == "not shown: 2 older runs (--all)"
    rows = plan("history", "--csv")
    assert (len(rows.out.splitlines()), rows.err) == (1 + SHOWN, "not shown: 2 older runs (--all)\n")
    assert len(plan("history", "--json").json) == SHOWN
    every = plan("history", "--all", "--json")
    assert (len(every.json), every.err) == (count, "")
