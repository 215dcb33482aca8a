"""A device's peak rates as the model uses them, with the two rules that fill what vendors leave out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.pricing.devices import Device


class Precision(StrEnum):
    """Where the arithmetic happens: plain cores, or tensor cores on 19 or on 16 bits."""

    FP32 = "fp32"
    TF32 = "tf32"
    HALF = "half"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRates:
    """Rates in bytes and FLOPs per second; `tflops` by precision in 10^12 FLOP/s, some of them of tensor
    cores or matrix units. `architecture` is that of the multiprocessors, `pcie_generation` that of the card (None where
    it is not known)."""

    group: str
    architecture: str
    memory_gib: float | None
    bytes_per_second: float
    tflops: Mapping[Precision, float]
    on_matrix_units: frozenset[Precision]
    pcie_generation: int | None = None

    def flops_per_second(self, precision: Precision) -> float:
        return self.tflops[precision] * 1e12


# GeForce Turing multiplies 16-bit numbers four times as fast as 32-bit ones when it sums in 32 bits (RTX 2080 Ti:
# 13.45 and 56.9 TFLOP/s); the laptop cards have no figure of their own.
_TURING_TENSOR_FACTOR = 4.2
# Tensor cores take 19-bit numbers at half the rate of 16-bit ones, on every NVIDIA architecture that has both.
_TF32_FACTOR = 0.5
# A Kepler multiprocessor has 192 cores and issues to 128 of them, unless neighbouring instructions are independent.
_KEPLER_REACHABLE = 2 / 3
_WITH_TENSOR_CORES = ("volta", "turing", "ampere", "ada", "hopper", "blackwell")
_TPU = "tpu"
# Multiprocessors of RTX 50 and RTX PRO Blackwell cards do as much in a clock as Ada's (RTX 4090: 0.645 and 1.29 TFLOP/s
# each in fp32 and in 16 bits at 2.52 GHz, RTX 5090: 0.616 and 1.23 at 2.41 GHz), B200's six times as much in 16 bits.
_ALIKE = {"12": "ada"}
WITH_TF32 = ("ampere", "ada", "hopper", "blackwell")


def known_rates(device: Device | None) -> KnownRates | None:
    """The rates of a device; None where the bandwidth or every peak rate is unknown."""
    if device is None or device.memory_bandwidth_gb_s is None:
        return None
    peaks = device.peak_tflops
    half = peaks.of("amp_fp16") or peaks.of("amp_bf16")
    # A TPU has one rate: what is asked in 32 bits is multiplied in 16 and summed in 32.
    plain = peaks.of("fp32") or half
    if plain is None:
        return None
    capability = (device.compute_capability or "").partition(".")[0]
    architecture = _ALIKE.get(capability, str(device.architecture))
    pcie = re.match(r"PCIe(\d)", device.interconnect)
    if architecture == "kepler":
        plain *= _KEPLER_REACHABLE
    if half is None:
        half = plain * _TURING_TENSOR_FACTOR if architecture == "turing" else plain
    tf32 = peaks.of("tf32") or (half * _TF32_FACTOR if architecture in WITH_TF32 else plain)
    tflops = {
        Precision.FP32: plain,
        Precision.TF32: max(tf32, plain),
        Precision.HALF: half if architecture in (*_WITH_TENSOR_CORES, _TPU) else plain,
    }
    on_units = tflops if architecture == _TPU else (kind for kind, rate in tflops.items() if rate > plain)
    return KnownRates(
        group=device.group,
        architecture=architecture,
        memory_gib=device.memory_gib,
        bytes_per_second=device.memory_bandwidth_gb_s * 1e9,
        tflops=tflops,
        on_matrix_units=frozenset(on_units),
        pcie_generation=int(pcie[1]) if pcie else None,
    )
