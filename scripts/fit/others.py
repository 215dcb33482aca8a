"""Steps of other nets on one device: how far versions of one program are apart where its VGG steps were not measured.

A ResNet's layers are not in the physics. Its step is held against that of VGG16 of the same batch instead: how much
more it takes is a matter of the source, the net, the device and the precision, and what is left is the version's. The
net's own share is fitted and thrown away. Nets compared over devices or sources were tried and made those worse: at
the batches of 12 that some sources have, a ResNet waits for its launches and a VGG does not.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scripts.fit.rows import DEVICES, Arithmetic, Floats, Row, arithmetic, measurement_of
from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.rates import known_rates
from trainplan.planner.throughput.setup import Setup, setup_of_row
from trainplan.planner.throughput.values import Quality
from trainplan.pricing.device_text import read_devices

if TYPE_CHECKING:
    from trainplan.planner.throughput.model import Group

NETS = ("resnet50", "resnet152", "inception_v3", "inception_v4", "alexnet")
"""Those that many sources measured, at the image sizes of ImageNet."""
_SIZES = (224, 299)


@dataclass(frozen=True, kw_only=True)
class Other:
    """One net in one series: its rows, as if they were VGG16's, with what names its share."""

    model: str
    rows: tuple[Row, ...]

    @property
    def setup(self) -> Setup:
        """That of its first row; the others differ in the batch alone."""
        return self.rows[0].setup

    @property
    def source(self) -> str:
        """Without the version."""
        return self.rows[0].measurement.source.partition("-")[0]

    @property
    def own_group(self) -> Group:
        """What its own share is a matter of: it is compared with its own kind alone."""
        setup = self.setup
        xla = "xla" if setup.xla else "plain"
        return "net", self.source, self.model, setup.device, str(setup.precision), xla


def read_others() -> list[Other]:
    """Every series of the table that has one of these nets on one device, in more than one version; no quality C."""
    devices = read_devices(DEVICES)[0]
    stand_in = net_of("vgg16", 224)
    assert stand_in is not None
    found: dict[tuple[str, Group], list[Row]] = defaultdict(list)
    with (DATA / "measurements.csv").open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            stated = measurement_of(cells)
            rates = known_rates(devices.get(stated.device))
            is_asked = stated.model in NETS and stated.image_size_px in _SIZES and stated.device_count == 1
            if rates is None or not is_asked or stated.mode != "train" or stated.quality is Quality.C:
                continue
            setup = setup_of_row(stated, stand_in, rates)
            if setup is not None:
                series = next(group for group in setup.groups if group[0] == "series")
                found[stated.model, series].append(Row(measurement=stated, setup=setup))
    others = [Other(model=model, rows=tuple(rows)) for (model, _), rows in found.items()]
    versions = Counter(other.own_group for other in others)
    return [other for other in others if versions[other.own_group] > 1]


@dataclass(frozen=True, kw_only=True)
class OtherArrays:
    """The others as arrays: `data` has one row for each of their rows, `starts` where each other begins among them."""

    others: Sequence[Other]
    data: Arithmetic
    starts: Sequence[int]

    def missed(self, seconds: Floats) -> Floats:
        """The mean of what the physics of VGG16, `seconds` of each row, misses each of them by."""
        off = self.data.log_seconds - np.log(seconds)
        sums = np.add.reduceat(off, self.starts)
        return np.asarray(sums / [len(other.rows) for other in self.others])

    def take(self, positions: Sequence[int]) -> OtherArrays:
        """Some of them."""
        ends = [*self.starts[1:], len(self.data.rows)]
        rows = [row for position in positions for row in range(self.starts[position], ends[position])]
        others = [self.others[position] for position in positions]
        return OtherArrays(others=others, data=self.data.take(rows), starts=_starts(others))


def other_arrays(others: Sequence[Other]) -> OtherArrays:
    """The arithmetic of all of them; minutes are saved by doing it once for every fold."""
    data = arithmetic([row for other in others for row in other.rows])
    return OtherArrays(others=others, data=data, starts=_starts(others))


def _starts(others: Sequence[Other]) -> list[int]:
    lengths = [len(other.rows) for other in others]
    return [sum(lengths[:position]) for position in range(len(lengths))]
