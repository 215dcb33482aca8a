"""An ONNX file becomes the graph that it is; what is no such file, or too much of one, is told."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.workloads.network_reader.onnx_files import OnnxFile, residual
from trainplan.workloads.graph import Graph, Kind
from trainplan.workloads.graph_file import graph_from_json
from trainplan.workloads.network_reader.errors import UnreadableError
from trainplan.workloads.network_reader.onnx_graph import read_onnx

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnx", reason="needs the extra onnx")


def read(content: bytes, folder: Path, size: int = 32) -> tuple[Graph, list[str]]:
    question = {"file": "net.onnx", "size": size, "channels": 3, "classes": 10}
    answer = read_onnx(question, BytesIO(content), lambda: None)
    return graph_from_json(answer["graph"]), answer["notes"]


def read_model(model: Any, folder: Path, size: int = 32) -> tuple[Graph, list[str]]:
    return read(model.SerializeToString(), folder, size)


def test_a_residual_network_has_all_its_weights(tmp_path: Path) -> None:
    graph, notes = read_model(residual(), tmp_path)
    assert graph.parameters == 9 * 3 * 16 + 2 * 9 * 16 * 16 + 3 * 2 * 16 + 9 * 16 + 160 + 10
    assert graph.statistics == 3 * 2 * 16
    assert graph.macs == 32 * 32 * (9 * 3 * 16 + 2 * 9 * 16 * 16) + 16 * 16 * 9 * 16 + 160
    assert (graph.unknown, notes) == ((), [])
    (depthwise,) = (row for row in graph.figures if row.is_depthwise)
    assert depthwise.operator.stride == (2, 2)


def test_what_tools_write_of_the_usual_layers_is_known(tmp_path: Path) -> None:
    file = OnnxFile()
    x = file.node("Transpose", "image", perm=[0, 3, 1, 2])  # what came from a channels-last framework
    x = file.node("Pad", x, file.numbers(0, 0, 1, 1, 0, 0, 2, 2))
    x = file.node("Conv", x, file.weight(8, 3, 3, 3), file.weight(8), auto_pad="SAME_UPPER", strides=[2, 2])
    x = file.node("Mul", x, file.node("Sigmoid", x))
    x = file.node("Concat", x, file.node("Mul", x, file.numbers(2, whole=False)), axis=1)
    x = file.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = file.node("ConvTranspose", x, file.weight(16, 8, 2, 2), strides=[2, 2])
    x = file.node("Mul", x, file.weight(8, 1, 1))
    x = file.node("Dropout", file.node("ReduceMean", x, file.numbers(-1, -2), keepdims=0))
    x = file.node("Add", file.node("MatMul", x, file.weight(8, 10)), file.weight(10))
    graph, _ = read_model(file.model(file.node("Softmax", x), (32, 32, 3)), tmp_path)
    assert graph.unknown == ()
    assert [operator.kind for operator in graph.operators[1:]] == [
        Kind.PADDING, Kind.CONVOLUTION, Kind.ACTIVATION, Kind.MULTIPLY, Kind.FIXED_SCALE, Kind.CONCAT, Kind.MAX_POOL,
        Kind.TRANSPOSED_CONVOLUTION, Kind.SCALE, Kind.GLOBAL_AVERAGE_POOL, Kind.DROPOUT, Kind.DENSE, Kind.SOFTMAX,
    ]  # fmt: skip
    assert graph.operators[-2].bias
    assert graph.parameters == 8 * 3 * 9 + 8 + 16 * 8 * 4 + 8 + 8 * 10 + 10


def test_an_unknown_node_is_counted_by_its_bytes_and_named(tmp_path: Path) -> None:
    file = OnnxFile()
    x = file.node("Hardmax", file.convolution("image", 3, 8))
    graph, _ = read_model(file.model(file.classes(x, 8)), tmp_path)
    (unknown,) = (operator for operator in graph.operators if operator.kind is Kind.UNKNOWN)
    assert (unknown.function, tuple(unknown.shape)) == ("Hardmax", (32, 32, 8))


def test_weights_of_several_nodes_are_counted_once_and_branches_of_all_outputs(tmp_path: Path) -> None:
    """As in GoogLeNet, whose auxiliary heads are outputs of their own while it trains."""
    file = OnnxFile()
    x = file.convolution("image", 3, 8)
    same = file.weight(8, 8, 3, 3)
    for _ in range(3):
        x = file.node("Conv", x, same, pads=[1] * 4)
    other = file.classes(file.convolution(x, 8, 32), 32)
    main = file.classes(x, 8)
    model = file.model(main)
    model.graph.output.append(file.onnx.helper.make_tensor_value_info(other, file.onnx.TensorProto.FLOAT, ["n", 10]))
    graph, (note,) = read_model(model, tmp_path)
    assert graph.parameters == 9 * 3 * 8 + 9 * 8 * 8 + 9 * 8 * 32 + 330 + 90
    assert graph.macs == 1024 * 9 * (3 * 8 + 3 * 8 * 8 + 8 * 32) + 320 + 80
    assert graph.operators[-1].name == main
    assert "2 outputs" in note


def test_products_of_any_kind_are_counted(tmp_path: Path) -> None:
    file = OnnxFile()
    x = file.node("Reshape", "image", file.numbers(1, 3, 1024))
    x = file.node("Conv", x, file.weight(8, 3, 5), pads=[2, 2])
    x = file.node("ConvTranspose", x, file.weight(8, 2, 2), group=4, strides=[2], dilations=[1])
    x = file.node("Reshape", x, file.numbers(2, 32, 256))  # windows along the batch's axis
    scores = file.node("Softmax", file.node("MatMul", x, file.node("Transpose", x, perm=[0, 2, 1])))
    x = file.node("LayerNormalization", file.node("MatMul", scores, x), file.weight(256), file.weight(256))
    x = file.node("LSTM", x, file.weight(2, 40, 256), file.weight(2, 40, 10), hidden_size=10, direction="bidirectional")
    x = file.node("ReduceMean", x, file.numbers(0, 1, 2), keepdims=0)
    graph, _ = read_model(file.model(file.node("Unsqueeze", x, file.numbers(0))), tmp_path)
    convolutions = 1024 * 5 * 3 * 8 + 1024 * 8 * 2 * 2
    recurrent = 2 * 2 * 32 * 40 * (256 + 10)
    assert graph.unknown == ()
    assert graph.macs == convolutions + 2 * 2 * 32 * 32 * 256 + recurrent


def test_batch_norm_that_was_folded_away_is_told(tmp_path: Path) -> None:
    file, x = OnnxFile(), "image"
    for number in range(8):
        x = file.node("Relu", file.convolution(x, 8 if number else 3, 8))
    _, notes = read_model(file.model(file.classes(x, 8)), tmp_path)
    assert [note for note in notes if "no batch norm" in note and "training mode" in note]


def test_an_operator_of_another_domain_is_named_with_it(tmp_path: Path) -> None:
    file = OnnxFile()
    x = file.node("GridSample", file.convolution("image", 3, 8))
    file.nodes[-1].domain = "com.microsoft"
    model = file.model(file.classes(x, 8))
    model.opset_import.append(file.onnx.helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(UnreadableError, match=r"its operator is com\.microsoft\.GridSample"):
        read_model(model, tmp_path)


def test_weights_that_are_said_to_lie_elsewhere_are_not_looked_for(tmp_path: Path) -> None:
    for location in ("/etc/hostname", "../net.bin", "C:\\net.bin"):
        model = residual()
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = type(tensor).EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location
        with pytest.raises(UnreadableError, match="outside its folder, which is not looked at"):
            read_model(model, tmp_path)
    entry.value = "net.bin"  # beside it, and not even there: its shape is known
    assert read_model(model, tmp_path)[0] == read_model(residual(), tmp_path)[0]


def test_a_file_that_is_cut_short_or_something_else_is_told(tmp_path: Path) -> None:
    whole = residual().SerializeToString()
    for content in (b"", b"hello", whole[:-1], whole[: len(whole) // 2], whole[100:]):
        with pytest.raises(UnreadableError, match=r"no ONNX file, or cut short|do not go together"):
            read(content, tmp_path)


def test_a_million_nodes_are_too_many(tmp_path: Path) -> None:
    file = OnnxFile()
    model = file.model(file.node("Identity", "image"))
    node = model.graph.node[0].SerializeToString()
    field = b"\x0a" + bytes([len(node)]) + node  # repeated NodeProto node = 1, in a message of nodes alone
    model.graph.MergeFromString(field * 1_000_000)
    with pytest.raises(UnreadableError, match=r"1,000,001 nodes, and a graph at most 20,000"):
        read_model(model, tmp_path)


def test_a_file_for_other_images_is_told(tmp_path: Path) -> None:
    file = OnnxFile()
    model = file.model(file.classes(file.convolution("image", 3, 8), 8), (3, 64, 64))
    with pytest.raises(UnreadableError, match=r"takes images of 3 x 64 x 64, not 3 x 32 x 32"):
        read_model(model, tmp_path)
    assert read_model(model, tmp_path, 64)[0].image_size == 64
    other = OnnxFile()
    with pytest.raises(UnreadableError, match="puts out 8 x 1 x 1 for each image"):
        read_model(other.model(other.node("GlobalAveragePool", other.convolution("image", 3, 8))), tmp_path)


def test_a_file_that_changes_while_it_is_read_is_told() -> None:
    question = {"file": "net.onnx", "size": 32, "channels": 3, "classes": 10, "sha256": "0" * 64}
    with pytest.raises(UnreadableError, match="it has changed while it was read"):
        read_onnx(question, BytesIO(residual().SerializeToString()), lambda: None)
