"""Which values of a network are in memory at once in a training step of one image: by what its backward pass needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from trainplan.workloads.graph import MATRIX_KINDS, NORM_KINDS, Kind, needs

if TYPE_CHECKING:
    from trainplan.workloads.graph import Graph, OperatorFigures

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
    """What XLA's plan of a step holds beside what the rule of `needs` says, in whole outputs of an activation, as JAX
    differentiates. Products keep their second factor, a gelu two of the values that it is made of. A ReLU keeps its
    input beside its output, but after a norm that input is computed again. After a sum it is kept in part: half of it
    to all in the plans of SGD, nothing in those of Adam.

    Found on plans of nine networks (tests/data/xla_memory.csv, jax 0.10.2, 2026-11-26).
    """

    NONE = "none"
    LEAN = "lean"
    """Of Adam."""
    FULL = "full"


_PLANNED_MASKS = {"swish": 1.0, "hard_swish": 1.0, "gelu": 2.0}
_AFTER_A_SUM = {Plan.LEAN: 0.0, Plan.FULL: 0.5}


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
        if _is_in_place(row):
            storage[position] = storage[row.operator.inputs[0]]
        if not row.has_backward:
            continue
        wanted = needs(row.operator)
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
    if plan is Plan.NONE or row.kind is not Kind.ACTIVATION or function in _LINEAR:
        return 0.0
    if function not in _IN_PLACE_FUNCTIONS:
        return _PLANNED_MASKS.get(function, 0.0)
    before = graph.operators[row.operator.inputs[0]].kind
    if before in NORM_KINDS:
        return 0.0
    return _AFTER_A_SUM[plan] if before is Kind.ADD else 1.0


def _is_in_place(row: OperatorFigures) -> bool:
    """Whether its output takes the place of its input, or is a view of it."""
    return row.kind in _IN_PLACE or (row.kind is Kind.ACTIVATION and row.operator.function in _IN_PLACE_FUNCTIONS)


@lru_cache(maxsize=256)
def kept_elements(graph: Graph, *, plan: Plan = Plan.NONE) -> int:
    """Elements at the fullest moment of the backward pass; `plan`: with what XLA's plans hold besides.

    It goes from the last group to the first and frees what it has passed: while a group is worked on there are the
    values kept up to it, the gradient of its output, the gradients of what it reads (unless nothing below is trained),
    and the gradients that wait for groups further down. What is frozen below all that is trained passes in the forward
    pass, with its inputs and outputs alone.
    """
    all_groups = groups(graph, plan=plan)
    kept_count = graph.input_shape.elements
    fullest = 0
    kept_up_to: list[int] = []
    for group in all_groups:
        if not group.has_backward:
            fullest = max(fullest, kept_count + group.outputs + group.inputs)
        kept_count += group.kept
        kept_up_to.append(kept_count)
    waiting = _Gradients(all_groups)
    for number in range(len(all_groups) - 1, -1, -1):
        if all_groups[number].has_backward:
            fullest = max(fullest, kept_up_to[number] + waiting.elements_while(number))
    return fullest


class _Gradients:
    """The gradients that wait for the groups whose outputs they are of.

    That of a sum is the gradient of each of its terms: it is there once.
    """

    def __init__(self, all_groups: tuple[Group, ...]) -> None:
        self._groups = all_groups
        self._of: dict[int, int] = {}
        """The group in whose backward pass the gradient of a group's output was made."""

    def elements_while(self, number: int) -> int:
        """Elements of all gradients while a group is worked on; after it, those of what it reads wait."""
        group = self._groups[number]
        own = self._of.pop(number, number)
        sizes = {maker: self._groups[of].outputs for of, maker in self._of.items()}
        sizes[own] = group.outputs
        passed = group.inputs if group.passes_back and not group.shares_gradient else 0
        for source in group.sources:
            if self._groups[source].has_backward:
                # A gradient that waits already is added to, in its place.
                self._of.setdefault(source, own if group.shares_gradient else -1 - source)
        return sum(sizes.values()) + passed


def kept_by_kind(graph: Graph) -> dict[Kind, int]:
    """Elements that are kept for the backward pass, by the kind of operator that computes them, the most first."""
    found: dict[Kind, int] = {Kind.INPUT: graph.input_shape.elements}
    for position, elements in _kept_storages(graph).items():
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
