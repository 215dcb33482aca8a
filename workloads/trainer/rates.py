"""The learning rate of each step: the job's schedule as Keras' own, with a warm-up before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from trainplan.workloads.recipe import OptimizerSpec, ScheduleSpec
from trainplan.workloads.terms import ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSteps:
    """What a schedule counts in: steps of the optimizer."""

    steps_per_epoch: int
    epochs: int

    @property
    def total(self) -> int:
        """Steps of all epochs."""
        return self.steps_per_epoch * self.epochs


def rate_scale(keras: Any, spec: OptimizerSpec) -> Any | None:
    """A variable that a plateau multiplies the rate with, 1 at first; None for the other schedules."""
    if spec.schedule.name is not ScheduleName.PLATEAU:
        return None
    return keras.Variable(1.0, trainable=False, name="rate_scale")


def scheduled_rate(
    keras: Any, spec: OptimizerSpec, run: RunSteps, scale: Any | None = None, *, accumulate: int = 1
) -> Any:
    """A number where the rate is constant from the first step, else a Keras LearningRateSchedule.

    During a warm-up of n steps, step i (from 0) has (i + 1) / (n + 1) of the rate: the first step moves the weights,
    and the first step after the warm-up has the whole rate (as in Goyal et al., arXiv:1706.02677, section 2.2). A
    cosine falls over the steps after the warm-up; the epochs of a step schedule count from the first step of the run.
    """
    schedule, rate = spec.schedule, spec.learning_rate
    if schedule == ScheduleSpec():
        return rate
    warmup = round(schedule.warmup_epochs * run.steps_per_epoch)
    after = _after_warmup(keras, spec, run, warmup)
    return _class(keras)((after, scale), rate, warmup, accumulate)


def _after_warmup(keras: Any, spec: OptimizerSpec, run: RunSteps, warmup: int) -> Any:
    """Takes the step of the run; None for a constant rate."""
    schedule, rate, schedules = spec.schedule, spec.learning_rate, keras.optimizers.schedules
    match schedule.name:
        case ScheduleName.CONSTANT | ScheduleName.PLATEAU:
            return None
        case ScheduleName.STEP:
            # Keras changes the rate at the step after the boundary.
            boundaries = [epoch * run.steps_per_epoch - 1 for epoch in schedule.at_epochs]
            rates = [rate * schedule.factor**fallen for fallen in range(len(boundaries) + 1)]
            return schedules.PiecewiseConstantDecay(boundaries, rates)
        case ScheduleName.COSINE:
            falling = schedules.CosineDecay(rate, max(1, run.total - warmup), alpha=schedule.final_share)
            return lambda step: falling(step - warmup)
        case _:
            assert_never(schedule.name)


def _class(keras: Any) -> Any:
    """Return the class, made when first needed: its base is part of the Keras in use."""
    ops = keras.ops

    class WithWarmup(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        def __init__(self, parts: tuple[Any, Any], rate: float, warmup: int, accumulate: int) -> None:
            self.after, self.scale = parts
            self.rate = rate
            self.warmup = warmup
            self.accumulate = accumulate

        def __call__(self, step: Any) -> Any:
            # Keras counts the parts of a batch, not the steps of the optimizer.
            updates = ops.cast(ops.floor_divide(step, self.accumulate), "float32")
            rate = self.after(updates) if self.after else ops.convert_to_tensor(self.rate, "float32")
            if self.scale is not None:
                rate = rate * self.scale
            if not self.warmup:
                return rate
            rising = self.rate * (updates + 1) / (self.warmup + 1)
            return ops.where(updates < self.warmup, rising, rate)

        def get_config(self) -> dict[str, Any]:
            return {"rate": self.rate, "warmup": self.warmup}

    return WithWarmup
