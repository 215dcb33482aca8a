"""Networks of the measurements with residual blocks: ResNet and its variants, RegNet."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainplan.planner.throughput.network_builder import window_of
from trainplan.workloads.graph_builder import Window
from trainplan.workloads.networks.parts import squeeze_excite

if TYPE_CHECKING:
    from trainplan.planner.throughput.network_builder import NetworkBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet:
    """He et al., arXiv:1512.03385, and what others changed of it.

    `groups` and `base_width` are those of ResNeXt (Xie et al., arXiv:1611.05431); a wide ResNet has a base width of
    128 (Zagoruyko and Komodakis, arXiv:1605.07146). `squeezes` adds squeeze and excitation to each block (Hu et al.,
    arXiv:1709.01507). `is_deep` is ResNet-D: three 3x3 convolutions at the beginning, an average before the
    shortcut's convolution (He et al., arXiv:1812.01187). `stride_first` puts the stride on the first 1x1 convolution of
    a block, as the paper, Keras and TensorFlow's benchmarks do; torchvision and NVIDIA put it on the 3x3 ("v1.5").
    """

    blocks: tuple[int, int, int, int]
    is_bottleneck: bool = True
    groups: int = 1
    base_width: int = 64
    squeezes: bool = False
    is_deep: bool = False
    stride_first: bool = False

    def write(self, graph: NetworkBuilder, classes: int) -> None:
        """Add the network's operators to a graph."""
        if self.is_deep:
            x = graph.unit(graph.unit(graph.unit(graph.image, 32, 3, 2), 32, 3), 64, 3)
        else:
            x = graph.unit(graph.image, 64, 7, 2)
        x = graph.pool(x, Window(3, 2, 1))
        for stage, count in enumerate(self.blocks):
            for block in range(count):
                x = self._block(graph, x, 64 * 2**stage, 2 if block == 0 and stage > 0 else 1)
        graph.classes(x, classes)

    def _block(self, graph: NetworkBuilder, x: int, width: int, stride: int) -> int:
        if self.is_bottleneck:
            inside = width * self.base_width // 64 * self.groups
            first, second = (stride, 1) if self.stride_first else (1, stride)
            y = graph.unit(x, inside, 1, first)
            y = graph.grouped(y, inside, window_of(3, second), self.groups)
            y = graph.unit(y, 4 * width, 1, active=False)
        else:
            y = graph.unit(graph.unit(x, width, 3, stride), width, 3, active=False)
        if self.squeezes:
            y = squeeze_excite(graph, y, graph.shape(y).channels // _SQUEEZED, ("relu", "sigmoid"))
        if graph.shape(x) != graph.shape(y):
            if self.is_deep and stride > 1:
                x, stride = graph.pool(x, Window(stride, stride, "valid"), average=True), 1
            x = graph.unit(x, graph.shape(y).channels, 1, stride, active=False)
        return graph.activation(graph.add(y, x))


_SQUEEZED = 16
_18, _34, _50 = (2, 2, 2, 2), (3, 4, 6, 3), (3, 4, 6, 3)
_101, _152, _200 = (3, 4, 23, 3), (3, 8, 36, 3), (3, 24, 36, 3)
_PLAIN = {
    "resnet18": ResNet(blocks=_18, is_bottleneck=False),
    "resnet34": ResNet(blocks=_34, is_bottleneck=False),
    "resnet26": ResNet(blocks=_18),
    "resnet50": ResNet(blocks=_50),
    "resnet101": ResNet(blocks=_101),
    "resnet152": ResNet(blocks=_152),
    "resnet200": ResNet(blocks=_200),
}
_WIDE = {f"wide_resnet{depth}_2": ResNet(blocks=blocks, base_width=128) for depth, blocks in ((50, _50), (101, _101))}
_NEXT = {
    f"resnext{depth}_{groups}x{width}d": ResNet(blocks=blocks, groups=groups, base_width=width)
    for depth, blocks in ((50, _50), (101, _101), (152, _152))
    for groups, width in ((32, 4), (32, 8), (64, 4))
}
_WITHOUT_SQUEEZING = {**_PLAIN, **_NEXT}
RESNETS = {
    **_PLAIN,
    **_WIDE,
    **_NEXT,
    **{f"se{name}": replace(network, squeezes=True) for name, network in _WITHOUT_SQUEEZING.items()},
    **{f"{name}d": replace(network, is_deep=True) for name, network in _PLAIN.items()},
    "resnext50d_32x4d": replace(_NEXT["resnext50_32x4d"], is_deep=True),
}
"""By the names of torchvision and timm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegNet:
    """Radosavovic et al., arXiv:2003.13678, equations 2 to 4: block widths grow by `slope` from `first`, quantized to
    powers of `ratio`; each block has groups of `group_width` channels."""

    first: float
    slope: float
    ratio: float
    depth: int
    group_width: int
    squeezes: bool

    def write(self, graph: NetworkBuilder, classes: int) -> None:
        """Add the network's operators to a graph."""
        x = graph.unit(graph.image, 32, 3, 2)
        previous = 0
        for raw in self._widths():
            group = min(self.group_width, raw)
            width = round(raw / group) * group
            x = self._block(graph, x, width, group, stride=1 if raw == previous else 2)
            previous = raw
        graph.classes(x, classes)

    def _widths(self) -> list[int]:
        found = []
        for block in range(self.depth):
            steps = round(math.log((self.first + self.slope * block) / self.first) / math.log(self.ratio))
            found.append(round(self.first * self.ratio**steps / 8) * 8)
        return found

    def _block(self, graph: NetworkBuilder, x: int, width: int, group: int, stride: int) -> int:
        before = graph.shape(x).channels
        y = graph.grouped(graph.unit(x, width, 1), width, window_of(3, stride), width // group)
        if self.squeezes:
            y = squeeze_excite(graph, y, round(before / 4), ("relu", "sigmoid"))
        y = graph.unit(y, width, 1, active=False)
        if graph.shape(x) != graph.shape(y):
            x = graph.unit(x, width, 1, stride, active=False)
        return graph.activation(graph.add(y, x))


# First width, slope, ratio, depth, group width: the configurations of pycls for ImageNet (configs/dds_baselines).
_X = {
    "002": (24, 36.44, 2.49, 13, 8), "004": (24, 24.48, 2.54, 22, 16), "006": (48, 36.97, 2.24, 16, 24),
    "008": (56, 35.73, 2.28, 16, 16), "016": (80, 34.01, 2.25, 18, 24), "032": (88, 26.31, 2.25, 25, 48),
    "040": (96, 38.65, 2.43, 23, 40), "064": (184, 60.83, 2.07, 17, 56), "080": (80, 49.56, 2.88, 23, 120),
    "120": (168, 73.36, 2.37, 19, 112), "160": (216, 55.59, 2.1, 22, 128), "320": (320, 69.86, 2.0, 23, 168),
}  # fmt: skip
_Y = {
    "002": (24, 36.44, 2.49, 13, 8), "004": (48, 27.89, 2.09, 16, 8), "006": (48, 32.54, 2.32, 15, 16),
    "008": (56, 38.84, 2.4, 14, 16), "016": (48, 20.71, 2.65, 27, 24), "032": (80, 42.63, 2.66, 21, 24),
    "040": (96, 31.41, 2.24, 22, 64), "064": (112, 33.22, 2.27, 25, 72), "080": (192, 76.82, 2.19, 17, 56),
    "120": (168, 73.36, 2.37, 19, 112), "160": (200, 106.23, 2.48, 18, 112), "320": (232, 115.89, 2.53, 20, 232),
}  # fmt: skip
REGNETS = {
    f"regnet{kind}_{size}": RegNet(
        first=first, slope=slope, ratio=ratio, depth=depth, group_width=group_width, squeezes=kind == "y"
    )
    for kind, table in (("x", _X), ("y", _Y))
    for size, (first, slope, ratio, depth, group_width) in table.items()
}
