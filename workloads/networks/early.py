"""LeNet-5, AlexNet and SqueezeNet 1.1: plain stacks, and the first one that squeezes its channels."""

from __future__ import annotations

from trainplan.workloads.graph import ImageTooSmallError
from trainplan.workloads.graph_builder import GraphBuilder, Window
from trainplan.workloads.networks.parts import conv_relu

_FIELD = 32
_POOL = Window(3, 2, "valid")


def lenet(b: GraphBuilder, classes: int) -> None:
    """LeNet-5 (LeCun et al. 1998) with ReLUs, largest pixels and full connections, as it is taught today.

    Images of fewer than 32 px stand in a field with a border of 2, as the 28 px of MNIST in the paper.
    """
    border = 2 if b.shape(b.image).height < _FIELD else 0
    x = b.pool(conv_relu(b, b.image, 6, Window(5, 1, border)), Window(2, 2, "valid"))
    x = b.pool(conv_relu(b, x, 16, Window(5, 1, "valid")), Window(2, 2, "valid"))
    x = b.flatten(x)
    for units in (120, 84):
        x = b.activation(b.dense(x, units))
    b.activation(b.dense(x, classes), "softmax")


def alexnet(b: GraphBuilder, classes: int) -> None:
    """As torchvision has it (Krizhevsky 2014, arXiv:1404.5997)."""
    x = b.pool(conv_relu(b, b.image, 64, Window(11, 4, 2)), _POOL)
    x = b.pool(conv_relu(b, x, 192, 5), _POOL)
    for channels in (384, 256, 256):
        x = conv_relu(b, x, channels, 3)
    x = _averaged_to(b, b.pool(x, _POOL), 6)
    x = b.flatten(x)
    for _ in range(2):
        x = b.activation(b.dense(b.dropout(x, 0.5), 4096))
    b.activation(b.dense(x, classes), "softmax")


def _averaged_to(b: GraphBuilder, x: int, side: int) -> int:
    """Averages of equal windows that leave so many pixels a side; torchvision's differ by a pixel where the image is no
    multiple of that."""
    before = b.shape(x).height
    if before == side:
        return x
    if before < side:
        raise ImageTooSmallError(
            f"the image is {before} px a side when it reaches the average of {side} x {side} parts"
        )
    stride = before // side
    return b.pool(x, Window(before - (side - 1) * stride, stride, "valid"), average=True)


def squeezenet(b: GraphBuilder, classes: int) -> None:
    """SqueezeNet 1.1 as torchvision has it (Iandola et al., arXiv:1602.07360, and the authors' later release)."""
    x = pool_up(b, conv_relu(b, b.image, 64, Window(3, 2, "valid")))
    x = pool_up(b, fires(b, x, 16, 16))
    x = pool_up(b, fires(b, x, 32, 32))
    x = conv_relu(b, b.dropout(fires(b, x, 48, 48, 64, 64), 0.5), classes, 1)
    b.activation(b.global_pool(x), "softmax")


def fires(b: GraphBuilder, x: int, *squeezes: int) -> int:
    """Fire modules: so many channels, then four times as many of 1x1 and of 3x3 convolutions."""
    for squeezed in squeezes:
        y = conv_relu(b, x, squeezed, 1)
        x = b.concat(conv_relu(b, y, 4 * squeezed, 1), conv_relu(b, y, 4 * squeezed, 3))
    return x


def pool_up(b: GraphBuilder, x: int) -> int:
    """A pool of 3x3 by 2 that rounds its size up: a border of one pixel at the end where the last window lacks it."""
    height, width, _ = b.shape(x)
    return b.pool(x, Window(3, 2, (0, 1 - height % 2, 0, 1 - width % 2)))
