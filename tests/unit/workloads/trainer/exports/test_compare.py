"""Figures and faults of a check, on probabilities that the test makes."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")

from trainplan.workloads.trainer.exports.compare import compared, float_faults, int8_faults  # noqa: E402


def rows(*leading: int, high: float = 0.9, classes: int = 3) -> Any:
    """A row for each image, of which the class is the likeliest."""
    low = (1 - high) / (classes - 1)
    return np.array([[high if label == one else low for label in range(classes)] for one in leading], np.float32)


LABELS = np.array([0, 1, 2, 0], np.int32)


def test_the_same_numbers_have_no_fault() -> None:
    check = compared(rows(0, 1, 2, 1), rows(0, 1, 2, 1), LABELS)
    assert (check.images, check.top1_before, check.top1_after, check.agreement) == (4, 0.75, 0.75, 1)
    assert [*float_faults(check), *int8_faults(check, 0.0)] == []


def test_another_class_is_a_fault_although_top_1_is_the_same() -> None:
    check = compared(rows(0, 1, 1, 0), rows(0, 1, 2, 1), LABELS)
    assert (check.top1_before, check.top1_after, check.agreement) == (0.75, 0.75, 0.5)
    assert len([*float_faults(check)]) == 2
    assert "in 50.0% of images; 90% are needed" in "; ".join(int8_faults(check, 0.0))


def test_a_tie_is_no_other_class_but_a_difference_is_one() -> None:
    tied = np.array([[0.5, 0.5, 0]] * 4, np.float32)
    other = tied + np.array([[-1e-6, 1e-6, 0]], np.float32)
    assert [*float_faults(compared(tied, other, LABELS))] == []
    (fault,) = float_faults(compared(rows(0, 1, 2, 0), rows(0, 1, 2, 0, high=0.95), LABELS))
    assert fault == "a probability differs by 0.05 from that of model.keras"


@pytest.mark.parametrize(("allowed", "faults"), [(0.02, 2), (0.25, 0), (0.2, 2)])
def test_a_loss_is_a_fault_unless_it_is_allowed(allowed: float, faults: int) -> None:
    check = compared(rows(0, 1, 2, 0), rows(0, 1, 2, 1), LABELS)
    assert len([*int8_faults(check, 0.0, allowed)]) == faults


def test_clipped_logits_that_matter_are_a_fault_whatever_top_1_is() -> None:
    same = compared(rows(0, 1, 2, 0), rows(0, 1, 2, 0), LABELS)
    other = compared(rows(0, 1, 2, 0), rows(0, 1, 2, 0, high=0.7), LABELS)
    assert [*int8_faults(same, 0.5)] == [*int8_faults(other, 0.01)] == [*int8_faults(other, None)] == []
    assert "calibrated with other images" in "".join(int8_faults(other, 0.011))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (rows(0, 1, 2, 0, classes=4), "numbers of the shape"),
        (rows(0, 1, 2), "numbers of the shape"),
        (rows(0, 1, 2, 0) * np.float32("nan"), "no number"),
    ],
)
def test_what_is_not_comparable_is_an_error(given: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        compared(rows(0, 1, 2, 0), given, LABELS)
