"""The benchmark of the spot policy: replay and baselines on made-up traces, a part of its table on recorded ones."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

from trainplan.planner.runs.decision.spot_policy import TUNED, Outages, chance_to_hold


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return importlib.import_module("benchmarks.spot_policy")


def a_trace(bench: ModuleType, pattern: str) -> Any:
    return bench.Trace("made up", 600.0, tuple(tick == "#" for tick in pattern))


def a_job(bench: ModuleType, times: float = 1.5) -> Any:
    return bench.Job(12, times, 300.0)


WORK, RESTART = 12 * 3600.0, 300.0


@pytest.mark.parametrize("name", ["greedy", "UP", "UP text", "ours"])
def test_spot_that_is_always_there_costs_its_price_and_one_restart(bench: ModuleType, name: str) -> None:
    outcome = bench.Replay(a_trace(bench, "#"), 0, a_job(bench)).run(bench.CHOICES[name])
    assert outcome == (pytest.approx(0.3 * (WORK + RESTART) / WORK), False)
    assert bench.omniscient(a_trace(bench, "#"), 0, a_job(bench)) == pytest.approx(outcome.cost)


@pytest.mark.parametrize("name", ["on demand", "greedy", "UP", "UP text", "ours"])
def test_without_any_spot_all_meet_the_deadline(bench: ModuleType, name: str) -> None:
    outcome = bench.Replay(a_trace(bench, "."), 0, a_job(bench)).run(bench.CHOICES[name])
    assert not outcome.missed
    assert outcome.cost >= (WORK + RESTART) / WORK - 1e-9
    assert bench.omniscient(a_trace(bench, "."), 0, a_job(bench)) == pytest.approx((WORK + RESTART) / WORK)


def test_who_knows_the_trace_waits_just_as_long_as_it_takes(bench: ModuleType) -> None:
    trace = a_trace(bench, "." * 30 + "#" * 80)
    assert bench.omniscient(trace, 0, a_job(bench)) == pytest.approx(0.3 * (WORK + RESTART) / WORK)
    assert bench.Replay(trace, 0, a_job(bench)).run(bench.uniform_progress).cost > 0.5


def test_a_restart_is_billed_and_an_interruption_ends_the_machine(bench: ModuleType) -> None:
    replay = bench.Replay(a_trace(bench, "#" * 6 + "." * 6), 0, a_job(bench, 2.0))
    outcome = replay.run(bench.greedy)
    # Of each hour up, five minutes go to the restart; twelve hours at two times the work do not suffice on spot alone.
    assert not outcome.missed
    assert 0.3 * 12 / 11 < outcome.cost < 1.01


def test_uniform_progress_keeps_pace(bench: ModuleType) -> None:
    """Down from the beginning: on demand at the first tick behind the pace, and to the end."""
    assert bench.Replay(a_trace(bench, "."), 0, a_job(bench, 2.0)).run(bench.uniform_progress).cost == pytest.approx(
        (WORK + RESTART) / WORK
    )


def test_outages_are_there_for_their_share_of_the_time(bench: ModuleType) -> None:
    refused = bench.Refused(bench.Random("outages"), 4e6, bench.OUTAGES)
    share = sum(refused(10.0 * moment) for moment in range(400_000)) / 400_000
    assert share == pytest.approx(0.2, abs=0.03)


def test_coarser_ticks_are_up_where_all_of_theirs_were(bench: ModuleType) -> None:
    trace = bench.Trace("made up", 32.0, (True,) * 6 + (True,) * 5 + (False,) + (True,) * 3)
    assert bench.coarser(trace)[1:] == (192.0, (True, False))


def test_the_interval_excludes_nothing_where_both_are_alike(bench: ModuleType) -> None:
    costs = bench.np.linspace(0.3, 1.0, 50)
    assert bench.bootstrap(costs, costs) == (0.0, 0.0, 0.0)
    lower = bench.bootstrap(0.9 * costs, costs)
    assert lower.value == pytest.approx(-0.1)
    assert lower.high < 0


def test_held_out_traces_cost_less_than_uniform_progress_and_greedy(bench: ModuleType) -> None:
    chosen = [trace for trace in bench.load()[1::2] if trace.gap_seconds == 600]
    means: dict[str, float] = {}
    for name in ("ours", "UP", "greedy"):
        results = [
            bench.costs_and_misses(trace, bench.starts(trace, 2, "test"), bench.JOBS, bench.CHOICES[name])
            for trace in chosen
        ]
        assert not any(missed.any() for _, missed in results)
        means[name] = sum(costs.mean() for costs, _ in results)
    assert means["ours"] < 0.99 * means["UP"]
    assert means["ours"] < 0.99 * means["greedy"]


def test_the_chance_told_is_no_more_than_what_happens(bench: ModuleType) -> None:
    """No spot at all: the whole slack is the reserve, and the first request at the latest decides."""
    outages = Outages(fraction=0.5, mean_seconds=3600.0)
    job = bench.Job(12, 1.15, 300.0)
    refused = [bench.Refused(bench.Random(f"chance {seed}"), 3 * job.deadline_seconds, outages) for seed in range(300)]
    trace = a_trace(bench, ".")
    missed = [bench.Replay(trace, 0, job, each).run(bench.ours(TUNED)).missed for each in refused]
    told = chance_to_hold(bench.Replay(trace, 0, job).situation(), outages)
    assert told == pytest.approx(0.5)
    assert 1 - sum(missed) / len(missed) >= told
