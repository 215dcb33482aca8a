"""The fitted model: the physics' constants, corrections by group, what leaving a row out changes, interval widths."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.throughput.physics import Constants, LibraryConstants, LinkConstants, step
from planner.throughput.setup import Library, Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.throughput.physics import Step
    from planner.throughput.setup import Setup

MODEL_FILE = Path(__file__).parent / "data" / "model.json"
Group = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What a group's measurements say the physics misses, in logarithms of the step time.

    `constant` for the whole step, `nodes` by part of it (see `grid`; empty: none), `pressure` per unit of memory
    pressure, `waiting` per share of the step spent waiting for others, `doubling` per doubling of the devices.
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

    def seconds(self, setup: Setup) -> float:
        """Seconds of one step: the physics, corrected by every group the step belongs to."""
        physical = step(setup, self.constants, self.links)
        return physical.seconds * math.exp(self._correction(setup, physical))

    def _correction(self, setup: Setup, physical: Step) -> float:
        corrections = [correction for group in setup.groups if (correction := self.corrections.get(group)) is not None]
        features = node_shares(physical)
        doublings = math.log2(setup.count)
        total = 0.0
        for correction in corrections:
            total += correction.constant + correction.pressure * physical.memory_pressure
            total += correction.waiting * physical.waiting_share + correction.doubling * doublings
            nodes = correction.nodes
            if nodes:
                total += sum(share * nodes[node] for node, share in features.items())
        return total


def node_shares(physical: Step) -> dict[int, float]:
    """Shares of the step's seconds at each node of the grid."""
    shares: dict[int, float] = {}
    for part in physical.parts:
        share = part.seconds / physical.seconds
        for node, weight in part.nodes:
            shares[node] = shares.get(node, 0.0) + share * weight
    return shares


def load_model(path: Path = MODEL_FILE) -> Model:
    """The shipped model. Raises OSError or ValueError where the file is not one."""
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
