"""DenseNets as keras.applications has them (Huang et al., arXiv:1608.06993)."""

from __future__ import annotations

from trainplan.workloads.graph_builder import GraphBuilder, Window
from trainplan.workloads.networks.parts import DOWN, conv_norm, norm_relu, pooled_classes

_EPSILON = 1.001e-5


def densenet(b: GraphBuilder, classes: int, stages: tuple[int, int, int, int]) -> None:
    """DenseNet-121, 169 and 201: layers that each add 32 channels to what they are given."""
    pooled_classes(b, features(b, stages, growth=32), classes)


def features(b: GraphBuilder, stages: tuple[int, int, int, int], growth: int) -> int:
    """What the classes are told from: layers that each add `growth` channels; between stages half of the channels and
    of the sides."""
    x = b.pool(conv_norm(b, b.image, 2 * growth, Window(7, 2, 3), epsilon=_EPSILON), DOWN)
    for stage, layers in enumerate(stages):
        if stage:
            x = norm_relu(b, x, epsilon=_EPSILON)
            x = b.convolution(x, b.shape(x).channels // 2, 1, bias=False)
            x = b.pool(x, Window(2, 2, "valid"), average=True)
        for _ in range(layers):
            y = conv_norm(b, norm_relu(b, x, epsilon=_EPSILON), 4 * growth, 1, epsilon=_EPSILON)
            x = b.concat(x, b.convolution(y, growth, 3, bias=False))
    return norm_relu(b, x, epsilon=_EPSILON)
