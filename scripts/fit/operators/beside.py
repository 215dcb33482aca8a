"""The model of operators beside what other estimators compute, on the same measurements.

Seconds of a step: by FLOPs alone, at the share of the peak rate that rows of other devices reach in the median; and by
the formula of two other tools, which takes a time measured on another card times 0.7 of the ratio of peak rates plus
0.3 of that of bandwidths.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from scripts.fit.operators.folds import DEVICE, NetworkTested
from scripts.fit.operators.rows import NetworkRow, read_network_rows
from trainplan.planner.throughput.network_families import TINY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OF_RATES, _OF_BANDWIDTHS = 0.7, 0.3
_PASSES = 3
"""Forward and both gradients, of two FLOPs a multiply-accumulate each."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """The errors of one way over some rows: |predicted - measured| / measured in images per second."""

    way: str
    rows: str
    errors: Sequence[float]

    def text(self) -> str:
        """As a row of a table."""
        values = np.array(self.errors)
        inside = (values <= 0.2).mean()
        return (
            f"| {self.rows} | {self.way} | {len(values)} | {np.median(values):.1%} | {np.quantile(values, 0.9):.1%} "
            f"| {inside:.0%} |"
        )


def rate_of(row: NetworkRow) -> float:
    """Measured images per second."""
    return row.setup.batch / math.exp(row.log_seconds)


def by_flops(rows: Sequence[NetworkRow]) -> dict[str, float]:
    """Predicted over measured images per second of each row."""
    shares: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        shares[row.device].append(_share_of_peak(row))
    others = {device: median(_all_but(shares, device)) for device in shares}
    return {row.ids[0]: others[row.device] / _share_of_peak(row) for row in rows}


def _all_but(shares: Mapping[str, Iterable[float]], device: str) -> list[float]:
    return [share for other, found in shares.items() if other != device for share in found]


def _share_of_peak(row: NetworkRow) -> float:
    flops = 2 * _PASSES * row.graph.macs * rate_of(row)
    return flops / row.setup.rates.flops_per_second(row.setup.precision)


def by_formula(rows: Sequence[NetworkRow]) -> list[tuple[NetworkRow, float]]:
    """Each row beside the same configuration of the same program on another device: predicted over measured images per
    second."""
    alike: dict[tuple[object, ...], list[NetworkRow]] = defaultdict(list)
    for row in rows:
        setup = row.setup
        alike[row.graph, setup.batch, setup.precision, setup.xla, setup.source].append(row)
    found = []
    for group in alike.values():
        for known, asked in permutations(group, 2):
            if known.device != asked.device:
                found.append((asked, rate_of(known) * _ratio(known, asked) / rate_of(asked)))
    return found


def _ratio(known: NetworkRow, asked: NetworkRow) -> float:
    precision, old, new = known.setup.precision, known.setup.rates, asked.setup.rates
    rates = new.flops_per_second(precision) / old.flops_per_second(precision)
    return _OF_RATES * rates + _OF_BANDWIDTHS * new.bytes_per_second / old.bytes_per_second


def beside_lines(tested: Sequence[NetworkTested]) -> list[str]:
    """The table, with what is compared."""
    return [_HEADING, _PROTOCOL.rstrip(), "", *_speeds(tested), "", _MEMORY]


_HEADING = "### Beside other estimators"
_PROTOCOL = """
The rows are those of one device that another device's row of the same network, batch, precision and program stands
beside, tiny networks apart. FLOPs alone and the formula are computed here from what their tools publish; the formula is
given a measured time that this project is not, and no row of the device is in this project's model.
"""
_MEMORY = (
    "Memory: a third tool counts parameters alone, 2.27 GB for VGG16 in fp32 at every batch (2026-11-25), where 16 to "
    "512 images of 224 px took 4.23 to 58.65 GiB on an H200."
)


def _speeds(tested: Sequence[NetworkTested]) -> list[str]:
    rows = [row for row in read_network_rows() if row.is_single]
    ours = {one.id: math.exp(one.off) for one in tested if one.test == DEVICE}
    pairs = by_formula(rows)
    lines = [
        "| rows | way | predictions | median error | 9 of 10 within | within 20 % |",
        "|---|---|---|---|---|---|",
    ]
    for title, is_vgg in (("VGG", True), ("other networks", False)):
        mine = [(row, value) for row, value in pairs if (row.family == "vgg") is is_vgg and row.ids[0] in ours]
        flops = by_flops([row for row in rows if (row.family == "vgg") is is_vgg and row.family != TINY])
        mine = [(row, value) for row, value in mine if row.ids[0] in flops]
        ids = sorted({row.ids[0] for row, _ in mine})
        ways = (
            ("FLOPs alone", [abs(flops[id_] - 1) for id_ in ids]),
            ("0.7 / 0.3, from another card", [abs(value - 1) for _, value in mine]),
            ("this project's operators, the device unseen", [abs(ours[id_] - 1) for id_ in ids]),
        )
        lines += [Line(way=way, rows=title, errors=errors).text() for way, errors in ways]
    return lines
