"""Which values of a network are in memory at once in a training step of one image: by what its backward pass needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.graph import MATRIX_KINDS, NORM_KINDS, Kind, Needs, needs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainplan.workloads.graph import Graph, Operator, OperatorFigures

_FOLLOWERS = NORM_KINDS | {Kind.ACTIVATION, Kind.SOFTMAX, Kind.DROPOUT, Kind.SCALE}
_NO_GROUP = frozenset({Kind.INPUT, Kind.FLATTEN})
_IN_PLACE = frozenset({Kind.SOFTMAX, Kind.DROPOUT, Kind.FLATTEN})
_LINEAR = frozenset({"linear", ""})
_IN_PLACE_FUNCTIONS = frozenset({"relu", "relu6", "leaky_relu"}) | _LINEAR


@dataclass(slots=True)
class Group:
    """Operators that are worked on as one: one with the norms and activations that nothing but it feeds.

    `outputs` are the elements of the last one's output (0: a view of another's), `inputs` those that the first reads,
    `kept` those that the backward pass needs of what the group computes. `sources` are the groups whose outputs it
    reads; `shares_gradient`: their gradients are that of its output, as those of a sum are.
    """

    positions: list[int]
    outputs: int = 0
    inputs: int = 0
    kept: int = 0
    has_backward: bool = False
    passes_back: bool = False
    shares_gradient: bool = False
    frozen: bool = False
    sources: list[int] = field(default_factory=list)


class Plan(Enum):
    """What a framework keeps for the backward pass. LEAN and FULL are XLA's plans of a step, TORCH is what PyTorch's
    operators save as they run, NONE the rule of `needs`.

    XLA's plans hold more than `needs`, in whole outputs of an activation, as JAX differentiates. Products keep their
    second factor, a gelu two of the values that it is made of. A ReLU keeps its input beside its output, but after a
    norm that input is computed again. After a sum it is kept in part: half of it to all in the plans of SGD, nothing in
    those of Adam. Found on plans of nine networks (tests/data/xla_memory.csv, jax 0.10.2, 2026-11-26).

    PyTorch differentiates ReLU, sigmoid and tanh by their output, any other activation by its input; a pool keeps the
    place of each largest pixel in 8 bytes, dropout its mask in one (tools/autograd/derivatives.yaml and
    aten/src/ATen/native of PyTorch 2.11; held against the peaks of tests/data/networks_h200.csv).
    """

    NONE = "none"
    LEAN = "lean"
    """Of Adam."""
    FULL = "full"
    TORCH = "torch"
    """Values of 4 bytes."""
    TORCH_HALF = "torch_half"
    """Values of 2 bytes."""


_PLANNED_MASKS = {"swish": 1.0, "hard_swish": 1.0, "gelu": 2.0}
_AFTER_A_SUM = {Plan.LEAN: 0.0, Plan.FULL: 0.5}
_TORCH_VALUE_BYTES = {Plan.TORCH: 4, Plan.TORCH_HALF: 2}
_TORCH_IN_PLACE = frozenset({"relu"}) | _LINEAR
_TORCH_FROM_OUTPUT = frozenset({"relu", "sigmoid", "tanh"})
_POOL_INDEX_BYTES, _DROPOUT_MASK_BYTES = 8, 1


@lru_cache(maxsize=256)
def groups(graph: Graph, *, plan: Plan = Plan.NONE) -> tuple[Group, ...]:
    """The groups of a network, in order; its input is in none. `plan`: with what XLA's plans hold besides."""
    rows, consumers = graph.figures, graph.consumers
    found: list[Group] = []
    group_of: dict[int, int] = {}
    for position, row in enumerate(rows):
        if row.kind is Kind.INPUT:
            continue
        before = row.operator.inputs[0]
        follows = row.kind in _FOLLOWERS and consumers[before] == (position,) and rows[before].kind not in _NO_GROUP
        if follows:
            group_of[position] = group_of[before]
            found[group_of[before]].positions.append(position)
        else:
            group_of[position] = len(found)
            found.append(Group(positions=[position]))
    kept = _kept_storages(graph, plan=plan)
    for group in found:
        _fill(group, rows, kept)
        group.sources = [group_of[before] for before in rows[group.positions[0]].operator.inputs if before in group_of]
    return tuple(found)


def _fill(group: Group, rows: tuple[OperatorFigures, ...], kept: dict[int, int]) -> None:
    first, last = rows[group.positions[0]], rows[group.positions[-1]]
    group.outputs, group.inputs = last.output_elements, first.input_elements
    group.kept = sum(kept.get(position, 0) for position in group.positions)
    group.has_backward = any(rows[position].has_backward for position in group.positions)
    group.passes_back = first.passes_back
    group.frozen = all(rows[position].operator.frozen for position in group.positions)
    shapes = {*first.input_shapes, first.operator.shape}
    is_sum = first.kind is Kind.ADD and len(shapes) == 1
    group.shares_gradient = is_sum and all(_is_in_place(rows[position]) for position in group.positions[1:])


def _kept_storages(graph: Graph, *, plan: Plan = Plan.NONE) -> dict[int, int]:
    """Elements that the backward pass needs, by the operator that computes them."""
    rows = graph.figures
    storage = list(range(len(rows)))
    kept: dict[int, int] = {}
    beside: dict[int, int] = {}
    for position, row in enumerate(rows):
        if _is_in_place(row, plan):
            storage[position] = storage[row.operator.inputs[0]]
        if not row.has_backward:
            continue
        wanted = needs(row.operator) if plan not in _TORCH_VALUE_BYTES else _torch_needs(row.operator)
        is_matrix = row.kind in MATRIX_KINDS or row.kind is Kind.SCALE
        if wanted.inputs or (is_matrix and row.is_trained):
            for before in row.operator.inputs:
                kept[storage[before]] = rows[storage[before]].operator.shape.elements
        if wanted.output:
            kept[storage[position]] = rows[storage[position]].operator.shape.elements
        masks = float(wanted.mask) + _planned_masks(graph, row, plan)
        beside[position] = round(masks * row.operator.shape.elements)
    return {
        position: elements
        for position in range(len(rows))
        if (elements := kept.get(position, 0) + beside.get(position, 0))
    }


def _planned_masks(graph: Graph, row: OperatorFigures, plan: Plan) -> float:
    function = row.operator.function
    if plan in _TORCH_VALUE_BYTES:
        return _torch_mask_bytes(row.operator) / _TORCH_VALUE_BYTES[plan]
    if plan is Plan.NONE or row.kind is not Kind.ACTIVATION or function in _LINEAR:
        return 0.0
    if function not in _IN_PLACE_FUNCTIONS:
        return _PLANNED_MASKS.get(function, 0.0)
    before = graph.operators[row.operator.inputs[0]].kind
    if before in NORM_KINDS:
        return 0.0
    return _AFTER_A_SUM[plan] if before is Kind.ADD else 1.0


def _torch_needs(operator: Operator) -> Needs:
    match operator.kind:
        case Kind.ACTIVATION if operator.function not in _LINEAR:
            from_output = operator.function in _TORCH_FROM_OUTPUT
            return Needs(inputs=not from_output, output=from_output)
        case Kind.MAX_POOL:
            return Needs(inputs=True)
        case Kind.DROPOUT:
            return Needs()
        case _:
            return needs(operator)


def _torch_mask_bytes(operator: Operator) -> int:
    """Of each value of its output, beside values that are kept whole."""
    if operator.kind is Kind.MAX_POOL:
        return _POOL_INDEX_BYTES
    return _DROPOUT_MASK_BYTES if operator.kind is Kind.DROPOUT and operator.function != "image" else 0


def _is_in_place(row: OperatorFigures, plan: Plan = Plan.NONE) -> bool:
    """Whether its output takes the place of its input, or is a view of it."""
    if plan in _TORCH_VALUE_BYTES:
        in_place = Kind.SOFTMAX, Kind.FLATTEN
        return row.kind in in_place or (row.kind is Kind.ACTIVATION and row.operator.function in _TORCH_IN_PLACE)
    return row.kind in _IN_PLACE or (row.kind is Kind.ACTIVATION and row.operator.function in _IN_PLACE_FUNCTIONS)


class Moment(NamedTuple):
    """While a group is worked on: `elements` that are there for each image; of a wide convolution those that it reads
    and writes, and its pairs of an input and an output channel (0 of any other group)."""

    elements: int
    convolved: int = 0
    pairs: int = 0


@lru_cache(maxsize=256)
def moments(graph: Graph, *, plan: Plan = Plan.NONE) -> tuple[Moment, ...]:
    """Those of a step at which most is needed; `plan`: with what the framework holds besides.

    The backward pass goes from the last group to the first and frees what it has passed: while a group is worked on
    there are the values kept up to it, the gradient of its output, the gradients of what it reads (unless nothing below
    is trained), and the gradients that wait for groups further down. What is frozen below all that is trained passes in
    the forward pass, with its inputs and outputs alone.
    """
    all_groups = groups(graph, plan=plan)
    kept_count = graph.input_shape.elements
    found = [Moment(0)]
    kept_up_to: list[int] = []
    for group in all_groups:
        if not group.has_backward:
            found.append(Moment(kept_count + group.outputs + group.inputs))
        kept_count += group.kept
        kept_up_to.append(kept_count)
    waiting = _Gradients(all_groups, in_place=plan not in _TORCH_VALUE_BYTES)
    for number in range(len(all_groups) - 1, -1, -1):
        if all_groups[number].has_backward:
            elements = kept_up_to[number] + waiting.elements_while(number)
            found.append(Moment(elements, *_convolved(graph.figures[all_groups[number].positions[0]])))
    return _fullest(found)


def kept_elements(graph: Graph, *, plan: Plan = Plan.NONE) -> int:
    """Elements of one image at the fullest moment of a step; `plan`: with what the framework holds besides."""
    return max(moment.elements for moment in moments(graph, plan=plan))


_WIDE_FROM_CHANNELS, _WIDE_FROM_PIXELS = 16, 14


def _convolved(row: OperatorFigures) -> tuple[int, int]:
    """Of a convolution that cuDNN transforms in fp32: of several pixels a side, each at a time, in one group."""
    one = row.operator
    if one.kind is not Kind.CONVOLUTION or one.groups > 1 or one.stride != (1, 1) or min(one.kernel) == 1:
        return 0, 0
    channels = row.input_shapes[0].channels
    if channels < _WIDE_FROM_CHANNELS or min(one.shape.height, one.shape.width) < _WIDE_FROM_PIXELS:
        return 0, 0
    return row.input_elements + row.output_elements, channels * one.shape.channels


def _fullest(found: Iterable[Moment]) -> tuple[Moment, ...]:
    """Without those of which another has as much of everything."""
    kept: list[Moment] = []
    for one in sorted(found, reverse=True):
        if not any(other.convolved >= one.convolved and other.pairs >= one.pairs for other in kept):
            kept.append(one)
    return tuple(kept)


class _Gradients:
    """The gradients that wait for the groups whose outputs they are of.

    That of a sum is the gradient of each of its terms: it is there once. Unless `in_place`, the gradient by a norm's or
    an activation's input is written beside that of its output, and two gradients of one output are added to a third.
    """

    def __init__(self, all_groups: tuple[Group, ...], *, in_place: bool) -> None:
        self._groups = all_groups
        self._in_place = in_place
        self._of: dict[int, int] = {}
        """The group in whose backward pass the gradient of a group's output was made."""

    def elements_while(self, number: int) -> int:
        """Elements of all gradients while a group is worked on; after it, those of what it reads wait."""
        group = self._groups[number]
        own = self._of.pop(number, number)
        sizes = {maker: self._groups[of].outputs for of, maker in self._of.items()}
        sizes[own] = group.outputs
        if not self._in_place and len(group.positions) > 1 and own in self._of.values():
            # What waits for others cannot take the gradient of a norm's input in its place.
            sizes[-1] = sizes.get(-1, 0) + group.outputs
        passed = group.inputs if group.passes_back and not group.shares_gradient else 0
        if not self._in_place and len(group.positions) > 1:
            passed = max(passed, group.outputs)
        third = 0
        for source in group.sources:
            if self._groups[source].has_backward:
                if source in self._of and not self._in_place:
                    third = max(third, self._groups[source].outputs)
                self._of.setdefault(source, own if group.shares_gradient else -1 - source)
        # The group's own gradient is free when two others are added.
        return sum(sizes.values()) + passed + max(0, third - group.outputs)


def kept_by_kind(graph: Graph, *, plan: Plan = Plan.NONE) -> dict[Kind, int]:
    """Elements that are kept for the backward pass, by the kind of operator that computes them, the most first."""
    found: dict[Kind, int] = {Kind.INPUT: graph.input_shape.elements}
    for position, elements in _kept_storages(graph, plan=plan).items():
        if position:
            kind = graph.operators[position].kind
            found[kind] = found.get(kind, 0) + elements
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def is_chain(graph: Graph) -> bool:
    """Whether each operator feeds the next one alone."""
    return all(operator.inputs == (position,) for position, operator in enumerate(graph.operators[1:]))


def group_outputs(graph: Graph) -> tuple[int, ...]:
    """Elements of the output of each group that is not frozen."""
    return tuple(group.outputs for group in groups(graph) if not group.frozen)
