"""Interval widths from held-out errors, and the width a fold is held against when its own rows are not asked."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from planner.throughput.evidence import SHARING, Nearness
from scripts.fit.evaluate import Tested, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.fit.rows import Row

# Fewer errors than this say little of a quantile.
_ENOUGH = 20
# Kinds whose errors are one kind: whether the architecture was measured on another card says too little of how far off
# a card nobody measured is.
_UNMEASURED = (str(Nearness.SAME_ARCHITECTURE), str(Nearness.NONE))
# Kinds of which a fold is off as a whole, since the card, or how its machine shares a step, was never seen: each fold
# counts once, however many rows it has.
_BY_FOLD = (*_UNMEASURED, *(f"{nearness}+{SHARING}" for nearness in Nearness))


def half_widths(tested: Sequence[Tested]) -> dict[str, float]:
    """For each kind of evidence, the half width that 80 % of its held-out errors stay within; of a kind with a scale,
    the half width at a scale of one."""
    return {kind: _half_width(rows) for kind, rows in sorted(_kinds(tested).items())}


def crossed_half_widths(tested: Sequence[Tested]) -> list[float]:
    """The half width of each row's interval, from errors of other rows alone: what other tests say of the rows of its
    fold is left out too. A kind with few other errors keeps those of all."""
    everything = half_widths(tested)
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in tested:
        ids[row.test, row.fold].add(row.id)
    known = {fold: {**everything, **_without(tested, own)} for fold, own in ids.items()}
    return [row.near.half_width(known[row.test, row.fold]) for row in tested]


def _without(tested: Sequence[Tested], ids: set[str]) -> dict[str, float]:
    kinds = _kinds([row for row in tested if row.id not in ids])
    return {kind: _half_width(rows) for kind, rows in kinds.items() if len(rows) >= _ENOUGH}


def _kinds(tested: Sequence[Tested]) -> dict[str, list[Tested]]:
    kinds: dict[str, list[Tested]] = defaultdict(list)
    for row in tested:
        for kind in _UNMEASURED if row.evidence in _UNMEASURED else (row.evidence,):
            kinds[kind].append(row)
    return kinds


def _half_width(rows: Sequence[Tested]) -> float:
    """Of rows that are all of one kind, or of kinds that are one."""
    sizes = Counter((row.test, row.fold) for row in rows)
    by_fold = rows[0].evidence in _BY_FOLD
    weights = [1 / sizes[row.test, row.fold] if by_fold else 1.0 for row in rows]
    return quantile([abs(row.off) / row.near.scale for row in rows], weights)


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
        shifts += [abs(first - second) for place, first in enumerate(means) for second in means[:place]]
    return quantile(shifts)
