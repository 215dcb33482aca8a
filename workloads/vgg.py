"""The nets that can be trained, as layer lists: the VGG family and the small strided MNIST net.

Equal nets are one object, since what estimates compute of a net is kept by its object (planner.throughput.remember).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from trainplan.workloads.layers import Conv, Dense, Flatten, Layer, MaxPool, Net

M: Literal["M"] = "M"
FeatureList = tuple[int | Literal["M"], ...]

# Simonyan and Zisserman, arXiv:1409.1556, table 1: columns A, B, D and E.
VGG_FEATURES: dict[str, FeatureList] = {
    "vgg11": (64, M, 128, M, 256, 256, M, 512, 512, M, 512, 512, M),
    "vgg13": (64, 64, M, 128, 128, M, 256, 256, M, 512, 512, M, 512, 512, M),
    "vgg16": (64, 64, M, 128, 128, M, 256, 256, 256, M, 512, 512, 512, M, 512, 512, 512, M),
    "vgg19": (64, 64, M, 128, 128, M, 256, 256, 256, 256, M, 512, 512, 512, 512, M, 512, 512, 512, 512, M),
}
VGG_DENSE = (4096, 4096)
VGG_DROPOUT = 0.5
MNIST_CNN = "mnist-cnn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What follows the features: widths of the hidden dense layers, dropout after each, classes."""

    dense: tuple[int, ...]
    dropout: float
    classes: int


@lru_cache(maxsize=64)
def vgg(name: str, features: FeatureList, head: Head, image: tuple[int, int], *, batch_norm: bool) -> Net:
    """A VGG-style net: 3x3 convolutions and 2x2 max pools as listed, then the head.

    `image` is (pixels a side, channels). Batch norm, where asked, follows each convolution, not the dense layers
    (as in torchvision's vgg*_bn).
    """
    body: list[Layer] = [
        MaxPool() if step == M else Conv(filters=int(step), batch_norm=batch_norm) for step in features
    ]
    hidden: list[Layer] = [Dense(units=units, dropout=head.dropout) for units in head.dense]
    last = Dense(units=head.classes, softmax=True)
    return Net(name=name, image_size=image[0], channels=image[1], layers=(*body, Flatten(), *hidden, last))


@lru_cache(maxsize=64)
def with_frozen_blocks(net: Net, blocks: int) -> Net:
    """The net whose first `blocks` blocks are not trained; a block ends with a max pool.

    Raises ValueError for more blocks than the net has.
    """
    ends = [number + 1 for number, layer in enumerate(net.layers) if isinstance(layer, MaxPool)]
    if blocks > len(ends):
        raise ValueError(
            f"freeze: block{blocks} is not there: the net has {len(ends)} blocks, each ends with a max pool"
        )
    return replace(net, frozen=ends[blocks - 1])


@lru_cache(maxsize=64)
def mnist_cnn(classes: int, image: tuple[int, int]) -> Net:
    """The small strided MNIST net: three strided convolutions and one dense layer, all with unscaled batch norm.

    Batch norm goes without a scale because a ReLU follows, and no layer before it has a bias.
    """
    layers: tuple[Layer, ...] = (
        Conv(filters=12, kernel=3, batch_norm=True, batch_norm_scale=False),
        Conv(filters=24, kernel=6, stride=2, batch_norm=True, batch_norm_scale=False),
        Conv(filters=64, kernel=6, stride=2, batch_norm=True, batch_norm_scale=False),
        Flatten(),
        Dense(units=200, batch_norm=True, batch_norm_scale=False, dropout=0.4),
        Dense(units=classes, softmax=True),
    )
    return Net(name=MNIST_CNN, image_size=image[0], channels=image[1], layers=layers)
