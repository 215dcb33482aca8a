"""How many images per second a net trains at on a device, with an 80 % interval and what it rests on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.throughput.evidence import Evidence, Nearness, basis_of, evidence, seen_of
from planner.throughput.host import host_step_seconds, on_host
from planner.throughput.model import load_model
from planner.throughput.nets import is_vgg, model_key, net_of
from planner.throughput.orders import Orders
from planner.throughput.own import from_own
from planner.throughput.rates import KnownRates, known_rates
from planner.throughput.setup import (
    KERAS_REFERENCE,
    Family,
    Library,
    Link,
    Setup,
    family_of,
    library_of,
    link_of,
    precision_on,
    setup_of_row,
)
from planner.throughput.table import SHIPPED_TABLE, open_table, seen_on
from planner.throughput.values import (
    CPU,
    THIS_MACHINE,
    Basis,
    Measurement,
    Parallelism,
    Question,
    Throughput,
    Unpredicted,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from planner.throughput.evidence import EvidenceRow
    from planner.throughput.model import Model
    from planner.throughput.rates import DeviceRow, Rates


class Predictor:
    """Answers questions from the fitted model and the measurements beside it; own runs come first.

    `devices` holds the device rows by canonical name (pricing's DeviceTable does).
    """

    def __init__(
        self, database: sqlite3.Connection, model: Model, devices: Mapping[str, DeviceRow], own: Sequence[Measurement]
    ) -> None:
        self._database = database
        self._model = model
        self._devices = devices
        self._own = tuple(own)
        self._rates: dict[str, KnownRates | None] = {}
        self._rows_by_group: dict[str, list[EvidenceRow]] = {}
        known = (self.rates(name) for name in devices)
        self._orders = Orders(model, [rates for rates in known if rates is not None])
        self._architectures = frozenset(group[1] for group in model.corrections if group[0] == "architecture")

    @classmethod
    def open(
        cls, devices: Mapping[str, DeviceRow], path: Path = SHIPPED_TABLE, own: Sequence[Measurement] = ()
    ) -> Predictor:
        """Opens the compiled measurements. Raises MissingTableError where they have not been compiled."""
        return cls(open_table(path), load_model(), devices, own)

    def close(self) -> None:
        """Close the database of measurements."""
        self._database.close()

    def predict(self, question: Question) -> Throughput | Unpredicted:
        """The throughput over all devices, or why none can be told."""
        answer = self._predicted(question)
        if isinstance(answer, Unpredicted) or not question.net.frozen:
            return answer
        return replace(answer, note=f"{answer.note}; {_FROZEN_NOTE}" if answer.note else _FROZEN_NOTE)

    def _predicted(self, question: Question) -> Throughput | Unpredicted:
        base = self._base(question)
        own = [row for row in self._own if row.device == question.device]
        if isinstance(base, Unpredicted) or not own:
            return base
        return from_own(question, model_key(question.net), own, lambda row: self._model_value(question, row), base)

    def predict_setup(self, setup: Setup, model: str, without: frozenset[str] = frozenset()) -> Throughput:
        """The throughput of a step as a source runs it. `without` names shipped rows to leave out of the evidence;
        at most one of them may be the very step that is asked."""
        seconds = self._model.seconds(setup)
        near = self._evidence(setup, model, without)
        for row in without:
            # For a Gaussian process the effect of leaving one row out is exact: no fit is made anew (ADR 7).
            seconds *= math.exp(self._model.left_out.get(row, 0.0))
        rate = setup.batch * setup.count / seconds
        return self._throughput(rate, near, self._half_width(near))

    def rates(self, device: str) -> KnownRates | None:
        """The peak rates of a device; None where it is unknown, or they are."""
        if device not in self._rates:
            self._rates[device] = known_rates(self._devices.get(device))
        return self._rates[device]

    def _base(self, question: Question) -> Throughput | Unpredicted:
        if question.device in (CPU, THIS_MACHINE):
            if not question.vcpus or question.device_count != 1:
                return Unpredicted(reason="no_cpu_data")
            rented = question.device == CPU
            return on_host(question.net, question.batch_per_device, question.vcpus, rented=rented)
        rates = self.rates(question.device)
        if rates is None:
            return Unpredicted(reason="no_device_data")
        setup = _setup(question, rates)
        key = model_key(question.net)
        near = self._evidence(setup, key, frozenset())
        rate = setup.batch * setup.count / self._orders.seconds(setup)
        width = self._half_width(near)
        if not is_vgg(key):
            # Folds try VGG nets only; another net is at least as unsure as another source.
            width = max(width, self._model.half_widths[str(Nearness.SAME_DEVICE)])
        # The measurements are of older versions than what will run.
        return self._throughput(rate, near, math.hypot(width, self._model.version_shift))

    def _model_value(self, question: Question, row: Measurement) -> float | None:
        """What the model says of an own measurement's configuration."""
        same = row.model == model_key(question.net) and row.image_size_px == question.net.image_size
        net = question.net if same else net_of(row.model, row.image_size_px, row.parameters_million)
        if net is None or row.batch_per_device is None:
            return None
        if row.device in (CPU, THIS_MACHINE):
            return row.batch_per_device / host_step_seconds(net, row.batch_per_device, question.vcpus or 1)
        rates = self.rates(row.device)
        setup = None if rates is None else setup_of_row(row, net, rates)
        return None if setup is None else setup.batch * setup.count / self._orders.seconds(setup)

    def _evidence(self, setup: Setup, model: str, without: frozenset[str]) -> Evidence:
        rows = self._seen_of(setup.rates)
        if without:
            rows = [row for row in rows if row.id not in without]
        return evidence(seen_of(setup, "", model), rows, self._architectures, self._model.measured_libraries)

    def _seen_of(self, rates: Rates) -> list[EvidenceRow]:
        if rates.group not in self._rows_by_group:
            names = [name for name in self._devices if self._devices[name].group == rates.group]
            self._rows_by_group[rates.group] = seen_on(self._database, names, rates.group, rates.architecture)
        return self._rows_by_group[rates.group]

    def _half_width(self, near: Evidence) -> float:
        return near.half_width(self._model.half_widths, self._model.sharing_scales)

    def _throughput(self, rate: float, near: Evidence, half_width: float) -> Throughput:
        factor = math.exp(half_width)
        basis = basis_of(near.nearness)
        ids = near.ids or ("no measurement of this device: its peak rates and what the model learnt of others",)
        return Throughput(
            images_per_second=rate,
            low=rate / factor,
            high=rate * factor,
            basis=basis,
            evidence=ids,
            note="; ".join(filter(None, (_NOTES[basis], _sharing_note(near)))),
        )


_NOTES = {
    Basis.MEASURED: "this configuration was measured",
    Basis.SCALED: "this device was measured in another configuration",
    Basis.MODELLED: "no measurement of this device",
}
_LINKS = {
    Link.ONE: "nothing",
    Link.NVLINK: "NVLink",
    Link.NVSWITCH: "NVSwitch",
    Link.PAIRS: "NVLink between pairs",
    Link.PCIE: "PCIe",
    Link.HOST: "PCIe through the host",
    Link.DATA_PARALLEL: "an unknown link",
    Link.NETWORK: "the network",
}
_LIBRARIES = {
    Library.ONE: "no library",
    Library.NCCL: "NCCL",
    Library.HOROVOD: "Horovod",
    Library.MIRRORED: "MirroredStrategy",
    Library.DDP: "DistributedDataParallel",
    Library.KVSTORE: "MXNet's key-value store",
    Library.XLA: "XLA's collectives",
    Library.SERVER: "a parameter server",
    Library.DATA_PARALLEL: "nn.DataParallel",
}


def _sharing_note(near: Evidence) -> str:
    """What is said of several devices of which one alone was measured."""
    if near.sharing_seen:
        return ""
    link, library = _LINKS[near.link], _LIBRARIES[near.library]
    known = "one device alone was measured" if near.ids else "no device of this kind was measured"
    if near.library_seen:
        return (
            f"{known}: how several share a step over {link} with {library} is known from other devices, "
            "and the interval is as wide as such predictions were off"
        )
    return (
        f"{known}, and no step over any link that {library} shared: "
        f"over {link} the interval is as wide as predictions for a library left out were off"
    )


_FROZEN_NOTE = "no step with frozen layers was measured: the computed step leaves out their backward pass"


def _setup(question: Question, rates: KnownRates) -> Setup:
    family = family_of(question.framework)
    interconnect = question.interconnect or ""
    return Setup(
        net=question.net,
        batch=question.batch_per_device,
        count=question.device_count,
        rates=rates,
        device=rates.group,
        precision=precision_on(question.precision, rates),
        xla=question.xla,
        family=family,
        # A job has no source: Keras' rows on EC2 stand for our trainer (ADR 7).
        source=KERAS_REFERENCE if family is Family.KERAS else "",
        optimizer_step=True,
        link=link_of(question.device_count, 1, interconnect, Parallelism.UNSTATED, question.device),
        library=library_of(question.device_count, Parallelism.UNSTATED, question.framework),
        gradient_bytes=4,
    )
