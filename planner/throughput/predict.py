"""How many images per second a net trains at on a device, with an 80 % interval and what it rests on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from trainplan.planner.throughput.evidence import SHARING, Evidence, Nearness, basis_of, evidence, seen_of
from trainplan.planner.throughput.host import host_step_seconds, on_host
from trainplan.planner.throughput.model import load_model
from trainplan.planner.throughput.nets import is_frozen, is_vgg, model_key
from trainplan.planner.throughput.network_steps import (
    MOST_UNKNOWN,
    TUNED_WIDTH,
    NetworkSteps,
    VggSteps,
    kinds_of,
    measured_network,
    unknown_width,
)
from trainplan.planner.throughput.operators import load_operators
from trainplan.planner.throughput.orders import Orders
from trainplan.planner.throughput.own import from_own
from trainplan.planner.throughput.rates import WITH_TF32, KnownRates, Precision, known_rates
from trainplan.planner.throughput.setup import (
    KERAS_REFERENCE,
    Era,
    Family,
    Library,
    Link,
    Setup,
    family_of,
    layout_of,
    library_of,
    link_of,
    numbers_on,
    precision_on,
    setup_of_row,
)
from trainplan.planner.throughput.table import SHIPPED_TABLE, anchors_on, open_table, seen_on
from trainplan.planner.throughput.values import (
    CPU,
    NO_TF32,
    THIS_MACHINE,
    TPU_MULTIPLIES_BF16,
    Basis,
    Measurement,
    Parallelism,
    Question,
    Throughput,
    Unpredicted,
)
from trainplan.workloads.graph import Graph

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trainplan.planner.throughput.evidence import EvidenceRow
    from trainplan.planner.throughput.model import Model
    from trainplan.planner.throughput.operators import OperatorModel
    from trainplan.pricing.devices import Device


class Predictor:
    """Answers questions from the fitted model and the measurements beside it; own runs come first.

    `devices` holds the device rows by canonical name (pricing's DeviceTable does).
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        models: tuple[Model, OperatorModel],
        devices: Mapping[str, Device],
        own: Sequence[Measurement],
    ) -> None:
        model, operators = models
        self._database = database
        self._model = model
        self._devices = devices
        self._own = tuple(own)
        self._rates: dict[str, KnownRates | None] = {}
        self._rows_by_group: dict[str, list[EvidenceRow]] = {}
        self._anchors_of: dict[tuple[str, str, str], list[str]] = {}
        known = (self.rates(name) for name in devices)
        self._networks = NetworkSteps(model, operators)
        self._vgg = VggSteps(model, self._networks)
        rates_of_all = [rates for rates in known if rates is not None]
        self._orders = Orders(self._vgg, rates_of_all)
        self._network_orders = Orders(self._networks, rates_of_all)
        self._architectures = frozenset(group[1] for group in model.corrections if group[0] == "architecture")

    @classmethod
    def open(
        cls, devices: Mapping[str, Device], path: Path = SHIPPED_TABLE, own: Sequence[Measurement] = ()
    ) -> Predictor:
        """Opens the compiled measurements. Raises MissingTableError where they have not been compiled."""
        return cls(open_table(path), (load_model(), load_operators()), devices, own)

    def close(self) -> None:
        """Close the database of measurements."""
        self._database.close()

    def predict(self, question: Question) -> Throughput | Unpredicted:
        """The throughput over all devices, or why none can be told."""
        answer = self._predicted(question)
        if isinstance(answer, Unpredicted):
            return answer
        notes = [_FROZEN_NOTE] if is_frozen(question.net) else []
        notes += _precision_note(question.precision, self.rates(question.device))
        return replace(answer, note="; ".join(filter(None, (answer.note, *notes)))) if notes else answer

    def _predicted(self, question: Question) -> Throughput | Unpredicted:
        base = self._base(question)
        own = [row for row in self._own if row.device == question.device]
        if isinstance(base, Unpredicted) or not own:
            return base
        return from_own(question, model_key(question.net), own, lambda row: self._model_value(question, row), base)

    def predict_setup(self, setup: Setup, model: str, without: frozenset[str] = frozenset()) -> Throughput:
        """The throughput of a step as a source runs it. `without` names shipped rows to leave out of the evidence;
        at most one of them may be the very step that is asked."""
        if isinstance(setup.net, Graph) or self._vgg.is_anchored(setup.device):
            return self._network_setup(setup, model, without)
        seconds = self._seconds(setup, model)
        near = self._evidence(setup, model, without)
        for row in without:
            # For a Gaussian process the effect of leaving one row out is exact: no fit is made anew (ADR 7).
            seconds *= math.exp(self._model.left_out.get(row, 0.0))
        rate = setup.batch * setup.count / seconds
        return self._throughput(rate, near, self._half_width(near))

    def unknown_share(self, graph: Graph, batch: int) -> float:
        """The share of a network's step that is of operators which are counted by their bytes alone, on a usual
        card."""
        rates = self.rates(_USUAL_CARD)
        if rates is None:
            return 0.0
        question = Question(
            net=graph,
            device=_USUAL_CARD,
            device_count=1,
            interconnect=None,
            vcpus=None,
            batch_per_device=batch,
            precision="amp_fp16",
            xla=False,
            framework="tensorflow",
        )
        return self._networks.unknown_share(_setup(question, rates))

    def operator_seconds(self, question: Question) -> tuple[float, ...]:
        """Seconds of each operator of the question's network, in order, on one of its devices; none where nothing is
        known of the device."""
        rates = self.rates(question.device)
        return () if rates is None else self._networks.operator_seconds(_setup(question, rates))

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
        if isinstance(question.net, Graph) or self._vgg.is_anchored(setup.device):
            return self._of_network(setup, key)
        near = self._evidence(setup, key, frozenset())
        rate = setup.batch * setup.count / self._orders.seconds(setup)
        width = self._half_width(near)
        if not is_vgg(key):
            # Folds try VGG nets only; another net is at least as unsure as another source.
            width = max(width, self._model.half_widths[str(Nearness.SAME_DEVICE)])
        # The measurements are of older versions than what will run.
        throughput = self._throughput(rate, near, math.hypot(width, self._model.version_shift, _tuned_width(rates)))
        return _with_reason(throughput, setup, self._orders)

    def _of_network(self, setup: Setup, key: str) -> Throughput | Unpredicted:
        """What the measurements of other networks say; none where too much of the step is unknown."""
        unknown = self._networks.unknown_share(setup)
        if unknown > MOST_UNKNOWN:
            return Unpredicted(reason="unknown_operators")
        is_graph = isinstance(setup.net, Graph)
        seconds = (self._network_orders if is_graph else self._orders).seconds(setup)
        # What was measured here is of older versions than what will run; errors of other programs have that in them.
        seen = self._networks.seen(setup, key)
        shift = self._model.version_shift if seen.device_by_source or not seen.device else 0.0
        unsure = unknown_width(unknown, self._networks.product_share(setup))
        width = math.hypot(self._network_width(setup, key), shift, unsure, _tuned_width(setup.rates))
        throughput = self._network_throughput(setup, key, seconds, width)
        return _with_reason(throughput, setup, self._network_orders if is_graph else self._orders)

    def _network_setup(self, setup: Setup, key: str, without: frozenset[str]) -> Throughput:
        seconds = self._seconds(setup, key)
        for row in without:
            seconds *= math.exp(self._networks.operators.left_out.get(row, 0.0))
        width = self._network_width(setup, key, is_itself=bool(without))
        return self._network_throughput(setup, key, seconds, width, without)

    def _seconds(self, setup: Setup, key: str) -> float:
        """Seconds of a source's step: as an estimate has them, unless the model has measurements of that very source.
        Those may contradict the order of precisions and cards."""
        if isinstance(setup.net, Graph):
            if (_SOURCE, setup.source) in self._networks.corrections:
                return self._networks.seconds_of(setup, key)
            return self._network_orders.seconds(setup)
        if (_SOURCE, setup.source) in self._vgg.corrections:
            return self._vgg.seconds_with_room(setup) * self._vgg.crowding(setup)
        return self._orders.seconds(setup)

    def _network_width(self, setup: Setup, key: str, *, is_itself: bool = False) -> float:
        seen = self._networks.seen(setup, key, is_itself=is_itself)
        widths = self._networks.operators.half_widths
        width = max(widths[kind] for kind in kinds_of(seen, is_blended=not isinstance(setup.net, Graph)))
        if setup.count == 1:
            return width
        if setup.library is Library.DDP:
            return math.hypot(width, self._exchange_width(setup))
        scale = self._model.sharing_scales.get(f"{setup.link}/{setup.library}", 1.0)
        return math.hypot(width, self._model.half_widths[f"{Nearness.SAME_SOURCE}+{SHARING}"] * scale)

    def _exchange_width(self, setup: Setup) -> float:
        """What DistributedDataParallel's exchange of gradients adds to the half width: it may take as much longer as
        `_EXCHANGE_OFF` of it. 82 % of 72 published gains of several GPUs over one are within that of the computed gain
        (`scripts.fit.shared_steps`)."""
        orders = self._network_orders if isinstance(setup.net, Graph) else self._orders
        one = replace(setup, count=1, link=Link.ONE, library=Library.ONE)
        exchange = 1 - orders.seconds(one) / orders.seconds(setup)
        return max(_EXCHANGE_LEAST, _EXCHANGE_OFF * exchange)

    def _network_throughput(
        self, setup: Setup, key: str, seconds: float, width: float, without: frozenset[str] = frozenset()
    ) -> Throughput:
        seen = self._networks.seen(setup, key, is_itself=bool(without))
        basis = Basis.SCALED if seen.pair else Basis.ANCHORED if seen.device else Basis.MODELLED
        ids = tuple(id_ for id_ in self._anchors(setup, key) if id_ not in without)
        carriers = self._networks.operators.measured.networks_on(setup.device)
        note = _NOTES[basis] if basis is not Basis.ANCHORED else f"anchored: {_joined(carriers)} on this device"
        rate, factor = setup.batch * setup.count / seconds, math.exp(width)
        return Throughput(
            images_per_second=rate,
            low=rate / factor,
            high=rate * factor,
            basis=basis,
            evidence=ids[:_NAMED_ROWS] or (NO_MEASUREMENT,),
            note=note,
        )

    def _anchors(self, setup: Setup, key: str) -> list[str]:
        """The measurements of any network on the device, the nearest ones first."""
        asked = setup.device, key, str(setup.precision)
        if asked not in self._anchors_of:
            names = [name for name in self._devices if self._devices[name].group == setup.device]
            self._anchors_of[asked] = anchors_on(self._database, names, key, asked[2])
        return self._anchors_of[asked]

    def _model_value(self, question: Question, row: Measurement) -> float | None:
        """What the model says of an own measurement's configuration."""
        same = row.model == model_key(question.net) and row.image_size_px == question.net.image_size
        net = question.net if same else measured_network(row)
        if net is None or row.batch_per_device is None:
            return None
        if row.device in (CPU, THIS_MACHINE):
            return row.batch_per_device / host_step_seconds(net, row.batch_per_device, question.vcpus or 1)
        rates = self.rates(row.device)
        setup = None if rates is None else setup_of_row(row, net, rates)
        if setup is None:
            return None
        orders = self._network_orders if isinstance(net, Graph) else self._orders
        return setup.batch * setup.count / orders.seconds(setup)

    def _evidence(self, setup: Setup, model: str, without: frozenset[str]) -> Evidence:
        rows = self._seen_of(setup.rates)
        if without:
            rows = [row for row in rows if row.id not in without]
        return evidence(seen_of(setup, "", model), rows, self._architectures, self._model.measured_libraries)

    def _seen_of(self, rates: KnownRates) -> list[EvidenceRow]:
        if rates.group not in self._rows_by_group:
            names = [name for name in self._devices if self._devices[name].group == rates.group]
            self._rows_by_group[rates.group] = seen_on(self._database, names, rates.group, rates.architecture)
        return self._rows_by_group[rates.group]

    def _half_width(self, near: Evidence) -> float:
        return near.half_width(self._model.half_widths, self._model.sharing_scales)

    def _throughput(self, rate: float, near: Evidence, half_width: float) -> Throughput:
        factor = math.exp(half_width)
        basis = basis_of(near.nearness)
        ids = near.ids or (NO_MEASUREMENT,)
        return Throughput(
            images_per_second=rate,
            low=rate / factor,
            high=rate * factor,
            basis=basis,
            evidence=ids,
            note="; ".join(filter(None, (_NOTES[basis], _sharing_note(near)))),
        )


def _precision_note(asked: str, rates: KnownRates | None) -> list[str]:
    if rates is None:
        return []
    if rates.architecture == "tpu":
        return [TPU_MULTIPLIES_BF16] if asked.endswith("fp16") else []
    # Cards before Volta have no tensor cores to name.
    has_tensor_cores = Precision.HALF in rates.on_matrix_units
    return [NO_TF32] if asked == Precision.TF32 and rates.architecture not in WITH_TF32 and has_tensor_cores else []


def _tuned_width(rates: KnownRates) -> float:
    return TUNED_WIDTH if rates.architecture == "tpu" else 0.0


def _joined(networks: Sequence[str]) -> str:
    """The most measured ones, and how many more."""
    more = f" and {len(networks) - _NAMED_ROWS} more networks" if len(networks) > _NAMED_ROWS else ""
    return ", ".join(networks[:_NAMED_ROWS]) + more


_EXCHANGE_OFF, _EXCHANGE_LEAST = 0.5, 0.05
_NAMED_ROWS = 3
_SOURCE = "source"
"""The level of `Setup.groups` and of the operators' effects that all steps of one source share."""
_USUAL_CARD = "A100-80GB"
NO_MEASUREMENT = "no measurement of this device: its peak rates and what the model learnt of others"
"""What stands for evidence where there is none."""
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
        f"{known}, and no step of a VGG net over any link that {library} shared: "
        f"over {link} the interval is as wide as predictions for a library left out were off"
    )


def _with_reason(throughput: Throughput, setup: Setup, orders: Orders) -> Throughput:
    """The throughput with the reason why half as many devices would train the same batch faster, where they would, or
    as fast with as many images each."""
    if setup.count % 2:
        return throughput
    half = replace(setup, batch=2 * setup.batch, count=setup.count // 2)
    if setup.count == 2:
        half = replace(half, link=Link.ONE, library=Library.ONE)
    rate = setup.batch * setup.count / orders.seconds(half)
    same = setup.batch * half.count / orders.seconds(replace(half, batch=setup.batch))
    what = "one device" if half.count == 1 else f"{half.count} devices"
    summing = f"summing the gradients over {_LINKS[setup.link]} takes longer than"
    if rate > throughput.images_per_second * _AS_FAST:
        reason = (
            f"slower than {what} with the same batch ({rate:,.0f} images/s): {summing} smaller shares of the batch save"
        )
    elif same >= throughput.images_per_second * _ALIKE:
        reason = f"no faster than {what} with as many images each: {summing} twice the devices save"
    else:
        return throughput
    return replace(throughput, note="; ".join(filter(None, (throughput.note, reason))))


_ALIKE = 1 - 1e-6
_AS_FAST = 1.05
"""Twice a batch may be slower by so much an image (docs/accuracy.md), and half as many devices faster for it."""
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
        # A job has no source: Keras' rows on EC2's GPUs stand for our trainer on a GPU (ADR 7).
        source=KERAS_REFERENCE if family is Family.KERAS and rates.architecture != "tpu" else "",
        optimizer_step=True,
        link=link_of(question.device_count, 1, interconnect, Parallelism.UNSTATED, question.device),
        library=library_of(question.device_count, Parallelism.UNSTATED, question.framework),
        gradient_bytes=4,
        era=Era.NOW,
        layout=layout_of(family),
        numbers=numbers_on(question.precision, precision_on(question.precision, rates)),
    )
