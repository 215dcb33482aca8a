"""The job's optimizer as a Keras optimizer."""

from __future__ import annotations

import inspect
from typing import Any, assert_never

from trainplan.workloads.recipe import OptimizerSpec, ScheduleSpec
from trainplan.workloads.terms import OptimizerName
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.rates import RunSteps, rate_scale, scheduled_rate

ONE_EPOCH = RunSteps(steps_per_epoch=1, epochs=1)


def make_optimizer(
    keras: Any,
    spec: OptimizerSpec,
    run: RunSteps = ONE_EPOCH,
    *,
    accumulate: int = 1,
    base_layers: frozenset[str] = frozenset(),
) -> Any:
    """Weight decay spares biases and batch norm. `momentum` is for sgd and rmsprop; adam and adamw keep their own two.

    For sgd it acts as the L2 term of the papers does, whose gradient momentum lets act 1 / (1 - momentum) times:
    Keras shrinks the weights beside the momentum, so that factor is given to it. For adam, adamw and rmsprop it is
    decoupled (weight -= rate * decay * weight at each step), as in AdamW.

    With `accumulate` it takes the mean gradient of so many batches for one step: of equal parts of a batch that is the
    batch's own gradient, so rate, decay and the count of steps mean what they mean without it. `run` is what a
    schedule counts in. Layers named in `base_layers` learn at `base_rate_share` of the rate; their weight decay keeps
    the whole rate. Raises BadInputError where Keras cannot do that.
    """
    decay = spec.weight_decay or None
    classes = _Averaging(keras.optimizers) if spec.ema else keras.optimizers
    if spec.base_rate_share != 1:
        classes = _TwoRates(classes, spec.base_rate_share, base_layers)
    more = {**_accumulating(keras.optimizers, accumulate), **_refinements(keras, spec)}
    scale = rate_scale(keras, spec)
    rate = scheduled_rate(keras, spec, run, scale, accumulate=accumulate)
    match spec.name:
        case OptimizerName.SGD:
            like_l2 = spec.weight_decay / (1 - spec.momentum) or None
            result = classes.SGD(rate, momentum=spec.momentum, weight_decay=like_l2, **more)
        case OptimizerName.ADAM:
            result = classes.Adam(rate, weight_decay=decay, **more)
        case OptimizerName.ADAMW:
            result = classes.AdamW(rate, weight_decay=spec.weight_decay, **more)
        case OptimizerName.RMSPROP:
            result = classes.RMSprop(rate, momentum=spec.momentum, weight_decay=decay, **more)
        case _:
            assert_never(spec.name)
    if scale is not None:
        result.rate_scale = scale  # So it is one of the optimizer's variables, and in the checkpoint with them.
    if decay:
        result.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return result


def needs_keras_3(keras: Any, what: str, instead: str) -> None:
    """Raises BadInputError where the Keras in use is older; `what` of the job needs it."""
    if not hasattr(keras, "ops"):
        raise BadInputError(
            f"{what} needs Keras 3 (TensorFlow 2.16 or newer), which is not installed where the trainer runs; {instead}"
        )


def plain_optimizer(optimizer: Any) -> Any:
    """The optimizer of a model without what Keras puts around it for mixed precision."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _accumulating(optimizers: Any, accumulate: int) -> dict[str, int]:
    if accumulate == 1:
        return {}
    if "gradient_accumulation_steps" not in inspect.signature(optimizers.SGD).parameters:
        raise BadInputError(
            f"accumulate: {accumulate} needs Keras 3 (TensorFlow 2.16 or newer), which is not installed where the "
            "trainer runs; leave it out and write a smaller global_batch_size"
        )
    return {"gradient_accumulation_steps": accumulate}


def _refinements(keras: Any, spec: OptimizerSpec) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if spec.nesterov:
        more["nesterov"] = True
    if spec.clip_norm is not None:
        more["global_clipnorm"] = spec.clip_norm
    if spec.ema is not None:
        more |= {"use_ema": True, "ema_momentum": spec.ema}
    if more or spec.schedule != ScheduleSpec() or spec.name is OptimizerName.ADAMW:
        needs_keras_3(keras, "this optimizer", "write a constant rate and a plain sgd, adam or rmsprop")
    return more


class _TwoRates:
    """Optimizers of Keras that train the layers named `slower` at a share of the rate.

    Keras has one rate for all weights. Each of its optimizers computes a weight's step in `update_step`, which is given
    the rate.
    """

    def __init__(self, optimizers: Any, share: float, slower: frozenset[str]) -> None:
        self._optimizers = optimizers
        self._share = share
        self._slower = slower

    def __getattr__(self, name: str) -> Any:
        plain, share, slower = getattr(self._optimizers, name), self._share, self._slower

        class TwoRates(plain):  # type: ignore[misc,valid-type]
            def build(self, variables: Any) -> None:
                super().build(variables)
                self.slower_keys = {self._var_key(one) for one in variables if one.path.split("/")[0] in slower}

            def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
                is_slower = self._var_key(variable) in self.slower_keys
                super().update_step(gradient, variable, learning_rate * share if is_slower else learning_rate)

        return TwoRates


class _Averaging:
    """Keras' optimizers, whose averages stay beside the weights.

    Keras puts the averages in the place of the weights after each call of `fit`; training that goes on, or is gone on
    with from a checkpoint, would then begin at the averages.
    """

    def __init__(self, optimizers: Any) -> None:
        self._optimizers = optimizers

    def __getattr__(self, name: str) -> Any:
        plain = getattr(self._optimizers, name)

        class Averaging(plain):  # type: ignore[misc,valid-type]
            def finalize_variable_values(self, var_list: Any) -> None:
                pass

            def show_averages(self, var_list: Any) -> None:
                super().finalize_variable_values(var_list)

        return Averaging
