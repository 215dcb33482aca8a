"""Whether the trainer can train a network of a person's own, and its model up to the logits.

The reader of a file asks before anything is estimated, and the trainer asks the same before it trains.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from trainplan.workloads.graph import GLOBAL_POOLS, WINDOW_POOLS, Graph, Kind, Operator

if TYPE_CHECKING:
    from collections.abc import Collection

_PASSING = GLOBAL_POOLS | WINDOW_POOLS
_PASSING |= {Kind.ADD, Kind.CONCAT, Kind.DROPOUT, Kind.FIXED_SCALE, Kind.FLATTEN, Kind.PADDING, Kind.UP_SAMPLING}
_PASSING |= {Kind.REARRANGE, Kind.REDUCE}
"""What leaves probabilities in a fixed range, and logits logits."""
_PASSING_OPERATIONS = frozenset(
    {
        "Average", "Clip", "GetItem", "GlobalAveragePooling1D", "GlobalMaxPooling1D", "Max", "Maximum", "Mean",
        "Median", "Min", "Minimum", "Permute", "Prod", "Quantile", "Split", "Squeeze", "Stack", "Sum", "Take",
        "Transpose",
    }
)  # fmt: skip
"""The same of operations of Keras that a graph has no kind for."""
_FLOATS = {"float16", "bfloat16", "float32", "float64"}
_NOT_LOGITS = "the trainer computes its loss of logits, and takes a softmax as the network's last value alone"


class NotTrainableError(Exception):
    """The message says why, `hint` what to write instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def model_of_logits(keras: Any, model: Any, graph: Graph, own: Collection[str]) -> Any:
    """The model of Keras that `graph` was read from, up to its last softmax: the trainer adds one of its own.

    `own` are the names of classes in it that are not Keras'. The model may be changed. Raises NotTrainableError.
    """
    check_ending(graph, own)
    _check_methods(keras, model)
    count = model.count_params()
    if count != graph.parameters + graph.statistics:
        raise NotTrainableError(
            f"its model has {count:,} weights, and those on the way from its image to its output are "
            f"{graph.parameters + graph.statistics:,}",
            "leave out the layers that the output does not need",
        )
    if graph.operators[-1].kind is Kind.SOFTMAX:
        model = _without_softmax(keras, model)
    try:
        keras.saving.serialize_keras_object(model)
    except Exception as error:  # noqa: BLE001 - the person's code may raise anything
        text = str(error).partition("Please implement")[0] or type(error).__name__
        first = textwrap.shorten(text, 300, placeholder=" ...")
        raise NotTrainableError(
            f"its network could not be kept after training: {first}",
            "give each class of your own a get_config, or write it as a function that applies layers of Keras",
        ) from None
    return model


def check_precision(model: Any, usual: str) -> None:
    """Raises NotTrainableError where a layer with weights computes neither in float32 nor in `usual`, the job's."""
    for layer in model._flatten_layers(include_self=False):
        found = getattr(getattr(layer, "dtype_policy", None), "compute_dtype", "float32")
        if layer.weights and found in _FLOATS - {"float32", usual}:
            raise NotTrainableError(
                f"{layer.name} computes in {found}, whatever precision the job has",
                "leave dtype and the policy out of the file, and write precision (fp32, amp_fp16, amp_bf16) in the job",
            )


def _check_methods(keras: Any, model: Any) -> None:
    """Raises NotTrainableError where the model brings a training of its own, which the trainer would leave out."""
    for name in ("train_step", "compute_loss"):
        if getattr(type(model), name, None) is not getattr(keras.Model, name, None):
            raise NotTrainableError(
                f"its model has a {name} of its own, which the trainer does not call: its loss is cross-entropy",
                f"leave {name} out, or train it by a script of your own (script: train.py)",
            )


def check_ending(graph: Graph, own: Collection[str] = ()) -> None:
    """Raises NotTrainableError where the output is neither logits nor one softmax over them.

    A softmax or sigmoid is followed back through what keeps its range. A layer of the person's own without weights that
    could not be opened may be anything.
    """
    last = graph.operators[-1]
    if last.kind is Kind.ACTIVATION and last.function not in ("linear", ""):
        raise NotTrainableError(
            f"its model ends with {last.function}; what the trainer trains ends with softmax or without an activation",
            "leave the activation of the last layer out",
        )
    is_softmax = last.kind is Kind.SOFTMAX
    if is_softmax and [one.name for one in graph.operators if one.kind is Kind.SOFTMAX].count(last.name) > 1:
        raise NotTrainableError(f"its last layer, {last.name}, is applied elsewhere too", _NOT_LOGITS)
    found = _bounded(graph, last.inputs[0] if is_softmax else len(graph.operators) - 1, own)
    if found is None:
        return
    if found.kind is Kind.UNKNOWN and found.function in own:
        raise NotTrainableError(
            f"its model ends with {found.function}, a layer of your own of which cannot be read what it does",
            "apply operations of keras.ops in it, in the place of those of a framework",
        )
    what = "softmax" if found.kind is Kind.SOFTMAX else found.function
    behind = f"{last.name} ({last.function or last.kind})"
    raise NotTrainableError(
        f"its output is made of probabilities: {found.name} is a {what}, and {behind} comes behind it",
        f"leave the {what} out: {_NOT_LOGITS}",
    )


def _bounded(graph: Graph, position: int, own: Collection[str]) -> Operator | None:
    """What gives the values there a fixed range; None for logits."""
    operator = graph.operators[position]
    kind, name = operator.kind, operator.function.lower()
    if kind is Kind.SOFTMAX:
        return operator
    if kind is Kind.ACTIVATION:
        if operator.function in ("linear", ""):
            return _bounded(graph, operator.inputs[0], own)
        return operator if _is_probability(name) or name == "exp" else None
    if kind is Kind.MULTIPLY:  # a gate of logits leaves logits; probabilities among themselves do not
        found = [_bounded(graph, before, own) for before in operator.inputs]
        return found[0] if all(found) else None
    if kind is Kind.UNKNOWN:
        if _is_probability(name) or name == "exp":
            return operator
        if operator.function in own:
            return None if operator.parameters or operator.statistics else operator
        if operator.function not in _PASSING_OPERATIONS:
            return None
    elif kind not in _PASSING:
        return None
    return next(filter(None, (_bounded(graph, before, own) for before in operator.inputs)), None)


def _is_probability(function: str) -> bool:
    return ("softmax" in function or "sigmoid" in function or function == "sparsemax") and not function.startswith(
        "log"
    )


def _without_softmax(keras: Any, model: Any) -> Any:
    """Raises NotTrainableError where the softmax is out of reach."""
    last = _last(model)
    if _is_softmax_layer(last) and last is not model:
        node = last._inbound_nodes[model.outputs[0]._keras_history.node_index]
        return keras.Model(model.inputs, node.input_tensors[0], name=model.name)
    while isinstance(last, keras.Model) and _last(last) is not last:
        last = _last(last)
    layers = list(last._flatten_layers()) if hasattr(last, "_flatten_layers") else [last]
    found = [layer for layer in layers if getattr(getattr(layer, "activation", None), "__name__", "") == "softmax"]
    if len(found) == 1:
        found[0].activation = keras.activations.linear
        return model
    raise NotTrainableError(
        f"its model ends with a softmax inside {last.name}, where the trainer cannot take it off",
        "leave it out: the trainer adds one",
    )


def _is_softmax_layer(operation: Any) -> bool:
    """A layer or an operation of Keras that is a softmax and nothing else."""
    return type(operation).__name__ == "Softmax" and type(operation).__module__.startswith("keras.")


def _last(model: Any) -> Any:
    """The operation that gives a model's output; the model itself where it does not tell."""
    outputs = getattr(model, "outputs", None)
    return outputs[0]._keras_history.operation if outputs else model
