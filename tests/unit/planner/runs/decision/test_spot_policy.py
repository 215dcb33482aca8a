"""The spot policy: the deadline whatever spot does, each rule at its edge, and the chance to hold it in outages."""

from __future__ import annotations

import math
import timeit
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rows import each_row
from trainplan.planner.runs.decision.spot_policy import (
    TUNED,
    Action,
    Outages,
    Policy,
    Running,
    Situation,
    SpotRecord,
    chance_to_hold,
    decide,
    outage_reserve,
)

HOUR = 3600.0
NOW = Situation(
    work_seconds=10 * HOUR,
    time_seconds=15 * HOUR,
    restart_seconds=900.0,
    step_seconds=60.0,
    checkpoint_every_seconds=600.0,
    spot_up=True,
    spot=SpotRecord(state_seconds=2 * HOUR),
)
STAKE = 900.0 + 600.0 + 60.0
OUTAGES = Outages(fraction=0.2, mean_seconds=1800.0)
SPOT, ON_DEMAND, WAIT = Action.USE_SPOT, Action.USE_ON_DEMAND, Action.WAIT


def with_slack(seconds: float, situation: Situation = NOW) -> Situation:
    return replace(situation, time_seconds=situation.work_seconds + situation.restart_seconds + seconds)


def on(running: Running, situation: Situation = NOW, seconds: float = 2 * HOUR) -> Situation:
    return replace(situation, running=running, running_seconds=seconds)


DOWN = replace(NOW, spot_up=False)
KEEP = 0.13 * 10 * HOUR
CASES = [
    ("spot is to be had", NOW, SPOT),
    ("nobody knows: try", replace(NOW, spot_up=None), SPOT),
    ("an attempt just affordable", with_slack(STAKE), SPOT),
    ("an attempt not affordable", with_slack(STAKE - 1), ON_DEMAND),
    ("too late for on demand as well", with_slack(-1), ON_DEMAND),
    ("spot dearer than on demand", replace(NOW, price_ratio=1.0), ON_DEMAND),
    ("slack above the share of the work", with_slack(KEEP + 1, DOWN), WAIT),
    ("slack at the share of the work", with_slack(KEEP, DOWN), ON_DEMAND),
    ("no work left to keep slack for", with_slack(62, replace(DOWN, work_seconds=0.0)), WAIT),
    ("on demand refused, spot up", with_slack(0, replace(NOW, on_demand_refused=True)), SPOT),
    ("on demand refused, no spot", with_slack(0, replace(DOWN, on_demand_refused=True)), ON_DEMAND),
    ("spot runs", with_slack(60, on(Running.SPOT)), SPOT),
    ("spot runs, safety point", with_slack(59, on(Running.SPOT)), ON_DEMAND),
    ("spot runs, safety point by unsaved work", with_slack(-500, on(Running.SPOT, UNSAVED := replace(
        NOW, running=Running.SPOT, unsaved_seconds=540.0))), ON_DEMAND),
    ("spot runs, a change comes too late", with_slack(-541, on(Running.SPOT, UNSAVED)), SPOT),
    ("on demand, change affordable", with_slack(STAKE, on(Running.ON_DEMAND)), SPOT),
    ("on demand, change not affordable", with_slack(STAKE - 1, on(Running.ON_DEMAND)), ON_DEMAND),
    ("on demand, no spot", on(Running.ON_DEMAND, DOWN), ON_DEMAND),
    ("on demand, nobody knows of spot", on(Running.ON_DEMAND, replace(NOW, spot_up=None)), ON_DEMAND),
    ("on demand, spot just back", on(Running.ON_DEMAND, replace(
        NOW, spot=SpotRecord(state_seconds=1199.0))), ON_DEMAND),
    ("on demand, spot back, a short restart", on(Running.ON_DEMAND, replace(
        NOW, restart_seconds=300.0, spot=SpotRecord())), SPOT),
    ("on demand, spells too short", on(Running.ON_DEMAND, replace(
        NOW, spot=SpotRecord(state_seconds=2 * HOUR, up_seconds=2 * HOUR, ups_ended=40))), ON_DEMAND),
    ("on demand, almost done", with_slack(5 * HOUR, on(Running.ON_DEMAND, replace(
        NOW, work_seconds=1000.0))), ON_DEMAND),
]  # fmt: skip


@each_row(("situation", "action"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_rule_at_its_edge(situation: Situation, action: Action) -> None:
    decision = decide(situation)
    assert decision.action is action
    assert decision.why
    assert (decision.wait_seconds > 0) is (action is WAIT)


def test_waits_no_longer_than_a_step_or_than_the_slack_to_spare() -> None:
    assert decide(with_slack(KEEP + 20, DOWN)).wait_seconds == pytest.approx(20)
    assert decide(with_slack(KEEP + HOUR, DOWN)).wait_seconds == 60


def test_a_wait_too_short_to_count_is_none() -> None:
    """Or rounding makes it waits without end, each shorter than the last."""
    assert decide(with_slack(KEEP + 0.5, DOWN)).action is ON_DEMAND


def test_the_reserve_is_neither_waited_away_nor_staked() -> None:
    policy = Policy(outage_reserve_seconds=HOUR)
    assert decide(with_slack(HOUR + KEEP, DOWN), policy).action is ON_DEMAND
    assert decide(with_slack(HOUR + KEEP + 1, DOWN), policy).action is WAIT
    assert decide(with_slack(HOUR + STAKE - 1), policy).action is ON_DEMAND
    assert decide(with_slack(HOUR + STAKE - 1, on(Running.ON_DEMAND)), policy).action is ON_DEMAND
    assert decide(with_slack(HOUR, on(Running.SPOT)), policy).action is SPOT


@pytest.mark.parametrize(
    "wrong",
    [{"work_seconds": -1.0}, {"step_seconds": 0.0}, {"price_ratio": 0.0}, {"unsaved_seconds": 1.0}],
)
def test_figures_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|without a machine"):
        replace(NOW, **wrong)  # type: ignore[arg-type]


def test_a_decision_takes_far_less_than_a_millisecond() -> None:
    assert min(timeit.repeat(lambda: decide(DOWN), number=100, repeat=5)) / 100 < 1e-3


# The hard rule. A machine that vanishes does so within a step: what came after its last checkpoint is lost, and the
# step is over before anybody notices. On demand always comes. Checkpoints may be rarer than told.


def follow(
    start: Situation,
    vanishes: list[bool],
    is_up: list[bool | None],
    policy: Policy = TUNED,
    every: float | None = None,
) -> float:
    """Seconds left at the end of the work; negative: missed."""
    now, step, index, elapsed_state = start, start.step_seconds, 0, 0.0
    while now.work_seconds - now.unsaved_seconds > 1e-6:
        assert index < 5_000
        gone, up = vanishes[index % len(vanishes)], is_up[index % len(is_up)]
        index += 1
        elapsed_state = elapsed_state + step if up is now.spot_up else 0.0
        now = replace(now, spot_up=up, spot=SpotRecord(state_seconds=elapsed_state))
        decision = decide(now, policy)
        wanted = {SPOT: Running.SPOT, ON_DEMAND: Running.ON_DEMAND}.get(decision.action, Running.NOTHING)
        if wanted is Running.SPOT and up is False and now.running is not Running.SPOT:
            wanted = Running.NOTHING
        if wanted is not now.running:
            saved = now.work_seconds - now.unsaved_seconds
            now = replace(now, running=wanted, running_seconds=0.0, work_seconds=saved, unsaved_seconds=0.0)
        if now.running is Running.SPOT and gone:
            now = replace(now, running=Running.NOTHING, unsaved_seconds=0.0, time_seconds=now.time_seconds - step)
        else:
            now = worked(now, decision.wait_seconds or step, start.checkpoint_every_seconds if every is None else every)
    return now.time_seconds


def worked(now: Situation, seconds: float, every: float) -> Situation:
    """After the seconds or at the end of the work; a checkpoint whenever one is due."""
    if now.running is Running.NOTHING:
        return replace(now, time_seconds=now.time_seconds - seconds)
    restart = max(0.0, now.restart_seconds - now.running_seconds)
    seconds = min(seconds, restart + now.work_seconds - now.unsaved_seconds)
    unsaved = now.unsaved_seconds + max(0.0, seconds - restart)
    kept = unsaved // max(every, 1.0) * max(every, 1.0)
    return replace(
        now,
        time_seconds=now.time_seconds - seconds,
        running_seconds=now.running_seconds + seconds,
        work_seconds=now.work_seconds - kept,
        unsaved_seconds=min(unsaved - kept, now.work_seconds - kept),
    )


@st.composite
def feasible(draw: st.DrawFn) -> Situation:
    work = draw(st.floats(60, 6 * HOUR))
    restart = draw(st.floats(0, 1800))
    slack = draw(st.one_of(st.floats(0, 4000), st.floats(0, 6 * HOUR)))
    return Situation(
        work_seconds=work,
        time_seconds=work + restart + slack,
        restart_seconds=restart,
        step_seconds=draw(st.floats(120, 1200)),
        checkpoint_every_seconds=draw(st.floats(0, 3600)),
        price_ratio=draw(st.floats(0.05, 1.5)),
    )


patterns = st.lists(st.booleans(), min_size=1, max_size=60) | st.integers(1, 60).map(lambda n: [False] * n + [True])
seen_up = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=60) | st.just([True])


@settings(max_examples=250)
@given(feasible(), patterns, seen_up, st.booleans(), st.sampled_from([1, 1, 3, 30]))
def test_no_deadline_is_missed_that_on_demand_meets(
    start: Situation, vanishes: list[bool], is_up: list[bool | None], with_reserve: bool, rarer: int
) -> None:
    policy = Policy(outage_reserve_seconds=outage_reserve(OUTAGES, start.slack_seconds) if with_reserve else 0.0)
    assert follow(start, vanishes, is_up, policy, rarer * start.checkpoint_every_seconds) >= -1e-3


@pytest.mark.parametrize("every", [0.0, 600.0, 3600.0])
def test_spot_that_always_vanishes_at_the_worst_moment(every: float) -> None:
    start = with_slack(5 * HOUR, replace(NOW, checkpoint_every_seconds=every))
    for steps in range(1, 90, 8):
        vanishes = [False] * steps + [True]
        assert follow(start, vanishes, [True]) >= -1e-3
        assert follow(start, vanishes, [True], every=2 * HOUR) >= -1e-3


def test_the_safety_point_is_what_meets_the_deadline() -> None:
    """The harness can fail: told of no restart time, the same rules come too late."""
    start = replace(with_slack(0.0), restart_seconds=900.0)
    assert follow(start, [False], [False]) == pytest.approx(0.0)
    late = replace(start, time_seconds=start.time_seconds - 1)
    assert follow(late, [False], [False]) < 0


def test_the_chance_is_that_of_no_outage_longer_than_what_is_spare() -> None:
    policy = Policy(outage_reserve_seconds=1800.0)
    assert chance_to_hold(NOW, OUTAGES, policy) == pytest.approx(1 - 0.2 * math.exp(-1))
    assert chance_to_hold(with_slack(900), OUTAGES, policy) == pytest.approx(1 - 0.2 * math.exp(-0.5))
    assert chance_to_hold(NOW, OUTAGES) == pytest.approx(0.8)
    assert chance_to_hold(with_slack(-1), OUTAGES, policy) == 0
    assert chance_to_hold(NOW, Outages(fraction=0.0, mean_seconds=1.0)) == 1


def test_on_demand_that_stays_is_certain() -> None:
    stays = with_slack(100, on(Running.ON_DEMAND))
    assert chance_to_hold(stays, OUTAGES) == 1
    assert chance_to_hold(with_slack(-900, stays), OUTAGES) == 1
    assert chance_to_hold(with_slack(-901, stays), OUTAGES) == 0
    assert chance_to_hold(with_slack(5 * HOUR, stays), OUTAGES) == pytest.approx(0.8)


def test_the_reserve_gives_the_chance_that_was_asked_for() -> None:
    reserve = outage_reserve(OUTAGES, 10 * HOUR)
    assert reserve == pytest.approx(1800 * math.log(20))
    policy = Policy(outage_reserve_seconds=reserve)
    assert chance_to_hold(NOW, OUTAGES, policy) == pytest.approx(0.99)
    assert outage_reserve(OUTAGES, HOUR) == pytest.approx(HOUR / 3)
    assert outage_reserve(OUTAGES, -1.0) == 0
    assert outage_reserve(Outages(fraction=0.01, mean_seconds=1.0), HOUR) == 0
    with pytest.raises(ValueError, match="most_missed"):
        outage_reserve(OUTAGES, HOUR, 0.0)


@pytest.mark.parametrize(("fraction", "mean"), [(1.0, 1.0), (-0.1, 1.0), (0.1, 0.0), (0.1, math.inf)])
def test_outages_that_cannot_be_are_refused(fraction: float, mean: float) -> None:
    with pytest.raises(ValueError, match="outages need"):
        Outages(fraction=fraction, mean_seconds=mean)
