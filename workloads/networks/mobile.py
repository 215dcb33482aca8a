"""Networks of inverted residual blocks, as keras.applications has them: MobileNet v2 and v3, EfficientNet B0 to B3."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainplan.workloads.graph import Kind
from trainplan.workloads.graph_builder import GraphBuilder, Window
from trainplan.workloads.networks.parts import conv_norm, depthwise_norm, pooled_classes, rounded, squeeze_excite


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A 1x1 convolution to `wide` channels (none where that is what comes in), a depthwise one, and one to `channels`.

    `squeezed` are the channels that squeeze and excitation has in between, 0 for none.
    """

    wide: int
    channels: int
    kernel: int
    stride: int
    function: str
    squeezed: int = 0
    squeeze_functions: tuple[str, str] = ("relu", "hard_sigmoid")
    drop: float = 0.0
    """The share of images that go through the block by its shortcut alone."""


def inverted(b: GraphBuilder, x: int, block: Block) -> int:
    """The block, with a shortcut around it where it keeps the shape."""
    before, y = b.shape(x), x
    if block.wide != before.channels:
        y = conv_norm(b, y, block.wide, 1, block.function)
    y = depthwise_norm(b, y, Window(block.kernel, block.stride), block.function)
    if block.squeezed:
        y = squeeze_excite(b, y, block.squeezed, block.squeeze_functions)
    y = conv_norm(b, y, block.channels, 1, "")
    if b.shape(y) != before or block.stride != 1:
        return y
    if block.drop:
        y = b.add_operator(Kind.DROPOUT, y, rate=block.drop, function="image")
    return b.add(x, y)


# Sandler et al., arXiv:1801.04381, table 2: times wider, channels, blocks, stride.
MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(b: GraphBuilder, classes: int) -> None:
    """MobileNet v2 of width 1."""
    x = conv_norm(b, b.image, 32, Window(3, 2), "relu6")
    for times, channels, blocks, stride in MOBILENET_V2:
        for number in range(blocks):
            wide = times * b.shape(x).channels
            first = 1 if number else stride
            x = inverted(b, x, Block(wide=wide, channels=channels, kernel=3, stride=first, function="relu6"))
    pooled_classes(b, conv_norm(b, x, 1280, 1, "relu6"), classes)


# Howard et al., arXiv:1905.02244, table 1: channels inside, channels, kernel, stride, squeezed, function.
_V3_LARGE = (
    (16, 16, 3, 1, False, "relu"), (64, 24, 3, 2, False, "relu"), (72, 24, 3, 1, False, "relu"),
    (72, 40, 5, 2, True, "relu"), (120, 40, 5, 1, True, "relu"), (120, 40, 5, 1, True, "relu"),
    (240, 80, 3, 2, False, "hard_swish"), (200, 80, 3, 1, False, "hard_swish"), (184, 80, 3, 1, False, "hard_swish"),
    (184, 80, 3, 1, False, "hard_swish"), (480, 112, 3, 1, True, "hard_swish"), (672, 112, 3, 1, True, "hard_swish"),
    (672, 160, 5, 2, True, "hard_swish"), (960, 160, 5, 1, True, "hard_swish"), (960, 160, 5, 1, True, "hard_swish"),
)  # fmt: skip


def mobilenet_v3_large(b: GraphBuilder, classes: int) -> None:
    """MobileNet v3 large of width 1. Pixels of 0 to 255 are scaled in the network."""
    x = b.add_operator(Kind.FIXED_SCALE, b.image, function="rescaling")
    x = conv_norm(b, x, 16, Window(3, 2), "hard_swish")
    for wide, channels, kernel, stride, squeezes, function in _V3_LARGE:
        squeezed = rounded(wide / 4) if squeezes else 0
        block = Block(
            wide=wide, channels=channels, kernel=kernel, stride=stride, function=function, squeezed=squeezed
        )  # fmt: skip
        x = inverted(b, x, block)
    x = b.global_pool(conv_norm(b, x, 960, 1, "hard_swish"))
    x = b.dropout(b.activation(b.convolution(x, 1280, 1), "hard_swish"), 0.2)
    b.activation(b.flatten(b.convolution(x, classes, 1)), "softmax")


# Tan and Le, arXiv:1905.11946, table 1: times wider, channels, blocks, stride, kernel.
_EFFICIENT = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip
_DROP = 0.2


def efficientnet(b: GraphBuilder, classes: int, width: float, depth: float, dropout: float) -> None:
    """EfficientNet with that many times B0's channels and blocks.

    Pixels of 0 to 255 are scaled in the network; Keras keeps mean and variance of each channel there, and a count.
    """
    x = b.add_operator(Kind.FIXED_SCALE, b.image, function="rescaling")
    statistics = 2 * b.shape(x).channels + 1
    x = b.add_operator(Kind.FIXED_SCALE, x, function="normalization", statistics=statistics)
    x = conv_norm(b, x, rounded(32 * width), Window(3, 2), "swish")
    repeats = [math.ceil(depth * blocks) for _, _, blocks, _, _ in _EFFICIENT]
    done = 0
    for (times, channels, _, stride, kernel), blocks in zip(_EFFICIENT, repeats, strict=True):
        for number in range(blocks):
            before = b.shape(x).channels
            block = Block(
                wide=times * before,
                channels=rounded(channels * width),
                kernel=kernel,
                stride=1 if number else stride,
                function="swish",
                squeezed=max(1, before // 4),
                squeeze_functions=("swish", "sigmoid"),
                drop=_DROP * done / sum(repeats),
            )
            x = inverted(b, x, block)
            done += 1
    pooled_classes(b, conv_norm(b, x, rounded(1280 * width), 1, "swish"), classes, dropout)
