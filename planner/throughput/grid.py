"""The grid that corrections are kept on: convolutions by channels, side and batch; the rest by batch or as one."""

from __future__ import annotations

import math
from itertools import pairwise

# A node of the grid and a weight: linear interpolation between neighbours.
Node = tuple[int, float]

# Powers of two. Between them the correction is interpolated, beyond them it stays as it is.
CHANNELS = (6.0, 7.0, 8.0, 9.0)
SIDES = (0.0, 2.0, 4.0, 6.0, 8.0)
BATCHES = (0.0, 3.0, 5.0, 7.0, 8.0)

CONV_COUNT = len(CHANNELS) * len(SIDES) * len(BATCHES)
SMALL_NODES = CONV_COUNT
"""Where the first layer and the pools begin: one node for each of BATCHES."""
DENSE_NODES = SMALL_NODES + len(BATCHES)
OTHER_START = DENSE_NODES + len(BATCHES)
OTHER_NODES = tuple(range(OTHER_START, OTHER_START + 5))
"""Launches, optimizer, batch norm, copying from the host, filter transforms."""
NODE_COUNT = OTHER_START + len(OTHER_NODES)


def conv_nodes(channels: float, filters: float, side: int, batch: int) -> list[Node]:
    """The eight nodes around a convolution, with weights that sum to one."""
    wide = _between(CHANNELS, (math.log2(channels) + math.log2(filters)) / 2)
    high = _between(SIDES, math.log2(side))
    deep = _between(BATCHES, math.log2(batch))
    return [
        ((c * len(SIDES) + s) * len(BATCHES) + b, at_c * at_s * at_b)
        for c, at_c in wide
        for s, at_s in high
        for b, at_b in deep
        if at_c and at_s and at_b
    ]


def batch_nodes(start: int | None, batch: int) -> list[Node]:
    """The two nodes around a batch; `start` None is the first layer and the pools."""
    base = SMALL_NODES if start is None else start
    return [(base + index, weight) for index, weight in _between(BATCHES, math.log2(batch)) if weight]


def steady_over_batches(corrections: list[float]) -> list[float]:
    """The corrections, from that of a batch of 32 on with none so far above that of the next smaller batch that images
    per second fall by more than 5 % with a doubling: no measured step's do unless it wants for memory, which is a term
    of its own. Most rows have batches about 32; farther ones give way.
    """
    kept = list(corrections)
    for start in range(0, OTHER_START, len(BATCHES)):
        for position in range(start + _MIDDLE + 1, start + len(BATCHES)):
            kept[position] = min(kept[position], kept[position - 1] + _RISES[position - start - 1])
        for position in reversed(range(start, start + _MIDDLE)):
            kept[position] = max(kept[position], kept[position + 1] - _RISES[position - start])
    return kept


_MIDDLE = BATCHES.index(5.0)
# Between nodes two doublings apart the factor, e^0.1 over both, rises by 5.26 % over the first: 1 / 0.95.
_RISES = [0.05 * (after - before) for before, after in pairwise(BATCHES)]


def _between(grid: tuple[float, ...], at: float) -> list[Node]:
    value = min(max(at, grid[0]), grid[-1])
    index = max(position for position in range(len(grid) - 1) if grid[position] <= value)
    share = (value - grid[index]) / (grid[index + 1] - grid[index])
    return [(index, 1 - share), (index + 1, share)]
