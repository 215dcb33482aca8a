"""The last test on the test images: loss, top-1, top-5, and which class was taken for which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trainplan.workloads.accuracy_gap import GAP
from trainplan.workloads.trainer.counts import Confusion
from trainplan.workloads.trainer.model import MOST_LIKELY

if TYPE_CHECKING:
    from trainplan.workloads.trainer.replicas import Replicas
    from trainplan.workloads.trainer.torch_processes import TorchProcesses

MOST_CLASSES = 1_000
"""Of a net whose classes are counted one by one; the count of pairs takes 4 MB then."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HoldOutResult:
    """`accuracy` and `top5` are shares of 1; `top5` is None where there are no more than five classes. `confusion`:
    images by (true class, taken for); None beyond MOST_CLASSES classes and with Keras 2. `training` is the accuracy on
    the training images while these weights were trained, `training_tested` that of a test of some of them afterwards,
    where the two accuracies are far apart."""

    loss: float
    accuracy: float
    top5: float | None = None
    confusion: Confusion | None = None
    training: float | None = None
    training_tested: float | None = None

    @property
    def is_far_below_training(self) -> bool:
        """Whether the test images are told far worse than the training images were."""
        return self.training is not None and self.training - self.accuracy > GAP

    @property
    def figures(self) -> dict[str, float]:
        """What the end of an attempt tells of it beside the accuracy, by the names of its line; without what is not
        known."""
        named = {
            "hold_out_top5": self.top5,
            "hold_out_most_frequent": self.most_frequent,
            "training_accuracy": self.training,
            "training_tested_accuracy": self.training_tested,
        }
        return {name: value for name, value in named.items() if value is not None}

    @property
    def most_frequent(self) -> float | None:
        """The share of the most frequent class: the accuracy of a model that always names it. None without pairs."""
        if self.confusion is None or not self.confusion.any():
            return None
        return round(float(self.confusion.sum(axis=1).max() / self.confusion.sum()), 6)


def tested(
    keras: Any,
    model: Any,
    feed: Any,
    *,
    xla: bool,
    between: Callable[[], None],
    together: Replicas | TorchProcesses | None,
) -> HoldOutResult:
    """Test the compiled `model`, which ends in logits. `between` is called after each batch and may raise. Of several
    processes each tests its part, and all get the result of the whole.
    """
    callbacks = [keras.callbacks.LambdaCallback(on_test_batch_end=lambda *_, **__: between())]
    counting = None
    if hasattr(keras, "ops"):
        classes = int(model.outputs[0].shape[-1])
        metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        if classes > MOST_LIKELY:
            metrics.append(keras.metrics.SparseTopKCategoricalAccuracy(MOST_LIKELY, name="top5"))
        if classes <= MOST_CLASSES:
            counting = _pairs(keras, classes)
            metrics.append(counting)
        # A model of its own around the same layers: the metrics of training stay as cheap as they are.
        model = (together.model(keras) if together else keras.Model)(model.inputs, model.outputs)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(loss=loss, metrics=metrics, jit_compile=xla)
    measured = model.evaluate(feed, verbose=0, return_dict=True, callbacks=callbacks)
    figures = {name: round(float(value), 6) for name, value in measured.items()}
    confusion = None if counting is None else _rounded(keras, counting.pairs)
    if together is not None and confusion is not None:
        confusion = together.whole(confusion)
    return HoldOutResult(
        loss=figures["loss"],
        accuracy=figures["accuracy"],
        top5=figures.get("top5"),
        confusion=confusion,
    )


def _rounded(keras: Any, variable: Any) -> Confusion:
    counts: Confusion = np.rint(keras.ops.convert_to_numpy(variable)).astype(np.int64)
    return counts


def _pairs(keras: Any, classes: int) -> Any:
    """A metric that counts pairs of the true class and the one taken for it."""
    ops = keras.ops

    class Pairs(keras.metrics.Metric):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="pairs", dtype="float32")
            self.pairs = self.add_weight(shape=(classes, classes), initializer="zeros", name="pairs")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            del sample_weight
            true = ops.one_hot(ops.reshape(ops.cast(y_true, "int32"), (-1,)), classes, dtype="float32")
            predicted = ops.one_hot(ops.argmax(y_pred, axis=-1), classes, dtype="float32")
            self.pairs.assign_add(ops.matmul(ops.transpose(true), predicted))

        def result(self) -> Any:
            return ops.sum(self.pairs)

    return Pairs()
