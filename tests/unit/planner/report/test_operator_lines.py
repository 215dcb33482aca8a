"""Which operators take the time of a step, as it is told."""

from __future__ import annotations

from trainplan.planner.report.operator_lines import operator_lines
from trainplan.workloads.graph import Graph, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder, Window


def a_graph() -> Graph:
    b = GraphBuilder("net", Shape(8, 8, 3))
    x = b.activation(b.convolution(b.image, 16, Window(3, 2)))
    x = b.depthwise(x, Window(5))
    x = b.add_operator(Kind.UNKNOWN, x, shape=b.shape(x), function="Attention")
    b.dense(b.global_pool(x), 1_000)
    return b.graph()


def test_kinds_and_the_longest_operators_are_told_with_their_sizes() -> None:
    assert operator_lines(a_graph(), [0.0, 5e-3, 1e-3, 2e-3, 1e-3, 0.9e-3, 0.1e-3]) == [
        "by kind, with how many: convolution 70% (2), activation 10% (1), unknown 10% (1), "
        "global average pool 9% (1), dense 1% (1)",
        " 50.0%  convolution_1: convolution 3 x 3 by 2, 3 to 16 channels, 4 x 4 px",
        " 20.0%  convolution_2: depthwise convolution 5 x 5, 16 to 16 channels, 4 x 4 px",
        " 10.0%  activation_1: relu activation, 16 channels, 4 x 4 px",
        " 10.0%  unknown_1: Attention unknown, 16 channels, 4 x 4 px",
        "  9.0%  global_average_pool_1: global average pool, 16 channels",
        "  1.0%  dense_1: dense, 16 to 1,000 channels",
    ]


def test_what_takes_too_little_to_be_seen_and_more_than_eight_operators_are_left_out() -> None:
    lines = operator_lines(a_graph(), [0.0, 1.0, 1e-4, 1e-4, 0.0, 0.0, 0.0])
    assert lines[0] == "by kind, with how many: convolution 100% (2)"
    assert len(lines) == 4
    b = GraphBuilder("net", Shape(8, 8, 3))
    x = b.image
    for _ in range(20):
        x = b.convolution(x, 3, 3)
    assert len(operator_lines(b.graph(), [0.0] + [1.0] * 20)) == 1 + 8


def test_nothing_is_told_where_nothing_is_known() -> None:
    assert operator_lines(a_graph(), ()) == []
