"""The moving averages of the weights in the place of the weights, while they are tested and saved."""

from __future__ import annotations

from typing import Any

from trainplan.workloads.trainer.optimizer import plain_optimizer


class Averages:
    """The moving averages of a compiled model's weights. Without `optimizer.ema` there are none, and nothing here
    changes anything.

    The weights are copied to the host and back, bit by bit: a test on the way leaves training as it was.
    """

    def __init__(self, keras: Any, model: Any) -> None:
        self._keras = keras
        self._model = model
        self._weights: list[Any] | None = None

    def show(self) -> None:
        """Put the averages in the place of the weights."""
        optimizer = plain_optimizer(self._model.optimizer)
        if self._weights is not None or not hasattr(optimizer, "show_averages"):
            return
        trained = self._model.trainable_variables
        self._weights = self._arrays(trained)
        optimizer.show_averages(trained)
        if hasattr(self._model, "jax_state_sync"):
            # On JAX both would now be one buffer, which a test step takes for itself.
            self._assign(self._arrays(trained))

    def hide(self) -> None:
        """Put the weights back."""
        if self._weights is None:
            return
        self._assign(self._weights)
        self._weights = None

    def _arrays(self, variables: Any) -> list[Any]:
        return [self._keras.ops.convert_to_numpy(variable).copy() for variable in variables]

    def _assign(self, arrays: list[Any]) -> None:
        for variable, array in zip(self._model.trainable_variables, arrays, strict=True):
            variable.assign(array)
