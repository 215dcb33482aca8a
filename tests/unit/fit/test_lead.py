"""docs/accuracy.md begins with a table for a person, whose figures are those of the tables below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.fit.lead import MARK, QUESTIONS, lead, rows_of, with_lead

ACCURACY = Path(__file__).parents[3] / "docs" / "accuracy.md"


def test_the_first_table_is_what_the_tables_below_it_have() -> None:
    text = ACCURACY.read_text(encoding="utf-8")
    assert with_lead(text) == text
    assert text.index(MARK) < text.index("\n## ")
    assert lead(text).count("\n") == len(QUESTIONS) + 1


def test_the_readme_has_the_least_and_the_most_that_intervals_held() -> None:
    held = [int(share[:-1]) for _, share in rows_of(ACCURACY.read_text(encoding="utf-8")).values() if share[-1] == "%"]
    readme = (ACCURACY.parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"it does in {min(held)} to {max(held)} %, by kind of test" in readme


def test_a_figure_that_changed_below_changes_in_the_first_table() -> None:
    text = ACCURACY.read_text(encoding="utf-8")
    below = next(line for line in text.splitlines() if line.startswith("| a network, on known devices |"))
    error = below.split("|")[4].strip()
    changed = text.replace(below, below.replace(error, "99.9%", 1))
    assert "99.9%" in lead(changed).splitlines()[4]


def test_a_row_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="no row 'single configurations"):
        lead("| left out | covered | median of the folds' MAPE |\n|---|---|---|\n")
