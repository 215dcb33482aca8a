"""Training on a host's own processors: its step, and what one host says of another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.throughput.remember import per_net
from planner.throughput.values import Basis, Throughput
from workloads.layers import figures

if TYPE_CHECKING:
    from workloads.layers import Net

# Keras on TensorFlow 2.21, SGD with momentum, fp32, on 2 cores of an AMD EPYC of the Zen 4 generation, 2026-11-21,
# beside other work: VGG11 32 px batch 32 235 ms, VGG16 with batch norm 32 px batch 128 1,205 ms, VGG11 128 px batch 8
# 1,300 ms, the nets of examples/digits-vgg.yaml 19 ms and mnist-cnn.yaml 67 ms a step. The model is within a factor
# of 1.5 of these, and 1.7 of nets of 16 filters.
_GFLOPS_PER_CORE = 100.0
_BYTES_PER_SECOND_PER_CORE = 2e9
_SECONDS_PER_LAYER = 150e-6
_SECONDS_PER_STEP = 1.5e-3
# Batch norm passes over its activations this often, there and back.
_NORM_PASSES = 6
# What each doubling of the cores beyond two keeps: memory is shared.
_DOUBLING_KEEPS = 0.9
_MEASURED_CORES = 2
# A rented vCPU is one of two threads of a core. ResNet-50 in bf16 on 448 threads of eight Xeon 8380H: 43 GFLOP/s a
# thread (mlperf-0020); VGG16 in Torch 7 on 32 threads of two Xeon E5-2630 v3: 5.5 (jcjohnson-0033). An unknown host is
# a factor of two and a half around the model.
_THREADS_PER_RENTED_CORE = 2
_RENTED_FACTOR, _THIS_MACHINE_FACTOR = 2.5, 1.6
EVIDENCE = ("jcjohnson-0033", "mlperf-0020")


@per_net
def host_step_seconds(net: Net, batch: int, cores: int) -> float:
    """Seconds of one training step of `batch` images on `cores` processor cores."""
    layers = figures(net)
    flops = batch * sum(layer.flops_forward + layer.flops_backward for layer in layers)
    moved = sum(layer.bytes_forward(batch, 4) + layer.bytes_backward(batch, 4) for layer in layers)
    moved += 16 * sum(layer.parameters for layer in layers)
    moved += _NORM_PASSES * 4 * batch * sum(layer.output_elements for layer in layers if layer.moving_statistics)
    used: float = cores * _DOUBLING_KEEPS ** max(0.0, math.log2(cores / _MEASURED_CORES))
    busy = flops / (_GFLOPS_PER_CORE * 1e9) + moved / _BYTES_PER_SECOND_PER_CORE
    return busy / used + len(layers) * _SECONDS_PER_LAYER + _SECONDS_PER_STEP


def on_host(net: Net, batch: int, vcpus: int, *, rented: bool) -> Throughput:
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
