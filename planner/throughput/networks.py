"""The networks of the measurements as graphs, each as its sources built it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from trainplan.planner.throughput import mobile_networks as mobile
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.network_builder import NetworkBuilder
from trainplan.planner.throughput.residual_networks import REGNETS, RESNETS
from trainplan.workloads.graph import Graph, ImageTooSmallError, Shape
from trainplan.workloads.graph_builder import Window
from trainplan.workloads.layers import graph_of
from trainplan.workloads.networks.convnext import convnext
from trainplan.workloads.networks.mobile import efficientnet
from trainplan.workloads.networks.presets import preset_graph
from trainplan.workloads.terms import Preset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Whose ResNets have the stride where the paper has it.
_AS_IN_THE_PAPER = ("profet", "lambda_tf", "tfdoc", "lambda_blog", "pizdaint")
_TEN_CLASSES = ("profet",)
_PRESETS = {
    **{name: Preset(name) for name in ("alexnet", "inception_v3", "mobilenet_v2", "squeezenet1_1", "convnext_tiny")},
    **{f"efficientnet_b{number}": Preset(f"efficientnet_b{number}") for number in range(4)},
    **{name: Preset(name) for name in ("densenet121", "densenet169", "densenet201")},
    "alexnet_owt": Preset.ALEXNET,
    "mobilenetv2_100": Preset.MOBILENET_V2,
    **dict.fromkeys(("mobilenetv3_large_100", "mobilenet_v3_large"), Preset.MOBILENET_V3_LARGE),
}


def network_of(
    model: str, image_size_px: int, source: str = "", parameters_million: float | None = None
) -> Graph | None:
    """The graph of a measured model at an image size; None for one that is not kept here, or an image that is too
    small. `source` is the short name of who measured it: some built a network of this name in another way."""
    net = net_of(model, image_size_px, parameters_million)
    return _network_of(model, image_size_px, source.partition("-")[0]) if net is None else graph_of(net)


@lru_cache(maxsize=512)
def _network_of(model: str, image_size_px: int, source: str) -> Graph | None:
    classes = 10 if source in _TEN_CLASSES else 1_000
    preset = _PRESETS.get(model)
    build = _builder_of(model, source)
    graph = NetworkBuilder(model, Shape(image_size_px, image_size_px, 3))
    try:
        if preset is not None:
            return preset_graph(preset, image_size_px, 3, classes)
        if build is None:
            return None
        build(graph, classes)
    except ImageTooSmallError:
        return None
    return graph.graph()


def _builder_of(model: str, source: str) -> Callable[[NetworkBuilder, int], None] | None:
    if model in RESNETS:
        return replace(RESNETS[model], stride_first=source in _AS_IN_THE_PAPER).write
    return REGNETS[model].write if model in REGNETS else _builders().get(model)


def _builders() -> dict[str, Callable[[NetworkBuilder, int], None]]:
    return {
        "alexnet_stride1_profet": _alexnet_of_small_steps,
        "overfeat_fast": _overfeat,
        "inception_v4": _inception_v4,
        "inception_resnet_v2": _inception_resnet,
        "googlenetv1": _googlenet,
        "xception": mobile.xception,
        **{name: partial(mobile.mnasnet, width=width) for name, width in _MNASNETS.items()},
        **{
            f"mobilenetv2_{width * 100:03.0f}": partial(mobile.mobilenet_v2, width=width)
            for width in (0.35, 0.5, 0.75, 1.4)
        },
        **{
            f"efficientnet_b{number}": partial(efficientnet, width=width, depth=depth, dropout=0.4)
            for number, (width, depth) in _EFFICIENTNETS.items()
        },
        **{name: mobile.efficientnet_v2_s for name in ("efficientnetv2_s", "tf_efficientnetv2_s")},
        **{f"convnext_{size}": partial(convnext, stages=stages) for size, stages in _CONVNEXTS.items()},
        "densenet161": mobile.densenet161,
        "squeezenet1_0": mobile.squeezenet_1_0,
        **{name: mobile.repvgg_of(*row) for name, row in _REPVGGS.items()},
        "vovnet39a": mobile.vovnet,
        "lenet5": _lenet,
        "mnist_cnn": _mnist_cnn,
        "cifar10_cnn": _cifar10_cnn,
        "resnetsmall": _resnet_small,
        "tinyvgg": _tiny_vgg,
    }


_MNASNETS = {
    **{"mnasnet0_5": 0.5, "mnasnet0_75": 0.75, "mnasnet1_0": 1.0, "mnasnet1_3": 1.3},
    **{"mnasnet_050": 0.5, "mnasnet_075": 0.75, "mnasnet_100": 1.0, "mnasnet_b1": 1.0, "mnasnet_140": 1.4},
}
_EFFICIENTNETS = {4: (1.4, 1.8), 5: (1.6, 2.2), 6: (1.8, 2.6), 7: (2.0, 3.1)}
"""Times the channels and the blocks of B0 (Tan and Le's released code)."""
_CONVNEXTS = {
    "nano": ((2, 80), (2, 160), (8, 320), (2, 640)),
    "small": ((3, 96), (3, 192), (27, 384), (3, 768)),
    "base": ((3, 128), (3, 256), (27, 512), (3, 1024)),
    "large": ((3, 192), (3, 384), (27, 768), (3, 1536)),
}
_A2, _B = (2, 4, 14, 1), (4, 6, 16, 1)
# Blocks of each stage, channels, groups of every second convolution (Ding et al., arXiv:2101.03697, table 2).
_REPVGGS = {
    "repvgga2": (_A2, (64, 96, 192, 384, 1408), 1),
    "repvggb0": (_B, (64, 64, 128, 256, 1280), 1),
    "repvggb1": (_B, (64, 128, 256, 512, 2048), 1),
    "repvggb1g4": (_B, (64, 128, 256, 512, 2048), 4),
    "repvggb2": (_B, (64, 160, 320, 640, 2560), 1),
    "repvggb2g4": (_B, (64, 160, 320, 640, 2560), 4),
    "repvggb3": (_B, (64, 192, 384, 768, 2560), 1),
    "repvggb3g4": (_B, (64, 192, 384, 768, 2560), 4),
}


def _alexnet_of_small_steps(graph: NetworkBuilder, _classes: int) -> None:
    """The AlexNet of PROFET: a stride of 1 throughout, five pools, and hidden layers of 3072 and 4096 units."""
    x = graph.image
    for channels, kernel, pools in ((96, 11, 1), (256, 5, 1), (512, 3, 1), (1024, 3, 0), (1024, 3, 1)):
        x = graph.unit(x, channels, kernel)
        x = graph.pool(x, Window(2, 2, "valid")) if pools else x
    graph.hidden(x, (3072, 4096), 10)


def _overfeat(graph: NetworkBuilder, classes: int) -> None:
    """Sermanet et al., arXiv:1312.6229, table 1."""
    x = graph.pool(graph.plain(graph.image, 96, 11, 4, 0), Window(2, 2, "valid"))
    x = graph.pool(graph.plain(x, 256, 5, 1, 0), Window(2, 2, "valid"))
    for channels in (512, 1024, 1024):
        x = graph.plain(x, channels, 3)
    graph.hidden(graph.pool(x, Window(2, 2, "valid")), (3072, 4096), classes)


def _googlenet(graph: NetworkBuilder, classes: int) -> None:
    """Szegedy et al., arXiv:1409.4842, table 1."""
    x = graph.pool(graph.plain(graph.image, 64, 7, 2), Window(3, 2, 1))
    x = graph.pool(graph.plain(graph.plain(x, 64, 1), 192, 3), Window(3, 2, 1))
    for row in _GOOGLENET:
        if not row:
            x = graph.pool(x, Window(3, 2, 1))
            continue
        one, before_three, three, before_five, five, pooled = row
        x = graph.concat(
            graph.plain(x, one, 1),
            graph.plain(graph.plain(x, before_three, 1), three, 3),
            graph.plain(graph.plain(x, before_five, 1), five, 5),
            graph.plain(graph.pool(x, Window(3, 1, 1)), pooled, 1),
        )
    graph.classes(x, classes)


_GOOGLENET: tuple[tuple[int, ...], ...] = (
    *((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), ()),
    *((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64)),
    *((112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), ()),
    *((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
Step = tuple[int, int | tuple[int, int]] | tuple[int, int | tuple[int, int], int, int]
"""Channels and kernel of a convolution, and its stride and border where they are not 1 and as large as before."""


def _chain(graph: NetworkBuilder, x: int, *steps: Step) -> int:
    for step in steps:
        x = graph.unit(x, *step)
    return x


def _pooled(graph: NetworkBuilder, x: int, channels: int) -> int:
    return graph.unit(graph.pool(x, Window(3, 1, 1), average=True), channels, 1)


def _stem(graph: NetworkBuilder, channels: int) -> int:
    return _chain(graph, graph.image, (32, 3, 2, 0), (32, 3, 1, 0), (channels, 3))


_ROW, _COLUMN = (1, 7), (7, 1)


def _inception_v4(graph: NetworkBuilder, classes: int) -> None:
    """Szegedy et al., arXiv:1602.07261, figure 9."""
    x = _stem(graph, 64)
    x = graph.concat(graph.pool(x, Window(3, 2, "valid")), graph.unit(x, 96, 3, 2, 0))
    short = _chain(graph, x, (64, 1), (96, 3, 1, 0))
    x = graph.concat(short, _chain(graph, x, (64, 1), (64, _ROW), (64, _COLUMN), (96, 3, 1, 0)))
    x = graph.concat(graph.unit(x, 192, 3, 2, 0), graph.pool(x, Window(3, 2, "valid")))
    for _ in range(4):
        parts = graph.unit(x, 96, 1), _chain(graph, x, (64, 1), (96, 3))
        x = graph.concat(*parts, _chain(graph, x, (64, 1), (96, 3), (96, 3)), _pooled(graph, x, 96))
    x = _reduction(graph, x, (192, 224, 256), 384)
    for _ in range(7):
        short = _chain(graph, x, (192, 1), (224, _ROW), (256, _COLUMN))
        steps: list[Step] = [(192, 1), (192, _COLUMN), (224, _ROW), (224, _COLUMN), (256, _ROW)]
        x = graph.concat(graph.unit(x, 384, 1), short, _chain(graph, x, *steps), _pooled(graph, x, 128))
    wide = _chain(graph, x, (256, 1), (256, _ROW), (320, _COLUMN), (320, 3, 2, 0))
    x = graph.concat(_chain(graph, x, (192, 1), (192, 3, 2, 0)), wide, graph.pool(x, Window(3, 2, "valid")))
    for _ in range(3):
        short, long = graph.unit(x, 384, 1), _chain(graph, x, (384, 1), (448, (3, 1)), (512, (1, 3)))
        ends = [graph.unit(y, 256, kernel) for y in (short, long) for kernel in ((1, 3), (3, 1))]
        x = graph.concat(graph.unit(x, 256, 1), *ends, _pooled(graph, x, 256))
    graph.classes(x, classes)


def _reduction(graph: NetworkBuilder, x: int, widths: Sequence[int], wide: int) -> int:
    first, second, third = widths
    long = _chain(graph, x, (first, 1), (second, 3), (third, 3, 2, 0))
    return graph.concat(graph.unit(x, wide, 3, 2, 0), long, graph.pool(x, Window(3, 2, "valid")))


def _inception_resnet(graph: NetworkBuilder, classes: int) -> None:
    """Szegedy et al., arXiv:1602.07261, as keras.applications' InceptionResNetV2 has it."""
    x = graph.pool(_stem(graph, 64), Window(3, 2, "valid"))
    x = graph.pool(_chain(graph, x, (80, 1), (192, 3, 1, 0)), Window(3, 2, "valid"))
    parts = graph.unit(x, 96, 1), _chain(graph, x, (48, 1), (64, 5))
    x = graph.concat(*parts, _chain(graph, x, (64, 1), (96, 3), (96, 3)), _pooled(graph, x, 64))
    for _ in range(10):
        branches = [[(32, 1)], [(32, 1), (32, 3)], [(32, 1), (48, 3), (64, 3)]]
        x = _joined(graph, x, branches)
    x = _reduction(graph, x, (256, 256, 384), 384)
    for _ in range(20):
        x = _joined(graph, x, [[(192, 1)], [(128, 1), (160, _ROW), (192, _COLUMN)]])
    ends = [_chain(graph, x, (256, 1), (384, 3, 2, 0)), _chain(graph, x, (256, 1), (288, 3, 2, 0))]
    ends += [_chain(graph, x, (256, 1), (288, 3), (320, 3, 2, 0)), graph.pool(x, Window(3, 2, "valid"))]
    x = graph.concat(*ends)
    for _ in range(10):
        x = _joined(graph, x, [[(192, 1)], [(192, 1), (224, (1, 3)), (256, (3, 1))]])
    graph.classes(graph.unit(x, 1536, 1), classes)


def _joined(graph: NetworkBuilder, x: int, branches: Sequence[Sequence[Step]]) -> int:
    joined = graph.concat(*(_chain(graph, x, *steps) for steps in branches))
    up = graph.convolution(joined, graph.shape(x).channels, 1)
    return graph.activation(graph.add(x, up))


def _lenet(graph: NetworkBuilder, _classes: int) -> None:
    x = graph.pool(graph.plain(graph.image, 6, 5, 1, 0), Window(2, 2, "valid"))
    x = graph.pool(graph.plain(x, 16, 5, 1, 0), Window(2, 2, "valid"))
    graph.hidden(x, (120, 84), 10)


def _mnist_cnn(graph: NetworkBuilder, _classes: int) -> None:
    x = graph.pool(graph.plain(graph.image, 32, 3, 1, 0), Window(2, 2, "valid"))
    x = graph.pool(graph.plain(x, 64, 3, 1, 0), Window(2, 2, "valid"))
    graph.hidden(x, (), 10)


def _cifar10_cnn(graph: NetworkBuilder, _classes: int) -> None:
    x = graph.image
    for channels in (32, 64):
        x = graph.plain(graph.plain(x, channels, 3), channels, 3, 1, 0)
        x = graph.pool(x, Window(2, 2, "valid"))
    graph.hidden(x, (512,), 10)


def _resnet_small(graph: NetworkBuilder, _classes: int) -> None:
    """PROFET's small network of residual blocks of two 1x1 convolutions."""
    x = graph.pool(graph.unit(graph.image, 64, 7, 2), Window(3, 2, 1))
    for channels, stride in ((64, 2), (64, 1), (128, 2), (128, 1)):
        y = graph.unit(graph.unit(x, channels, 1, stride), channels, 1, active=False)
        if stride != 1:
            x = graph.unit(x, channels, 1, stride, active=False)
        x = graph.activation(graph.add(y, x))
    graph.classes(x, 10)


def _tiny_vgg(graph: NetworkBuilder, _classes: int) -> None:
    x = graph.image
    for _ in range(2):
        x = graph.plain(graph.plain(x, 10, 3, 1, 0), 10, 3, 1, 0)
        x = graph.pool(x, Window(2, 2, "valid"))
    graph.hidden(x, (), 10)
