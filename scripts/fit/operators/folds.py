"""What is left out of the fit of operators to see how right it is: networks, families, devices, and parts of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainplan.planner.throughput.operator_evidence import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.fit.operators.process import Posterior
    from scripts.fit.operators.rows import NetworkRow

Mask = NDArray[np.bool_]
NETWORK = "unseen_network"
FAMILY = "unseen_family"
DEVICE = "unseen_device"
ANCHORED = "vgg_on_a_device_of_resnet50"
ANCHORED_BY_ANY = "vgg_on_a_device_of_others"
SOURCE = "unseen_source"
CONFIGURATION = "held_out_network_configuration"
DEVICE_AND_FAMILY = "unseen_device_and_family"
SOURCE_ON_DEVICE = "unseen_source_on_a_device"
_LEAST_ROWS = 8
_PARTS = 8


@dataclass(frozen=True, kw_only=True)
class NetworkTested:
    """One held-out prediction; `off` is the logarithm of predicted over measured images per second, `deviation` how far
    the fit expects it to be off (a standard deviation)."""

    test: str
    fold: str
    id: str
    is_vgg: bool
    off: float
    deviation: float
    evidence: str

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return float(np.expm1(self.off))


def tested(known: Posterior) -> list[NetworkTested]:
    """Every held-out prediction of every test."""
    rows = known.fit.rows
    found = []
    for test, fold, out, asked in _folds(rows):
        positions = np.flatnonzero(out)
        off, deviations = known.left_out(positions)
        kept = [row for row, is_out in zip(rows, out, strict=True) if not is_out]
        seen = _Known(kept)
        for position, miss, deviation in zip(positions.tolist(), off, deviations, strict=True):
            if asked[position]:
                row = rows[position]
                evidence = seen.of(row).kind
                found.append(
                    NetworkTested(
                        test=test,
                        fold=fold,
                        id=row.ids[0],
                        is_vgg=row.family == "vgg",
                        off=float(miss),
                        deviation=float(deviation),
                        evidence=evidence,
                    )
                )
    return found


class _Known:
    """What is known of networks and devices where some rows are left out."""

    def __init__(self, rows: Sequence[NetworkRow]) -> None:
        self._pairs = {(row.network, row.device) for row in rows}
        self._pairs_by_source = {(row.network, row.device, row.setup.source) for row in rows}
        self._devices = {row.device for row in rows}
        self._devices_by_source = {(row.device, row.setup.source) for row in rows}
        self._networks = {row.network for row in rows}
        self._families = {row.family for row in rows}

    def of(self, row: NetworkRow) -> Seen:
        return Seen(
            pair=(row.network, row.device) in self._pairs,
            pair_by_source=(row.network, row.device, row.setup.source) in self._pairs_by_source,
            device=row.device in self._devices,
            device_by_source=(row.device, row.setup.source) in self._devices_by_source,
            network=row.network in self._networks,
            family=row.family in self._families,
        )


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """What rows are left out by, and which of them one device alone did."""

    network: NDArray[np.str_]
    family: NDArray[np.str_]
    device: NDArray[np.str_]
    source: NDArray[np.str_]
    single: Mask


def _folds(rows: Sequence[NetworkRow]) -> Iterator[tuple[str, str, Mask, Mask]]:
    """The test, what is left out, the rows that are, and those of them that are asked."""
    of = _Columns(
        network=np.array([row.network for row in rows]),
        family=np.array([row.family for row in rows]),
        device=np.array([row.device for row in rows]),
        source=np.array([row.source for row in rows]),
        single=np.array([row.is_single for row in rows]),
    )
    for test, column in ((NETWORK, of.network), (FAMILY, of.family), (DEVICE, of.device)):
        for name in sorted(set(column)):
            out = column == name
            if (out & of.single).sum() >= _LEAST_ROWS:
                yield test, str(name), out, out & of.single
    yield from _anchors(of)
    vgg = (of.family == "vgg") & of.single
    for name in sorted(set(of.source[vgg])):
        yield SOURCE, str(name), of.source == name, (of.source == name) & vgg
    for source, name in sorted(set(zip(of.source[of.single], of.device[of.single], strict=True))):
        out = (of.source == source) & (of.device == name)
        yield SOURCE_ON_DEVICE, f"{source}, {name}", out, out & of.single
    parts = np.array([int(hashlib.sha256(row.ids[0].encode()).hexdigest(), 16) % _PARTS for row in rows])
    for part in range(_PARTS):
        yield CONFIGURATION, str(part), parts == part, (parts == part) & of.single
    for name in sorted(set(of.device)):
        for kind in sorted(set(of.family[of.device == name])):
            asked = (of.device == name) & (of.family == kind) & of.single
            if asked.sum() >= _LEAST_ROWS:
                yield DEVICE_AND_FAMILY, f"{name}, {kind}", (of.device == name) | (of.family == kind), asked


def _anchors(of: _Columns) -> Iterator[tuple[str, str, Mask, Mask]]:
    """VGG nets on a device of which other networks alone are known."""
    vgg, anchor = of.family == "vgg", of.network == "resnet50"
    for name in sorted(set(of.device[vgg & of.single])):
        on = of.device == name
        if (on & anchor).any():
            yield ANCHORED, str(name), on & ~anchor, on & vgg & of.single
        if (on & ~vgg).any():
            yield ANCHORED_BY_ANY, str(name), on & vgg, on & vgg & of.single
