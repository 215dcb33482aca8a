"""Interval widths of the model of operators from held-out errors, and those that a fold is held against."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from scripts.fit.evaluate import quantile
from scripts.fit.folds import DEVICE as UNSEEN_GPU
from scripts.fit.operators.folds import ANCHORED, ANCHORED_BY_ANY
from trainplan.planner.throughput.network_steps import SHARE_OF_OPERATORS
from trainplan.planner.throughput.operator_evidence import BLENDED, SCALED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scripts.fit.evaluate import Tested
    from scripts.fit.operators.folds import NetworkTested
    from scripts.fit.operators.rows import NetworkRow

# Fewer errors than this say little of a quantile.
_ENOUGH = 20


def blended(
    tested: Sequence[NetworkTested], of_vgg: Sequence[Tested], rows: Sequence[NetworkRow]
) -> list[NetworkTested]:
    """VGG nets on a device of which other networks alone are known, as the product predicts them: beside the model of
    operators that of VGG nets, which never saw the device."""
    unseen = {row.id: row.off for row in of_vgg if row.test == UNSEEN_GPU}
    ids = {row.ids[0]: row.ids for row in rows}
    found = []
    for one in tested:
        if one.test not in (ANCHORED, ANCHORED_BY_ANY):
            found.append(one)
            continue
        others = [unseen[id_] for id_ in ids[one.id] if id_ in unseen]
        if others:
            off = SHARE_OF_OPERATORS * one.off + (1 - SHARE_OF_OPERATORS) * sum(others) / len(others)
            found.append(replace(one, off=off, evidence=BLENDED))
    return found


def network_half_widths(tested: Sequence[NetworkTested]) -> dict[str, float]:
    """For each kind of evidence, the half width that 80 % of its held-out errors stay within. Where a network or a
    device is left out a fold is off as a whole, and counts once, however many rows it has."""
    kinds: dict[str, list[NetworkTested]] = defaultdict(list)
    for row in tested:
        kinds[row.evidence].append(row)
    return {kind: _half_width(rows) for kind, rows in sorted(kinds.items())}


def crossed(tested: Sequence[NetworkTested]) -> list[float]:
    """The half width of each row's interval, from other rows alone: nothing that another test says of the rows of its
    fold counts. A kind with few other errors keeps those of all."""
    everything = network_half_widths(tested)
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in tested:
        ids[row.test, row.fold].add(row.id)
    widths: dict[tuple[str, str], Mapping[str, float]] = {}
    for fold, own in ids.items():
        kinds: dict[str, list[NetworkTested]] = defaultdict(list)
        asked = {row.evidence for row in tested if (row.test, row.fold) == fold}
        for row in tested:
            if row.evidence in asked and row.id not in own:
                kinds[row.evidence].append(row)
        widths[fold] = {kind: _half_width(rows) for kind, rows in kinds.items() if len(rows) >= _ENOUGH}
    return [widths[row.test, row.fold].get(row.evidence, everything[row.evidence]) for row in tested]


def _half_width(rows: Sequence[NetworkTested]) -> float:
    sizes = Counter((row.test, row.fold) for row in rows)
    is_single = rows[0].evidence == SCALED
    weights = [1.0 if is_single else 1 / sizes[row.test, row.fold] for row in rows]
    return quantile([abs(row.off) for row in rows], weights)
