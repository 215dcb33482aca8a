"""A share of `python -m tests.drill`: drills that are killed, and what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drill.__main__ import points_of
from tests.drill.points import killed
from tests.drill.worlds import NAMES
from tests.faults.seeds import seed_now

SHARES = {"sim": 0.1, "aws": 0.02, "gcp": 0.02, "azure": 0.02}


def test_a_kill_leaves_something_that_has_to_be_ended(tmp_path: Path) -> None:
    """Else what follows would show nothing."""
    found = killed("sim", tmp_path / "home", is_chosen=lambda name: name == "after RunInstance")
    assert len(found) >= 3, "two machines of one run, one of another; the replay is a create, too"
    assert all(one.remaining for one in found)
    assert [one.wrong for one in found] == [""] * len(found)


def test_a_machine_without_its_timer_of_the_cloud_ends_by_its_own(tmp_path: Path) -> None:
    """At Azure the timer is set once the machine is there: who dies between the two leaves it without."""
    at = "after PUT virtualMachines"
    found = killed("azure", tmp_path / "home", is_chosen=lambda name: name == at, returns=lambda _: False)
    assert len(found) >= 3
    assert [one.text for one in found if one.wrong] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_drill_that_is_killed_leaves_nothing(name: str, tmp_path: Path) -> None:
    seed = seed_now()
    tried, wrong = points_of(name, tmp_path, SHARES[name], seed.number)
    assert tried > 0, seed
    assert wrong == [], seed
