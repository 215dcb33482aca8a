"""Seconds of one training step from a net's arithmetic and a device's peak rates: the slow part and the overheads."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from workloads.layers import figures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workloads.layers import Net


class Rates(Protocol):
    @property
    def memory_bandwidth_gb_s(self) -> float | None: ...
    @property
    def peak_tflops(self) -> Mapping[str, float]: ...


# Shares of the peak that VGG training reaches in the collected measurements. In fp32 it is above one: the Winograd
# transform saves multiplications of 3x3 convolutions, and FLOPs are counted without it.
_COMPUTE_EFFICIENCY = 1.2
_TENSOR_CORE_EFFICIENCY = 0.35
_MEMORY_EFFICIENCY = 0.7
# Three kernels a layer and step, each about 20 microseconds from the framework to the device.
_LAUNCH_SECONDS = 60e-6
# SGD with momentum reads weight, gradient and velocity, writes weight and velocity.
_OPTIMIZER_ACCESSES = 5
_BYTES = 4
# What each doubling of the devices costs of the throughput per device, NVLink and PCIe together.
_SCALING_LOSS = 0.06
# Reached by 32 hardware threads of two Xeon E5-2630 v3 (jcjohnson-0033: VGG16, 1.88 images/s) and by 448 of eight
# Xeon 8380H in bf16 (mlperf-0020: ResNet-50, 782 images/s); the answer is between.
CPU_GFLOPS_PER_VCPU_LOW, CPU_GFLOPS_PER_VCPU, CPU_GFLOPS_PER_VCPU_HIGH = 5.5, 15.0, 43.0
_NEUTRAL_TFLOPS, _NEUTRAL_GB_S = 10.0, 700.0


@lru_cache(maxsize=256)
def work(net: Net) -> tuple[float, float, float, int]:
    """FLOPs and bytes of activations per image, parameters, and layers, of one training step."""
    rows = figures(net)
    flops = sum(row.flops_forward + row.flops_backward for row in rows)
    elements = sum(3 * (row.input_elements + row.output_elements) for row in rows)
    return float(flops), float(elements * _BYTES), float(sum(row.parameters for row in rows)), len(rows)


def step_seconds(net: Net, batch: int, rates: Rates | None, precision: str) -> float:
    """Seconds of one step of `batch` images on one device; without rates, of a neutral one (for ratios only)."""
    flops, activation_bytes, parameters, layers = work(net)
    tflops = _NEUTRAL_TFLOPS if rates is None else _reached_tflops(rates, precision)
    bandwidth = _NEUTRAL_GB_S if rates is None else rates.memory_bandwidth_gb_s or _NEUTRAL_GB_S
    width = 0.5 if precision.removeprefix("amp_") in ("fp16", "bf16") else 1.0
    moved = batch * activation_bytes * width + parameters * _BYTES * _OPTIMIZER_ACCESSES
    return batch * flops / (tflops * 1e12) + moved / (bandwidth * 1e9 * _MEMORY_EFFICIENCY) + layers * _LAUNCH_SECONDS


def device_scaling(count: int) -> float:
    """Throughput per device among `count` as a share of one alone."""
    return (1 - _SCALING_LOSS) ** (count - 1).bit_length()


def cpu_images_per_second(net: Net, gflops: float) -> float:
    return gflops * 1e9 / work(net)[0]


def _reached_tflops(rates: Rates, precision: str) -> float:
    """What is reached of the rate of a precision."""
    peaks = rates.peak_tflops
    name = precision.removeprefix("amp_")
    reached = (peaks.get("fp32") or _NEUTRAL_TFLOPS) * _COMPUTE_EFFICIENCY
    tensor = peaks.get(name) or (peaks.get("bf16") if name == "fp16" else None)
    return reached if name == "fp32" or tensor is None else max(reached, tensor * _TENSOR_CORE_EFFICIENCY)
