"""Networks as graphs: figures by hand, what holds of every graph, and text that is read with care."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from tests.rows import each_row
from tests.unit.workloads.graphs import graphs
from trainplan.workloads.graph import Graph, GraphError, ImageTooSmallError, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder, Window
from trainplan.workloads.graph_file import graph_from_json, graph_json
from trainplan.workloads.graph_shapes import check


def a_residual_net() -> Graph:
    """8x8x3 -> conv 4 filters, norm, relu -> add of a depthwise one -> global pool -> dense 10."""
    b = GraphBuilder("net", Shape(8, 8, 3))
    x = b.activation(b.batch_norm(b.convolution(b.image, 4, Window(3, 2), bias=False)))
    x = b.add(x, b.depthwise(x, 3))
    b.dense(b.global_pool(x), 10)
    return b.graph()


def test_a_small_net_by_hand() -> None:
    graph = a_residual_net()
    rows = {row.operator.name: row for row in graph.figures}
    assert [row.parameters for row in graph.figures] == [0, 3 * 3 * 3 * 4, 8, 0, 3 * 3 * 4 + 4, 0, 0, 4 * 10 + 10]
    assert (graph.parameters, graph.statistics) == (108 + 8 + 40 + 50, 8)
    assert graph.macs == 16 * 108 + 16 * 36 + 40
    first, second = rows["convolution_1"], rows["convolution_2"]
    assert (first.is_depthwise, second.is_depthwise) == (False, True)
    # The gradient of the images is not computed; of everything above both gradients are.
    assert first.flops_backward == 2 * first.macs
    assert second.flops_backward == 4 * second.macs + 2 * 64
    assert (graph.image_size, graph.channels, graph.classes) == (8, 3, 10)
    assert graph.consumers[3] == (4, 5)


def test_what_is_frozen_has_no_backward_pass_unless_something_below_is_trained() -> None:
    b = GraphBuilder("net", Shape(8, 8, 3))
    b.freeze(frozen=True)
    x = b.convolution(b.image, 4, 3)
    b.freeze(frozen=False)
    x = b.convolution(x, 4, 3)
    b.freeze(frozen=True)
    b.convolution(x, 4, 3)
    _, first, second, third = b.graph().figures
    assert (first.is_trained, first.has_backward, first.flops_backward) == (False, False, 0)
    assert (second.is_trained, second.passes_back) == (True, False)
    assert (third.is_trained, third.passes_back) == (False, True)
    assert third.flops_backward == 2 * third.macs + 2 * 256
    assert b.graph().trained_parameters == second.parameters


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(3, 1), (9, 14)),
        (Window(3, 2), (5, 7)),
        (Window(3, 2, "valid"), (4, 6)),
        (Window(5, 1, "valid", 2), (1, 6)),
        (Window((1, 7), 1, "valid"), (9, 8)),
        (Window(3, 2, (1, 0, 0, 2)), (4, 7)),
        (Window(2, 3), (3, 5)),
    ],
)
def test_windows_leave_so_many_pixels(window: Window, expected: tuple[int, int]) -> None:
    b = GraphBuilder("net", Shape(9, 14, 2))
    assert b.shape(b.convolution(b.image, 5, window)) == (*expected, 5)
    assert b.shape(b.pool(b.image, window)) == (*expected, 2)


@pytest.mark.parametrize(
    ("window", "expected"), [(Window(2, 2), 10), (Window(3, 2), 10), (Window(3, 2, "valid"), 11), (Window(1, 2), 10)]
)
def test_a_transposed_convolution_makes_images_larger(window: Window, expected: int) -> None:
    """As Keras' Conv2DTranspose without output_padding."""
    b = GraphBuilder("net", Shape(5, 5, 3))
    place = b.transposed_convolution(b.image, 6, window)
    assert b.shape(place) == (expected, expected, 6)
    kernel = b.operators[place].kernel
    assert b.graph().figures[place].macs == 25 * kernel[0] * kernel[1] * 3 * 6


def test_sides_of_one_pixel_count_for_all() -> None:
    b = GraphBuilder("net", Shape(5, 5, 3))
    x = b.convolution(b.image, 4, 3)
    assert b.shape(b.multiply(x, b.global_pool(x))) == (5, 5, 4)


def test_an_image_that_vanishes_is_told_with_where() -> None:
    b = GraphBuilder("net", Shape(4, 4, 3))
    x = b.pool(b.image, Window(3, 3, "valid"))
    with pytest.raises(ImageTooSmallError, match="1 px a side when it reaches max_pool_2, which needs 2"):
        b.pool(x, Window(2, 2, "valid"))


def test_what_does_not_fit_together_is_refused() -> None:
    b = GraphBuilder("net", Shape(8, 8, 3))
    x, y = b.convolution(b.image, 4, 3), b.convolution(b.image, 5, Window(3, 2))
    with pytest.raises(GraphError, match="do not go together"):
        b.add(x, y)
    with pytest.raises(GraphError, match="cannot be joined"):
        b.concat(x, y)
    with pytest.raises(GraphError, match="3 groups do not divide 4 and 6 channels"):
        b.convolution(x, 6, 3, groups=3)


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_every_graph_has_sizes_above_nothing_and_figures_that_add_up(graph: Graph) -> None:
    check(graph)
    assert all(min(operator.shape) >= 1 for operator in graph.operators)
    rows = graph.figures
    assert all(row.operator is operator for row, operator in zip(rows, graph.operators, strict=True))
    for name in ("parameters", "statistics", "macs", "flops_forward", "flops_backward"):
        parts = [getattr(row, name) for row in rows]
        assert min(parts) >= 0
        assert getattr(graph, name) == sum(parts)
    assert graph.trained_parameters <= graph.parameters


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_a_graph_is_read_as_it_was_written(graph: Graph) -> None:
    again = graph_from_json(graph_json(graph))
    assert again == graph
    assert (hash(again), again.digest) == (hash(graph), graph.digest)


def test_names_are_no_part_of_the_digest_and_sizes_are() -> None:
    def made(channels: int, name: str) -> Graph:
        b = GraphBuilder(name, Shape(8, 8, 3))
        b.add_operator(Kind.CONVOLUTION, 0, channels=channels, name=name)
        return b.graph()

    assert made(4, "a").digest == made(4, "b").digest != made(5, "a").digest


def _changed(place: int, **values: Any) -> str:
    kept = json.loads(graph_json(a_residual_net()))
    kept["operators"][place].update(values)
    return json.dumps(kept)


@each_row(
    ("text", "said"),
    [
        ("", "no graph"),
        ("[]", "no graph"),
        ("[" * 100_000, "no graph"),
        ('{"name": "n", "operators": []}', "2 to 20,000"),
        ('{"name": 1, "operators": []}', "a name"),
        (_changed(1, kind="magic"), "magic"),
        (_changed(1, size=3), "size"),
        (_changed(1, shape=[4, 4]), "no graph"),
        (_changed(1, shape=[5, 4, 4]), r"its output is \(4, 4, 4\), not \(5, 4, 4\)"),
        (_changed(1, shape=[4, 4, 0]), "out of bounds"),
        (_changed(1, shape=[4, 4, 1e300]), "whole numbers"),
        (_changed(1, stride=[0, 2]), "out of bounds"),
        (_changed(1, kernel=[3]), "two numbers"),
        (_changed(1, groups=10**30), "out of bounds"),
        (_changed(1, inputs=[5]), "not operators before it"),
        (_changed(1, inputs=[-1]), "not operators before it"),
        (_changed(1, inputs=[]), "begins with its input"),
        (_changed(0, kind="flatten"), "begins with its input"),
        (_changed(3, inputs=[1, 2]), "one input"),
        (_changed(2, rate=7), "rate"),
        (_changed(2, bias="yes"), "true or false"),
        (_changed(2, name=["n"]), "text"),
    ],
)
def test_text_that_is_no_graph_is_refused(text: str, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        graph_from_json(text)
