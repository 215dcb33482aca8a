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
    `most_bytes_per_second` the most that TCP carried whatever the bandwidth, `overlap` the share of one machine's step
    during which gradients travel for nothing, `jitter` the share of the step that each doubling of the machines adds
    (the slowest is waited for), `half_width` that of the 80 % interval in logarithms.
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

    @classmethod
    def stated(cls, gbit_per_second: float, ground: str) -> Network:
        """A network whose bandwidth a source states."""
        return cls(gbit_per_second=gbit_per_second, low=gbit_per_second, high=gbit_per_second, ground=ground)


UNKNOWN_NETWORK = Network(gbit_per_second=10, low=2.5, high=40, ground="network unknown: 10 Gbit/s assumed (2.5 to 40)")
"""Assumed, no source: most machines with one accelerator have 2.5 to 40 Gbit/s in the table of networks."""


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
    return 2 * (machines - 1) / machines * gradient_bytes / min(stated, constants.most_bytes_per_second)


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
    return replace(
        alone,
        images_per_second=rate,
        low=rate / math.exp(_joined(rate, slower, fitted.half_width)),
        high=rate * math.exp(_joined(rate, faster, fitted.half_width)),
        basis=Basis.SCALED if alone.basis is Basis.MEASURED else alone.basis,
        note="; ".join(filter(None, (alone.note, f"{_NOTE}; {network.ground}"))),
    )


_NOTE = "several machines are computed: a ring over the network, fitted to published runs of other programs"


def _joined(rate: float, ends: Iterable[float], half_width: float) -> float:
    return math.hypot(half_width, *(math.log(end / rate) for end in ends))
