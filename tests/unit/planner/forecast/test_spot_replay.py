"""The benchmark that replays recorded traces: its cutting, fitting and replaying, and its targets on the traces."""

from __future__ import annotations

import importlib
import itertools
import statistics
from random import Random
from types import ModuleType
from typing import Any

import pytest

from trainplan.planner.forecast.simulate import Spell


@pytest.fixture(scope="module")
def replay() -> ModuleType:
    return importlib.import_module("benchmarks.spot_replay")


def a_trace(replay: ModuleType, pattern: str, gap_seconds: float = 600.0) -> Any:
    return replay.Trace("made up", gap_seconds, tuple(tick == "#" for tick in pattern))


def test_even_days_are_windows_of_their_own(replay: ModuleType) -> None:
    trace = a_trace(replay, "##..#", gap_seconds=43_200.0)
    assert replay.even_days(trace) == [(True, True), (True,)]


def test_a_window_shows_which_spells_it_cuts(replay: ModuleType) -> None:
    windows = [(True, True, False, True, False, True), (True,)]
    assert replay.seen_spells(windows, 10.0, True) == [
        (20.0, True, False),
        (10.0, True, True),
        (10.0, False, True),
        (10.0, False, False),
    ]


def test_a_replay_wraps_and_joins_the_ends(replay: ModuleType) -> None:
    trace = a_trace(replay, "#..###", gap_seconds=10.0)
    after = list(itertools.islice(replay.recorded_spells(trace, 15.0), 4))
    assert after == [Spell(False, 15.0), Spell(True, 40.0), Spell(False, 20.0), Spell(True, 40.0)]
    assert next(iter(replay.recorded_spells(trace, 5.0))) == Spell(True, 5.0)
    assert next(iter(replay.recorded_spells(trace, 35.0))) == Spell(True, 35.0)


def test_every_moment_of_a_trace_is_as_it_was_recorded(replay: ModuleType) -> None:
    trace = a_trace(replay, "##.#...##.#", gap_seconds=10.0)
    for tick, up in enumerate(trace.up):
        assert next(iter(replay.recorded_spells(trace, 10.0 * tick + 5))).up is up


def test_cutting_days_does_not_bias_the_fit(replay: ModuleType) -> None:
    """Spells longer than the window they are seen in, from a year of a known placement."""
    random = Random("year")
    ticks: list[bool] = []
    while len(ticks) < 365 * 288:
        lasting = 30 * 12 if random.random() < 0.3 else 6
        ticks += [True] * max(1, round(random.expovariate(1 / lasting)))
        ticks += [False] * max(1, round(random.expovariate(1 / 6)))
    trace = replay.Trace("year", 300.0, tuple(ticks))
    cut = replay.seen_spells(replay.even_days(trace), 300.0, True)
    whole = replay.seen_spells([trace.up], 300.0, True)
    mean = statistics.fmean(spell.seconds for spell in whole)
    assert statistics.fmean(spell.seconds for spell in cut) < 0.75 * mean  # what not minding the cuts would say
    assert replay.fit_one(cut).long_seconds == pytest.approx(mean, rel=0.15)
    two = replay.fit_two(cut)
    assert two.mean_seconds == pytest.approx(mean, rel=0.15)
    assert two.long_seconds == pytest.approx(30 * 3600, rel=0.2)
    assert two.short_share == pytest.approx(0.7, abs=0.06)


def test_the_targets_hold_on_recorded_traces(replay: ModuleType) -> None:
    """A tenth of the benchmark; the whole of it is run by hand."""
    traces = replay.load()
    assert len(traces) == 14
    cases = []
    for trace in traces:
        if trace.availability < replay.LEAST_AVAILABILITY:
            continue
        ends = {hours: replay.replays(replay.job(hours), trace, 60, f"test {hours}") for hours in replay.JOB_HOURS}
        placement = replay.estimated_placement(replay.even_days(trace), trace.gap_seconds, replay.fit_two)
        cases += replay.model_cases(trace, placement, ends, "test")
    assert len(cases) == 18
    assert replay.summarise(cases).good


def test_a_recorded_trace_is_as_long_as_it_was(replay: ModuleType) -> None:
    traces = {trace.name: trace for trace in replay.load()}
    long = traces["avail 10-26-2022 us-west-2a_k80_1"]
    assert (long.gap_seconds, len(long.up), sum(long.up)) == (600.0, 3895, 3477)
