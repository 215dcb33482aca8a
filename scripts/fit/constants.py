"""Fits the constants of the physics: robust least squares on logarithms, held near what is physically plausible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from scripts.fit.pairs import Pair, PairArrays, pair_arrays
from scripts.fit.rows import CONSTANTS, DIVIDING, LIBRARIES, LINKS, TINY_BATCH, Arithmetic, Floats
from trainplan.planner.throughput.physics import Constants, LibraryConstants, LinkConstants
from trainplan.planner.throughput.setup import Library, Link

# Where the constants are looked for: orders of magnitude of cuDNN and PCIe, before any row is seen.
PLAUSIBLE = Constants(
    first_conv=0.3,
    conv=1.3,
    conv_weights=0.8,
    tensor_conv=0.5,
    dense=0.8,
    bandwidth=0.8,
    norm_passes=1.0,
    optimizer_passes=1.0,
    filter_passes=10.0,
    launch_seconds=40e-6,
    depth_seconds=1.5e-9,
    step_seconds=1e-3,
    copy_bytes_per_second=8e9,
)
PLAUSIBLE_LINKS = {
    Link.NVLINK: 25e9,
    Link.NVSWITCH: 25e9,
    Link.PAIRS: 9e9,
    Link.PCIE: 7e9,
    Link.HOST: 12e9,
    Link.DATA_PARALLEL: 8e9,
    # No VGG row crosses a network: 10 Gbit/s, as the clouds' ordinary instances have.
    Link.NETWORK: 1.2e9,
}
PLAUSIBLE_HOP_SECONDS = 1e-3
PLAUSIBLE_JITTER = 0.01
PLAUSIBLE_REACH = 1.0
"""Of every library: none is known to be better than another before any row is seen."""

# One standard deviation, in logarithms: of a share of a peak about the plausible (Winograd alone is a factor of two or
# four), of another constant, of a link's and a library's, of what a series of measurements is off as a whole, of one
# row, and of a pair of steps of another net.
_SHARE_SPREAD, _CONSTANT_SPREAD, _LINK_SPREAD = 0.5, 0.15, 0.5
_ARCHITECTURE_SPREAD, _SERIES_SPREAD, _ROW_SPREAD, _TINY_BATCH_SPREAD = 0.2, 0.15, 0.05, 0.5
_PAIR_SPREAD = 0.1
_SHARES = ("first_conv", "conv", "conv_weights", "tensor_conv", "dense", "bandwidth")


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Constants as coefficients: what multiplies the columns of Arithmetic. Those of libraries are in the order of
    LIBRARIES; a library's coefficient is one over its reach."""

    coefficients: Floats
    link_coefficients: Floats
    library_coefficients: Floats
    hop_seconds: Floats
    jitter: Floats

    def alone(self, data: Arithmetic) -> Floats:
        """Seconds of each row's step on one device."""
        return np.asarray(data.nodes.sum(axis=1) @ self.coefficients)

    def shared(self, alone: Floats, data: Arithmetic | PairArrays) -> Floats:
        """Seconds of each row's step on all its devices, from those on one."""
        waiting = self.travelling(data) + self.hop_seconds[data.library] * data.doublings
        return np.asarray((alone + waiting) * (1 + self.jitter[data.library] * data.doublings))

    def travelling(self, data: Arithmetic | PairArrays) -> Floats:
        """Seconds in which the link carries gradients."""
        return np.asarray((data.volume @ self.link_coefficients) * self.library_coefficients[data.library])

    def seconds(self, data: Arithmetic) -> Floats:
        """Seconds of each row's step on all its devices."""
        return self.shared(self.alone(data), data)

    def constants(self) -> Constants:
        values = {
            name: float(1 / value if name in DIVIDING else value)
            for name, value in zip(CONSTANTS, self.coefficients, strict=True)
        }
        return Constants(**values)

    def links(self) -> LinkConstants:
        speeds: dict[Link, float] = {
            link: float(1 / value) for link, value in zip(LINKS, self.link_coefficients, strict=True)
        }
        positions = enumerate(LIBRARIES)
        libraries = {
            library: LibraryConstants(
                reach=float(1 / self.library_coefficients[position]),
                hop_seconds=float(self.hop_seconds[position]),
                jitter=float(self.jitter[position]),
            )
            for position, library in positions
        }
        libraries[Library.ONE] = LibraryConstants(reach=1.0, hop_seconds=0.0, jitter=0.0)
        return LinkConstants(bytes_per_second={Link.ONE: float("1e30"), **speeds}, libraries=libraries)


class _Problem:
    """What least squares is asked: the residuals of constants and offsets, and their derivatives.

    The values are logarithms of the constants of a device, of the links, and of the libraries' three, then an offset
    for each architecture and each series.
    """

    def __init__(self, data: Arithmetic, pairs: PairArrays) -> None:
        self.data, self.pairs = data, pairs
        self.start = _plausible()
        self.spreads = np.array(
            [*_constant_spreads(), *(_LINK_SPREAD for _ in range(len(self.start) - len(CONSTANTS)))]
        )
        levels = ("architecture_precision", "series")
        self.architectures, self.series = (
            _numbers([group[1:] for row in data.rows for group in row.setup.groups if group[0] == level])
            for level in levels
        )
        self.sums = data.nodes.sum(axis=1)
        self.row_spread = np.where(data.noise == TINY_BATCH, _TINY_BATCH_SPREAD, _ROW_SPREAD)
        self.offsets = int(self.architectures.max()) + 1, int(self.series.max()) + 1
        penalties = (_ARCHITECTURE_SPREAD, self.offsets[0]), (_SERIES_SPREAD, self.offsets[1])
        self.own = np.concatenate([self.spreads, *(np.full(count, spread) for spread, count in penalties)])
        self.first = np.concatenate([self.start, np.zeros(sum(self.offsets))])

    def fitted(self, values: Floats) -> Fitted:
        return _unpacked(np.exp(values[: len(self.start)]))

    def residuals(self, values: Floats) -> Floats:
        prior = (values - self.first) / self.own
        fitted = self.fitted(values)
        rows = _soft(self._missed(fitted, values) / self.row_spread)
        pairs = _soft(self._missed_pairs(fitted) / self.pairs.spread)
        return np.concatenate([rows, pairs, prior])

    def jacobian(self, values: Floats) -> Floats:
        fitted = self.fitted(values)
        rows, pairs = len(self.data.log_seconds), len(self.pairs.log_seconds)
        full = np.zeros((rows + pairs + len(values), len(values)))
        free_count = len(self.start)
        seconds = fitted.seconds(self.data)
        scale = (1 + fitted.jitter[self.data.library] * self.data.doublings) / seconds
        full[:rows, : len(CONSTANTS)] = -self.sums * fitted.coefficients * scale[:, None]
        full[:rows, len(CONSTANTS) : free_count] = _sharing_slopes(fitted, self.data, seconds)
        full[np.arange(rows), free_count + self.architectures] = -1
        full[np.arange(rows), free_count + self.offsets[0] + self.series] = -1
        missed = self._missed(fitted, values) / self.row_spread
        full[:rows] *= (_slope(missed) / self.row_spread)[:, None]
        together = fitted.shared(self.pairs.alone, self.pairs)
        missed = self._missed_pairs(fitted) / self.pairs.spread
        slopes = _sharing_slopes(fitted, self.pairs, together)
        full[rows : rows + pairs, len(CONSTANTS) : free_count] = slopes * (_slope(missed) / self.pairs.spread)[:, None]
        full[rows + pairs + np.arange(len(values)), np.arange(len(values))] = 1 / self.own
        return full

    def _missed(self, fitted: Fitted, values: Floats) -> Floats:
        free_count, middle = len(self.start), len(self.start) + self.offsets[0]
        offset = values[free_count:middle][self.architectures] + values[middle:][self.series]
        return np.asarray(self.data.log_seconds - np.log(fitted.seconds(self.data)) - offset)

    def _missed_pairs(self, fitted: Fitted) -> Floats:
        return np.asarray(self.pairs.log_seconds - np.log(fitted.shared(self.pairs.alone, self.pairs)))


def _sharing_slopes(fitted: Fitted, data: Arithmetic | PairArrays, seconds: Floats) -> Floats:
    """What a row is missed by, derived by the logarithms of the links' coefficients and of each library's three."""
    count = len(LIBRARIES)
    of = np.eye(count)[data.library]
    scale = (1 + fitted.jitter[data.library] * data.doublings) / seconds
    by_link = data.volume * fitted.link_coefficients * (fitted.library_coefficients[data.library] * scale)[:, None]
    by_reach = of * (fitted.travelling(data) * scale)[:, None]
    by_hop = of * (fitted.hop_seconds[data.library] * data.doublings * scale)[:, None]
    jitter = fitted.jitter[data.library] * data.doublings
    by_jitter = of * (jitter / (1 + jitter))[:, None]
    return -np.hstack([by_link, by_reach, by_hop, by_jitter])


def fit_constants(data: Arithmetic, pairs: Sequence[Pair] = ()) -> Fitted:
    """The constants of `data`, with an offset for each architecture and each series, which is not kept: the
    corrections model those better. `pairs` of other nets count for links and libraries alone."""
    problem = _Problem(data, pair_arrays(pairs, _PAIR_SPREAD))
    solution = least_squares(problem.residuals, problem.first, jac=problem.jacobian, max_nfev=30)
    return problem.fitted(solution.x)


def _constant_spreads() -> list[float]:
    return [_SHARE_SPREAD if name in _SHARES else _CONSTANT_SPREAD for name in CONSTANTS]


def _soft(off: Floats) -> Floats:
    """Softens what rows are off by (soft L1): a row ten times off pulls hardly harder than one three times off.

    What holds the constants to the plausible is not softened: rows that disagree must not buy a kernel launch of
    half a millisecond.
    """
    return np.asarray(np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off**2) - 1)))


def _slope(off: Floats) -> Floats:
    """The derivative of `_soft`; at 0, where it is 1, by its series."""
    soft = np.abs(_soft(off))
    return np.where(np.abs(off) < 1e-4, 1.0, np.abs(off) / np.sqrt(1 + off**2) / np.maximum(soft, 1e-12))


def _plausible() -> Floats:
    """The starting point: logarithms of coefficients, links, and of each library's reach, hop and jitter."""
    constants = [1 / getattr(PLAUSIBLE, name) if name in DIVIDING else getattr(PLAUSIBLE, name) for name in CONSTANTS]
    links = [1 / PLAUSIBLE_LINKS[link] for link in LINKS]
    libraries = [value for value in (1 / PLAUSIBLE_REACH, PLAUSIBLE_HOP_SECONDS, PLAUSIBLE_JITTER) for _ in LIBRARIES]
    return np.log([*constants, *links, *libraries])


def _unpacked(values: Floats) -> Fitted:
    ends = np.cumsum([len(CONSTANTS), len(LINKS), len(LIBRARIES), len(LIBRARIES)])
    constants, links, reach, hop, jitter = np.split(values, ends)
    return Fitted(
        coefficients=constants, link_coefficients=links, library_coefficients=reach, hop_seconds=hop, jitter=jitter
    )


def _numbers(keys: list[tuple[str, ...]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([numbers[key] for key in keys])
