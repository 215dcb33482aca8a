"""Training on a host's own processors: its step, and what one host says of another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainplan.planner.throughput.remember import per_net
from trainplan.planner.throughput.values import Basis, Throughput
from trainplan.workloads.graph import NORM_KINDS, Graph, Kind
from trainplan.workloads.layers import graph_of

if TYPE_CHECKING:
    from trainplan.workloads.graph import OperatorFigures
    from trainplan.workloads.layers import Net

_WITH_THE_ONE_BEFORE = NORM_KINDS | {Kind.INPUT, Kind.ACTIVATION, Kind.SOFTMAX, Kind.DROPOUT}

# Keras on TensorFlow 2.21 with oneDNN, fp32, the trainer's own step on 2 cores of an AMD EPYC of the Zen 4 generation,
# 2026-11-21: 21 cases from nets of 8 filters to VGG16, 8 to 128 px, batches of 8 to 128, with and without batch norm,
# SGD and Adam, 4 to 900 ms a step. All but one (measured beside other work) are met within 20 %, in the root mean
# square 8 %; left out in turn, each case is met within 20 % four times out of five. A core does 118 GFLOP/s at most:
# 32 a cycle at 3.7 GHz.
GFLOPS_PER_CORE = 112.0
# Inputs and outputs of all layers, counted once: forward and both backward passes, mostly from the cache.
_BYTES_PER_SECOND_PER_CORE = 2.6e9
# A weight is read and written a dozen times a step, by gradient and optimizer, at about 5 GB/s a core; Adam's second
# slot makes half as much again.
_SECONDS_PER_WEIGHT_PER_CORE = 10.2e-9
_SECONDS_PER_LAYER = 0.38e-3
# Of a recurrent layer each round counts: its cell is some ten operations there and twenty back, all of them small. Two
# bidirectional LSTMs of 32 rounds, beside the same network without them (2026-11-28, 2 busy cores of the same
# processor): 1.5 ms a round.
_LAYERS_OF_A_ROUND = 4
# Batch norm, for each byte of its output, there and back.
_NORM_SECONDS_PER_BYTE_PER_CORE = 1.5e-9
# What each doubling of the cores beyond two keeps: memory is shared.
_DOUBLING_KEEPS = 0.9
_MEASURED_CORES = 2
# A rented vCPU is one of two threads of a core. ResNet-50 in bf16 on 448 threads of eight Xeon 8380H: 43 GFLOP/s a
# thread (mlperf-0020); VGG16 in Torch 7 on 32 threads of two Xeon E5-2630 v3: 5.5 (jcjohnson-0033). An unknown host is
# a factor of two and a half around the model.
_THREADS_PER_RENTED_CORE = 2
_RENTED_FACTOR, _THIS_MACHINE_FACTOR = 2.5, 1.6
# How far the model is off on the three processors that it was not fitted to, scaled by clock and instruction set: the
# largest of their errors (scripts/fit/processors.py; a test computes it again).
UNSEEN_PROCESSOR_FACTOR, UNSEEN_PROCESSORS = 5.8, 3
EVIDENCE = ("jcjohnson-0033", "mlperf-0020")


def host_step_seconds(net: Net | Graph, batch: int, cores: int) -> float:
    """Seconds of one training step of `batch` images on `cores` processor cores."""
    return _host_step_seconds(net, batch, cores)


@per_net
def _host_step_seconds(net: Net | Graph, batch: int, cores: int) -> float:
    graph = net if isinstance(net, Graph) else graph_of(net)
    # Batch norm and activations are passed over with the operator before them.
    rows = [row for row in graph.figures if row.kind not in _WITH_THE_ONE_BEFORE]
    norms = [row for row in graph.figures if row.kind in NORM_KINDS]
    flops = batch * (graph.flops_forward + graph.flops_backward)
    # Fitted to whole steps; a layer without a backward pass moves a third of it.
    passed = 4 * batch * sum(_share(row) * (row.input_elements + row.output_elements) for row in rows)
    normed = 4 * batch * sum(_share(row) * row.output_elements for row in norms)
    busy = (
        flops / (GFLOPS_PER_CORE * 1e9)
        + passed / _BYTES_PER_SECOND_PER_CORE
        + normed * _NORM_SECONDS_PER_BYTE_PER_CORE
        + graph.trained_parameters * _SECONDS_PER_WEIGHT_PER_CORE
    )
    rounds = sum(row.operator.steps - 1 for row in rows)
    return busy / cores_that_count(cores) + (len(rows) + _LAYERS_OF_A_ROUND * rounds) * _SECONDS_PER_LAYER


def cores_that_count(cores: int) -> float:
    """How many cores' work so many do together."""
    return float(cores * _DOUBLING_KEEPS ** max(0.0, math.log2(cores / _MEASURED_CORES)))


def _share(row: OperatorFigures) -> float:
    return 1.0 if row.has_backward else 1 / 3


def on_host(net: Net | Graph, batch: int, vcpus: int, *, rented: bool) -> Throughput:
    """Images per second of a host nobody measured; wide, and wider for one not seen at all."""
    cores = max(1, vcpus // _THREADS_PER_RENTED_CORE) if rented else vcpus
    rate = batch / host_step_seconds(net, batch, cores)
    factor = _RENTED_FACTOR if rented else _THIS_MACHINE_FACTOR
    note = "scaled by cores from measured processors"
    return Throughput(
        images_per_second=rate,
        low=rate / factor,
        high=rate * factor,
        basis=Basis.MODELLED,
        evidence=EVIDENCE,
        note=note,
    )
