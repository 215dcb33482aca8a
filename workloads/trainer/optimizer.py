"""The job's optimizer as a Keras optimizer."""

from __future__ import annotations

import inspect
from typing import Any, assert_never

from workloads.job import OptimizerName, OptimizerSpec
from workloads.trainer.errors import BadInputError


def make_optimizer(keras: Any, spec: OptimizerSpec, *, accumulate: int = 1) -> Any:
    """Weight decay spares biases and batch norm. `momentum` is for sgd and rmsprop; adam keeps its own two.

    For sgd it acts as the L2 term of the papers does, whose gradient momentum lets act 1 / (1 - momentum) times:
    Keras shrinks the weights beside the momentum, so that factor is given to it. For adam and rmsprop it is decoupled
    (weight -= rate * decay * weight at each step), as in AdamW.

    With `accumulate` it takes the mean gradient of so many batches for one step: of equal parts of a batch that is the
    batch's own gradient, so rate, decay and the count of steps mean what they mean without it. Raises BadInputError
    where Keras cannot do that.
    """
    decay = spec.weight_decay or None
    optimizers = keras.optimizers
    more = _accumulating(optimizers, accumulate)
    match spec.name:
        case OptimizerName.SGD:
            like_l2 = spec.weight_decay / (1 - spec.momentum) or None
            made = optimizers.SGD(spec.learning_rate, momentum=spec.momentum, weight_decay=like_l2, **more)
        case OptimizerName.ADAM:
            made = optimizers.Adam(spec.learning_rate, weight_decay=decay, **more)
        case OptimizerName.RMSPROP:
            made = optimizers.RMSprop(spec.learning_rate, momentum=spec.momentum, weight_decay=decay, **more)
        case _:
            assert_never(spec.name)
    if decay:
        made.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return made


def _accumulating(optimizers: Any, accumulate: int) -> dict[str, int]:
    if accumulate == 1:
        return {}
    if "gradient_accumulation_steps" not in inspect.signature(optimizers.SGD).parameters:
        raise BadInputError(
            f"accumulate: {accumulate} needs Keras 3 (TensorFlow 2.16 or newer), which is not installed where the "
            "trainer runs; leave it out and write a smaller global_batch_size"
        )
    return {"gradient_accumulation_steps": accumulate}
