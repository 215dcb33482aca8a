"""For each step and each double: a planted defect of the double makes this very step fail, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drill.defects import missed, steps_of
from tests.drill.worlds import NAMES
from trainplan.extensions.drill.steps import PROBES, Step

IN_CHECK = (Step.RESUME, Step.MACHINE_TIMER, Step.CLOUD_TIMER, *PROBES)
"""Of the clouds' doubles; `make faults` has them all, and of the simulated cloud `make check` has."""


@pytest.mark.parametrize(
    ("name", "step"), [(name, step) for name in NAMES for step in steps_of(name) if name == "sim" or step in IN_CHECK]
)
def test_a_planted_defect_makes_its_step_fail(name: str, step: Step, tmp_path: Path) -> None:
    assert missed(name, step, tmp_path) == ""


def test_an_undisturbed_drill_is_none(tmp_path: Path) -> None:
    """What is called caught is not what happens in any case."""
    assert missed("sim", None, tmp_path) == "failed: nothing, not None"
