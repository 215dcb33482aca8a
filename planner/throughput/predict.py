"""How many images per second a net trains at on a device, with an 80 % interval and what it rests on."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from planner.throughput.compile import TARGET
from planner.throughput.nets import model_key, net_of
from planner.throughput.roofline import (
    CPU_GFLOPS_PER_VCPU,
    CPU_GFLOPS_PER_VCPU_HIGH,
    CPU_GFLOPS_PER_VCPU_LOW,
    cpu_images_per_second,
    device_scaling,
    step_seconds,
)
from planner.throughput.values import (
    CPU,
    THIS_MACHINE,
    Basis,
    Measurement,
    Parallelism,
    Quality,
    Throughput,
    Unpredicted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from workloads.layers import Net


class DeviceRates(Protocol):
    """What the model needs of a device: pricing's Device has it."""

    @property
    def memory_bandwidth_gb_s(self) -> float | None: ...
    @property
    def peak_tflops(self) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be trained on what.

    `device` is a canonical device name, `cpu` for a rented host without accelerator, or `this-machine`; `vcpus` is
    needed for `cpu`. `source` names a source of measurements whose setup is meant; None is our own trainer.
    """

    net: Net
    device: str
    device_count: int
    interconnect: str | None
    vcpus: int | None
    batch_per_device: int
    precision: str
    xla: bool
    framework: str
    source: str | None = None


class MissingTableError(RuntimeError):
    """The compiled measurements are not there."""


# 80 % intervals as factors around the prediction, by what it rests on; the spread of one GPU and model over
# frameworks and versions in the measurements is 1.7x.
_SPREAD = {Basis.MEASURED: 1.15, Basis.SCALED: 1.35, Basis.MODELLED: 1.8}
_EVIDENCE_ROWS = 3


class Predictor:
    """Answers questions from measurements, nearest first; holds the rows of the devices it was asked about."""

    def __init__(
        self,
        database: sqlite3.Connection,
        own: Sequence[Measurement] = (),
        rates: Callable[[str], DeviceRates | None] | None = None,
    ) -> None:
        self._database = database
        self._own = tuple(own)
        self._rates = rates or _pricing_rates
        self._rows: dict[str, tuple[Measurement, ...]] = {}
        self._answers: dict[Question, Throughput | Unpredicted] = {}

    @classmethod
    def open(
        cls,
        path: Path | None = None,
        own: Sequence[Measurement] = (),
        rates: Callable[[str], DeviceRates | None] | None = None,
    ) -> Predictor:
        """Opens the compiled measurements. Raises MissingTableError where they have not been compiled."""
        table = path or TARGET
        if not table.is_file():
            raise MissingTableError(f"{table} is missing; make it with: python -m planner.throughput.compile")
        return cls(sqlite3.connect(f"{table.as_uri()}?mode=ro", uri=True), own, rates)

    def predict(self, question: Question) -> Throughput | Unpredicted:
        """The throughput over all devices; the same question is answered once."""
        answer = self._answers.get(question)
        if answer is None:
            answer = self._answers[question] = self._predict(question)
        return answer

    def close(self) -> None:
        self._database.close()

    def _predict(self, question: Question) -> Throughput | Unpredicted:
        rows = [row for row in self._own if row.device == question.device] or self._device_rows(question.device)
        if question.device in (CPU, THIS_MACHINE):
            return _on_cpu(question, rows)
        rates = self._rates(question.device)
        if not rows:
            return _modelled(question, rates)
        return _from_nearest(question, rows, rates)

    def _device_rows(self, device: str) -> tuple[Measurement, ...]:
        if device not in self._rows:
            self._rows[device] = tuple(_load(self._database, device))
        return self._rows[device]


def _load(database: sqlite3.Connection, device: str) -> list[Measurement]:
    with closing(database.execute(_SELECT, (device,))) as rows:
        return [_measurement(row) for row in rows]


_SELECT = """SELECT id, model, image_size_px, device, device_count, node_count, interconnect, precision, xla,
 batch_per_device, framework, images_per_second, spread_fraction, optimizer_step, parallelism, quality, source
 FROM measurements WHERE device = ? AND mode = 'train' AND quality != 'C' AND batch_per_device IS NOT NULL"""


def _measurement(row: Sequence[Any]) -> Measurement:
    return Measurement(
        id=row[0],
        model=row[1],
        image_size_px=row[2],
        device=row[3],
        device_count=row[4],
        node_count=row[5],
        interconnect=row[6],
        precision=row[7],
        xla={"yes": True, "no": False}.get(row[8]),
        batch_per_device=row[9],
        framework=row[10],
        images_per_second=row[11],
        spread=row[12],
        optimizer_step=row[13] == "yes",
        parallelism=Parallelism(row[14]),
        quality=Quality(row[15]),
        source=row[16],
    )


def _from_nearest(
    question: Question, rows: Sequence[Measurement], rates: DeviceRates | None
) -> Throughput | Unpredicted:
    key = model_key(question.net)
    usable = [(row, net) for row in rows if (net := _net(row, question, key)) is not None]
    if not usable:
        return _modelled(question, rates)
    usable.sort(key=lambda pair: _distance(question, key, pair[0]))
    nearest = usable[:_EVIDENCE_ROWS]
    first = nearest[0][0]
    if _distance(question, key, first) == 0:
        return _throughput(first.images_per_second, Basis.MEASURED, (first.id,))
    estimates = [_scaled(question, row, net, rates) for row, net in nearest]
    rate = math.exp(sum(map(math.log, estimates)) / len(estimates))
    return _throughput(rate, Basis.SCALED, tuple(row.id for row, _ in nearest))


def _net(row: Measurement, question: Question, key: str) -> Net | None:
    if row.model == key and row.image_size_px == question.net.image_size:
        return question.net
    return net_of(row.model, row.image_size_px)


def _distance(question: Question, key: str, row: Measurement) -> float:
    """How far a measurement is from the question; 0 is the same configuration. Weights: an order of preference."""
    batch = row.batch_per_device or 1
    return (
        4.0
        * (row.device_count != question.device_count)
        * (1 + abs(math.log(row.device_count / question.device_count)))
        + 3.0 * (row.precision.removeprefix("amp_") != question.precision.removeprefix("amp_"))
        + 2.0 * (row.model != key)
        + 2.0 * abs(math.log(row.image_size_px / question.net.image_size))
        + 0.5 * abs(math.log(batch / question.batch_per_device))
        + 0.5 * (bool(row.xla) != question.xla)
        + 0.5 * (question.framework.lower() not in row.framework.lower())
        + 2.0 * (row.parallelism is Parallelism.DATA_PARALLEL)
    )


def _scaled(question: Question, row: Measurement, net: Net, rates: DeviceRates | None) -> float:
    asked = step_seconds(question.net, question.batch_per_device, rates, question.precision)
    measured = step_seconds(net, row.batch_per_device or 1, rates, row.precision)
    per_device = row.images_per_second / row.device_count / device_scaling(row.device_count)
    images = question.batch_per_device / (row.batch_per_device or 1)
    return per_device * images * measured / asked * question.device_count * device_scaling(question.device_count)


def _modelled(question: Question, rates: DeviceRates | None) -> Throughput | Unpredicted:
    if rates is None or rates.memory_bandwidth_gb_s is None or not rates.peak_tflops:
        return Unpredicted(reason="no_device_data")
    seconds = step_seconds(question.net, question.batch_per_device, rates, question.precision)
    rate = question.batch_per_device / seconds * question.device_count * device_scaling(question.device_count)
    return _throughput(rate, Basis.MODELLED, ("no measurement of this device: peak rates and memory bandwidth",))


def _on_cpu(question: Question, rows: Sequence[Measurement]) -> Throughput | Unpredicted:
    """A rented host, scaled per hardware thread from the measured hosts, unless this very host was measured."""
    if question.device_count != 1 or not question.vcpus:
        return Unpredicted(reason="no_cpu_data")
    own = [row for row in rows if row.source == "own"]
    if own:
        return _from_nearest(question, own, None)
    low, middle, high = (
        cpu_images_per_second(question.net, gflops * question.vcpus)
        for gflops in (CPU_GFLOPS_PER_VCPU_LOW, CPU_GFLOPS_PER_VCPU, CPU_GFLOPS_PER_VCPU_HIGH)
    )
    evidence = ("jcjohnson-0033", "mlperf-0020")
    return Throughput(images_per_second=middle, low=low, high=high, basis=Basis.MODELLED, evidence=evidence)


def _throughput(rate: float, basis: Basis, evidence: tuple[str, ...]) -> Throughput:
    spread = _SPREAD[basis]
    return Throughput(images_per_second=rate, low=rate / spread, high=rate * spread, basis=basis, evidence=evidence)


def _pricing_rates(device: str) -> DeviceRates | None:
    from pricing.devices import find_device

    found: DeviceRates | None = find_device(device)
    return found
