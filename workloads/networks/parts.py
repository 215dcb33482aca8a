"""What the networks share: a convolution with what follows it, and the end that tells classes."""

from __future__ import annotations

from trainplan.workloads.graph_builder import GraphBuilder, Window


def conv_norm(
    b: GraphBuilder, x: int, channels: int, window: Window | int, function: str = "relu", *, epsilon: float = 1e-3
) -> int:
    """A convolution without bias, batch norm, and an activation ("" for none)."""
    x = b.batch_norm(b.convolution(x, channels, window, bias=False), epsilon=epsilon)
    return b.activation(x, function) if function else x


def depthwise_norm(b: GraphBuilder, x: int, window: Window, function: str) -> int:
    """The same of a depthwise convolution."""
    return b.activation(b.batch_norm(b.depthwise(x, window, bias=False)), function)


def conv_relu(b: GraphBuilder, x: int, channels: int, window: Window | int) -> int:
    """A convolution with a bias, and a ReLU."""
    return b.activation(b.convolution(x, channels, window))


def norm_relu(b: GraphBuilder, x: int, *, epsilon: float) -> int:
    """Batch norm and a ReLU before what they feed."""
    return b.activation(b.batch_norm(x, epsilon=epsilon))


def pooled_classes(b: GraphBuilder, x: int, classes: int, dropout: float = 0.0) -> int:
    """The average of each channel, dropout where there is a rate, a dense layer and a softmax."""
    x = b.global_pool(x)
    if dropout:
        x = b.dropout(x, dropout)
    return b.activation(b.dense(x, classes), "softmax")


def squeeze_excite(b: GraphBuilder, x: int, squeezed: int, functions: tuple[str, str]) -> int:
    """Each channel times a factor that two small layers make of the averages of all channels."""
    channels = b.shape(x).channels
    y = b.activation(b.convolution(b.global_pool(x), squeezed, 1), functions[0])
    y = b.activation(b.convolution(y, channels, 1), functions[1])
    return b.multiply(x, y)


def rounded(width: float) -> int:
    """A count of channels as a multiple of 8, at least 0.9 times what it was (as all networks of Google's)."""
    nearest = max(8, int(width + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * width else nearest


DOWN = Window(3, 2, 1)
"""A 3x3 window that goes on by two pixels, with a border of one."""
