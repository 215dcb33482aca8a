"""From a person's Python file to the graph of the Keras model that its function returns."""

from __future__ import annotations

import importlib
import os
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.workloads.graph import GraphError, Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.graph_file import graph_json
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.guard import ForbiddenError
from trainplan.workloads.network_reader.keras_layers import add_operation
from trainplan.workloads.network_reader.keras_shapes import Written
from trainplan.workloads.network_reader.keras_trace import Step, Trace, followed_without_values
from trainplan.workloads.network_reader.pixel_range import pixel_range
from trainplan.workloads.own_network import OwnFileError, call_builder
from trainplan.workloads.terms import Framework
from trainplan.workloads.trainable_network import NotTrainableError, check_precision, model_of_logits

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL_TYPE = "a keras.Model"
_ALONE = (
    "this one file is all that is read: put its helpers into it, and import Keras and NumPy only; a network of PyTorch "
    "is estimated as model.onnx and trained by a script of your own"
)


def read_keras(
    question: dict[str, Any], begin: Callable[[], object], guard: Callable[[], Callable[[], str]]
) -> dict[str, Any]:
    """The graph as text (`graph`), the names of layers that are not Keras' (`own`), and the lowest and highest value of
    pixels that it expects (`pixel_range`). `begin` is called before anything of the file runs, then `guard`, which says
    what was refused.

    Raises UnreadableError.
    """
    keras = _keras(question["framework"])
    question = question | {"precision": keras.config.dtype_policy().compute_dtype}  # which the file may change
    begin()
    refused = guard()
    try:
        with followed_without_values(keras):
            return _read(keras, question)
    except MemoryError:
        raise
    except GraphError as error:
        raise UnreadableError(str(error)) from None
    except Exception as error:
        if reason := refused():
            hint = "weights=None, and no data: the function only builds the network"
            raise UnreadableError(f"it {reason}, which a network does not need", hint) from None
        if isinstance(error, (UnreadableError, ForbiddenError)):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')[:300]}"
        raise UnreadableError(f"Keras cannot follow the model ({text}, {last.name})") from None


def _keras(framework: str) -> Any:
    names = [framework, *(name for name in Framework if name != framework)]
    there = [name for name in names if find_spec(name) is not None]
    if not there or find_spec("keras") is None:
        raise UnreadableError(
            "reading a Keras model needs Keras 3 and TensorFlow, JAX or PyTorch, which this Python has not",
            extra="train-cpu",
        )
    os.environ["KERAS_BACKEND"] = there[0]
    try:
        return importlib.import_module("keras")
    except (ImportError, OSError) as error:
        first = next(iter(str(error).splitlines()), "")[:300]
        raise UnreadableError(f"Keras does not start where the file is read: {first}") from None


def _read(keras: Any, question: dict[str, Any]) -> dict[str, Any]:
    name = Path(question["file"]).stem
    model = None
    try:
        # Weights are not made: a graph needs their shapes alone.
        with keras.StatelessScope(initialize_variables=False):
            model = _model(question)
            return _graph(keras, model, name, question)
    except (ForbiddenError, MemoryError):
        raise
    except Exception as error:
        if model is not None and isinstance(error, (UnreadableError, GraphError)):
            raise
    # A file may look at its weights, or compile its model; then they are made.
    return _graph(keras, _model(question), name, question)


def _model(question: dict[str, Any]) -> Any:
    try:
        sizes = (question["size"], question["channels"], question["classes"])
        return call_builder(question["source"], question["file"], question["builder"], sizes, question.get("modules"))
    except OwnFileError as error:
        hint = _ALONE if isinstance(error.__cause__, ModuleNotFoundError) else ""
        raise UnreadableError(str(error), hint) from None


def _graph(keras: Any, model: Any, name: str, question: dict[str, Any]) -> dict[str, Any]:
    size, channels = question["size"], question["channels"]
    if not isinstance(model, keras.Model):
        kind = type(model).__name__
        raise UnreadableError(f"its function returns {kind}, not {MODEL_TYPE}", "return keras.Model(inputs, outputs)")
    image = keras.KerasTensor((None, size, size, channels), dtype="float32")
    _check_input(model, size, channels)
    traced = Trace(keras)
    output = traced.run(model, image)
    is_classifier = question.get("task") is None
    if is_classifier:
        _check_classes(output, question["classes"])
    builder = GraphBuilder(name, Shape(size, size, channels))
    written = Written(positions={id(image): builder.image})
    for step in traced.steps:
        add_operation(builder, step, written)
    graph = builder.graph()
    pixels = pixel_range(keras, traced.steps, image)
    if is_classifier:
        _check_output(builder, traced.steps, written.positions[id(output)])
        try:
            check_precision(model, question["precision"])
            model_of_logits(keras, model, graph, traced.own)
        except NotTrainableError as error:
            raise UnreadableError(str(error), error.hint) from None
    return {"graph": graph_json(graph), "own": traced.own, "pixel_range": pixels}


def _check_classes(output: Any, classes: int) -> None:
    other = "a network that is no classifier is estimated with model: {task: other}, and trained by a script of yours"
    if isinstance(output, (list, tuple, dict)):
        if len(output) == 1:
            raise UnreadableError(
                f"its model gives its output in a {type(output).__name__}", "return keras.Model(image, output)"
            )
        count = "two" if len(output) == 2 else len(output)
        raise UnreadableError(f"its model has {count} outputs, not one: {classes} numbers, one for each class", other)
    shape = tuple(getattr(output, "shape", ()))
    if shape == (None, classes):
        return
    raise UnreadableError(
        f"its model puts out {_text(shape)} for each image, not {classes} numbers, one for each class",
        f"the trainer trains classifiers: end with pooling or Flatten and Dense(classes); {other}",
    )


def _check_input(model: Any, size: int, channels: int) -> None:
    inputs = getattr(model, "inputs", None)
    if inputs is None:
        return  # not built yet
    if len(inputs) != 1:
        raise UnreadableError(f"its model takes {len(inputs)} inputs, not one: a batch of images")
    wanted = (None, size, size, channels)
    found = tuple(inputs[0].shape)
    if found and found[0] is not None:
        raise UnreadableError(f"its model takes batches of {found[0]}", "leave batch_shape and batch_size out")
    if len(found) != 4 or any(side not in (None, want) for side, want in zip(found, wanted, strict=True)):
        raise UnreadableError(
            f"its model takes images of {_text(found)}, not {_text(wanted)}",
            "take image_size and channels from what the function is given; the images are channels-last",
        )


def _check_output(builder: GraphBuilder, steps: list[Step], output: int) -> None:
    if output != len(builder.operators) - 1:
        # A graph ends with its output; what comes after it in the order is not on the way to it.
        raise UnreadableError(f"{steps[-1].name} is not on the way to the model's output")


def _text(shape: tuple[Any, ...]) -> str:
    return " x ".join("any" if side is None else str(side) for side in shape[1:]) or "nothing"
