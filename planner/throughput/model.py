"""The fitted model: the physics' constants, corrections by group, what leaving a row out changes, interval widths."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.throughput.grid import NODE_COUNT, steady_over_batches
from trainplan.planner.throughput.physics import (
    Constants,
    LibraryConstants,
    LinkConstants,
    costs,
    device_seconds,
    memory_pressure,
    sharing,
    waiting_seconds,
    work_of,
)
from trainplan.planner.throughput.rates import KnownRates, Precision
from trainplan.planner.throughput.setup import Library, Link
from trainplan.workloads.graph import Graph
from trainplan.workloads.layers import Net

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.throughput.setup import Setup

MODEL_FILE = Path(__file__).parent / "data" / "model.json"
Group = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What a group's measurements say the physics misses, as logarithms of factors of the time.

    `constant` of the whole step, `nodes` of its parts (see `grid`; empty: none), `pressure` of the whole where it has
    no memory to spare, `waiting` of the whole per share of it spent waiting for others, `doubling` of the whole per
    doubling of the devices.
    """

    constant: float = 0.0
    nodes: tuple[float, ...] = ()
    pressure: float = 0.0
    waiting: float = 0.0
    doubling: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """`left_out` maps a measurement to the change of its own prediction (in logarithms of the step time) when it is
    taken out of the evidence. `half_widths` maps a kind of evidence to the half width of the 80 % interval in
    logarithms, `sharing_scales` the link and library of several devices to how much wider theirs is. Steps that
    `measured_libraries` share are among the measurements; `version_shift` is what a new version of a framework adds to
    the half width."""

    constants: Constants
    links: LinkConstants
    corrections: Mapping[Group, Correction]
    left_out: Mapping[str, float]
    half_widths: Mapping[str, float]
    sharing_scales: Mapping[str, float]
    measured_libraries: frozenset[str]
    version_shift: float
    _factors: dict[tuple[object, ...], _Factors] = field(init=False, default_factory=dict, compare=False, repr=False)
    _parts: dict[tuple[Group, ...], _Parts] = field(init=False, default_factory=dict, compare=False, repr=False)
    _costs: dict[tuple[int, Precision, bool], tuple[KnownRates, tuple[float, ...]]] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )

    def seconds(self, setup: Setup) -> float:
        """Seconds of one step."""
        return self.seconds_with_room(setup) * self.crowding(setup)

    def seconds_with_room(self, setup: Setup) -> float:
        """Seconds of one step on a device with memory enough: each part of the physics times what every group that the
        step belongs to says of it.
        """
        factors = self._factors_of(setup)
        each = self._costs_of(setup)
        alone = math.fsum(map(mul, factors.parts.work_of(setup), each))
        if setup.count == 1:
            return alone * factors.whole
        return self.shared(setup, alone, device_seconds(setup, each)) * factors.whole

    def shared(self, setup: Setup, alone: float, physical: float) -> float:
        """Seconds of a step on the set-up's devices, of which one alone takes `alone`, and `physical` by the physics.

        Several devices are never slower than half of them, as if those did the others' work too; but for
        `nn.DataParallel`, under which two were seen to be slower than one. Their step never takes less than that of one
        device: `n` devices are at most `n` times as fast.
        """
        factors = self._factors_of(setup)
        is_ordered = setup.library is not Library.DATA_PARALLEL
        # Beyond one either way, a longer part could make a shorter whole.
        delay = min(1.0, max(-1.0, factors.waiting)) if is_ordered else factors.waiting

        def together(shares: _Sharing) -> float:
            waiting = waiting_seconds(physical, shares.travelling_seconds, shares.jitter)
            seconds = alone + waiting
            return max(alone, seconds * math.exp(delay * waiting / seconds) * shares.growth)

        most, *fewer = factors.sharing_of(setup, self.links)
        if not is_ordered:
            return together(most)
        return setup.count * min(together(one) / one.devices for one in (most, *fewer))

    def crowding(self, setup: Setup) -> float:
        """How much longer a step takes for want of memory: 1 where there is enough."""
        pressure = memory_pressure(setup)
        return math.exp(self._factors_of(setup).pressure * pressure) if pressure else 1.0

    def _factors_of(self, setup: Setup) -> _Factors:
        """Of all groups that the step belongs to; kept for other steps of the same."""
        factors = self._factors.get(setup.kind)
        if factors is None:
            groups = [group for group in setup.groups if group in self.corrections]
            corrections = [self.corrections[group] for group in groups]
            # Links have no effect on parts, so most steps share their parts with those on one device.
            of_parts = tuple(group for group in groups if self.corrections[group].nodes)
            if of_parts not in self._parts:
                self._parts[of_parts] = _Parts.of([self.corrections[group].nodes for group in of_parts])
            factors = self._factors[setup.kind] = _factors(corrections, self._parts[of_parts])
        return factors

    def _costs_of(self, setup: Setup) -> tuple[float, ...]:
        """`physics.costs`, kept for other steps on the device."""
        key = (id(setup.rates), setup.precision, setup.optimizer_step)
        kept = self._costs.get(key)
        if kept is None:
            if len(self._costs) >= _MOST_WORKS:
                self._costs.clear()
            # The rates are kept beside the answer, so that no other object can come by their id.
            kept = self._costs[key] = (setup.rates, costs(setup, self.constants))
        return kept[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Factors of the parts of a step, by node of the grid."""

    nodes: tuple[float, ...]
    _works: dict[tuple[int, int, bool], tuple[Net | Graph, tuple[float, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, logarithms: Sequence[tuple[float, ...]]) -> _Parts:
        """Of the corrections of several groups together."""
        sums = [sum(values) for values in zip(*logarithms, strict=True)]
        return cls(nodes=tuple(map(math.exp, steady_over_batches(sums or [0.0] * NODE_COUNT))))

    def work_of(self, setup: Setup) -> tuple[float, ...]:
        """The amounts of `physics.work_of`, each times the factor of its node, over all nodes; kept for other steps."""
        key = (id(setup.net), setup.batch, setup.precision is Precision.HALF)
        kept = self._works.get(key)
        if kept is None:
            if len(self._works) >= _MOST_WORKS:
                self._works.clear()
            scaled = ([amount * self.nodes[node] for amount in amounts] for node, amounts in work_of(setup))
            # The net is kept beside the answer, so that no other object can come by its id.
            kept = self._works[key] = (setup.net, tuple(map(sum, zip(*scaled, strict=True))))
        return kept[1]


class _Sharing(NamedTuple):
    """What sharing a step among so many devices costs: the seconds that gradients travel, the share of the step by
    which the slowest device is later, and the factor of the whole by measurements of several devices."""

    devices: int
    travelling_seconds: float
    jitter: float
    growth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Factors:
    """Corrections of all groups of a step together: factors of its parts and of the whole, the logarithms of those of
    waiting and of memory pressure, and the exponent of the number of devices."""

    parts: _Parts
    waiting: float
    whole: float
    pressure: float
    doubling: float
    _sharings: dict[tuple[object, ...], tuple[Net | Graph, tuple[_Sharing, ...]]] = field(default_factory=dict)

    def sharing_of(self, setup: Setup, links: LinkConstants) -> tuple[_Sharing, ...]:
        """Among all devices of a step, among half of them, and so on down to one; kept for other steps."""
        # Cards without measurements have the same factors, and links of their own.
        card = setup.device, setup.rates.pcie_generation
        key = (id(setup.net), setup.gradient_bytes, setup.count, setup.link, setup.library, setup.era, *card)
        kept = self._sharings.get(key)
        if kept is None:
            if len(self._sharings) >= _MOST_WORKS:
                self._sharings.clear()
            counts = [setup.count >> halvings for halvings in range(setup.count.bit_length())]
            kept = self._sharings[key] = (
                setup.net,
                tuple(_Sharing(one, *sharing(setup, links, one), math.pow(one, self.doubling)) for one in counts),
            )
        return kept[1]


_MOST_WORKS = 1_024


def _factors(corrections: Sequence[Correction], parts: _Parts) -> _Factors:
    return _Factors(
        parts=parts,
        waiting=sum(one.waiting for one in corrections),
        whole=math.exp(sum(one.constant for one in corrections)),
        pressure=max(0.0, sum(one.pressure for one in corrections)),
        doubling=sum(one.doubling for one in corrections) / math.log(2),
    )


def load_model(path: Path = MODEL_FILE) -> Model:
    """The shipped model. Raises OSError or ValueError where the file is not one.

    Read once in a process, as long as the file does not change: what is computed of its steps is kept for the next
    estimate.
    """
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, _changed_ns: int) -> Model:
    with path.open(encoding="utf-8") as file:
        values: dict[str, Any] = json.load(file)
    return Model(
        constants=Constants(**values["constants"]),
        links=LinkConstants(
            bytes_per_second={Link(name): speed for name, speed in values["links"]["bytes_per_second"].items()},
            libraries={Library(name): LibraryConstants(**row) for name, row in values["links"]["libraries"].items()},
        ),
        corrections={tuple(key.split(" / ")): _correction(row) for key, row in values["corrections"].items()},
        left_out=values["left_out"],
        half_widths=values["half_widths"],
        sharing_scales=values["sharing_scales"],
        measured_libraries=frozenset(values["measured_libraries"]),
        version_shift=values["version_shift"],
    )


def _correction(row: Sequence[Any]) -> Correction:
    constant, pressure, waiting, doubling, *nodes = row
    return Correction(constant=constant, pressure=pressure, waiting=waiting, doubling=doubling, nodes=tuple(nodes))
