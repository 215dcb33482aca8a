"""A tenth of `make faults PROVIDER=` for each real cloud's double, and every planted defect, which turns it red."""

from __future__ import annotations

import os

import pytest

from tests.faults.clouds import REAL, row_of
from tests.faults.test_kill_points import assert_all_caught, assert_nothing_wrong

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")


@pytest.mark.parametrize("provider", [row.name for row in REAL])
def test_a_tenth_of_all_points_leaves_nothing_and_is_recorded(provider: str) -> None:
    assert_nothing_wrong(provider, least=row_of(provider).least_points)


@pytest.mark.parametrize("provider", [row.name for row in REAL])
def test_the_harness_turns_red_for_every_planted_defect(provider: str) -> None:
    assert_all_caught(provider, least=20)
