"""What measurements of networks a prediction of the model of operators rests on, and the name of its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trainplan.planner.throughput.network_families import family_of_network

SCALED, ANCHORED, MODELLED = "scaled", "anchored", "modelled"
OTHER_SOURCE = "other_source"
BLENDED = "anchored+vgg"
"""A VGG net on a device of other networks: the model of VGG nets has a say too."""


class Seen(NamedTuple):
    """What was measured: the network on this device, and by this source; the device with any network, and by this
    source; the network, or one of its family, on any device."""

    pair: bool
    pair_by_source: bool
    device: bool
    device_by_source: bool
    network: bool
    family: bool

    @property
    def kind(self) -> str:
        """The name of the interval."""
        if self.pair:
            return SCALED if self.pair_by_source else f"{SCALED}+{OTHER_SOURCE}"
        known = "network" if self.network else "family" if self.family else "new"
        if self.device:
            return f"{ANCHORED}+{known if self.device_by_source else OTHER_SOURCE}"
        return f"{MODELLED}+{known}"


Measured = tuple[str, str, str]
"""A device (its group), a network and a source that were measured together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNetworks:
    """How many configurations were measured of each network on each device by each source."""

    counts: Mapping[Measured, int]
    devices: frozenset[str] = field(init=False)
    _families: Counter[str] = field(init=False, repr=False, compare=False)
    _networks: Counter[str] = field(init=False, repr=False, compare=False)
    _pairs: Counter[tuple[str, str]] = field(init=False, repr=False, compare=False)
    _by_source: Counter[tuple[str, str]] = field(init=False, repr=False, compare=False)
    _of_device: Counter[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("_families", "_networks", "_pairs", "_by_source", "_of_device"):
            object.__setattr__(self, name, Counter())
        for (device, network, source), count in self.counts.items():
            self._families[family_of_network(network)] += count
            self._networks[network] += count
            self._pairs[device, network] += count
            self._by_source[device, source] += count
            self._of_device[device] += count
        object.__setattr__(self, "devices", frozenset(self._of_device))

    def seen(self, device: str, network: str, source: str, *, is_itself: bool = False) -> Seen:
        """What was measured of a network on a device by a source; with `is_itself` one of these does not count."""
        own = int(is_itself)
        return Seen(
            pair=self._pairs[device, network] > own,
            pair_by_source=self.counts.get((device, network, source), 0) > own,
            device=self._of_device[device] > own,
            device_by_source=self._by_source[device, source] > own,
            network=self._networks[network] > own,
            family=self._families[family_of_network(network)] > own,
        )

    def networks_on(self, device: str) -> tuple[str, ...]:
        """The networks that were measured on a device, the most measured ones first."""
        of_device = {network: count for (name, network), count in self._pairs.items() if name == device}
        return tuple(sorted(of_device, key=lambda network: (-of_device[network], network)))
