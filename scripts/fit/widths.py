"""Interval widths from held-out errors, and the width a fold is held against when its own rows are not asked."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from scripts.fit.evaluate import Tested, quantile
from scripts.fit.folds import SHARING as SHARED_TEST
from trainplan.planner.throughput.evidence import SHARING, UNSEEN_LIBRARY, Nearness

if TYPE_CHECKING:
    from scripts.fit.rows import Row

# Fewer errors than this say little of a quantile.
_ENOUGH = 20
# Kinds whose errors are one kind: whether the architecture was measured on another card says too little of how far off
# a card nobody measured is.
_UNMEASURED = (str(Nearness.SAME_ARCHITECTURE), str(Nearness.NONE))
# Kinds of which a fold is off as a whole, since the card, or how its machine shares a step, was never seen: each fold
# counts once, however many rows it has.
_BY_FOLD = (*_UNMEASURED, UNSEEN_LIBRARY, *(f"{nearness}+{SHARING}" for nearness in Nearness))
# A link and a library count as if so many folds more had shown what all of them show together.
_FOLDS_OF_ALL = 2.0


def half_widths(tested: Sequence[Tested]) -> dict[str, float]:
    """For each kind of evidence, the half width that 80 % of its held-out errors stay within; of a kind with a scale,
    the half width at a scale of one."""
    scales = sharing_scales(tested)
    return {kind: _half_width(rows, scales) for kind, rows in sorted(_kinds(tested).items())}


def sharing_scales(tested: Sequence[Tested]) -> dict[str, float]:
    """For each link and library, how far off its sharing is on devices where it was never seen, as a multiple of what
    all are: the root of the mean square over folds, drawn towards that of all folds."""
    squares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in tested:
        if row.test == SHARED_TEST and row.near.position:
            squares[row.near.position][row.fold].append(row.off**2)
    by_fold = {
        position: [mean(values) for values in squares_of_position.values()]
        for position, squares_of_position in squares.items()
    }
    if not by_fold:
        return {}
    whole = mean(value for values in by_fold.values() for value in values)
    return {
        position: math.sqrt((sum(values) / whole + _FOLDS_OF_ALL) / (len(values) + _FOLDS_OF_ALL))
        for position, values in sorted(by_fold.items())
    }


def crossed_half_widths(tested: Sequence[Tested]) -> list[float]:
    """The half width of each row's interval, from errors of other rows alone: what other tests say of the rows of its
    fold is left out too. A kind with few other errors keeps those of all."""
    everything = half_widths(tested)
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in tested:
        ids[row.test, row.fold].add(row.id)
    widths_of_fold = {fold: _without(tested, own) for fold, own in ids.items()}
    results = []
    for row in tested:
        widths, scales = widths_of_fold[row.test, row.fold]
        results.append(row.near.half_width({**everything, **widths}, scales))
    return results


def _without(tested: Sequence[Tested], ids: set[str]) -> tuple[dict[str, float], dict[str, float]]:
    others = [row for row in tested if row.id not in ids]
    scales = sharing_scales(others)
    widths = {kind: _half_width(rows, scales) for kind, rows in _kinds(others).items() if len(rows) >= _ENOUGH}
    return widths, scales


def _kinds(tested: Sequence[Tested]) -> dict[str, list[Tested]]:
    kinds: dict[str, list[Tested]] = defaultdict(list)
    for row in tested:
        for kind in _UNMEASURED if row.evidence in _UNMEASURED else (row.evidence,):
            kinds[kind].append(row)
    return kinds


def _half_width(rows: Sequence[Tested], scales: Mapping[str, float]) -> float:
    """Of rows that are all of one kind, or of kinds that are one."""
    sizes = Counter((row.test, row.fold) for row in rows)
    by_fold = rows[0].evidence in _BY_FOLD
    weights = [1 / sizes[row.test, row.fold] if by_fold else 1.0 for row in rows]
    return quantile([abs(row.off) / row.near.scale / scales.get(row.near.position, 1.0) for row in rows], weights)


def version_shift(rows: Sequence[Row]) -> float:
    """How far versions of one framework on one device are apart for the same configuration: the 80 % quantile of the
    logarithm of the ratio, over pairs of versions a source measured."""
    groups: dict[tuple[object, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        stated, setup = row.measurement, row.setup
        if setup.count == 1:
            key = (
                stated.model,
                stated.image_size_px,
                stated.device,
                stated.framework,
                setup.precision,
                setup.xla,
                setup.batch,
            )
            groups[(*key, stated.layout)][setup.source].append(math.log(stated.images_per_second))
    shifts = []
    for by_version in groups.values():
        means = [sum(values) / len(values) for values in by_version.values()]
        shifts += [abs(first - second) for position, first in enumerate(means) for second in means[:position]]
    return quantile(shifts)
