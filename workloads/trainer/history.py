"""What the epochs of a run came to, and what follows from it. Pure: the same history gives the same decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainplan.workloads.terms import Measure
from trainplan.workloads.values import Value

if TYPE_CHECKING:
    from trainplan.workloads.recipe import ScheduleSpec, ValidationSpec


class Epoch(Value):
    """One whole epoch, from 1. Figures that nobody worked out are None; accuracies are shares of 1, `seconds` are of
    the whole epoch with its validation, `rate` is the learning rate at its end."""

    epoch: int
    step: int
    loss: float | None = None
    accuracy: float | None = None
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    validation_top5: float | None = None
    rate: float | None = None
    seconds: float | None = None

    def measured(self, measure: Measure) -> float | None:
        """The figure by which validations are compared, higher is better; None where the epoch was not validated."""
        if measure is Measure.ACCURACY:
            return self.validation_accuracy
        return None if self.validation_loss is None else -self.validation_loss


def best_epoch(epochs: Sequence[Epoch], spec: ValidationSpec) -> Epoch | None:
    """The one with the best validation, the first of equals; None before the first validation."""
    best = None
    for epoch in validated(epochs, spec):
        if best is None or _is_better(epoch, best, spec):
            best = epoch
    return best


def stops(epochs: Sequence[Epoch], spec: ValidationSpec) -> bool:
    """Whether early stopping ends the run here: `patience` validations since the best one."""
    best = best_epoch(epochs, spec)
    if spec.patience is None or best is None:
        return False
    return sum(epoch.epoch > best.epoch for epoch in validated(epochs, spec)) >= spec.patience


def plateau_scale(epochs: Sequence[Epoch], spec: ValidationSpec, schedule: ScheduleSpec) -> float:
    """What is left of the learning rate: it falls after `patience` validations without a better one, and then after as
    many more (Simonyan and Zisserman, arXiv:1409.1556, section 3.1, leave open how many)."""
    scale, waited, best = 1.0, 0, None
    for epoch in validated(epochs, spec):
        if best is None or _is_better(epoch, best, spec):
            best, waited = epoch, 0
            continue
        waited += 1
        if waited == schedule.patience:
            scale, waited = scale * schedule.factor, 0
    return scale


def validated(epochs: Sequence[Epoch], spec: ValidationSpec) -> list[Epoch]:
    """Those with a validation."""
    return [epoch for epoch in epochs if epoch.measured(spec.measure) is not None]


def _is_better(one: Epoch, other: Epoch, spec: ValidationSpec) -> bool:
    better, worse = one.measured(spec.measure), other.measured(spec.measure)
    return better is not None and worse is not None and better > worse + spec.min_change
