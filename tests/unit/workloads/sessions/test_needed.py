"""How many sessions a run needs, beside a simulation of sessions that end at random."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from workloads.sessions.needed import STOP_BEFORE_SECONDS, sessions_needed, useful_seconds

HOUR = 3600.0
LONGEST, PLANNED = 12 * HOUR, 4 * HOUR
"""Colab's longest session, and what is counted on (pricing/data/free_places.csv)."""
SETUP, CHECKPOINT = 360.0, 600.0
SEEDS = 500


def simulated_sessions(train_seconds: float, seed: int) -> int:
    """Sessions until a run is trained. A session ends when it is as long as the place allows, or at a random instant
    before; the mean of all is what is planned. What was trained since the last checkpoint is lost then.
    """
    source, done, sessions = random.Random(seed), 0.0, 0
    while done < train_seconds:
        sessions += 1
        length = min(source.expovariate(1 / PLANNED), LONGEST)
        if length == LONGEST:
            done += useful_seconds(LONGEST, SETUP)
            continue
        trained = max(0.0, length - SETUP)
        if done + trained >= train_seconds:
            return sessions
        done += trained // CHECKPOINT * CHECKPOINT
    return sessions


@pytest.mark.parametrize("hours", [2, 5, 10, 20, 40])
def test_the_prediction_is_about_the_mean_of_500_simulated_runs(hours: int) -> None:
    simulated = [simulated_sessions(hours * HOUR, seed) for seed in range(SEEDS)]
    predicted = sessions_needed(hours * HOUR, PLANNED, SETUP)
    assert abs(predicted - mean(simulated)) <= max(1.0, 0.15 * mean(simulated))


def test_without_interruptions_it_is_exact() -> None:
    useful = LONGEST - STOP_BEFORE_SECONDS - SETUP
    assert [sessions_needed(share * useful, LONGEST, SETUP) for share in (0.0, 0.5, 1.0, 1.01, 3.0)] == [1, 1, 1, 2, 3]


def test_a_session_that_is_all_setup_is_refused() -> None:
    with pytest.raises(ValueError, match="no time to train"):
        sessions_needed(HOUR, 900.0, SETUP)
