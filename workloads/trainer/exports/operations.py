"""The operations of an exported file with their versions, read out of the file itself."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any, assert_never

from trainplan.workloads.exported.record import FILES, Operation
from trainplan.workloads.terms import ExportFormat


def operations_of(folder: Path, format: ExportFormat) -> tuple[Operation, ...]:
    """The operations by name. Raises whatever the libraries raise of a file that is damaged."""
    path = folder / FILES[format]
    match format:
        case ExportFormat.SAVEDMODEL:
            return _counted(_of_saved_model(path))
        case ExportFormat.ONNX:
            return _counted(_of_onnx(path))
        case ExportFormat.TFLITE | ExportFormat.TFLITE_INT8:
            return _counted(_of_litert(path))
        case _:
            assert_never(format)


def float_tensors(path: Path) -> list[str]:
    """The names of 32-bit floats that operations of a .tflite file read or write; a full integer file has none."""
    graph, schema = _graph(path)
    used = {int(index) for one in graph.operators for index in (*one.inputs, *one.outputs) if index >= 0}
    tensors = [graph.tensors[index] for index in sorted(used)]
    return [tensor.name.decode() for tensor in tensors if tensor.type == schema.TensorType.FLOAT32]


def input_scale(path: Path) -> tuple[str, float, int]:
    """The type of the numbers that a .tflite file takes, with scale and zero point: (scale 0: as they are)."""
    graph, schema = _graph(path)
    tensor = graph.tensors[int(graph.inputs[0])]
    names = {value: name for name, value in vars(schema.TensorType).items() if isinstance(value, int)}
    quantization = tensor.quantization
    if quantization is None or quantization.scale is None or not len(quantization.scale):
        return names[tensor.type].lower(), 0.0, 0
    return names[tensor.type].lower(), float(quantization.scale[0]), int(quantization.zeroPoint[0])


def output_scale(path: Path) -> tuple[float, int]:
    """Scale and zero point of what a .tflite file gives; (1.0, 0) of floats."""
    graph, _ = _graph(path)
    quantization = graph.tensors[int(graph.outputs[0])].quantization
    if quantization is None or quantization.scale is None or not len(quantization.scale):
        return 1.0, 0
    return float(quantization.scale[0]), int(quantization.zeroPoint[0])


def softmax_input(path: Path) -> int | None:
    """The number of the tensor that the last softmax of a .tflite file takes; None where there is none."""
    graph, schema = _graph(path)
    codes = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0).operatorCodes
    found = [
        int(one.inputs[0])
        for one in graph.operators
        if codes[one.opcodeIndex].builtinCode == schema.BuiltinOperator.SOFTMAX
    ]
    return found[-1] if found else None


def _graph(path: Path) -> tuple[Any, Any]:
    schema: Any = importlib.import_module("ai_edge_litert.schema_py_generated")
    return schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0).subgraphs[0], schema


def _of_litert(path: Path) -> Counter[tuple[str, int]]:
    schema: Any = importlib.import_module("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    # Codes above 127 have a field of their own; the lower one holds 127 then.
    codes = [
        (names[max(code.builtinCode, code.deprecatedBuiltinCode)], int(code.version)) for code in model.operatorCodes
    ]
    return Counter(codes[one.opcodeIndex] for graph in model.subgraphs for one in graph.operators)


def _of_onnx(path: Path) -> Counter[tuple[str, int]]:
    onnx: Any = importlib.import_module("onnx")
    model = onnx.load(str(path))
    versions = {row.domain: int(row.version) for row in model.opset_import}
    return Counter((node.op_type, versions[node.domain]) for node in model.graph.node)


def _of_saved_model(path: Path) -> Counter[tuple[str, int]]:
    """TensorFlow gives its operations no versions of their own: that of the graph stands for them."""
    loader: Any = importlib.import_module("tensorflow.python.saved_model.loader_impl")
    (meta,) = loader.parse_saved_model(str(path)).meta_graphs
    producer = int(meta.graph_def.versions.producer)
    nodes = [*meta.graph_def.node, *(node for one in meta.graph_def.library.function for node in one.node_def)]
    return Counter((node.op, producer) for node in nodes)


def _counted(counter: Counter[tuple[str, int]]) -> tuple[Operation, ...]:
    return tuple(
        Operation(name=name, version=version, count=count) for (name, version), count in sorted(counter.items())
    )
