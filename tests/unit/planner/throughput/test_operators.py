"""Seconds of any network by its operators (planner/throughput/operators.py), and how it is put together."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainplan.planner.throughput.features import COUNTS, Block
from trainplan.planner.throughput.network_steps import graph_of_net
from trainplan.planner.throughput.networks import network_of
from trainplan.planner.throughput.operator_runs import run_of
from trainplan.planner.throughput.operator_work import share_of_kind, work_of
from trainplan.planner.throughput.operators import OperatorModel, load_operators
from trainplan.planner.throughput.rates import KnownRates, Precision
from trainplan.planner.throughput.setup import KERAS_REFERENCE, Era, Family, Library, Link, Setup
from trainplan.workloads.graph import Graph, Kind, Shape
from trainplan.workloads.graph_builder import GraphBuilder

_PARAMETERS = {
    **{"resnet18": 11_689_512, "resnet50": 25_557_032, "resnet152": 60_192_808, "vgg16": 138_357_544},
    **{"densenet161": 28_681_000, "mnasnet1_0": 4_383_312, "mobilenet_v2": 3_504_872, "squeezenet1_0": 1_248_424},
    **{"resnext50_32x4d": 25_028_904, "resnext101_32x8d": 88_791_336, "wide_resnet50_2": 68_883_240},
    **{"mnasnet1_3": 6_282_256, "mnasnet0_5": 2_218_512},
}
"""As torchvision publishes them, for a thousand classes."""
_CARD = KnownRates(
    group="A100",
    architecture="ampere",
    memory_gib=40.0,
    bytes_per_second=1.555e12,
    tflops={Precision.FP32: 19.5, Precision.TF32: 156.0, Precision.HALF: 312.0},
    on_matrix_units=frozenset({Precision.TF32, Precision.HALF}),
)


@pytest.fixture(scope="module")
def model() -> OperatorModel:
    return load_operators()


def _setup(graph: Graph, batch: int, precision: Precision = Precision.HALF, rates: KnownRates = _CARD) -> Setup:
    return Setup(
        net=graph,
        batch=batch,
        count=1,
        rates=rates,
        device=rates.group,
        precision=precision,
        xla=False,
        family=Family.KERAS,
        source=KERAS_REFERENCE,
        optimizer_step=True,
        link=Link.ONE,
        library=Library.ONE,
        gradient_bytes=4,
        era=Era.NOW,
        layout="NHWC",
        numbers=str(precision),
    )


def _seconds(model: OperatorModel, setup: Setup, name: str = "net-unknown") -> float:
    return model.seconds(graph_of_net(setup), setup.batch, run_of(setup, name))


@pytest.mark.parametrize(("name", "parameters"), _PARAMETERS.items())
def test_a_measured_network_has_the_parameters_that_are_published(name: str, parameters: int) -> None:
    graph = network_of(name, 224)
    assert graph is not None
    assert graph.parameters == parameters


def test_an_image_that_is_too_small_and_an_unknown_name_have_no_network() -> None:
    assert network_of("resnet50", 224) is not None
    assert network_of("inception_v4", 8) is None
    assert network_of("no_such_network", 224) is None


def test_resnet50_of_the_paper_has_its_stride_on_the_first_convolution_of_a_block() -> None:
    torch, keras = network_of("resnet50", 224, "timm-5c33776"), network_of("resnet50", 224, "lambda_tf")
    assert torch is not None
    assert keras is not None
    assert torch.parameters == keras.parameters
    # He et al. state 3.8 GFLOPs (multiply-adds), NVIDIA 4.1 for its version 1.5.
    assert (keras.macs / 1e9, torch.macs / 1e9) == (pytest.approx(3.86, abs=0.01), pytest.approx(4.09, abs=0.01))


def test_the_work_of_matrix_operators_is_the_graphs_arithmetic() -> None:
    graph = network_of("resnet50", 224)
    assert graph is not None
    flops = sum(row.flops * row.alike for row in work_of(graph, 8, 4).passes)
    first = next(row.macs for row in graph.figures if row.macs)
    assert flops == pytest.approx(2 * 8 * (3 * graph.macs - first))  # no gradient by the image


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["resnet50", "vgg16", "mobilenet_v2", "lenet5", "densenet121"]),
    batch=st.integers(1, 2048),
    precision=st.sampled_from(list(Precision)),
    effect=st.floats(-50, 50),
)
def test_no_effect_makes_a_step_more_than_12_times_as_long_or_as_short(
    name: str, batch: int, precision: Precision, effect: float
) -> None:
    """A factor of 4 on each of its parts, and one of 3 on the whole, whatever a few rows far outside say."""
    shipped = load_operators()
    wild = {block: (effect,) * count for block, count in COUNTS.items()}
    graph = network_of(name, 64)
    assert graph is not None
    setup = _setup(graph, batch, precision)
    plain = shipped.parts(graph, batch, run_of(setup, name)).seconds
    moved = _seconds(replace(shipped, effects={("architecture", "ampere"): wild}), setup)
    assert plain / 12.001 <= moved <= plain * 12.001


def test_the_parts_of_a_step_are_all_of_it(model: OperatorModel) -> None:
    graph = network_of("mobilenet_v2", 224)
    assert graph is not None
    parts = model.parts(graph, 64, run_of(_setup(graph, 64), "mobilenet_v2"))
    assert math.fsum(parts.shares.values()) + math.fsum(parts.convolutions.values()) == pytest.approx(1)


def test_what_a_card_is_found_to_be_slower_by_never_reaches_the_hosts_time(model: OperatorModel) -> None:
    graph = network_of("resnet50", 32)
    assert graph is not None
    setup = _setup(graph, 1)
    found = [
        _seconds(replace(model, effects={(level, "ampere"): {Block.BUSY: (0.6,)}}), setup)
        for level in ("architecture", "no_such_level")
    ]
    assert found[0] < found[1] * 1.1  # at a batch of 1 the host decides


def test_a_card_that_has_more_of_something_is_never_slower(model: OperatorModel) -> None:
    graph = network_of("resnet50", 224)
    assert graph is not None
    usual = _seconds(model, _setup(graph, 64))
    more_flops = replace(_CARD, tflops={**_CARD.tflops, Precision.HALF: 400.0})
    assert _seconds(model, _setup(graph, 64, rates=more_flops)) < usual
    assert _seconds(model, _setup(graph, 64, rates=replace(_CARD, bytes_per_second=2e12))) < usual


def test_the_operators_of_a_step_take_its_seconds_together(model: OperatorModel) -> None:
    graph = network_of("mobilenet_v2", 224)
    assert graph is not None
    setup = _setup(graph, 32)
    step = model.step(graph, 32, run_of(setup, "mobilenet_v2"))
    assert len(step.operators) == len(graph.operators)
    assert min(step.operators) >= 0
    assert math.fsum(step.operators) == pytest.approx(step.seconds)
    assert step.seconds == _seconds(model, setup, "mobilenet_v2")


def test_what_is_unknown_is_counted_by_its_bytes(model: OperatorModel) -> None:
    def network(kind: Kind, function: str) -> Graph:
        builder = GraphBuilder("odd", Shape(32, 32, 3))
        x = builder.activation(builder.convolution(builder.image, 64, 3))
        for _ in range(20):
            x = builder.add_operator(
                kind, x, shape=builder.shape(x), function="Odd" if kind is Kind.UNKNOWN else "relu"
            )
        builder.dense(builder.global_pool(x), 10)
        return builder.graph()

    known, unknown = network(Kind.ACTIVATION, "relu"), network(Kind.UNKNOWN, "Odd")
    seconds = [model.step(one, 256, run_of(_setup(one, 256), "odd")).operators for one in (known, unknown)]
    assert share_of_kind(known, seconds[0], Kind.UNKNOWN) == 0
    assert 0.2 < share_of_kind(unknown, seconds[1], Kind.UNKNOWN) < 1
