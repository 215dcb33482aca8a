"""Networks by name, for any images and classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from trainplan.workloads.graph import Graph, Shape
from trainplan.workloads.graph_builder import GraphBuilder
from trainplan.workloads.networks import convnext, densenet, early, inception, mobile, resnet
from trainplan.workloads.terms import Preset


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """How a network is written down, and the images that its published figures are of (pixels a side, channels)."""

    write: Callable[[GraphBuilder, int], None]
    image_size: int = 224
    channels: int = 3
    classes: int = 1000


NETWORKS: dict[Preset, Network] = {
    Preset.RESNET18: Network(write=partial(resnet.basic, stages=(2, 2, 2, 2))),
    Preset.RESNET34: Network(write=partial(resnet.basic, stages=(3, 4, 6, 3))),
    Preset.RESNET50: Network(write=partial(resnet.bottleneck, stages=(3, 4, 6, 3))),
    Preset.RESNET101: Network(write=partial(resnet.bottleneck, stages=(3, 4, 23, 3))),
    Preset.RESNET152: Network(write=partial(resnet.bottleneck, stages=(3, 8, 36, 3))),
    Preset.MOBILENET_V2: Network(write=mobile.mobilenet_v2),
    Preset.MOBILENET_V3_LARGE: Network(write=mobile.mobilenet_v3_large),
    # Times the channels and the blocks of B0, and dropout: Tan and Le's released code, as Keras has it.
    Preset.EFFICIENTNET_B0: Network(write=partial(mobile.efficientnet, width=1.0, depth=1.0, dropout=0.2)),
    Preset.EFFICIENTNET_B1: Network(
        write=partial(mobile.efficientnet, width=1.0, depth=1.1, dropout=0.2), image_size=240
    ),
    Preset.EFFICIENTNET_B2: Network(
        write=partial(mobile.efficientnet, width=1.1, depth=1.2, dropout=0.3), image_size=260
    ),
    Preset.EFFICIENTNET_B3: Network(
        write=partial(mobile.efficientnet, width=1.2, depth=1.4, dropout=0.3), image_size=300
    ),
    Preset.INCEPTION_V3: Network(write=inception.inception_v3, image_size=299),
    Preset.DENSENET121: Network(write=partial(densenet.densenet, stages=(6, 12, 24, 16))),
    Preset.DENSENET169: Network(write=partial(densenet.densenet, stages=(6, 12, 32, 32))),
    Preset.DENSENET201: Network(write=partial(densenet.densenet, stages=(6, 12, 48, 32))),
    Preset.SQUEEZENET1_1: Network(write=early.squeezenet),
    Preset.CONVNEXT_TINY: Network(write=partial(convnext.convnext, stages=convnext.TINY)),
    Preset.ALEXNET: Network(write=early.alexnet),
    Preset.LENET: Network(write=early.lenet, image_size=32, channels=1, classes=10),
}


@lru_cache(maxsize=64)
def preset_graph(preset: Preset, image_size: int, channels: int, classes: int) -> Graph:
    """The network for square images of `image_size` px a side and so many classes. It ends with a softmax.

    Raises ImageTooSmallError where nothing is left of the image on the way.
    """
    builder = GraphBuilder(str(preset), Shape(image_size, image_size, channels))
    NETWORKS[preset].write(builder, classes)
    return builder.graph()
