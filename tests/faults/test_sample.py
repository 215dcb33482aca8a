"""A hundredth of the points of each provider's double and a tenth of its planted defects, for `make test`; `make check`
tries a tenth of the points and every defect."""

from __future__ import annotations

import os

import pytest

from tests.faults.clouds import NAMES
from tests.faults.test_kill_points import NOTHING_WRONG, faults

pytestmark = [pytest.mark.sample, pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")]


@pytest.mark.parametrize("provider", NAMES)
def test_a_hundredth_of_all_points_leaves_nothing_and_drawn_defects_are_noticed(provider: str) -> None:
    code, lines, errors = faults("--provider", provider, "--share", "0.01", "--defects", "drawn")
    assert lines, errors
    points, _, wrong = lines[-1].removeprefix("points ").partition(", ")
    assert (code, wrong) == (0, NOTHING_WRONG), f"{lines[-1]}\n{errors}"
    assert int(points) > 0
