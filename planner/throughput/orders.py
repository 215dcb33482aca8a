"""What holds between estimates whatever was measured: a precision or a card that is better in all is never slower.

Measurements of one card or precision move its estimates alone, and could move them past those of a better one. So
every estimate lies between those of the cards that are better and worse in everything ([ADR
7](docs/adr/0007-throughput-model.md)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trainplan.planner.throughput.rates import WITH_TF32, Precision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trainplan.planner.throughput.model import Group
    from trainplan.planner.throughput.rates import KnownRates
    from trainplan.planner.throughput.setup import Setup

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
        measured = {group[_OF_A_DEVICE[group[0]]] for group in model.corrections if group[0] in _OF_A_DEVICE}
        self._cards: list[KnownRates] = []
        self._positions: dict[int, int] = {}
        for rates in known:
            if rates not in self._cards:
                self._cards.append(rates)
            self._positions[id(rates)] = self._cards.index(rates)
        self._measured = {position for position, one in enumerate(self._cards) if one.group in measured}
        self._neighbours: dict[tuple[int, bool], tuple[list[int], list[int]]] = {}
        self._steps: dict[tuple[object, ...], _Step] = {}

    def seconds(self, setup: Setup) -> float:
        """Seconds of one step: as the model has it, but no less than on a better card, and no more than on a worse one.

        Measured cards that contradict their order meet half way; others lie between those that were measured, and are
        put in order among themselves in the same way.
        """
        card = self._positions.get(id(setup.rates))
        if card is None:
            card = self._cards.index(setup.rates)
        return self._in_order(self._step(setup), card) * self._model.crowding(setup)

    def _step(self, setup: Setup) -> _Step:
        """What is known of the same step on any card; kept for the next card."""
        key = (
            *(id(setup.net), setup.batch, setup.count, setup.precision, setup.numbers, setup.xla),
            *(setup.family, setup.source, setup.link, setup.library, setup.optimizer_step, setup.gradient_bytes),
            *(setup.era, setup.layout),
        )
        kept = self._steps.get(key)
        if kept is None:
            if len(self._steps) >= _MOST:
                self._steps.clear()
            # The step's set-up keeps its net, so that no other object can come by its id.
            kept = self._steps[key] = _Step(setup, {}, {}, {})
        return kept

    def _in_order(self, step: _Step, card: int) -> float:
        kept = step.ordered.get(card)
        if kept is None:
            is_measured = card in self._measured
            better, worse = self._sides(card, is_measured=is_measured)
            of = self._own if is_measured else self._between_measured
            slowest = max(of(step, one) for one in better)
            kept = step.ordered[card] = math.sqrt(slowest * min(of(step, one) for one in worse))
        return kept

    def _between_measured(self, step: _Step, card: int) -> float:
        kept = step.between.get(card)
        if kept is None:
            better, worse = self._sides(card, is_measured=True)
            least = max((self._in_order(step, one) for one in better), default=0.0)
            most = min((self._in_order(step, one) for one in worse), default=math.inf)
            kept = step.between[card] = min(max(self._own(step, card), least), most)
        return kept

    def _own(self, step: _Step, card: int) -> float:
        """As the model has it, in the fastest of the precisions that are at least as high as the one asked for."""
        kept = step.own.get(card)
        if kept is None:
            rates = self._cards[card]
            precisions = _AT_LEAST[step.setup.precision, rates.architecture in WITH_TF32]
            seconds = [self._model.seconds_with_room(step.setup.on(rates, one)) for one in precisions]
            kept = step.own[card] = min(seconds)
        return kept

    def _sides(self, card: int, *, is_measured: bool) -> tuple[list[int], list[int]]:
        """The cards that are at least as good in everything, and those that are no better: measured ones, or others."""
        kept = self._neighbours.get((card, is_measured))
        if kept is None:
            rates = self._cards[card]
            others = [(one, other) for one, other in enumerate(self._cards) if (one in self._measured) is is_measured]
            kept = self._neighbours[card, is_measured] = (
                [one for one, other in others if _is_at_least(other, rates)],
                [one for one, other in others if _is_at_least(rates, other)],
            )
        return kept


class _Step(NamedTuple):
    """A step on any card: its seconds as the model has them, between the measured cards, and in order."""

    setup: Setup
    own: dict[int, float]
    between: dict[int, float]
    ordered: dict[int, float]


_AT_LEAST = {
    (asked, has_tf32): [one for one in higher if has_tf32 or one is not Precision.TF32]
    for asked, higher in (
        (Precision.FP32, (Precision.FP32,)),
        (Precision.TF32, (Precision.FP32, Precision.TF32)),
        (Precision.HALF, (Precision.FP32, Precision.TF32, Precision.HALF)),
    )
    for has_tf32 in (False, True)
}
"""The precisions that are at least as high as one, on a card with or without TF32: it is fp32 on one that lacks it."""


def _is_at_least(one: KnownRates, other: KnownRates) -> bool:
    """Whether a device has as much of everything as another of its kind."""
    return (
        (one.architecture == _TPU) is (other.architecture == _TPU)
        and one.bytes_per_second >= other.bytes_per_second
        and (one.memory_gib or 0.0) >= (other.memory_gib or 0.0)
        and all(one.flops_per_second(precision) >= other.flops_per_second(precision) for precision in Precision)
    )


_TPU = "tpu"
