"""Which points a share of them is: by the commit, unless somebody names a seed."""

from __future__ import annotations

import pytest

from tests.faults.all_points import some
from tests.faults.cases import CASES, Then
from tests.faults.seeds import SEED_VARIABLE, seed_now, seed_of_commit
from tests.faults.verdict import Trial

pytestmark = pytest.mark.sample
TRIALS = [Trial(CASES[0], Then.STATUS, number) for number in range(400)]


def test_each_commit_draws_its_own_points_and_always_the_same() -> None:
    commits = ("613d8aa0" * 5, "a9048a27" * 5)
    first, second = ({trial.point for trial in some(TRIALS, 0.1, seed_of_commit(one).number)} for one in commits)
    assert len(first) == len(second) == 40
    assert first != second
    assert seed_of_commit(commits[0]) == seed_of_commit(commits[0])
    assert "613d8aa0" in str(seed_of_commit(commits[0]))


def test_a_tenth_at_each_of_sixty_commits_comes_to_nearly_every_point() -> None:
    drawn = {trial.point for number in range(60) for trial in some(TRIALS, 0.1, seed_of_commit(f"{number:08x}").number)}
    assert len(drawn) > 0.98 * len(TRIALS)


def test_the_environment_names_another_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "7")
    assert seed_now().number == 7
    monkeypatch.setenv(SEED_VARIABLE, "seven")
    with pytest.raises(ValueError, match="is 'seven': a whole number is expected"):
        seed_now()


def test_without_a_commit_there_is_a_seed_all_the_same() -> None:
    assert seed_of_commit("").number == seed_of_commit("").number
