"""The operations of a Keras model in the order of their work, with models and layers inside it opened up."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENED = frozenset(
    {
        "AdditiveAttention", "Attention", "Functional", "GroupQueryAttention", "GroupedQueryAttention", "Lambda",
        "MultiHeadAttention", "Sequential", "SpectralNormalization", "TimeDistributed", "Wrapper",
    }
)  # fmt: skip
"""Layers of Keras that hold others, or a function of the person's own, and whose `call` is made of operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Weights of a layer that was opened which none of its operations is given as they are, such as a class token that
    is repeated, or the vector of a spectral norm."""

    name: str
    weights: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a layer or operation of Keras on tensors of Keras, which stand for values without having any."""

    operation: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    arguments: dict[str, Any]
    """By the names that the operation's `call` gives them."""
    fold: int = 1
    """How many of the rows along the batch's axis are of one image: windows, say, that a reshape has put there."""

    @property
    def weights(self) -> list[Any]:
        """Those of a layer; of an operation the variables that it is given."""
        found = [*weights_of(self.operation), *_variables(list(self.arguments.values()))]
        return list({id(weight): weight for weight in found}.values())

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
        """Put what is inside in the place of the call; False where its code does not take tensors without values, or
        gives others than the call does."""
        operation = node.operation
        self._note_own(operation)
        before = len(self.steps)
        try:
            outputs = self._flat(self._inside(operation, node))
            self._walk(outputs, {id(tensor) for tensor in node.input_tensors})
        except Exception:  # noqa: BLE001 - the person's code, on values that are none
            del self.steps[before:]
            return False
        if not _are_alike(outputs, node.outputs):
            del self.steps[before:]
            return False
        self._held += outputs
        self._same |= {id(old): self._resolved(new) for old, new in zip(node.outputs, outputs, strict=True)}
        inside = {id(weight) for step in self.steps[before:] for weight in step.weights}
        beside = tuple(weight for weight in operation.weights if id(weight) not in inside)
        if beside:
            first = node.outputs[0]
            held = Beside(name=str(operation.name), weights=beside)
            given = (self._same.pop(id(first)),)
            self.steps.append(Step(operation=held, inputs=given, outputs=(first,), arguments={}))
        return True

    def _inside(self, operation: Any, node: Any) -> Any:
        """What the layer gives for the call's tensors, by the operations inside."""
        if type(operation).__name__ != "TimeDistributed":
            return operation.call(*node.arguments.args, **node.arguments.kwargs)
        (images,) = node.input_tensors
        # The layer itself calls what is inside it in a way that leaves no layer to be seen.
        parts = [operation.layer(images[:, number]) for number in range(images.shape[1])]
        return self._keras.ops.stack(parts, axis=1)

    def _resolved(self, tensor: Any) -> Any:
        return self._same.get(id(tensor), tensor)

    def _flat(self, outputs: Any) -> list[Any]:
        flat: list[Any] = self._keras.tree.flatten(outputs)
        return flat


def weights_of(operation: Any) -> list[Any]:
    """The weights of a layer; none for an operation without."""
    return list(getattr(operation, "weights", ()))


def _are_alike(some: list[Any], others: list[Any]) -> bool:
    shapes = [(getattr(one, "shape", ()), other.shape) for one, other in zip(some, others, strict=False)]
    return len(some) == len(others) and all(
        len(one) == len(other) and all(None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True))
        for one, other in shapes
    )


@contextmanager
def followed_without_values(keras: Any) -> Iterator[None]:
    """While it lasts, Keras follows three things on tensors without values that it does on those with values.

    EinsumDense gives each side of its output that its equation tells: Keras gives those alone that its `output_shape`
    names, and MultiHeadAttention, which is made of them, none of its places. A weight may stand on the left of an
    operator (`self.scale * x`). A layer may call `add_loss`, whose few values are not counted.
    """
    changes: list[tuple[Any, str, Any]] = [
        (keras.layers.EinsumDense, "compute_output_shape", _einsum_shape),
        (keras.layers.Layer, "add_loss", lambda *_: None),
    ]
    changes += [(keras.Variable, name, _left(keras, getattr(keras.Variable, name))) for name in _OPERATORS]
    usual = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, function in changes:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in usual:
            setattr(owner, name, function)


_OPERATORS = tuple(f"__{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"))


def _left(keras: Any, usual: Any) -> Any:
    """The operator of a weight, which leaves what it has no values of to the tensor on its right."""

    def operator(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, keras.KerasTensor) else usual(self, other)

    return operator


def _einsum_shape(self: Any, input_shape: Any) -> tuple[int | None, ...]:
    given, taken = self.equation.replace(" ", "").split("->")
    letters, of_kernel = given.split(",")
    if "." in self.equation:
        free = len(input_shape) - len(letters.replace("...", ""))
        dots = "".join(chr(ord("A") + number) for number in range(free))
        letters, taken = letters.replace("...", dots), taken.replace("...", dots)
    sizes = dict(zip(of_kernel, self.kernel.shape, strict=True)) | dict(zip(letters, input_shape, strict=True))
    return tuple(sizes[letter] for letter in taken)


def _variables(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _variables(list(value))
        elif hasattr(value, "trainable") and hasattr(value, "assign"):
            found.append(value)
    return found


def _in_order(outputs: list[Any], known: set[int]) -> list[Any]:
    """The nodes on the way from the known tensors to the outputs, each after those that it takes values from."""
    done: set[int] = set()
    order: list[Any] = []
    # A layer may give what it was given: dropout of whole branches does, but for its training.
    made = [tensor for tensor in reversed(outputs) if id(tensor) not in known]
    stack = [(node, False) for node in map(_node, made) if node is not None]
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
