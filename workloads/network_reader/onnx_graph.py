"""From an ONNX file to a graph. Nothing of the file is run, and no weights are looked at: their shapes stand in the
file itself."""

from __future__ import annotations

import hashlib
import importlib
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from trainplan.workloads.graph import Graph, GraphError, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.graph_file import graph_json
from trainplan.workloads.graph_shapes import MAX_OPERATORS
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.onnx_nodes import Node, Values, add_node

if TYPE_CHECKING:
    from collections.abc import Callable

_SMALL = 1_024
"""Elements of a constant that is looked at (axes, shapes); larger ones are weights."""
_CONVOLUTIONS_WITHOUT_NORM = 8
"""From so many convolutions on, a network without batch norm most likely had it, and lost it when it was exported."""
_FOLDED = (
    "the ONNX file has no batch norm: if the network has, it was exported in its form for use, and training takes "
    "longer than estimated; export it in training mode (torch.onnx.export: training=TrainingMode.TRAINING, "
    "do_constant_folding=False)"
)


def read_onnx(question: dict[str, Any], stream: BinaryIO, begin: Callable[[], object]) -> dict[str, Any]:
    """The graph of the file in `stream` as text (`graph`), no layers of the person's own (`own`), and what is to be
    told of it (`notes`).

    Raises UnreadableError.
    """
    if find_spec("onnx") is None:
        raise UnreadableError("reading an ONNX file needs the package onnx, which this Python has not", extra="onnx")
    onnx = importlib.import_module("onnx")
    begin()
    model = _loaded(onnx, stream, question.get("sha256"))
    _check(onnx, model)
    _with_image(model, question)
    model = _inferred(onnx, model)
    try:
        graph = _graph(onnx, model, question)
    except GraphError as error:
        raise UnreadableError(str(error)) from None
    return {"graph": graph_json(graph), "own": [], "notes": _notes(graph, len(model.graph.output))}


def _loaded(onnx: Any, stream: BinaryIO, sha256: str | None) -> Any:
    try:
        data = stream.read()
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise UnreadableError("it has changed while it was read", "run the command again")
        return onnx.load_model_from_string(data)
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror}") from None
    except UnreadableError:
        raise
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - protobuf's own, which differ from version to version
        raise UnreadableError("it is no ONNX file, or cut short", "export or copy it again") from None


def _check(onnx: Any, model: Any) -> None:
    """Raises UnreadableError for what is too large, and for weights in files elsewhere. None of these files is read."""
    if not model.graph.node:
        raise UnreadableError("it has no nodes: it is no ONNX file, or cut short", "export or copy it again")
    if len(model.graph.node) > MAX_OPERATORS:
        raise UnreadableError(f"it has {len(model.graph.node):,} nodes, and a graph at most {MAX_OPERATORS:,}")
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location = next((one.value for one in tensor.external_data if one.key == "location"), "")
        path = PurePosixPath(location.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in location:
            raise UnreadableError(
                f"its weights lie in {location!r}, outside its folder, which is not looked at",
                "save the model with its weights beside it, or in it",
            )


def _with_image(model: Any, question: dict[str, Any]) -> None:
    """Put the job's image in the place of an unknown size. Raises UnreadableError where the file is for other
    images."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in constants]
    if len(inputs) != 1:
        names = f" ({', '.join(one.name for one in inputs[:5])})" if inputs else ""
        raise UnreadableError(
            f"it takes {len(inputs)} inputs{names}, not one: a batch of images", "export the part that images go into"
        )
    sides = inputs[0].type.tensor_type.shape.dim
    size, channels = question["size"], question["channels"]
    wanted = [(1, channels, size, size), (1, size, size, channels)]
    found = [side.dim_value if side.HasField("dim_value") else 0 for side in sides]
    layout = next((one for one in wanted if _fits(found, one)), None)
    if layout is None:
        shape = " x ".join(str(side) if side else "any" for side in found[1:]) or "no size"
        raise UnreadableError(
            f"it takes images of {shape}, not {channels} x {size} x {size}",
            "write its size as model.image_size, or export it with free sizes",
        )
    for side, value in zip(sides, layout, strict=True):
        side.dim_value = value


def _fits(found: list[int], wanted: tuple[int, ...]) -> bool:
    return len(found) == 4 and all(side in (0, want) for side, want in zip(found[1:], wanted[1:], strict=True))


def _inferred(onnx: Any, model: Any) -> Any:
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) > _SMALL:  # shapes are inferred without weights, and faster
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
    del model.graph.value_info[:]  # shapes of the exporter's image and batch
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - its own, and what its C++ lets out
        first = next(iter(str(error).splitlines()), type(error).__name__)[:300]
        raise UnreadableError(f"its shapes do not go together: {first}") from None


def _graph(onnx: Any, model: Any, question: dict[str, Any]) -> Graph:
    size, channels, classes = question["size"], question["channels"], question["classes"]
    builder = GraphBuilder(Path(question["file"]).stem, Shape(size, size, channels))
    values = _values(onnx, model)
    (image,) = [one for one in model.graph.input if one.name not in values.weights]
    values.positions[image.name] = builder.image
    values.is_channels_last = tuple(values.shapes[image.name][1:]) == (size, size, channels) and channels != size
    for proto in model.graph.node:
        add_node(builder, Node.of(onnx, proto), values)
    output = model.graph.output[0].name
    shape = values.shapes.get(output, ())
    position = values.positions.get(output)
    is_classifier = question.get("task") is None
    if position is None or (is_classifier and math.prod(shape[1:] or (0,)) != classes):
        text = " x ".join(map(str, shape[1:])) or "an unknown shape"
        other = "a network that is no classifier is estimated with model: {task: other}"
        # A file has its classes; the network of a Python file is built for those of the data.
        fewer = f"model.classes: {shape[1]} where the data have that many classes; " if len(shape) == 2 else ""
        raise UnreadableError(
            f"it puts out {text} for each image, not {classes} numbers, one for each class", f"{fewer}{other}"
        )
    others = [values.positions[one.name] for one in model.graph.output if one.name in values.positions]
    return _ended(builder, position, others)


def _values(onnx: Any, model: Any) -> Values:
    shapes = {}
    for one in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if not one.type.tensor_type.HasField("shape"):
            continue
        sides = one.type.tensor_type.shape.dim
        shapes[one.name] = tuple(side.dim_value if side.HasField("dim_value") else 0 for side in sides)
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    small = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if math.prod(tensor.dims) <= _SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    return Values(onnx=onnx, shapes=shapes | weights, weights=weights, small=small)


def _ended(builder: GraphBuilder, output: int, others: list[int]) -> Graph:
    """The graph with its output last: what is behind it, or on the way to none of the outputs, is left out."""
    operators = builder.operators
    on_the_way, behind = {builder.image, output, *others}, {output}
    for number in range(len(operators) - 1, 0, -1):
        if number in on_the_way:
            on_the_way.update(operators[number].inputs)
    for number in range(output + 1, len(operators)):
        if behind.intersection(operators[number].inputs):
            behind.add(number)
    order = [*sorted(on_the_way - behind), output]
    moved = {old: new for new, old in enumerate(order)}
    rows = (replace(operators[old], inputs=tuple(moved[one] for one in operators[old].inputs)) for old in order)
    return Graph(name=builder.name, operators=tuple(rows))


def _notes(graph: Graph, outputs: int) -> list[str]:
    convolutions = sum(operator.kind is Kind.CONVOLUTION for operator in graph.operators)
    has_norm = any(operator.kind is Kind.BATCH_NORM for operator in graph.operators)
    more = [f"it has {outputs} outputs, and the branches of all are counted as trained"] if outputs > 1 else []
    return [*more, *([_FOLDED] if convolutions >= _CONVOLUTIONS_WITHOUT_NORM and not has_norm else [])]
