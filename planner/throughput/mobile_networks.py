"""Networks of the measurements with depthwise or grouped convolutions, dense blocks and squeezed channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.throughput.network_builder import window_of
from trainplan.workloads.graph_builder import Window
from trainplan.workloads.networks import densenet
from trainplan.workloads.networks.early import fires, pool_up
from trainplan.workloads.networks.mobile import MOBILENET_V2, Block, inverted
from trainplan.workloads.networks.parts import conv_norm, pooled_classes, rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainplan.planner.throughput.network_builder import NetworkBuilder

    Build = Callable[[NetworkBuilder, int], None]


def mnasnet(graph: NetworkBuilder, classes: int, width: float) -> None:
    """Tan et al., arXiv:1807.11626, as torchvision's mnasnet1_0 has it, with `width` times the channels."""
    stages = (
        (3, 24, 3, 2, 3),
        (3, 40, 3, 2, 5),
        (6, 80, 3, 2, 5),
        (6, 96, 2, 1, 3),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )
    x = graph.unit(graph.image, rounded(32 * width), 3, 2)
    for expansion, channels, blocks, first_stride, kernel in ((1, 16, 1, 1, 3), *stages):
        for block in range(blocks):
            wide, stride, narrow = (
                expansion * graph.shape(x).channels,
                1 if block else first_stride,
                rounded(channels * width),
            )
            x = inverted(graph, x, Block(wide=wide, channels=narrow, kernel=kernel, stride=stride, function="relu"))
    graph.classes(graph.unit(x, 1280, 1), classes)


def mobilenet_v2(graph: NetworkBuilder, classes: int, width: float) -> None:
    """Sandler et al., arXiv:1801.04381, with `width` times the channels: the last convolution keeps 1,280 below 1."""
    x = conv_norm(graph, graph.image, rounded(32 * width), Window(3, 2), "relu6")
    for times, channels, blocks, first_stride in MOBILENET_V2:
        for block in range(blocks):
            wide, stride = times * graph.shape(x).channels, 1 if block else first_stride
            narrow = rounded(channels * width)
            x = inverted(graph, x, Block(wide=wide, channels=narrow, kernel=3, stride=stride, function="relu6"))
    pooled_classes(graph, conv_norm(graph, x, max(1280, rounded(1280 * width)), 1, "relu6"), classes)


# Tan and Le, arXiv:2104.00298, table 4: whether the 1x1 and the depthwise convolution are one 3x3, times wider,
# channels, blocks, stride.
_EFFICIENT_V2_S = (
    (True, 1, 24, 2, 1), (True, 4, 48, 4, 2), (True, 4, 64, 4, 2), (False, 4, 128, 6, 2), (False, 6, 160, 9, 1),
    (False, 6, 256, 15, 2),
)  # fmt: skip


def efficientnet_v2_s(graph: NetworkBuilder, classes: int) -> None:
    """EfficientNetV2-S: Tan and Le, arXiv:2104.00298, table 4."""
    x = conv_norm(graph, graph.image, 24, Window(3, 2), "swish")
    for is_fused, times, channels, blocks, first_stride in _EFFICIENT_V2_S:
        for block in range(blocks):
            before, stride = graph.shape(x), 1 if block else first_stride
            wide = times * before.channels
            if not is_fused:
                functions = ("swish", "sigmoid")
                x = inverted(
                    graph, x, Block(
                        wide=wide, channels=channels, kernel=3, stride=stride, function="swish",
                        squeezed=before.channels // 4, squeeze_functions=functions,
                    ),
                )  # fmt: skip
                continue
            y = conv_norm(graph, x, channels if times == 1 else wide, Window(3, stride), "swish")
            y = y if times == 1 else conv_norm(graph, y, channels, 1, "")
            x = graph.add(x, y) if graph.shape(y) == before else y
    pooled_classes(graph, conv_norm(graph, x, 1280, 1, "swish"), classes, 0.2)


def xception(graph: NetworkBuilder, classes: int) -> None:
    """Chollet, arXiv:1610.02357, figure 5."""
    x = graph.unit(graph.unit(graph.image, 32, 3, 2, 0), 64, 3, 1, 0)
    for channels in (128, 256, 728):
        y = _separable(graph, _separable(graph, x, channels), channels)
        y = graph.pool(y, Window(3, 2, 1))
        x = graph.add(y, graph.unit(x, channels, 1, 2, active=False))
    for _ in range(8):
        y = x
        for _ in range(3):
            y = _separable(graph, y, 728)
        x = graph.add(x, y)
    y = graph.pool(_separable(graph, _separable(graph, x, 728), 1024), Window(3, 2, 1))
    x = graph.add(y, graph.unit(x, 1024, 1, 2, active=False))
    graph.classes(_separable(graph, _separable(graph, x, 1536), 2048), classes)


def _separable(graph: NetworkBuilder, x: int, channels: int) -> int:
    return graph.unit(graph.depthwise(x, Window(3, 1, 1), bias=False), channels, 1)


def densenet161(graph: NetworkBuilder, classes: int) -> None:
    """Huang et al., arXiv:1608.06993, table 1."""
    graph.classes(densenet.features(graph, (6, 12, 36, 24), growth=48), classes)


def squeezenet_1_0(graph: NetworkBuilder, classes: int) -> None:
    """Iandola et al., arXiv:1602.07360, table 1."""
    x = pool_up(graph, graph.plain(graph.image, 96, 7, 2, 0))
    x = pool_up(graph, fires(graph, x, 16, 16, 32))
    x = pool_up(graph, fires(graph, x, 32, 48, 48, 64))
    graph.global_pool(graph.plain(fires(graph, x, 64), classes, 1))


def repvgg_of(blocks: Sequence[int], widths: Sequence[int], groups: int) -> Build:
    """As it is trained: a 3x3 and a 1x1 convolution beside the block's own input."""

    def repvgg(graph: NetworkBuilder, classes: int) -> None:
        x, number = graph.image, 0
        for width, count in ((widths[0], 1), *zip(widths[1:], blocks, strict=True)):
            for block in range(count):
                stride = 2 if block == 0 else 1
                grouped = groups if number % 2 == 0 and number > 0 else 1
                y = graph.add(
                    graph.grouped(x, width, window_of(3, stride), grouped, active=False),
                    graph.grouped(x, width, window_of(1, stride), grouped, active=False),
                )
                if graph.shape(x) == graph.shape(y):
                    y = graph.add(y, graph.batch_norm(x))
                x, number = graph.activation(y), number + 1
        graph.classes(x, classes)

    return repvgg


def vovnet(graph: NetworkBuilder, classes: int) -> None:
    """VoVNet-39: Lee et al., arXiv:1904.09730, table 2."""
    x = graph.unit(graph.unit(graph.unit(graph.image, 64, 3, 2), 64, 3), 128, 3, 2)
    for position, (narrow, wide, blocks) in enumerate(((128, 256, 1), (160, 512, 1), (192, 768, 2), (224, 1024, 2))):
        x = pool_up(graph, x) if position else x
        for block in range(blocks):
            outputs = [x]
            for _ in range(5):
                outputs.append(graph.unit(outputs[-1], narrow, 3))
            y = graph.unit(graph.concat(*outputs), wide, 1)
            x = graph.add(x, y) if block else y
    graph.classes(x, classes)
