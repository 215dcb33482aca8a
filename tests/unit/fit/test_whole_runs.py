"""Published whole runs of any network beside the estimate: the page has what is computed, and most are inside."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from statistics import median

from scripts.fit.whole_runs import RUNS, WholeRun, whole_run_lines, whole_runs

ACCURACY = Path(__file__).parents[3] / "docs" / "accuracy.md"


def test_the_page_has_what_is_estimated_of_each_run() -> None:
    page = ACCURACY.read_text(encoding="utf-8")
    assert "\n".join(whole_run_lines()) in page, "python -m scripts.fit.whole_runs"


def test_three_of_four_runs_are_inside_and_the_middle_one_is_off_by_less_than_a_third() -> None:
    runs = whole_runs()
    assert len({run.cells["id"] for run in runs}) == len(runs) >= 25
    assert sum(run.is_inside for run in runs) >= 0.75 * len(runs)
    assert median(abs(math.log(run.ratio)) for run in runs) < math.log(1.33)


def test_each_has_an_address_a_section_a_date_and_a_note() -> None:
    with RUNS.open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            assert all(cells[name] for name in ("address", "section", "published_on", "note")), cells["id"]


def test_a_run_outside_its_interval_is_called_so() -> None:
    run = WholeRun(cells={"hours": "10"}, hours=5.0, low=4.0, high=9.9)
    assert not run.is_inside
    assert run.ratio == 0.5
