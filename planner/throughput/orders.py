"""What holds between estimates whatever was measured: a precision or a card that is better in all is never slower.

Measurements of one card or precision move its estimates alone, and could move them past those of a better one that
nobody measured. So the measured ones are bounds of the others ([ADR 32](docs/adr/0032-order-of-estimates.md)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from trainplan.planner.throughput.rates import WITH_TF32, Precision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from trainplan.planner.throughput.model import Group
    from trainplan.planner.throughput.rates import KnownRates
    from trainplan.planner.throughput.setup import Setup
    from trainplan.workloads.graph import Graph
    from trainplan.workloads.layers import Net

_MOST = 8_192
# The levels of Setup.groups of one device, and where its name stands in them.
_OF_A_DEVICE = {"device": 1, "device_precision": 1, "source_device": 2, "series": 2, "link_source_device": 2}


class Steps(Protocol):
    """What is put in order: the seconds of steps, and which groups of them were measured."""

    @property
    def corrections(self) -> Collection[Group]:
        """The groups with measurements."""
        ...

    def seconds_with_room(self, setup: Setup) -> float:
        """Seconds of one step on devices with memory enough."""
        ...

    def crowding(self, setup: Setup) -> float:
        """How much longer a step takes for want of memory."""
        ...


class Orders:
    """The model's steps in the order that holds between them. `known` are the rates of all devices."""

    def __init__(self, model: Steps, known: Iterable[KnownRates]) -> None:
        self._model = model
        groups = model.corrections
        names = {group[_OF_A_DEVICE[group[0]]] for group in groups if group[0] in _OF_A_DEVICE}
        self._measured_precisions = {group[1:] for group in groups if group[0] == "architecture_precision"}
        self._measured: dict[str, list[KnownRates]] = {}
        for rates in known:
            alike = self._measured.setdefault(rates.architecture, [])
            if rates.group in names and rates not in alike:
                alike.append(rates)
        self._seconds: dict[tuple[object, ...], tuple[Net | Graph, tuple[float, ...]]] = {}

    def seconds(self, setup: Setup) -> float:
        """Seconds of one step: as the model has it, but no less than on a better card that was measured, and no more
        than on a worse one. Measured cards that contradict their order meet half way.
        """
        rates, least, most = setup.rates, 0.0, math.inf
        own = self._in_order_of_precision(setup)
        measured = self._measured.get(rates.architecture, ())
        for other, seconds in zip(measured, self._of_measured(setup, measured), strict=True):
            if seconds > least and _is_at_least(other, rates):
                least = seconds
            if seconds < most and _is_at_least(rates, other):
                most = seconds
        ordered = min(max(own, least), most) if least <= most else math.sqrt(least * most)
        return ordered * self._model.crowding(setup)

    def _of_measured(self, setup: Setup, measured: Sequence[KnownRates]) -> tuple[float, ...]:
        """Seconds of the same step on each of the measured cards; kept for the next card of their architecture."""
        key = (
            *(id(setup.net), setup.rates.architecture, setup.batch, setup.count, setup.precision, setup.xla),
            *(setup.family, setup.source, setup.link, setup.library, setup.optimizer_step, setup.gradient_bytes),
        )
        kept = self._seconds.get(key)
        if kept is None:
            if len(self._seconds) >= _MOST:
                self._seconds.clear()
            steps = (setup.on(rates, setup.precision) for rates in measured)
            # The net is kept beside the answer, so that no other object can come by its id.
            kept = self._seconds[key] = (setup.net, tuple(map(self._in_order_of_precision, steps)))
        return kept[1]

    def _in_order_of_precision(self, setup: Setup) -> float:
        """A precision that was measured on cards of the architecture is a bound of those that were not."""
        architecture = setup.rates.architecture
        precisions = [one for one in _LOWEST_LAST if one is not Precision.TF32 or architecture in WITH_TF32]
        measured = [(architecture, str(one)) in self._measured_precisions for one in precisions]
        asked = precisions.index(setup.precision)

        def fastest(upto: int, *, of_measured: bool) -> float:
            kinds = zip(precisions[: upto + 1], measured, strict=False)
            steps = (setup.on(setup.rates, one) for one, is_measured in kinds if is_measured is of_measured)
            return min(map(self._model.seconds_with_room, steps), default=math.inf)

        if measured[asked]:
            return fastest(asked, of_measured=True)
        least = (
            fastest(position, of_measured=True) for position in range(asked + 1, len(precisions)) if measured[position]
        )
        return min(max(fastest(asked, of_measured=False), next(least, 0.0)), fastest(asked, of_measured=True))


_LOWEST_LAST = (Precision.FP32, Precision.TF32, Precision.HALF)


def _is_at_least(one: KnownRates, other: KnownRates) -> bool:
    """Whether a device has as much of everything as another."""
    return (
        one.bytes_per_second >= other.bytes_per_second
        and (one.memory_gib or 0.0) >= (other.memory_gib or 0.0)
        and all(one.flops_per_second(precision) >= other.flops_per_second(precision) for precision in Precision)
    )
