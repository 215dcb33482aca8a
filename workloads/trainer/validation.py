"""Validation on the way: the history of a run, its best weights, a rate that falls on a plateau, early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from trainplan.workloads.terms import ScheduleName
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.history import Epoch, best_epoch, plateau_scale, stops
from trainplan.workloads.trainer.optimizer import plain_optimizer

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.trainer.checkpoint import Array
    from trainplan.workloads.trainer.model import Models

_EPOCHS = TypeAdapter(list[Epoch])
_TRAINED = {"loss": "loss", "accuracy": "accuracy"}
_VALIDATED = {"validation_loss": "val_loss", "validation_accuracy": "val_accuracy", "validation_top5": "val_top5"}


class Validation:
    """The validations of one run. `epochs` is its history so far, `best` the weights of the best validation, as far as
    they are kept.

    All that it decides follows from the history, which is in every checkpoint with the best weights.
    """

    def __init__(self, keras: Any, job: TrainingJob, models: Models) -> None:
        self.epochs: list[Epoch] = []
        self.best: list[Array] = []
        self._keras = keras
        self._job = job
        self._models = models
        self._serving_weights: list[Array] = []

    @property
    def spec_every(self) -> int | None:
        """Test after every so many epochs; None where the job does not say."""
        return self._job.validation.every_epochs

    @property
    def is_over(self) -> bool:
        """Whether early stopping has ended the run."""
        return stops(self.epochs, self._job.validation)

    @property
    def best_epoch(self) -> int | None:
        """The epoch whose weights the model has in the end, where that is not simply the last one."""
        best = best_epoch(self.epochs, self._job.validation)
        return best.epoch if best and self._job.validation.keeps_best else None

    @property
    def training_accuracy(self) -> float | None:
        """The accuracy on the training images in the epoch whose weights the model has in the end."""
        epochs = [epoch for epoch in self.epochs if self.best_epoch in (None, epoch.epoch)]
        return epochs[-1].accuracy if epochs else None

    @property
    def learning_rate(self) -> float:
        """The rate that the optimizer goes by now."""
        return _number(plain_optimizer(self._models.training.optimizer).learning_rate)

    def history(self) -> str:
        """Return the history as a checkpoint stores it."""
        return _EPOCHS.dump_json(self.epochs).decode()

    def restore(self, history: str, best: list[Array]) -> None:
        """Go on from a checkpoint. Raises BadInputError where it was written by another version."""
        try:
            self.epochs, self.best = _EPOCHS.validate_json(history or "[]"), best
        except ValidationError as error:
            raise BadInputError("the checkpoint is of another version of the trainer; start afresh") from error

    def lacks(self, step: int, steps_per_epoch: int) -> bool:
        """Whether the epoch that ends with `step` is still to be validated: the checkpoint was written before that."""
        every = self.spec_every
        if every is None or step == 0 or step % steps_per_epoch or step // steps_per_epoch % every:
            return False
        return not any(epoch.step == step for epoch in self.epochs)

    def test_end(self) -> None:
        """While the tested weights are in the model."""
        if self._job.validation.keeps_best:
            to_array = self._keras.ops.convert_to_numpy
            self._serving_weights = [to_array(weight).copy() for weight in self._models.serving.weights]

    def epoch_end(self, epoch: int, step: int, logs: Mapping[str, Any], seconds: float) -> bool:
        """`epoch` from 1. Whether training ends here."""
        figures = {name: _figure(logs, key) for name, key in (_TRAINED | _VALIDATED).items()}
        rate = self.learning_rate
        self.epochs.append(Epoch(epoch=epoch, step=step, rate=rate, seconds=round(seconds, 3), **figures))
        if figures["validation_loss"] is None or self.spec_every is None:
            return False
        if self.best_epoch == epoch:
            self.best = self._serving_weights
        self._serving_weights = []
        if self._job.optimizer.schedule.name is ScheduleName.PLATEAU:
            scale = plateau_scale(self.epochs, self._job.validation, self._job.optimizer.schedule)
            plain_optimizer(self._models.training.optimizer).rate_scale.assign(scale)
        return self.is_over

    def show_best(self) -> None:
        """Put the best weights into the model, where they are kept."""
        for weight, array in zip(self._models.serving.weights, self.best, strict=False):
            weight.assign(array)


def _number(value: Any) -> float:
    """Return the number in a variable, on one device or mirrored on several, or in a tensor."""
    return float(value.numpy() if hasattr(value, "numpy") else value)


def _figure(logs: Mapping[str, Any], name: str) -> float | None:
    return round(float(logs[name]), 6) if name in logs else None
