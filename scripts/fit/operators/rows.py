"""The measurements of every network as the model of operators takes them."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from scripts.fit.rows import DEVICES, measurement_of
from trainplan.planner.throughput.compile import DATA, MEASUREMENTS, NETWORKS
from trainplan.planner.throughput.network_families import family_of_network
from trainplan.planner.throughput.networks import network_of
from trainplan.planner.throughput.operator_runs import run_of
from trainplan.planner.throughput.operators import Run
from trainplan.planner.throughput.rates import known_rates
from trainplan.planner.throughput.setup import Setup, setup_of_row
from trainplan.planner.throughput.values import Measurement, Quality
from trainplan.pricing.device_text import read_devices
from trainplan.workloads.graph import Graph

if TYPE_CHECKING:
    from pathlib import Path

    from trainplan.planner.throughput.rates import KnownRates

TABLES = (DATA / MEASUREMENTS, DATA / NETWORKS)
EXACT, STATED, TINY_BATCH, ASSUMED_BATCH = range(4)
NOISES = ("quality A", "quality B", "a tiny batch", "a batch that is not stated")
"""Kinds of rows that scatter alike."""
_TINY = 8
# Sources that state no batch for some rows, all of ResNet-50 in the same scripts: its speed is flat at such batches.
_ASSUMING = ("lambda_pt",)
# Benchmarks without an optimizer's step: their scripts time the passes alone.
_PASSES_ALONE = ("jcjohnson", "ryujaehun", "lamikr", "junhongxu", "soumith")
_MOST_TOGETHER = 24


@dataclass(frozen=True, kw_only=True)
class NetworkRow:
    """A configuration of one network, measured `count` times: the mean of the logarithms of its seconds."""

    ids: tuple[str, ...]
    measurement: Measurement
    setup: Setup
    graph: Graph
    run: Run
    log_seconds: float
    noise: int

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def network(self) -> str:
        """Batch norm apart: VGG16 with it is VGG16."""
        return self.measurement.model.removesuffix("_bn")

    @property
    def family(self) -> str:
        return family_of_network(self.network)

    @property
    def device(self) -> str:
        """The group of devices."""
        return self.setup.device

    @property
    def source(self) -> str:
        return self.measurement.source.partition("-")[0]

    @property
    def is_single(self) -> bool:
        """Whether one device alone did it."""
        return self.measurement.device_count == 1


def read_network_rows(*paths: Path) -> list[NetworkRow]:
    """Every training row of quality A or B, of a network and a device that are known, on one device; of MLPerf also
    those of one machine with several, whose share of a step is taken as one device's. Without `paths` the rows of all
    tables."""
    devices = read_devices(DEVICES)[0]
    stated = read_stated(*paths)
    batches = _usual_batches(stated)
    groups: dict[tuple[object, ...], list[NetworkRow]] = defaultdict(list)
    for one in stated:
        rates = known_rates(devices.get(one.device))
        if rates is None or one.mode != "train" or one.quality is Quality.C or not _counts(one, rates.architecture):
            continue
        row = _row(one, rates, batches)
        if row is not None:
            key = (*(row.graph, one.device, one.device_count), row.setup.precision, row.setup.xla, row.setup.batch)
            groups[(*key, row.setup.source)].append(row)
    return [_joined(rows) for rows in groups.values()]


def read_stated(*paths: Path) -> list[Measurement]:
    """The measurements as their sources state them; without `paths` those of all tables."""
    stated: list[Measurement] = []
    for path in paths or TABLES:
        with path.open(newline="", encoding="utf-8") as file:
            stated += [measurement_of(cells) for cells in csv.DictReader(file)]
    return stated


def _usual_batches(stated: list[Measurement]) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for one in stated:
        if one.source in _ASSUMING and one.batch_per_device:
            found[one.source, one.model, one.precision].append(one.batch_per_device)
    return {key: int(median(batches)) for key, batches in found.items()}


def _counts(one: Measurement, architecture: str) -> bool:
    if one.device_count == 1:
        return True
    is_one_machine = one.node_count == 1 and one.device_count <= _MOST_TOGETHER
    return one.source.startswith("mlperf") and (is_one_machine or (architecture == "tpu" and one.device_count <= 64))


def _row(one: Measurement, rates: KnownRates, batches: dict[tuple[str, str, str], int]) -> NetworkRow | None:
    noise = EXACT if one.quality is Quality.A else STATED
    if one.batch_per_device is None:
        batch = batches.get((one.source, one.model, one.precision))
        if batch is None:
            return None
        one, noise = replace(one, batch_per_device=batch), ASSUMED_BATCH
    if one.source.partition("-")[0] in _PASSES_ALONE:
        one = replace(one, optimizer_step=False)
    graph = network_of(one.model, one.image_size_px, one.source, one.parameters_million)
    if graph is None or one.batch_per_device is None:
        return None
    setup = setup_of_row(one, graph, rates)
    if setup is None:
        return None
    seconds = one.batch_per_device * one.device_count / one.images_per_second
    return NetworkRow(
        ids=(one.id,),
        measurement=one,
        setup=setup,
        graph=graph,
        run=run_of(setup, one.model),
        log_seconds=math.log(seconds),
        noise=TINY_BATCH if one.batch_per_device < _TINY else noise,
    )


def _joined(rows: list[NetworkRow]) -> NetworkRow:
    return replace(
        rows[0],
        ids=tuple(one for row in rows for one in row.ids),
        log_seconds=fmean(row.log_seconds for row in rows),
    )
