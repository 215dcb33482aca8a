"""Batch norm's averages: with a memory that fits the run, and worked out anew before a model is tested and kept.

ADR 57 has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from trainplan.workloads.hold_out import AVERAGED_IMAGES
from trainplan.workloads.job import Framework
from trainplan.workloads.trainer.feed import Schedule
from trainplan.workloads.trainer.seeds import derived_seed

if TYPE_CHECKING:
    from trainplan.workloads.trainer.backend import Toolkit
    from trainplan.workloads.trainer.prepare import Ready

_BATCH = (16, 64)
"""The fewest and the most images that are normalised together: fewer are noisy, more need memory."""
_STEPS = (10, 100)
"""The fewest and the most steps that the averages reach back while a network trains; Keras' default is 100, that of
PyTorch 10."""
_EPOCH_SHARE = 4


def fit_momentum(keras: Any, model: Any, steps_per_epoch: int) -> None:
    """Let the averages of `model` reach back a quarter of an epoch: where an epoch has few steps, Keras' own would be
    made of the values they began with when the first epochs are validated."""
    least, most = _STEPS
    reach = min(max(steps_per_epoch // _EPOCH_SHARE, least), most)
    for layer in _batch_norms(keras, model):
        layer.momentum = min(layer.momentum, 1 - 1 / reach)


def renewing_schedule(ready: Ready) -> Schedule | None:
    """The training images to make the averages of; None for a network without batch norm that trains, and for Keras 2,
    whose layers cannot be watched."""
    keras = ready.toolkit.keras
    if not hasattr(keras, "ops") or not any(one.trainable for one in _batch_norms(keras, ready.models.serving)):
        return None
    least, most = _BATCH
    count = ready.split.train.count
    batch = min(most, max(least, ready.job.global_batch_size // ready.job.accumulate), count)
    steps = max(1, min(AVERAGED_IMAGES, count) // batch)
    return Schedule(batch_size=batch, steps_per_epoch=steps, epochs=1, seed=derived_seed(ready.job.seed, "averages"))


def renew(toolkit: Toolkit, kept_model: Any, model: Any, feed: Iterable[Any], between: Callable[[], None]) -> None:
    """Set the averages of every batch norm of `kept_model` that trains to those of the images of `feed`, under the
    weights of now.

    `model` computes on one device with the same weights, and may be the same. Images are as in a test: neither
    changed nor with dropout. `between` is called after each batch and may raise.
    """
    keras = toolkit.keras
    kept = _batch_norms(keras, kept_model)
    layers = _batch_norms(keras, model)
    trained = [number for number, layer in enumerate(kept) if layer.trainable]
    seen: dict[int, list[tuple[Any, Any]]] = {number: [] for number in trained}
    with _watched([layers[number] for number in trained]) as watched:
        step = _step(toolkit, model, watched)
        for images, *_ in feed:
            for position, mean, variance in step(np.asarray(images)):
                seen[trained[position]].append((_array(keras, mean), _array(keras, variance)))
            between()
    for number, pairs in seen.items():
        means, variances = (np.stack(values) for values in zip(*pairs, strict=True))
        kept[number].moving_mean.assign(means.mean(axis=0))
        # Of all images: within the batches and between them.
        kept[number].moving_variance.assign(variances.mean(axis=0) + means.var(axis=0))


def _batch_norms(keras: Any, model: Any) -> list[Any]:
    """Every batch norm inside, at any depth, in the order of the model."""
    layers = model._flatten_layers(include_self=False, recursive=True)
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization)]


class _Watched:
    """`now` has (number of the layer, mean, variance) for each time that a layer was applied to the last batch."""

    def __init__(self) -> None:
        self.now: list[tuple[int, Any, Any]] = []


@contextmanager
def _watched(layers: list[Any]) -> Iterator[_Watched]:
    """Let `layers` normalise by the batch, as in training, while all others work as in a test."""
    watched = _Watched()
    as_it_was = [(layer.momentum, [variable + 0 for variable in _statistics(layer)]) for layer in layers]

    def by_batch(number: int, layer: Any, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(inputs: Any, **_: object) -> Any:
            outputs = own(inputs, training=True)
            mean, variance = _statistics(layer)
            watched.now.append((number, mean + 0, variance + 0))
            return outputs

        return call

    for number, layer in enumerate(layers):
        layer.momentum = 0.0
        layer.call = by_batch(number, layer, layer.call)
    try:
        yield watched
    finally:
        for layer, (momentum, values) in zip(layers, as_it_was, strict=True):
            del layer.call
            layer.momentum = momentum
            for variable, value in zip(_statistics(layer), values, strict=True):
                variable.assign(value)


def _statistics(layer: Any) -> tuple[Any, Any]:
    return layer.moving_mean, layer.moving_variance


def _step(toolkit: Toolkit, model: Any, watched: _Watched) -> Callable[[Any], list[tuple[int, Any, Any]]]:
    """What applies the model to a batch and returns what was watched, compiled where the framework compiles."""
    numbers: list[int] = []

    def applied(images: Any) -> list[Any]:
        watched.now.clear()
        model(images, training=False)
        numbers[:] = [number for number, _, _ in watched.now]
        return [value for _, *values in watched.now for value in values]

    compiled = _compiled(toolkit, model, applied)

    def step(images: Any) -> list[tuple[int, Any, Any]]:
        values = compiled(images)
        return list(zip(numbers, values[::2], values[1::2], strict=True))

    return step


def _compiled(toolkit: Toolkit, model: Any, applied: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    if toolkit.framework is Framework.TENSORFLOW:
        compiled: Callable[[Any], list[Any]] = toolkit.module.function(applied, autograph=False)
        return compiled
    if toolkit.framework is Framework.TORCH:
        without_gradients: Callable[[Any], list[Any]] = toolkit.module.no_grad()(applied)
        return without_gradients
    variables = model.variables

    def of_values(values: list[Any], images: Any) -> list[Any]:
        # As arguments: captured, the weights would be constants of the compiled program.
        with toolkit.keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return applied(images)

    on_jax = toolkit.module.jit(of_values)
    return lambda images: on_jax([variable.value for variable in variables], images)


def _array(keras: Any, value: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(value), np.float64)
