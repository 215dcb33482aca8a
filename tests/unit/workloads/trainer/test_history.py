"""What follows from the validations of a run: the best one, a rate that falls, the end."""

from __future__ import annotations

from typing import Any

import pytest

from trainplan.workloads.recipe import ScheduleSpec, ValidationSpec
from trainplan.workloads.terms import Measure
from trainplan.workloads.trainer.history import Epoch, best_epoch, plateau_scale, stops


def history(*accuracies: float | None, **losses: float) -> list[Epoch]:
    return [
        Epoch(epoch=number, step=10 * number, validation_accuracy=value, validation_loss=losses.get(f"e{number}"))
        for number, value in enumerate(accuracies, 1)
    ]


def spec(**changes: Any) -> ValidationSpec:
    return ValidationSpec.model_validate({"every_epochs": 1} | changes)


@pytest.mark.parametrize(
    ("accuracies", "changes", "best"),
    [
        ((), {}, None),
        ((None, None), {}, None),
        ((0.5, 0.7, 0.6), {}, 2),
        ((0.5, 0.7, 0.7), {}, 2),
        ((0.5, None, 0.6), {}, 3),
        ((0.5, 0.55, 0.61), {"min_change": 0.1}, 3),
        ((0.5, 0.55, 0.6), {"min_change": 0.1}, 1),
    ],
)
def test_the_best_validation(accuracies: tuple[float | None, ...], changes: dict[str, Any], best: int | None) -> None:
    found = best_epoch(history(*accuracies), spec(**changes))
    assert (found and found.epoch) == best


def test_a_lower_loss_is_better() -> None:
    epochs = history(0.9, 0.8, e1=0.5, e2=0.4)
    assert [best_epoch(epochs, spec(measure=measure)).epoch for measure in Measure] == [1, 2]


@pytest.mark.parametrize(
    ("accuracies", "ends"),
    [
        ((0.5,), False),
        ((0.5, 0.4), False),
        ((0.5, 0.4, 0.4), True),
        ((0.5, 0.4, None), False),
        ((0.5, 0.4, None, 0.5), True),
        ((0.5, 0.4, 0.6, 0.5), False),
    ],
)
def test_a_run_ends_after_so_many_validations_without_a_better_one(
    accuracies: tuple[float | None, ...], ends: bool
) -> None:
    assert stops(history(*accuracies), spec(patience=2)) is ends
    assert not stops(history(*accuracies), spec())


def test_the_rate_falls_on_each_plateau() -> None:
    schedule = ScheduleSpec.model_validate({"name": "plateau", "patience": 2, "factor": 0.5})
    accuracies = [0.5, 0.4, 0.4, 0.4, 0.6, 0.6, 0.6]
    scales = [plateau_scale(history(*accuracies[:count]), spec(), schedule) for count in range(len(accuracies) + 1)]
    assert scales == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]


def test_the_earliest_end() -> None:
    """The first validation is the best one, and `patience` more follow."""
    assert spec(every_epochs=2, patience=3).earliest_end(90) == 8
    assert stops(history(None, 0.5, None, 0.5, None, 0.5, None, 0.5), spec(every_epochs=2, patience=3))
    assert spec(patience=200).earliest_end(90) == 90
    assert spec().earliest_end(90) == ValidationSpec().earliest_end(90) == 90
