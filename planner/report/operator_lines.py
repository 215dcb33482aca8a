"""Which operators of a network take the time of a step, as `--explain` tells it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trainplan.workloads.graph import MATRIX_KINDS, WINDOW_POOLS, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.workloads.graph import Graph, Operator, OperatorFigures

_MOST = 8
"""Operators that are listed, and kinds."""


def operator_lines(graph: Graph, seconds: Sequence[float]) -> list[str]:
    """The kinds of operators by their share of a step's computing, and the operators that take most; none where the
    seconds of each (forward and backward, in order) are not known."""
    whole = sum(seconds)
    if not whole:
        return []
    counts = Counter(operator.kind for operator in graph.operators)
    taken: dict[Kind, float] = {}
    for operator, each in zip(graph.operators, seconds, strict=True):
        taken[operator.kind] = taken.get(operator.kind, 0.0) + each
    kinds = [
        f"{_words(kind)} {share / whole:.0%} ({counts[kind]})"
        for kind, share in sorted(taken.items(), key=lambda row: -row[1])[:_MOST]
        if share >= 0.005 * whole
    ]
    longest = sorted(zip(graph.figures, seconds, strict=True), key=lambda row: -row[1])[:_MOST]
    return [
        f"by kind, with how many: {', '.join(kinds)}",
        *(f"{each / whole:6.1%}  {_described(row)}" for row, each in longest if each),
    ]


def _words(kind: Kind) -> str:
    return kind.replace("_", " ")


def _described(row: OperatorFigures) -> str:
    """`block1 convolution, 3 x 3, 64 to 128 channels, 56 x 56 px`: what makes it long."""
    operator, before = row.operator, row.input_shapes[0]
    channels = f"{before.channels:,} to {operator.shape.channels:,} channels"
    what = f"{operator.function} " if operator.kind in (Kind.ACTIVATION, Kind.UNKNOWN) and operator.function else ""
    depthwise = "depthwise " if row.is_depthwise else ""
    parts = [f"{operator.name}: {what}{depthwise}{_words(operator.kind)}{_window(operator)}"]
    parts += [channels] if operator.kind in MATRIX_KINDS else [f"{before.channels:,} channels"]
    height, width, _ = operator.shape
    return ", ".join([*parts, f"{height} x {width} px"] if height * width > 1 else parts)


def _window(operator: Operator) -> str:
    if operator.kind not in MATRIX_KINDS - {Kind.DENSE} and operator.kind not in WINDOW_POOLS:
        return ""
    height, width = operator.kernel
    by = f" by {operator.stride[0]}" if operator.stride != (1, 1) else ""
    return f" {height} x {width}{by}"
