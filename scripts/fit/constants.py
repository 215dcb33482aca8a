"""Fits the constants of the physics: robust least squares on logarithms, held near what is physically plausible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from planner.throughput.physics import Constants, LinkConstants
from planner.throughput.setup import Link
from scripts.fit.rows import CONSTANTS, DIVIDING, LINKS, TINY_BATCH, Arithmetic, Floats

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
    Link.PAIRS: 9e9,
    Link.PCIE: 7e9,
    Link.HOST: 12e9,
    Link.SERVER: 5e9,
    Link.DATA_PARALLEL: 8e9,
    # No VGG row crosses a network: 10 Gbit/s, as the clouds' ordinary instances have.
    Link.NETWORK: 1.2e9,
}
PLAUSIBLE_HOP_SECONDS = 1e-3
PLAUSIBLE_JITTER = 0.01

# One standard deviation, in logarithms: of a share of a peak about the plausible (Winograd alone is a factor of two or
# four), of another constant, of a link's, of what a series of measurements is off as a whole, and of one row.
_SHARE_SPREAD, _CONSTANT_SPREAD, _LINK_SPREAD = 0.5, 0.15, 0.5
_ARCHITECTURE_SPREAD, _SERIES_SPREAD, _ROW_SPREAD, _TINY_BATCH_SPREAD = 0.2, 0.15, 0.05, 0.5
_SHARES = ("first_conv", "conv", "conv_weights", "tensor_conv", "dense", "bandwidth")


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Constants as coefficients: what multiplies the columns of Arithmetic."""

    coefficients: Floats
    link_coefficients: Floats
    hop_seconds: float
    jitter: float

    def alone(self, data: Arithmetic) -> Floats:
        """Seconds of each row's step on one device."""
        return np.asarray(data.nodes.sum(axis=1) @ self.coefficients)

    def seconds(self, data: Arithmetic) -> Floats:
        """Seconds of each row's step on all its devices."""
        waiting = data.volume @ self.link_coefficients + self.hop_seconds * data.doublings
        return np.asarray((self.alone(data) + waiting) * (1 + self.jitter * data.doublings))

    def constants(self) -> Constants:
        values = {
            name: float(1 / value if name in DIVIDING else value)
            for name, value in zip(CONSTANTS, self.coefficients, strict=True)
        }
        return Constants(**values)

    def links(self) -> LinkConstants:
        speeds = {link: float(1 / value) for link, value in zip(LINKS, self.link_coefficients, strict=True)}
        return LinkConstants(
            bytes_per_second={Link.ONE: float("1e30"), **speeds}, hop_seconds=self.hop_seconds, jitter=self.jitter
        )


def fit_constants(data: Arithmetic) -> Fitted:
    """The constants of `data`, with an offset for each architecture and each series, which is not kept: the
    corrections model those better."""
    start = _plausible()
    spreads = np.array([*_constant_spreads(), *(_LINK_SPREAD for _ in range(len(LINKS) + 2))])
    architectures = _places(
        [group[1:] for row in data.rows for group in row.setup.groups if group[0] == "architecture_precision"]
    )
    series = _places([group[1:] for row in data.rows for group in row.setup.groups if group[0] == "series"])
    sums = data.nodes.sum(axis=1)
    row_spread = np.where(data.noise == TINY_BATCH, _TINY_BATCH_SPREAD, _ROW_SPREAD)
    offsets = architectures.max() + 1, series.max() + 1

    def parts(values: Floats) -> tuple[Fitted, Floats, Floats]:
        known = len(start)
        middle = known + offsets[0]
        return _unpacked(np.exp(values[:known])), values[known:middle], values[middle:]

    def residuals(values: Floats) -> Floats:
        fitted, by_architecture, by_series = parts(values)
        missed = data.log_seconds - np.log(fitted.seconds(data)) - by_architecture[architectures] - by_series[series]
        prior = (values[: len(start)] - start) / spreads
        held = by_architecture / _ARCHITECTURE_SPREAD, by_series / _SERIES_SPREAD
        return np.concatenate([_soft(missed / row_spread), prior, *held])

    def jacobian(values: Floats) -> Floats:
        fitted, by_architecture, by_series = parts(values)
        missed = data.log_seconds - np.log(fitted.seconds(data)) - by_architecture[architectures] - by_series[series]
        rows = len(data.log_seconds)
        known = len(start)
        full = np.zeros((rows + len(values), len(values)))
        scale = (1 + fitted.jitter * data.doublings) / fitted.seconds(data)
        constants = len(CONSTANTS)
        full[:rows, :constants] = -sums * fitted.coefficients * scale[:, None]
        full[:rows, constants : constants + len(LINKS)] = -data.volume * fitted.link_coefficients * scale[:, None]
        full[:rows, known - 2] = -fitted.hop_seconds * data.doublings * scale
        full[:rows, known - 1] = -fitted.jitter * data.doublings / (1 + fitted.jitter * data.doublings)
        full[np.arange(rows), known + architectures] = -1
        full[np.arange(rows), known + offsets[0] + series] = -1
        full[:rows] *= (_slope(missed / row_spread) / row_spread)[:, None]
        own = np.concatenate([spreads, np.full(offsets[0], _ARCHITECTURE_SPREAD), np.full(offsets[1], _SERIES_SPREAD)])
        full[rows + np.arange(len(values)), np.arange(len(values))] = 1 / own
        return full

    first = np.concatenate([start, np.zeros(offsets[0] + offsets[1])])
    found = least_squares(residuals, first, jac=jacobian, max_nfev=30)
    return parts(found.x)[0]


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
    """The starting point: logarithms of coefficients, links, hop and jitter."""
    constants = [1 / getattr(PLAUSIBLE, name) if name in DIVIDING else getattr(PLAUSIBLE, name) for name in CONSTANTS]
    links = [1 / PLAUSIBLE_LINKS[link] for link in LINKS]
    return np.log([*constants, *links, PLAUSIBLE_HOP_SECONDS, PLAUSIBLE_JITTER])


def _unpacked(values: Floats) -> Fitted:
    count = len(CONSTANTS)
    return Fitted(
        coefficients=values[:count],
        link_coefficients=values[count : count + len(LINKS)],
        hop_seconds=float(values[-2]),
        jitter=float(values[-1]),
    )


def _places(keys: list[tuple[str, ...]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([numbers[key] for key in keys])
