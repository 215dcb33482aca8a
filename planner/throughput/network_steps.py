"""Seconds of a step by the model that knows the network and the device best: of VGG nets, of operators, or both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainplan.planner.throughput.nets import model_key, net_of
from trainplan.planner.throughput.operator_evidence import BLENDED, Seen
from trainplan.planner.throughput.operator_runs import run_of
from trainplan.planner.throughput.operator_work import share_of_kind
from trainplan.workloads.graph import Graph, Kind
from trainplan.workloads.layers import graph_of

if TYPE_CHECKING:
    from trainplan.planner.throughput.model import Model
    from trainplan.planner.throughput.operators import OperatorModel
    from trainplan.planner.throughput.setup import Setup
    from trainplan.planner.throughput.values import Measurement
    from trainplan.workloads.layers import Net

_MOST = 16_384
SHARE_OF_OPERATORS = 0.75
"""What the model of operators has to say of a VGG net on a device of which other networks alone were measured; the rest
is said by the model of VGG nets (ADR 42)."""


MOST_UNKNOWN = 0.2
"""The share of a step that may be of operators which are counted by their bytes alone."""


def unknown_width(unknown: float, products: float) -> float:
    """What operators that no measurement has add to the half width of the interval, in logarithms, by their shares of a
    step: unknown ones may take three times as long, products twice as long (assumed)."""
    return math.log(1 + 2 * unknown + products)


TUNED_WIDTH = 0.3
"""What is added, in logarithms, where the only programs that were measured on a kind of device were tuned for MLPerf:
on TPUs, plain ones of 2018 to 2024 (DAWNBench, Flax, PyTorch/XLA) reached 0.53 to 1.1 times their estimates."""


def kinds_of(seen: Seen, *, is_blended: bool) -> tuple[str, ...]:
    """The kinds of evidence whose widest interval is the answer's: what was measured by another program than the one
    that is asked for is no nearer than the kind of network is."""
    anchored = BLENDED if is_blended else seen._replace(device_by_source=True).kind
    if seen.device and not (seen.pair_by_source or seen.device_by_source):
        return seen.kind, anchored
    return (anchored if is_blended else seen.kind,)


def measured_network(row: Measurement) -> Net | Graph | None:
    """The network of a measurement: a list of layers where it is one."""
    net = net_of(row.model, row.image_size_px, row.parameters_million)
    if net is not None:
        return net
    from trainplan.planner.throughput.networks import network_of  # most estimates do without

    return network_of(row.model, row.image_size_px, row.source)


def graph_of_net(setup: Setup) -> Graph:
    """The network of a step, whichever way it is written."""
    return setup.net if isinstance(setup.net, Graph) else graph_of(setup.net)


class NetworkSteps:
    """Steps of any network by the model of operators; what several devices add is the model of VGG nets' to say.
    `corrections` are the groups that were measured, as `orders.Orders` asks for them."""

    def __init__(self, model: Model, operators: OperatorModel) -> None:
        self._model = model
        self.operators = operators
        self.corrections = frozenset(operators.effects) | {("device", name) for name in operators.measured.devices}
        self._alone: dict[tuple[object, ...], tuple[Setup, float]] = {}

    def seconds_with_room(self, setup: Setup) -> float:
        """Seconds of one step on devices with memory enough."""
        return self.seconds_of(setup, model_key(setup.net))

    def seconds_of(self, setup: Setup, model: str) -> float:
        """The same of a network that measurements call `model`."""
        key = (model, *setup.of_one_device)
        kept = self._alone.get(key)
        if kept is None:
            if len(self._alone) >= _MOST:
                self._alone.clear()
            seconds = self.operators.seconds(graph_of_net(setup), setup.batch, run_of(setup, model))
            # The set-up keeps its net and its rates, so that no other objects can come by their ids.
            kept = self._alone[key] = (setup, seconds)
        alone = kept[1]
        return alone if setup.count == 1 else self._model.shared(setup, alone, alone)

    def crowding(self, _setup: Setup) -> float:
        """1: rows of full cards are in the fit like all others, and show no want of memory."""
        return 1.0

    def operator_seconds(self, setup: Setup) -> tuple[float, ...]:
        """Seconds of each operator of the network, in order, on one device."""
        return self.operators.step(graph_of_net(setup), setup.batch, run_of(setup, model_key(setup.net))).operators

    def unknown_share(self, setup: Setup) -> float:
        """The share of a step's seconds that unknown operators take at least, 0 to 1."""
        graph = graph_of_net(setup)
        return share_of_kind(graph, self.operator_seconds(setup), Kind.UNKNOWN) if graph.unknown else 0.0

    def product_share(self, setup: Setup) -> float:
        """The share of a step's seconds that products take, 0 to 1: no network that was measured has them."""
        graph = graph_of_net(setup)
        return share_of_kind(graph, self.operator_seconds(setup), Kind.PRODUCT) if graph.has_products else 0.0

    def seen(self, setup: Setup, model: str, *, is_itself: bool = False) -> Seen:
        """What was measured of the network and the device; with `is_itself` the very step does not count."""
        return self.operators.measured.seen(setup.device, model.removesuffix("_bn"), setup.source, is_itself=is_itself)


class VggSteps:
    """Steps of lists of layers: by the model of VGG nets, and where a device was measured with other networks alone, by
    that of operators too."""

    def __init__(self, model: Model, networks: NetworkSteps) -> None:
        self._model = model
        self._networks = networks
        of_vgg = {group[1] for group in model.corrections if group[0] == "device"}
        self._anchored = networks.operators.measured.devices - of_vgg
        # What VGG nets were measured at is not to be moved by what others were.
        known = {group[1] for group in model.corrections if group[0] == "architecture"}
        precisions = {group for group in networks.corrections if group[0] == "architecture_precision"}
        anchors = {("device", name) for name in self._anchored}
        self.corrections = {*model.corrections, *anchors, *(one for one in precisions if one[1] not in known)}

    def is_anchored(self, device: str) -> bool:
        """Whether other networks alone were measured on a group of devices."""
        return device in self._anchored

    def seconds_with_room(self, setup: Setup) -> float:
        """Seconds of one step on devices with memory enough."""
        of_vgg = self._model.seconds_with_room(setup)
        if setup.device not in self._anchored:
            return of_vgg
        of_operators = self._networks.seconds_with_room(setup)
        return math.exp(SHARE_OF_OPERATORS * math.log(of_operators) + (1 - SHARE_OF_OPERATORS) * math.log(of_vgg))

    def crowding(self, setup: Setup) -> float:
        """How much longer a step takes for want of memory: 1 where there is enough."""
        return self._model.crowding(setup)
