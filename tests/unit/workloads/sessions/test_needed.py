"""How many sessions a run needs, beside a simulation of sessions that end at random."""

from __future__ import annotations

import random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainplan.workloads.sessions.needed import STOP_BEFORE_SECONDS, SessionRules, further_sessions, sessions_needed

HOUR = 3600.0
LONGEST = 12 * HOUR
COLAB = SessionRules(LONGEST, 4 * HOUR, setup=360.0, checkpoint=600.0)
"""A T4 at Colab (pricing/data/free_places.csv), with the setup and the checkpoints of most jobs."""
KAGGLE = COLAB._replace(mean=LONGEST)
HOURS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40)
SEEDS = 500


def simulated_sessions(train_seconds: float, rules: SessionRules, seed: int) -> int:
    """Sessions until a run is trained. A session stops with a checkpoint before the place must end it, or ends at a
    random instant before; what was trained since the last checkpoint is lost then.
    """
    source, done, sessions = random.Random(seed), 0.0, 0
    most = rules.longest - STOP_BEFORE_SECONDS - rules.setup
    while True:
        sessions += 1
        trained = min(max(0.0, source.expovariate(1 / rules.mean) - rules.setup), most)
        if done + trained >= train_seconds:
            return sessions
        done += trained if trained == most else trained // rules.checkpoint * rules.checkpoint


@pytest.mark.parametrize(
    "rules",
    [
        COLAB,
        COLAB._replace(mean=1.5 * HOUR),
        COLAB._replace(checkpoint=HOUR),
        COLAB._replace(setup=1800.0),
    ],
    ids=["T4", "TPU", "rare checkpoints", "long setup"],
)
def test_the_prediction_is_the_mean_of_500_simulated_runs_to_the_next_whole_session(rules: SessionRules) -> None:
    over = []
    for hours in HOURS:
        simulated = mean(simulated_sessions(hours * HOUR, rules, seed) for seed in range(SEEDS))
        over.append(sessions_needed(hours * HOUR, rules) - simulated)
        # Rounding takes half a session, and the mean of so many runs is known to about 4 %.
        assert abs(over[-1]) <= 0.5 + 0.04 * simulated
    assert abs(mean(over)) < 0.2, "neither too low nor too high"


@pytest.mark.parametrize("minutes", [10, 40, 120])
@pytest.mark.parametrize("checkpoint_hours", [2, 24])
def test_a_training_shorter_than_the_time_between_checkpoints_needs_one_session_that_lasts(
    minutes: int, checkpoint_hours: float
) -> None:
    """It was 10 sessions for 40 minutes at Colab, and 19 hours, where a job writes a checkpoint a day."""
    rules = COLAB._replace(checkpoint=checkpoint_hours * HOUR)
    simulated = mean(simulated_sessions(minutes * 60, rules, seed) for seed in range(SEEDS))
    assert abs(sessions_needed(minutes * 60, rules) - simulated) <= 0.5 + 0.04 * simulated


def test_where_sessions_are_equal_it_is_exact() -> None:
    shares = (0.0, 0.5, 1.0, 1.01, 3.0)
    assert [sessions_needed(share * KAGGLE.useful, KAGGLE) for share in shares] == [1, 1, 1, 2, 3]
    assert KAGGLE.useful == LONGEST - STOP_BEFORE_SECONDS - 360
    assert (KAGGLE.each_further, COLAB.each_further) == (360.0, 660.0)


@given(st.floats(0, 1000), st.floats(0, 1000), st.floats(0.5, 12), st.floats(1, 20_000), st.floats(0, 1000))
def test_more_work_never_takes_fewer_sessions(
    hours: float, more: float, mean_hours: float, checkpoint: float, setup: float
) -> None:
    rules = SessionRules(LONGEST, mean_hours * HOUR, setup, checkpoint)
    assert 1 <= sessions_needed(hours * HOUR, rules) <= sessions_needed((hours + more) * HOUR, rules)
    assert 0 <= further_sessions(hours * HOUR, HOUR, rules) <= sessions_needed(hours * HOUR, rules)


def test_a_session_that_is_all_setup_is_refused() -> None:
    with pytest.raises(ValueError, match="no time to train"):
        sessions_needed(HOUR, COLAB._replace(mean=900.0))
