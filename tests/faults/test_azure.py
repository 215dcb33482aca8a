"""A part of `make faults PROVIDER=azure`, and a few of its planted defects."""

from __future__ import annotations

import os

import pytest

from tests.faults.test_kill_points import NOTHING_WRONG, faults

pytestmark = [pytest.mark.cloud_faults, pytest.mark.skipif(not hasattr(os, "fork"), reason="clients are forked")]


def test_a_part_of_all_points_leaves_nothing_and_is_recorded() -> None:
    code, lines, errors = faults("--provider", "azure", "--share", "0.02")
    assert lines, errors
    points, _, wrong = lines[-1].removeprefix("points ").partition(", ")
    assert (code, wrong) == (0, NOTHING_WRONG), f"{lines[-1]}\n{errors}"
    assert int(points) > 100, "the points are enumerated: where have they gone?"


@pytest.mark.parametrize(
    ("defect", "case"),
    [
        ("azure: rights are not listed", "lost reply"),
        ("azure: a conflict is read as: it exists already", "failover"),
        ("azure: the operation is not followed: a create is taken for a machine", "failover"),
        ("azure: the machine's own timer is not armed", "machine's timer"),
    ],
)
def test_the_harness_turns_red_for_a_planted_defect(defect: str, case: str) -> None:
    code, lines, errors = faults("--provider", "azure", "--share", "0", "--defects", defect, "--case", case)
    assert (code, lines[0]) == (0, "defects caught 1 of 1"), errors
