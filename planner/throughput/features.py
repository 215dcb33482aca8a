"""What a step is made of, as the numbers that effects of groups of measurements multiply: `Features`.

Each block is either a part's share of the step or a few nodes between which a smooth curve is drawn: a value between
two nodes counts for both, by how near each is, and one beyond the last node counts as the last.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from trainplan.planner.throughput.grid import Node

CHANNELS = (0.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
"""Doublings of a convolution's channels (the harmonic mean of those in and out, of a group); 0: depthwise."""
SIDES = (0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Doublings of the side of its output."""
BALANCES = (-3.0, -1.5, -0.5, 0.5, 1.5, 3.0, 5.0)
"""Logarithms of the device's seconds over the host's."""
BATCHES = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
"""Doublings of the batch."""
SIZES = (5.0, 6.0, 7.0, 8.0)
"""Doublings of the image's side."""


class Block(StrEnum):
    """Features that have effects together."""

    CONVOLUTIONS = "convolutions"
    """Shares of the step's seconds by kind (larger kernels, 1x1, groups), channels and side."""
    GROUPED = "grouped"
    """The share of the convolutions of groups, those of one channel each among them; its effect joins those of their
    nodes."""
    MOVED = "moved"
    WEIGHTS = "weights"
    FIRST = "first"
    COPIED = "copied"
    LAUNCHED = "launched"
    HOST = "host"
    BUSY = "busy"
    """The device's share of the step: what a card is found to be faster or slower by never reaches the host's time."""
    WHOLE = "whole"
    BALANCE = "balance"
    """Which of device and host decides."""
    BATCH = "batch"
    RATES = "rates"
    """Logarithms of the device's peak rate, bandwidth, plain rate and that of a multiprocessor, each over a usual
    card's."""
    SIZE_BATCH = "size_batch"
    """Image side and batch together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a block, and how far apart (in their own units) the curve's values are still alike."""

    axes: tuple[tuple[float, ...], ...]
    lengths: tuple[float, ...]
    kinds: int = 1
    """Curves of kinds that are half alike."""

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return self.kinds * math.prod(map(len, self.axes))

    @property
    def places(self) -> list[tuple[float, ...]]:
        """Where the nodes of one kind are, in lengths."""
        return [
            tuple(value / length for value, length in zip(place, self.lengths, strict=True))
            for place in product(*self.axes)
        ]


ONE = Nodes(axes=((0.0,),), lengths=(1.0,))
NODES: dict[Block, Nodes] = {
    Block.CONVOLUTIONS: Nodes(axes=(CHANNELS, SIDES), lengths=(1.5, 1.5), kinds=3),
    Block.BALANCE: Nodes(axes=(BALANCES,), lengths=(2.0,)),
    Block.BATCH: Nodes(axes=(BATCHES,), lengths=(3.0,)),
    Block.RATES: Nodes(axes=((0.0, 100.0, 200.0, 300.0),), lengths=(1.0,)),
    Block.SIZE_BATCH: Nodes(axes=(SIZES, BATCHES), lengths=(1.5, 4.0)),
}
GROUPED_NODES = slice(2 * len(CHANNELS) * len(SIDES), 3 * len(CHANNELS) * len(SIDES))
"""Of the nodes of convolutions, those of groups."""
COUNTS = {block: NODES.get(block, ONE).count for block in Block}
USUAL_RATES = (8e13, 9e11, 1.5e13, 1.4e12)
"""FLOP/s, bytes/s, plain FLOP/s and FLOP/s of a multiprocessor: about a V100's."""
Features = dict[Block, list[Node]]
"""For each block the nodes that are not zero, and their values."""


class Parts(NamedTuple):
    """The seconds of a step by the physics. `shares` are those of each block that is a part, `convolutions` those of
    each node, both as shares of the step (they sum to one)."""

    seconds: float
    busy: float
    host: float
    shares: dict[Block, float]
    convolutions: dict[int, float]


def convolution_nodes(channels: float, side: float, kind: int) -> list[Node]:
    """The four nodes around a convolution of so many doublings of channels and side, with weights that sum to one.
    `kind` is 0 for larger kernels, 1 for 1x1, 2 for groups."""
    start = kind * len(CHANNELS) * len(SIDES)
    return [
        (start + column * len(SIDES) + row, of_column * of_row)
        for column, of_column in between(CHANNELS, channels)
        for row, of_row in between(SIDES, side)
    ]


def features_of(parts: Parts, batch: int, size: int, rates: tuple[float, float, float, float]) -> Features:
    """The features of a step over `batch` images of `size` px a side; `rates` as `USUAL_RATES`."""
    found: Features = {block: [(0, share)] for block, share in parts.shares.items() if share}
    found[Block.CONVOLUTIONS] = list(parts.convolutions.items())
    found[Block.BUSY] = [(0, 1 - parts.shares[Block.HOST])]
    found[Block.WHOLE] = [(0, 1.0)]
    found[Block.BALANCE] = between(BALANCES, math.log(parts.busy / parts.host))
    batches = between(BATCHES, math.log2(batch))
    found[Block.BATCH] = batches
    found[Block.RATES] = [
        (position, math.log(rate / usual))
        for position, (rate, usual) in enumerate(zip(rates, USUAL_RATES, strict=True))
    ]
    sizes = between(SIZES, math.log2(size))
    found[Block.SIZE_BATCH] = [
        (row * len(BATCHES) + column, of_row * of_column) for row, of_row in sizes for column, of_column in batches
    ]
    return found


def between(axis: tuple[float, ...], at: float) -> list[Node]:
    """The nodes of an axis around a value, with weights that sum to one."""
    value = min(max(at, axis[0]), axis[-1])
    index = min(bisect_right(axis, value), len(axis) - 1) - 1
    share = (value - axis[index]) / (axis[index + 1] - axis[index])
    return [(index, 1 - share), (index + 1, share)] if share else [(index, 1.0)]
