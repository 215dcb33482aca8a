"""How a step is run, as the model of operators tells runs apart: the device, and the groups of measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.throughput.network_families import TINY, family_of_network
from trainplan.planner.throughput.operators import Level, Run, device_of
from trainplan.planner.throughput.rates import Precision
from trainplan.planner.throughput.setup import Family

if TYPE_CHECKING:
    from trainplan.planner.throughput.setup import Setup


_TPU = "tpu"


def program_of(setup: Setup) -> str:
    """The kind of program that runs a step: NVIDIA's MXNet kernels and MLPerf's entries are not TensorFlow's. On a TPU
    XLA makes the program, whatever framework asks for it."""
    if setup.rates.architecture == _TPU:
        return _TPU
    source, _, framework = setup.source.lower().partition("|")
    if source.startswith("mlperf"):
        return "mlperf"
    if setup.family is not Family.OTHER:
        return str(setup.family)
    return "mxnet" if "mxnet" in framework or "nvidia" in framework else "other"


def run_of(setup: Setup, model: str) -> Run:
    """One device's part of a set-up of the network that measurements call `model`. A TPU's next images arrive while it
    computes (its infeed; JAX and PyTorch/XLA return before a step is done)."""
    rates = setup.rates
    is_tpu = rates.architecture == _TPU
    return Run(
        device=device_of(rates, setup.precision),
        width=2 if setup.precision is Precision.HALF else 4,
        xla=setup.xla or is_tpu,
        optimizer_step=setup.optimizer_step,
        copies=setup.family is Family.KERAS and not is_tpu,
        levels=_levels(setup, model),
    )


def _levels(setup: Setup, model: str) -> tuple[Level, ...]:
    architecture, device, source = setup.rates.architecture, setup.device, setup.source
    is_tpu = architecture == _TPU
    # Numbers of 32 bits are multiplied in 16 there: only their bytes are those of 32 bits (`Run.width`).
    precision = str(Precision.HALF if is_tpu else setup.precision)
    xla = "xla" if setup.xla or is_tpu else "plain"
    program, era = (program_of(setup), xla, precision), str(setup.era)
    network = model.removesuffix("_bn")
    family = family_of_network(network)
    levels: tuple[Level, ...] = (
        ("all",),
        ("precision", precision),
        ("numbers", "bf16" if is_tpu else setup.numbers),
        ("layout", setup.layout, precision),
        ("architecture", architecture),
        ("architecture_precision", architecture, precision),
        ("device", device),
        ("device_precision", device, precision),
        ("program", *program),
        ("era", era, precision),
        ("era_program", era, *program),
        ("network", network),
        ("family", family),
        ("network_program", network, *program),
    )
    if family == TINY:
        # Their launches decide, which no other network's step says much of.
        levels = (*levels, ("tiny_device", device, precision))
    if not source:
        return levels
    return (
        *levels,
        ("publisher", source.partition("|")[0]),
        ("source", source),
        ("source_precision", source, precision),
        ("source_device", source, device),
        ("series", source, device, precision, xla),
        ("network_source_device", network, source, device),
        ("configuration", model, source, device, precision, xla, str(setup.net.image_size)),
    )
