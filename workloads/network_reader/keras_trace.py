"""The operations of a Keras model in the order of their work, with models and layers inside it opened up."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

_OPENED = frozenset({"Functional", "Sequential", "Lambda"})
"""Layers of Keras that hold others, or a function of the person's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a layer or operation of Keras on tensors of Keras, which stand for values without having any."""

    operation: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    arguments: dict[str, Any]
    """By the names that the operation's `call` gives them."""

    @property
    def name(self) -> str:
        """The layer's own."""
        return str(self.operation.name)

    @property
    def kind(self) -> str:
        """The name of the class."""
        return type(self.operation).__name__


class Trace:
    """What a model does with one tensor. `own` are the names of the classes in it that are not Keras', and of
    Lambda."""

    def __init__(self, keras: Any) -> None:
        self._keras = keras
        self.steps: list[Step] = []
        self.own: list[str] = []
        self._same: dict[int, Any] = {}
        self._held: list[Any] = []

    def run(self, model: Any, image: Any) -> Any:
        """Note what the model does with the tensor; returns the tensor that comes out."""
        outer = model(image)  # builds what is not built yet
        self._note_own(model)
        output = model.call(image)
        self._walk(self._flat(output), {id(image)})
        self._held += [outer, output]
        return self._resolved(output)

    def _walk(self, outputs: list[Any], known: set[int]) -> None:
        for node in _in_order(outputs, known):
            operation = node.operation
            self._held.append(node)
            if self._is_opened(operation) and self._open(node):
                continue
            self.steps.append(
                Step(
                    operation=operation,
                    inputs=tuple(self._resolved(tensor) for tensor in node.input_tensors),
                    outputs=tuple(node.outputs),
                    arguments=_named(operation, node),
                )
            )

    def _is_opened(self, operation: Any) -> bool:
        return type(operation).__name__ in _OPENED or not type(operation).__module__.startswith("keras.")

    def _note_own(self, operation: Any) -> None:
        kind = type(operation).__name__
        is_own = kind == "Lambda" or not type(operation).__module__.startswith("keras.")
        if is_own and kind not in self.own:
            self.own.append(kind)

    def _open(self, node: Any) -> bool:
        """Put what is inside in the place of the call; False where that is not all it does: it has weights that none of
        the layers inside has, or its code does not take tensors without values."""
        operation = node.operation
        self._note_own(operation)
        before = len(self.steps)
        try:
            outputs = self._flat(operation.call(*node.arguments.args, **node.arguments.kwargs))
            self._walk(outputs, {id(tensor) for tensor in node.input_tensors})
        except Exception:  # noqa: BLE001 - the person's code, on values that are none
            del self.steps[before:]
            return False
        inside = {id(weight) for step in self.steps[before:] for weight in weights_of(step.operation)}
        if not inside >= {id(weight) for weight in operation.weights} or len(outputs) != len(node.outputs):
            del self.steps[before:]
            return False
        self._same |= {id(old): self._resolved(new) for old, new in zip(node.outputs, outputs, strict=True)}
        return True

    def _resolved(self, tensor: Any) -> Any:
        return self._same.get(id(tensor), tensor)

    def _flat(self, outputs: Any) -> list[Any]:
        flat: list[Any] = self._keras.tree.flatten(outputs)
        return flat


def weights_of(operation: Any) -> list[Any]:
    """The weights of a layer; none for an operation without."""
    return list(getattr(operation, "weights", ()))


def _in_order(outputs: list[Any], known: set[int]) -> list[Any]:
    """The nodes on the way from the known tensors to the outputs, each after those that it takes values from."""
    done: set[int] = set()
    order: list[Any] = []
    stack = [(node, False) for node in map(_node, reversed(outputs)) if node is not None]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            order.append(node)
            continue
        if id(node) in done:
            continue
        done.add(id(node))
        stack.append((node, True))
        for tensor in reversed(node.input_tensors):
            before = None if id(tensor) in known else _node(tensor)
            if before is not None and id(before) not in done:
                stack.append((before, False))
    return order


def _node(tensor: Any) -> Any | None:
    """The call that the tensor came from; None for one that stands at the beginning."""
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    return history.operation._inbound_nodes[history.node_index]


def _named(operation: Any, node: Any) -> dict[str, Any]:
    try:
        bound = inspect.signature(operation.call).bind(*node.arguments.args, **node.arguments.kwargs)
    except (TypeError, ValueError):
        return dict(node.arguments.kwargs)
    return dict(bound.arguments)
