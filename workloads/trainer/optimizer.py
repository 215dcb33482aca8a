"""The job's optimizer as a Keras optimizer."""

from __future__ import annotations

from typing import Any, assert_never

from workloads.job import OptimizerName, OptimizerSpec


def make_optimizer(keras: Any, spec: OptimizerSpec) -> Any:
    """Weight decay is decoupled from the loss (weight -= rate * decay * weight at each step) and spares biases
    and batch norm. `momentum` is for sgd and rmsprop; adam keeps its own two."""
    decay = spec.weight_decay or None
    optimizers = keras.optimizers
    match spec.name:
        case OptimizerName.SGD:
            made = optimizers.SGD(spec.learning_rate, momentum=spec.momentum, weight_decay=decay)
        case OptimizerName.ADAM:
            made = optimizers.Adam(spec.learning_rate, weight_decay=decay)
        case OptimizerName.RMSPROP:
            made = optimizers.RMSprop(spec.learning_rate, momentum=spec.momentum, weight_decay=decay)
        case _:
            assert_never(spec.name)
    if decay:
        made.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return made
