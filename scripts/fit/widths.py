"""Interval widths from held-out errors, and what a fold is covered by when its own errors are not asked."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from scripts.fit.evaluate import Tested, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.fit.rows import Row

# Fewer errors than this say little of a quantile.
_ENOUGH = 20


def half_widths(tested: Sequence[Tested]) -> dict[str, float]:
    """For each kind of evidence, the half width that 80 % of its held-out errors stay within."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for row in tested:
        kinds[row.evidence].append(abs(row.off))
    return {kind: quantile(values) for kind, values in sorted(kinds.items())}


def crossed_half_widths(tested: Sequence[Tested]) -> list[float]:
    """The half width of each row's interval, from the errors of every other fold (of all, where they are few)."""
    kinds: dict[str, list[Tested]] = defaultdict(list)
    for row in tested:
        kinds[row.evidence].append(row)
    known: dict[tuple[str, str, str], float] = {}
    for row in tested:
        key = (row.test, row.fold, row.evidence)
        if key not in known:
            others = [abs(other.off) for other in kinds[row.evidence] if (other.test, other.fold) != key[:2]]
            everything = [abs(other.off) for other in kinds[row.evidence]]
            known[key] = quantile(others if len(others) >= _ENOUGH else everything)
    return [known[row.test, row.fold, row.evidence] for row in tested]


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
