"""A small share of benchmarks.one_number: the figures of estimates and of a run are the same in every output."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.one_number import differences_of_estimate, differences_of_run, estimates, runs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAN_SIM_SPEED", "0")
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3])
def test_an_estimate_has_one_figure_in_every_output(tmp_path: Path, number: int) -> None:
    *_, asked = estimates(number + 1, tmp_path)
    assert differences_of_estimate(asked, tmp_path) == []


def test_a_run_has_one_figure_in_every_output(tmp_path: Path) -> None:
    (words,) = runs(1, tmp_path)
    assert differences_of_run(words) == []
