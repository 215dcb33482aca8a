"""ResNets (He et al., arXiv:1512.03385): 18 and 34 as torchvision has them, 50, 101 and 152 as keras.applications."""

from __future__ import annotations

from trainplan.workloads.graph_builder import GraphBuilder, Window
from trainplan.workloads.networks.parts import DOWN, conv_norm, pooled_classes

Stages = tuple[int, int, int, int]
_KERAS_EPSILON = 1.001e-5
_TORCH_EPSILON = 1e-5


def basic(b: GraphBuilder, classes: int, stages: Stages) -> None:
    """Blocks of two 3x3 convolutions, without biases."""
    x = conv_norm(b, b.image, 64, Window(7, 2, 3), epsilon=_TORCH_EPSILON)
    x = b.pool(x, DOWN)
    for stage, blocks in enumerate(stages):
        for block in range(blocks):
            x = _basic_block(b, x, 64 * 2**stage, stride=2 if stage and not block else 1)
    pooled_classes(b, x, classes)


def _basic_block(b: GraphBuilder, x: int, channels: int, stride: int) -> int:
    y = conv_norm(b, x, channels, Window(3, stride, 1), epsilon=_TORCH_EPSILON)
    y = conv_norm(b, y, channels, 3, "", epsilon=_TORCH_EPSILON)
    if b.shape(x) != b.shape(y):
        x = conv_norm(b, x, channels, Window(1, stride, "valid"), "", epsilon=_TORCH_EPSILON)
    return b.activation(b.add(y, x))


def bottleneck(b: GraphBuilder, classes: int, stages: Stages) -> None:
    """Blocks of a 3x3 convolution between two of 1x1, all with biases; the first one of a stage has the stride."""
    x = _biased(b, b.image, 64, Window(7, 2, 3))
    x = b.pool(x, DOWN)
    for stage, blocks in enumerate(stages):
        for block in range(blocks):
            x = _bottleneck_block(b, x, 64 * 2**stage, stride=2 if stage and not block else 1, is_first=not block)
    pooled_classes(b, x, classes)


def _bottleneck_block(b: GraphBuilder, x: int, channels: int, stride: int, *, is_first: bool) -> int:
    down = Window(1, stride, "valid")
    short = _biased(b, x, 4 * channels, down, "") if is_first else x
    y = _biased(b, _biased(b, x, channels, down), channels, 3)
    y = _biased(b, y, 4 * channels, 1, "")
    return b.activation(b.add(short, y))


def _biased(b: GraphBuilder, x: int, channels: int, window: Window | int, function: str = "relu") -> int:
    x = b.batch_norm(b.convolution(x, channels, window), epsilon=_KERAS_EPSILON)
    return b.activation(x, function) if function else x
