"""The job's optimizer as a Keras optimizer."""

from __future__ import annotations

from typing import Any, assert_never

from workloads.job import OptimizerName, OptimizerSpec


def make_optimizer(keras: Any, spec: OptimizerSpec) -> Any:
    """Weight decay spares biases and batch norm. `momentum` is for sgd and rmsprop; adam keeps its own two.

    For sgd it acts as the L2 term of the papers does, whose gradient momentum lets act 1 / (1 - momentum) times:
    Keras shrinks the weights beside the momentum, so that factor is given to it. For adam and rmsprop it is decoupled
    (weight -= rate * decay * weight at each step), as in AdamW.
    """
    decay = spec.weight_decay or None
    optimizers = keras.optimizers
    match spec.name:
        case OptimizerName.SGD:
            like_l2 = spec.weight_decay / (1 - spec.momentum) or None
            made = optimizers.SGD(spec.learning_rate, momentum=spec.momentum, weight_decay=like_l2)
        case OptimizerName.ADAM:
            made = optimizers.Adam(spec.learning_rate, weight_decay=decay)
        case OptimizerName.RMSPROP:
            made = optimizers.RMSprop(spec.learning_rate, momentum=spec.momentum, weight_decay=decay)
        case _:
            assert_never(spec.name)
    if decay:
        made.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return made
