"""Remembers what was computed of a net, by which object it is: hashing a net of forty layers costs more."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainplan.workloads.graph import Graph
    from trainplan.workloads.layers import Net

    Network = TypeVar("Network", Net, Graph, Net | Graph)

Answer = TypeVar("Answer")
_MOST = 8_192


def per_net(function: Callable[[Network, int, int], Answer]) -> Callable[[Network, int, int], Answer]:
    """`function` of a net and two numbers, computed once for each net object; starts afresh when full."""
    entries: dict[tuple[int, int, int], tuple[Network, Answer]] = {}

    @wraps(function)
    def remembered(net: Network, first: int, second: int) -> Answer:
        # The net is kept beside the answer, so that no other object can come by its id.
        key = (id(net), first, second)
        pair = entries.get(key)
        if pair is None:
            if len(entries) >= _MOST:
                entries.clear()
            pair = entries[key] = (net, function(net, first, second))
        return pair[1]

    return remembered
