"""The benchmark that replays dated spot prices: the series it reads, the offer it chooses, and what it counts."""

from __future__ import annotations

import importlib
from datetime import date, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from scripts.spot_drift import HISTORY, Series, read_series


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return importlib.import_module("benchmarks.spot_prices_replay")


def series(family: str, first_usd: float, later_usd: float, changes_on: date) -> Series:
    return Series(family, (date(2023, 6, 1), changes_on, date(2024, 12, 31)), (first_usd, later_usd, later_usd))


def test_both_spellings_of_the_columns_are_the_same_series(bench: ModuleType, tmp_path: Path) -> None:
    assert bench.read_history(HISTORY) == read_series()
    other = tmp_path / "history.csv"
    other.write_text("date,a2-highgpu-1g|us-central1|hour,a2-highgpu-1g|us-central1|hour_spot\n2024-01-01,3.7,1.8\n")
    assert bench.read_history(other) == {"a2-highgpu-1g us-central1": Series("a2", (date(2024, 1, 1),), (1.8,))}


def test_a_price_that_rises_after_the_list_is_chosen_and_counted_as_dear(bench: ModuleType) -> None:
    rise = date(2024, 7, 1)
    members = {"a b": series("a", 1.0, 2.0, rise), "c d": series("c", 1.2, 1.2, rise)}
    told = bench.replay(members, list(members.values()), 30, {"a": 1.0, "c": 1.0}, drifts=False)
    # Only plans of the 30 days before the rise go wrong: five Wednesdays.
    assert told.weeks - told.near in (4, 5)
    assert max(told.dearer) == pytest.approx(2.0 / 1.2)
    assert told.errors.count(0.5) == told.weeks - told.near


def test_a_machine_twice_as_fast_may_cost_more(bench: ModuleType) -> None:
    members = {"a b": series("a", 1.0, 1.0, date(2024, 7, 1)), "c d": series("c", 1.5, 1.5, date(2024, 7, 1))}
    for speeds, dearest in (({"a": 1.0, "c": 2.0}, 1.0), ({"a": 1.0, "c": 1.0}, 1.0)):
        told = bench.replay(members, list(members.values()), 90, speeds, drifts=False)
        assert (told.near, max(told.dearer)) == (told.weeks, dearest)


def test_weeks_lie_so_far_behind_their_lists(bench: ModuleType) -> None:
    one = series("a", 1.0, 1.0, date(2024, 7, 1))
    found = list(bench.weeks([one], 60))
    assert found[0] == (bench.FIRST + timedelta(days=60), bench.FIRST)
    assert all(day - listed_on == timedelta(days=60) for day, listed_on in found)
