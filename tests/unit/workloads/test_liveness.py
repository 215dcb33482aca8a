"""Which values of a network are in memory at once: by hand, and what holds of every network."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings

from tests.unit.workloads.graphs import graphs
from trainplan.workloads import memory
from trainplan.workloads.graph import Graph, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder, Window
from trainplan.workloads.layers import Dense, Flatten, Net, graph_of
from trainplan.workloads.liveness import Plan, groups, is_chain, kept_elements
from trainplan.workloads.terms import Framework

footprint = partial(memory.footprint, framework=Framework.TENSORFLOW)
kept_bytes = partial(memory.kept_bytes, framework=Framework.TENSORFLOW)
largest_batch = partial(memory.largest_batch, framework=Framework.TENSORFLOW)


def builder() -> GraphBuilder:
    return GraphBuilder("net", Shape(4, 4, 2))


def test_norms_and_activations_are_worked_on_with_what_they_follow() -> None:
    b = builder()
    x = b.activation(b.batch_norm(b.convolution(b.image, 3, 3)))
    y = b.activation(b.batch_norm(x))  # norm before what it feeds, as in a DenseNet: x has two consumers
    b.add(x, b.convolution(y, 3, 3))
    assert [group.positions for group in groups(b.graph())] == [[1, 2, 3], [4, 5], [6], [7]]
    assert [group.sources for group in groups(b.graph())] == [[], [0], [1], [0, 2]]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (Dense(units=10), 10),
        (Dense(units=10, dropout=0.4), 20),
        (Dense(units=10, dropout=0.4, batch_norm=True), 30),
        (Dense(units=10, softmax=True), 10),
    ],
)
def test_dropout_keeps_a_mask_and_batch_norm_its_input(layer: Dense, expected: int) -> None:
    graph = graph_of(Net(name="n", image_size=2, channels=1, layers=(Flatten(), layer)))
    assert groups(graph)[1].kept == expected


def test_a_swish_keeps_its_input_and_what_follows_keeps_its_output() -> None:
    b = builder()
    x = b.convolution(b.image, 3, 3)
    b.convolution(b.activation(x, "swish"), 3, 3)
    assert [group.kept for group in groups(b.graph())] == [48 + 48, 0]


def test_the_gradient_of_a_sum_is_there_once() -> None:
    """At the convolution of the branch: image 32, two outputs of 48 kept, the sum's gradient, and that of the branch's
    input. The gradient that waits for the first convolution is the sum's own."""
    b = builder()
    x = b.activation(b.convolution(b.image, 3, 3))
    b.activation(b.add(x, b.activation(b.convolution(x, 3, 3))))
    first, branch, total = groups(b.graph())
    assert (first.kept, branch.kept, total.kept) == (48, 48, 48)
    assert total.shares_gradient
    assert kept_elements(b.graph()) == 32 + 48 + 48 + 48 + 48


def test_a_product_has_a_gradient_for_each_factor() -> None:
    b = builder()
    x = b.convolution(b.image, 3, 3)
    b.multiply(x, b.convolution(x, 3, 3))
    *_, product = groups(b.graph())
    assert not product.shares_gradient
    # At the product: image, both factors kept, the gradient of the product and those of its factors.
    assert kept_elements(b.graph()) == 32 + 48 + 48 + 48 + 96


@pytest.mark.parametrize(
    ("function", "normed", "beside"),
    [("relu", False, 48), ("relu", True, 0), ("swish", True, 48), ("gelu", False, 96), ("linear", False, 0)],
)
def test_a_plan_keeps_more_of_an_activation(function: str, normed: bool, beside: int) -> None:
    b = builder()
    x = b.convolution(b.image, 3, 3)
    x = b.activation(b.batch_norm(x) if normed else x, function)
    b.add(x, b.convolution(x, 3, 3))
    assert not is_chain(b.graph())
    kept, planned = (groups(b.graph(), plan=plan)[0].kept for plan in (Plan.NONE, Plan.FULL))
    assert planned - kept == beside


def test_half_of_what_a_relu_after_a_sum_reads_is_kept_in_plans_of_sgd_alone() -> None:
    b = builder()
    x = b.convolution(b.image, 3, 3)
    b.convolution(b.activation(b.add(x, b.convolution(x, 3, 3))), 1, 1)
    kept = [groups(b.graph(), plan=plan)[2].kept for plan in (Plan.NONE, Plan.LEAN, Plan.FULL)]
    assert kept == [48, 48, 72]


def test_what_is_kept_is_told_by_the_kind_of_operator_that_computes_it() -> None:
    b = builder()
    x = b.activation(b.batch_norm(b.convolution(b.image, 3, 3)))
    b.activation(b.dense(b.global_pool(x), 5), "softmax")
    kinds = {"convolution": 48, "batch_norm": 48, "input": 32, "dense": 5, "global_average_pool": 3}
    assert kept_bytes(b.graph(), 10, "fp32") == {kind: 40 * elements for kind, elements in kinds.items()}
    assert sum(kept_bytes(b.graph(), 1, "amp_fp16").values()) == 2 * (48 + 48 + 32 + 5 + 3)


def test_what_is_frozen_below_all_that_is_trained_keeps_nothing() -> None:
    def kept(*, frozen: bool) -> int:
        b = builder()
        b.freeze(frozen=frozen)
        x = b.image
        for _ in range(9):
            x = b.activation(b.convolution(x, 3, 3))
        b.freeze(frozen=False)
        b.dense(b.global_pool(x), 5)
        return kept_elements(b.graph())

    assert kept(frozen=False) == 32 + 9 * 48 + 48 + 48  # at the last convolution: both its gradients
    assert kept(frozen=True) == 32 + 48 + 48


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_memory_never_falls_as_the_batch_grows_nor_as_more_is_trained(graph: Graph) -> None:
    sizes = [footprint(graph, batch, "fp32", "adam").total for batch in (1, 2, 7, 64)]
    assert sizes == sorted(sizes)
    assert kept_elements(graph) >= graph.input_shape.elements
    for group in groups(graph):
        assert kept_elements(graph) >= group.outputs
    assert kept_elements(graph) <= kept_elements(graph, plan=Plan.LEAN) <= kept_elements(graph, plan=Plan.FULL)
    most = largest_batch(graph, 0.5, "fp32", "sgd")
    assert most == 0 or footprint(graph, most, "fp32", "sgd").least <= 0.5 * 2**30


def test_a_network_that_no_list_of_layers_has() -> None:
    """Up-sampling, padding, a transposed convolution and an unknown operator, as in a U-Net."""
    b = builder()
    x = b.activation(b.convolution(b.image, 4, 3))
    y = b.convolution(b.pool(x, Window(2, 2, "valid")), 8, 3)
    y = b.transposed_convolution(y, 4, Window(2, 2))
    y = b.concat(x, y, b.add_operator(Kind.UP_SAMPLING, b.pool(x, Window(2, 2, "valid")), stride=(2, 2)))
    y = b.add_operator(Kind.UNKNOWN, y, shape=b.shape(y), function="Attention", parameters=7)
    b.convolution(b.pad(y, 1), 1, 1)
    graph = b.graph()
    assert graph.unknown == ("Attention",)
    assert footprint(graph, 2, "fp32", "sgd").activations == 2 * 4 * kept_elements(graph)
    assert graph.trained_parameters == graph.parameters
