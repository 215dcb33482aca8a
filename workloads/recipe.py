"""How a net is trained, as a person writes it: optimizer and learning-rate schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from trainplan.workloads.terms import MAX_IMAGE_SIZE_PX, Measure, OptimizerName, ScheduleName
from trainplan.workloads.values import Number, Value, refuse_all

WITH_MOMENTUM = (OptimizerName.SGD, OptimizerName.RMSPROP)
"""Optimizers that the key momentum is for; others have figures of their own in its place."""
EpochNumber = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class ScheduleSpec(Value):
    """How the learning rate changes from step to step. Epochs count from the first step of the run."""

    name: ScheduleName = ScheduleName.CONSTANT
    warmup_epochs: Annotated[Number, Field(ge=0, le=1_000_000)] = Field(
        default=0.0, description="the rate rises linearly to learning_rate over so many epochs"
    )
    at_epochs: tuple[EpochNumber, ...] = Field(
        default=(), max_length=100, description="step: after each of these epochs the rate is multiplied by factor"
    )
    factor: Annotated[Number, Field(gt=0, lt=1)] = Field(
        default=0.1, description="step, plateau: what is left of the rate"
    )
    patience: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        default=5,
        description="plateau: so many validations without a better one, and the rate falls",
    )
    final_share: Annotated[Number, Field(ge=0, lt=1)] = Field(
        default=0.0, description="cosine: the rate at the end of the run, as a share of learning_rate"
    )

    @model_validator(mode="after")
    def _keys_of_the_schedule(self) -> Self:
        refuse_all(self._contradictions())
        return self

    def _contradictions(self) -> Iterator[str]:
        own = {
            "at_epochs": (ScheduleName.STEP,),
            "factor": (ScheduleName.STEP, ScheduleName.PLATEAU),
            "patience": (ScheduleName.PLATEAU,),
            "final_share": (ScheduleName.COSINE,),
        }
        changed = (key for key in own if getattr(self, key) != type(self).model_fields[key].default)
        for key in (key for key in changed if self.name not in own[key]):
            yield f"{key} is a key of the schedule {' or '.join(own[key])}, not of {self.name}"
        if self.name is ScheduleName.STEP and not self.at_epochs:
            yield "the schedule step needs at_epochs: after which epochs the rate falls, such as [30, 60]"
        if list(self.at_epochs) != sorted(set(self.at_epochs)):
            yield "at_epochs must rise, such as [30, 60]"


class OptimizerSpec(Value):
    """The optimizer of a job and its figures."""

    name: OptimizerName = OptimizerName.SGD
    learning_rate: Annotated[Number, Field(gt=0, description="the rate at which a schedule begins")] = 0.01
    momentum: Annotated[Number, Field(ge=0, lt=1, description="sgd, rmsprop")] = 0.9
    weight_decay: Annotated[Number, Field(ge=0, description="spares biases and batch norm")] = 0.0
    nesterov: bool = Field(default=False, description="sgd: Nesterov's momentum")
    clip_norm: Annotated[Number, Field(gt=0)] | None = Field(
        default=None, description="all gradients together are scaled down to this norm"
    )
    ema: Annotated[Number, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="keep an exponential moving average of the weights, such as 0.999; it is tested and saved",
    )
    base_rate_share: Annotated[Number, Field(gt=0, le=1)] = Field(
        default=1.0,
        description="with model.weights: the rate of the layers whose weights are read, as a share of learning_rate",
    )
    schedule: ScheduleSpec = ScheduleSpec()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.nesterov and (self.name is not OptimizerName.SGD or self.momentum == 0):
            raise ValueError("nesterov needs the optimizer sgd with a momentum above 0")
        return self

    @property
    def state(self) -> str:
        """Names what is kept of each weight: the optimizer, and `+ema` where an average of the weights is kept too."""
        return f"{self.name}{'+ema' if self.ema is not None else ''}"


class ValidationSpec(Value):
    """Tests on test images during the run, and what follows from them."""

    every_epochs: EpochNumber | None = Field(
        default=None, description="test after every so many epochs; default: where it costs little, to be seen only"
    )
    measure: Measure = Field(default=Measure.ACCURACY, description="what makes one validation better than another")
    min_change: Annotated[Number, Field(ge=0)] = Field(
        default=0.0, description="a validation is better where its measure is better by more than this"
    )
    keep_best: bool = Field(
        default=True, description="the model is that of the best validation of every_epochs, not the last one"
    )
    patience: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        default=None, description="end the run after so many validations without a better one"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        # keep_best is true already: who writes it alone would wait for validations that nobody makes.
        waits = self.keep_best and "keep_best" in self.model_fields_set and "every_epochs" not in self.model_fields_set
        others = self.model_copy(update={"keep_best": True})
        if self.every_epochs is None and (waits or others != type(self).model_construct()):
            raise ValueError("validation needs every_epochs: after how many epochs the net is tested, such as 1")
        return self

    @property
    def keeps_best(self) -> bool:
        """Whether the weights of the best validation are kept."""
        return self.every_epochs is not None and self.keep_best

    def earliest_end(self, epochs: int) -> int:
        """The first epoch that a run of `epochs` can end after.

        Early stopping waits for `patience` validations after the best one, which is the first one at the earliest.
        """
        if self.every_epochs is None or self.patience is None:
            return epochs
        return min(epochs, self.every_epochs * (1 + self.patience))


Strength = Annotated[Number, Field(ge=0, le=1)]


class AugmentSpec(Value):
    """How images are changed while the net trains, and how they are cut where it is tested. On the device; resizing is
    where files are decoded."""

    resize: Annotated[int, Field(strict=True, ge=1, le=MAX_IMAGE_SIZE_PX)] | None = Field(
        default=None,
        description="images are resized to so many pixels a side, and tested on the centre of the net's size",
    )
    crop: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        default=None, description="train on a random part of at least this share of the area, such as 0.08"
    )
    flip: bool = Field(default=False, description="mirror every second image, left to right")
    brightness: Strength = Field(default=0.0, description="change it by up to this share of the whole range")
    contrast: Strength = Field(default=0.0, description="change it by up to this share")
    saturation: Strength = Field(default=0.0, description="change it by up to this share; for colour images")
    mixup: Annotated[Number, Field(ge=0, le=10)] = Field(
        default=0.0, description="mix pairs of images and their classes by a share of Beta(mixup, mixup), such as 0.2"
    )
    label_smoothing: Annotated[Number, Field(ge=0, lt=1)] = Field(
        default=0.0, description="spread this share of each label over all classes, such as 0.1"
    )


_OPTIMIZER = OptimizerSpec()
_RECIPE: dict[str, dict[str, Any]] = {
    "model": {"weights": None, "freeze": None},
    "optimizer": {
        key: getattr(_OPTIMIZER, key) for key in ("nesterov", "clip_norm", "ema", "base_rate_share", "schedule")
    },
}
"""Keys of a recipe by their part of the job, with their values where a job does not use them."""
_LATER: dict[str, dict[str, Any]] = {**_RECIPE, "data": {"first_label": 0}}
_LATER_PARTS: dict[str, Value] = {"augment": AugmentSpec(), "validation": ValidationSpec()}
"""The same of all keys that came later."""


def without_unused(values: dict[str, Any]) -> dict[str, Any]:
    """A job's values without the later keys that it does not use.

    A job that does without them keeps the digest that it had, and the trainer of an earlier version can read it.
    """
    used = {part: value for part, value in values.items() if not _is_unused_part(part, value)}
    for part in _LATER.keys() & values.keys():
        used[part] = {key: value for key, value in values[part].items() if not _is_unused(part, key, value)}
    return used


def _is_unused_part(part: str, value: object) -> bool:
    unused = _LATER_PARTS.get(part)
    return unused is not None and type(unused).model_validate(value) == unused


def _is_unused(part: str, key: str, value: object) -> bool:
    """Whether a key's value, as JSON or not, is that of a job that does not write it."""
    if key not in _LATER[part]:
        return False
    unused = _LATER[part][key]
    if isinstance(unused, Value):
        return type(unused).model_validate(value) == unused
    return bool(value == unused)
