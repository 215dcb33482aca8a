"""Inception v3 as keras.applications has it (Szegedy et al., arXiv:1512.00567), without the auxiliary classifier."""

from __future__ import annotations

from trainplan.workloads.graph_builder import GraphBuilder, Size, Window
from trainplan.workloads.networks.parts import pooled_classes

_DOWN = Window(3, 2, "valid")
_AVERAGE = Window(3)


def inception_v3(b: GraphBuilder, classes: int) -> None:
    """All of it: a stem, three blocks at 35 px, four at 17 px and two at 8 px (of 299)."""
    x = _conv(b, b.image, 32, _DOWN)
    x = _conv(b, x, 32, Window(3, 1, "valid"))
    x = b.pool(_conv(b, x, 64, 3), _DOWN)
    x = _conv(b, x, 80, 1)
    x = b.pool(_conv(b, x, 192, Window(3, 1, "valid")), _DOWN)
    for pooled in (32, 64, 64):
        x = _at_35(b, x, pooled)
    x = b.concat(_conv(b, x, 384, _DOWN), _chain(b, x, (64, 1), (96, 3), (96, _DOWN)), b.pool(x, _DOWN))
    for inside in (128, 160, 160, 192):
        x = _at_17(b, x, inside)
    x = b.concat(
        _chain(b, x, (192, 1), (320, _DOWN)),
        _chain(b, x, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, _DOWN)),
        b.pool(x, _DOWN),
    )
    for _ in range(2):
        x = _at_8(b, x)
    pooled_classes(b, x, classes)


def _at_35(b: GraphBuilder, x: int, pooled: int) -> int:
    return b.concat(
        _conv(b, x, 64, 1),
        _chain(b, x, (48, 1), (64, 5)),
        _chain(b, x, (64, 1), (96, 3), (96, 3)),
        _pooled(b, x, pooled),
    )


def _at_17(b: GraphBuilder, x: int, inside: int) -> int:
    wide, tall = (1, 7), (7, 1)
    return b.concat(
        _conv(b, x, 192, 1),
        _chain(b, x, (inside, 1), (inside, wide), (192, tall)),
        _chain(b, x, (inside, 1), (inside, tall), (inside, wide), (inside, tall), (192, wide)),
        _pooled(b, x, 192),
    )


def _at_8(b: GraphBuilder, x: int) -> int:
    branches = [_conv(b, x, 320, 1)]
    for y in (_conv(b, x, 384, 1), _chain(b, x, (448, 1), (384, 3))):
        branches.append(b.concat(_conv(b, y, 384, (1, 3)), _conv(b, y, 384, (3, 1))))
    return b.concat(*branches, _pooled(b, x, 192))


def _pooled(b: GraphBuilder, x: int, channels: int) -> int:
    return _conv(b, b.pool(x, _AVERAGE, average=True), channels, 1)


def _chain(b: GraphBuilder, x: int, *steps: tuple[int, Window | Size]) -> int:
    for channels, window in steps:
        x = _conv(b, x, channels, window)
    return x


def _conv(b: GraphBuilder, x: int, channels: int, window: Window | Size) -> int:
    if not isinstance(window, Window):
        window = Window(window)
    return b.activation(b.batch_norm(b.convolution(x, channels, window, bias=False), scale=False))
