"""The measurements as the fit takes them: training rows of VGG nets on known devices, and their arithmetic."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.grid import NODE_COUNT
from trainplan.planner.throughput.nets import net_of
from trainplan.planner.throughput.physics import Constants, LibraryConstants, LinkConstants, memory_pressure, step
from trainplan.planner.throughput.rates import known_rates
from trainplan.planner.throughput.setup import Library, Link, Setup, setup_of_row
from trainplan.planner.throughput.values import Measurement, Parallelism, Quality
from trainplan.pricing.device_text import read_devices

Floats = NDArray[np.float64]
DEVICES = Path(__file__).parents[2] / "pricing" / "data" / "devices.toml"

# Constants that divide: efficiencies and speeds. The others multiply.
DIVIDING = (
    *("first_conv", "conv", "conv_weights", "tensor_conv"),
    *("dense", "bandwidth", "copy_bytes_per_second"),
)
CONSTANTS = tuple(Constants.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement with the set-up that it measured."""

    measurement: Measurement
    setup: Setup

    @property
    def seconds(self) -> float:
        """Of one measured step."""
        return self.setup.batch * self.setup.count / self.measurement.images_per_second

    @property
    def noise(self) -> int:
        """Rows whose measurements scatter alike: see NOISES."""
        if self.measurement.parallelism is Parallelism.DATA_PARALLEL and self.setup.count > 1:
            return 4
        if self.setup.count > 1:
            return 3
        if self.setup.batch < _TINY:
            return TINY_BATCH
        if memory_pressure(self.setup) > 0:
            return CROWDED
        if self.measurement.source == "profet":
            return 0
        return 1 if self.measurement.quality is Quality.A else 2


NOISES = (
    "EC2 medians of nine",
    "quality A",
    "quality B",
    "several devices",
    "nn.DataParallel",
    "a tiny batch",
    "another net",
    "short of memory",
)
TINY_BATCH, OTHER_NET, CROWDED = 5, 6, 7
# Below this batch a step is mostly the framework's: TensorFlow slim on V100 takes 65, 72 and 84 ms for 1, 2 and 4
# images (justus-0001 to -0003), where the device is busy for 5 to 20.
_TINY = 8


def read_rows() -> list[Row]:
    """Every row the model may learn from: training, quality A or B, batch stated, net and rates of the device known."""
    devices = read_devices(DEVICES)[0]
    rows = []
    with (DATA / "measurements.csv").open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            measurement = measurement_of(cells)
            net = net_of(measurement.model, measurement.image_size_px, measurement.parameters_million)
            rates = known_rates(devices.get(measurement.device))
            if net is None or rates is None or measurement.mode != "train" or measurement.quality is Quality.C:
                continue
            setup = setup_of_row(measurement, net, rates)
            if setup is not None:
                rows.append(Row(measurement=measurement, setup=setup))
    return rows


def measurement_of(cells: dict[str, str]) -> Measurement:
    """A line of the table."""
    return Measurement(
        id=cells["id"],
        model=cells["model"],
        image_size_px=int(cells["image_size_px"]),
        parameters_million=float(cells["parameters_million"]) if cells["parameters_million"] else None,
        device=cells["device"],
        device_count=int(cells["device_count"]),
        node_count=int(cells["node_count"]),
        interconnect=cells["interconnect"],
        precision=cells["precision"],
        xla={"yes": True, "no": False}.get(cells["xla"]),
        batch_per_device=int(cells["batch_per_device"]) if cells["batch_per_device"] else None,
        framework=cells["framework"],
        framework_version=cells["framework_version"],
        images_per_second=float(cells["images_per_second"]),
        optimizer_step=cells["optimizer_step"] == "yes",
        parallelism=Parallelism(cells["parallelism"]),
        layout=cells["layout"],
        mode=cells["mode"],
        quality=Quality(cells["quality"]),
        source=cells["source"],
        measured_on=cells["measured_on"],
    )


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """Rows as arrays. `nodes[row, node, constant]`: seconds at a node of the grid per unit of a constant's coefficient
    (its value, or one over it where it divides). `volume[row, link]`: bytes that travel; `library[row]`: its place in
    LIBRARIES; `doublings[row]`."""

    rows: Sequence[Row]
    log_seconds: Floats
    nodes: Floats
    volume: Floats
    library: NDArray[np.int64]
    doublings: Floats
    pressure: Floats
    noise: NDArray[np.int64]

    def take(self, positions: Sequence[int]) -> Arithmetic:
        at = np.asarray(positions, dtype=np.int64)
        return Arithmetic(
            rows=[self.rows[position] for position in positions],
            log_seconds=self.log_seconds[at],
            nodes=self.nodes[at],
            volume=self.volume[at],
            library=self.library[at],
            doublings=self.doublings[at],
            pressure=self.pressure[at],
            noise=self.noise[at],
        )


LINKS = tuple(link for link in Link if link is not Link.ONE)
LIBRARIES = tuple(Library)


def arithmetic(rows: Sequence[Row]) -> Arithmetic:
    """The arrays of `rows`, read off the product's own physics by asking it for one constant at a time."""
    count = len(rows)
    nodes = np.zeros((count, NODE_COUNT, len(CONSTANTS)))
    volume = np.zeros((count, len(LINKS)))
    pressure = np.zeros(count)
    whole = LibraryConstants(reach=1.0, hop_seconds=0.0, jitter=0.0)
    silent = LinkConstants(bytes_per_second=dict.fromkeys(Link, np.inf), libraries=dict.fromkeys(Library, whole))
    for column, name in enumerate(CONSTANTS):
        constants = _only(name)
        for position, row in enumerate(rows):
            physical = step(row.setup, constants, silent)
            pressure[position] = physical.memory_pressure
            for node, seconds in physical.parts:
                nodes[position, node, column] += seconds
    unit = replace(silent, bytes_per_second=dict.fromkeys(Link, 1.0))
    nothing = _only("")
    for position, row in enumerate(rows):
        if row.setup.count > 1:
            volume[position, LINKS.index(row.setup.link)] = step(row.setup, nothing, unit).seconds
    return Arithmetic(
        rows=rows,
        log_seconds=np.log([row.seconds for row in rows]),
        nodes=nodes,
        volume=volume,
        library=np.array([LIBRARIES.index(row.setup.library) for row in rows], dtype=np.int64),
        doublings=np.log2([row.setup.count for row in rows]),
        pressure=pressure,
        noise=np.array([row.noise for row in rows]),
    )


def _only(constant: str) -> Constants:
    """Constants of which one has the coefficient 1 and the others 0."""
    values = {name: np.inf if name in DIVIDING else 0.0 for name in CONSTANTS}
    if constant:
        values[constant] = 1.0
    return Constants(**values)
