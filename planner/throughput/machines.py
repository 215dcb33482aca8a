"""How fast several machines train one model together: each computes its share, then all sum their gradients.

The gradients travel between machines as a ring all-reduce does, 2 (n - 1) / n of their bytes through each machine's
network. What of that the backward pass does not hide is added to the step. The constants are fitted to published runs
(scripts/fit/scaling.py) and lie in `data/scaling.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from trainplan.planner.throughput.values import Basis, Throughput

SCALING = Path(__file__).parent / "data" / "scaling.json"
"""Written by `make fit` (scripts/fit/scaling.py) from scaling.csv beside it."""

_BYTES_PER_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingConstants:
    """The fitted constants of sharing a step among machines.

    `network_share` is the share of the stated network bandwidth that a sum of gradients reaches,
    `most_bytes_per_second` the most that TCP carried over one adapter of up to 100 Gbit/s, `overlap` the share of one
    machine's step during which gradients travel for nothing, `jitter` the share of the step that each doubling of the
    machines adds (the slowest is waited for), `half_width` that of the 80 % interval in logarithms.
    """

    network_share: float
    most_bytes_per_second: float
    overlap: float
    jitter: float
    half_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network of one machine in Gbit/s, with the ends between which it may lie; `ground` says from what."""

    gbit_per_second: float
    low: float
    high: float
    ground: str


ADAPTER_GBIT_PER_SECOND = 100
"""Networks of more are of several adapters: EC2's p4d has 4 of 100 Gbit/s, its p5 32, Google's A3 up to 8 of 400."""


def unknown_network(devices: int) -> Network:
    """Of a machine of which no vendor states it. Assumed, no source: most machines of the table of networks have 2.5 to
    40 Gbit/s for each accelerator, and 100 where there are many."""
    low, middle, high = (min(ADAPTER_GBIT_PER_SECOND, each * max(1, devices)) for each in (2.5, 10, 40))
    ground = f"network unknown: {middle:g} Gbit/s assumed ({low:g} to {high:g})"
    return Network(gbit_per_second=middle, low=low, high=high, ground=ground)


def stated_network(gbit_per_second: float, ground: str) -> Network:
    """As a vendor states it. The low end of several adapters is one of them: all are used only where the library that
    sums the gradients finds its plug-in for them."""
    low = min(gbit_per_second, ADAPTER_GBIT_PER_SECOND)
    ends = f"; low end: one adapter of {low:g} Gbit/s" if low < gbit_per_second else ""
    return Network(gbit_per_second=gbit_per_second, low=low, high=gbit_per_second, ground=ground + ends)


@cache
def scaling_constants() -> ScalingConstants:
    """The shipped constants. Raises OSError or ValueError where the shipped file is none."""
    document = json.loads(SCALING.read_text(encoding="utf-8"))
    return ScalingConstants(**{name: float(document[name]) for name in ScalingConstants.__dataclass_fields__})


def exchange_seconds(
    machines: int, gradient_bytes: float, gbit_per_second: float, constants: ScalingConstants
) -> float:
    """The seconds of one all-reduce over a ring of machines, whatever hides it."""
    stated = gbit_per_second * _BYTES_PER_GBIT * constants.network_share
    adapters = max(1.0, gbit_per_second / ADAPTER_GBIT_PER_SECOND)
    return 2 * (machines - 1) / machines * gradient_bytes / min(stated, adapters * constants.most_bytes_per_second)


def step_seconds(
    alone_seconds: float, machines: int, gradient_bytes: float, gbit_per_second: float, constants: ScalingConstants
) -> float:
    """The seconds of one step on several machines; `alone_seconds` is what one of them takes for its share of it."""
    if machines == 1:
        return alone_seconds
    travelling = exchange_seconds(machines, gradient_bytes, gbit_per_second, constants)
    waiting = max(0.0, travelling - constants.overlap * alone_seconds)
    return (alone_seconds + waiting) * (1 + constants.jitter * math.log2(machines))


def on_machines(
    alone: Throughput,
    machines: int,
    batch_per_machine: int,
    gradient_bytes: float,
    network: Network,
    constants: ScalingConstants | None = None,
) -> Throughput:
    """The throughput of several equal machines together, from that of one of them with its share of the batch.

    The interval joins that of one machine, the spread of published runs, and the ends of the network; its low end also
    a step that hides nothing of the exchange, since the trainer's own overlap was not measured.
    """
    if machines == 1:
        return alone
    fitted = constants or scaling_constants()

    def together(alone_rate: float, gbit_per_second: float, used: ScalingConstants = fitted) -> float:
        seconds = step_seconds(batch_per_machine / alone_rate, machines, gradient_bytes, gbit_per_second, used)
        return machines * batch_per_machine / seconds

    rate = together(alone.images_per_second, network.gbit_per_second)
    # Each cause by itself, the others at their middle: they are independent, and their logarithms add up in squares.
    slower = (
        together(alone.low, network.gbit_per_second),
        together(alone.images_per_second, network.low),
        together(alone.images_per_second, network.gbit_per_second, replace(fitted, overlap=0.0)),
    )
    faster = together(alone.high, network.gbit_per_second), together(alone.images_per_second, network.high)
    each = exchange_seconds(machines, gradient_bytes, network.gbit_per_second, fitted)
    step = batch_per_machine / alone.images_per_second
    is_slower = rate < alone.images_per_second
    slower_text = f"slower than one machine: the gradients travel {each:.2g} s in a step of {step:.2g} s" * is_slower
    return replace(
        alone,
        images_per_second=rate,
        low=rate / math.exp(_joined(rate, slower, fitted.half_width)),
        high=rate * math.exp(_joined(rate, faster, fitted.half_width)),
        basis=Basis.SCALED if alone.basis is Basis.MEASURED else alone.basis,
        note="; ".join(filter(None, (alone.note, _NOTE, network.ground, slower_text))),
    )


_NOTE = "several machines are computed: a ring over the network, fitted to published runs of other programs"


def _joined(rate: float, ends: Iterable[float], half_width: float) -> float:
    return math.hypot(half_width, *(math.log(end / rate) for end in ends))
