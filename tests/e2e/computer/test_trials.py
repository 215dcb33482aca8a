"""Whatever happens to a machine that runs, it is off at most two minutes after its deadline and the switch's grace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.computer.computer import Computer
from tests.e2e.computer.conftest import GRACE_SECONDS, Base
from tests.e2e.computer.trials import DEFECTS, TRIALS, Defect, Trial

pytestmark = pytest.mark.e2e
LATE_SECONDS = 120.0
SHIPPED_GRACE_SECONDS = 300.0


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_it_is_off_whatever_happens(
    trial: Trial, base: Base, at: Callable[[bool], Computer], late: Callable[[str, float], None]
) -> None:
    computer = at(trial.early)
    trial.do(computer)
    grace = (SHIPPED_GRACE_SECONDS if trial.early else GRACE_SECONDS) if trial.by_switch else 0.0
    off = computer.off_at(base.deadline + grace + LATE_SECONDS)
    assert off is not None, computer.text()[-3000:]
    late(trial.name, off - base.deadline)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, base: Base, at: Callable[[bool], Computer]) -> None:
    """The same trial, which the machine without it passes, finds it still on."""
    computer = at(False)
    computer.run(defect.plant)
    defect.trial.do(computer)
    grace = GRACE_SECONDS if defect.trial.by_switch else 0.0
    assert computer.off_at(base.deadline + grace + LATE_SECONDS) is None, computer.text()[-3000:]
