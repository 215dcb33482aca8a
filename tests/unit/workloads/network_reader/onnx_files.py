"""Small ONNX files, written with onnx itself."""

from __future__ import annotations

from typing import Any

import numpy as np


class OnnxFile:
    """A network that takes images of (channels, height, width) as they come, and gives ten classes."""

    def __init__(self) -> None:
        import onnx

        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def numbers(self, *values: float, whole: bool = True) -> str:
        name = f"weight_{len(self.weights)}"
        array = np.array(values, np.int64 if whole else np.float32)
        self.weights.append(self.onnx.numpy_helper.from_array(array if len(values) > 1 else array.reshape(()), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def convolution(self, x: str, before: int, after: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> str:
        weight = self.weight(after, before // groups, kernel, kernel)
        return self.node("Conv", x, weight, strides=[stride] * 2, pads=[kernel // 2] * 4, group=groups)

    def batch_norm(self, x: str, channels: int) -> str:
        return self.node("BatchNormalization", x, *(self.weight(channels) for _ in range(4)))

    def classes(self, x: str, channels: int) -> str:
        x = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.node("Gemm", x, self.weight(10, channels), self.weight(10), transB=1)

    def model(self, output: str, image: tuple[Any, ...] = (3, "height", "width")) -> Any:
        """The whole, with a free batch."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes, "net",
            [helper.make_tensor_value_info("image", kind, ["batch", *image])],
            [helper.make_tensor_value_info(output, kind, ["batch", 10])],
            self.weights,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def residual() -> Any:
    """Two 3x3 convolutions beside a shortcut, and a depthwise one."""
    file = OnnxFile()
    x = file.node("Relu", file.batch_norm(file.convolution("image", 3, 16), 16))
    y = file.node("Relu", file.batch_norm(file.convolution(x, 16, 16), 16))
    x = file.node("Add", x, file.batch_norm(file.convolution(y, 16, 16), 16))
    x = file.node("Clip", x, file.numbers(0, whole=False), file.numbers(6, whole=False))
    return file.model(file.classes(file.convolution(x, 16, 16, stride=2, groups=16), 16))
