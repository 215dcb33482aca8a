"""Training on a host's own processors: its step, and what one host says of another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.throughput.remember import per_net
from planner.throughput.values import Basis, Throughput
from workloads.layers import figures

if TYPE_CHECKING:
    from workloads.layers import Net

# Keras on TensorFlow 2.21, SGD, fp32, on 2 vCPUs of an AMD EPYC (Zen 4), 2026-11-21: see docs/accuracy.md.
_GFLOPS_PER_VCPU = 30.0
_BYTES_PER_SECOND_PER_VCPU = 4e9
_SECONDS_PER_LAYER = 150e-6
_SECONDS_PER_STEP = 1.5e-3
# What each doubling of the hardware threads beyond two keeps: memory is shared, and threads share cores.
_DOUBLING_KEEPS = 0.9
_MEASURED_VCPUS = 2
# VGG16 on 32 threads of two Xeon E5-2630 v3 ran at 5.5 GFLOP/s a thread (jcjohnson-0033), ResNet-50 on 448 threads
# of eight Xeon 8380H in bf16 at 43 (mlperf-0020): an unknown host is a factor of two and a half around the model.
_RENTED_FACTOR, _THIS_MACHINE_FACTOR = 2.5, 1.6
EVIDENCE = ("jcjohnson-0033", "mlperf-0020")


@per_net
def host_step_seconds(net: Net, batch: int, vcpus: int) -> float:
    """Seconds of one training step of `batch` images on `vcpus` hardware threads."""
    layers = figures(net)
    flops = batch * sum(layer.flops_forward + layer.flops_backward for layer in layers)
    moved = sum(layer.bytes_forward(batch, 4) + layer.bytes_backward(batch, 4) for layer in layers)
    moved += 16 * sum(layer.parameters for layer in layers)
    threads: float = vcpus * _DOUBLING_KEEPS ** max(0.0, math.log2(vcpus / _MEASURED_VCPUS))
    busy = flops / (_GFLOPS_PER_VCPU * 1e9) + moved / _BYTES_PER_SECOND_PER_VCPU
    return busy / threads + len(layers) * _SECONDS_PER_LAYER + _SECONDS_PER_STEP


def on_host(net: Net, batch: int, vcpus: int, *, rented: bool) -> Throughput:
    """Images per second of a host nobody measured; wide, and wider for one not seen at all."""
    rate = batch / host_step_seconds(net, batch, vcpus)
    factor = _RENTED_FACTOR if rented else _THIS_MACHINE_FACTOR
    note = "scaled by hardware threads from measured processors"
    return Throughput(
        images_per_second=rate,
        low=rate / factor,
        high=rate * factor,
        basis=Basis.MODELLED,
        evidence=EVIDENCE,
        note=note,
    )
