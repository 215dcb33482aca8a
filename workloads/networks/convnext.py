"""ConvNeXt as keras.applications has it (Liu et al., arXiv:2201.03545)."""

from __future__ import annotations

from trainplan.workloads.graph import Kind
from trainplan.workloads.graph_builder import GraphBuilder, Window

TINY = ((3, 96), (3, 192), (9, 384), (3, 768))


def convnext(b: GraphBuilder, classes: int, stages: tuple[tuple[int, int], ...]) -> None:
    """ConvNeXt with `stages`, each so many blocks of so many channels. Pixels of 0 to 255 of colour images are scaled
    in the network, as in Keras."""
    x = b.image
    if b.shape(x).channels == 3:
        x = b.add_operator(Kind.FIXED_SCALE, x, function="normalization")
    for stage, (blocks, channels) in enumerate(stages):
        if stage:
            x = b.convolution(b.layer_norm(x), channels, Window(2, 2, "valid"))
        else:
            x = b.layer_norm(b.convolution(x, channels, Window(4, 4, "valid")))
        for _ in range(blocks):
            x = _block(b, x, channels)
    x = b.layer_norm(b.global_pool(x))
    b.activation(b.dense(x, classes), "softmax")


def _block(b: GraphBuilder, x: int, channels: int) -> int:
    y = b.layer_norm(b.depthwise(x, Window(7)))
    y = b.dense(b.activation(b.dense(y, 4 * channels), "gelu"), channels)
    return b.add(x, b.add_operator(Kind.SCALE, y))
