"""A Gaussian process over what the model of operators misses: effects of groups of measurements, and their variances.

Constants and effects are found together: on the tangent where they are, again and again until they stay (Gauss and
Newton's method). Variances are those of the largest marginal likelihood, held near what is plausible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from scripts.fit.operators.arrays import Arrays, Floats, arrays_of, seconds_of_shares, slopes
from scripts.fit.operators.rows import NetworkRow
from trainplan.planner.throughput.operators import (
    CONSTANT_NAMES,
    DOUBLINGS,
    FALL,
    RISE,
    SHARES,
    WHOLE,
    Level,
    OperatorConstants,
    Share,
)

# What is plausible before any row is seen, and by what factor it may be off (the standard deviation of its logarithm).
_PLAUSIBLE: dict[str, tuple[float, float]] = {
    "plain_winograd": (1.6, 0.5), "plain_winograd_weights": (0.9, 0.5), "plain_spatial": (0.7, 0.5),
    "plain_point": (0.75, 0.4), "plain_first": (0.5, 0.5), "plain_depth": (30.0, 0.7), "plain_channels": (30.0, 0.7),
    "tensor_same": (0.55, 0.5), "tensor_strided": (0.4, 0.5), "tensor_point": (0.45, 0.5), "tensor_first": (0.12, 0.6),
    "tensor_weights": (0.8, 0.3), "tensor_depth": (60.0, 0.7), "tensor_channels": (30.0, 0.7),
    "tpu_spatial": (0.6, 0.5), "tpu_point": (0.5, 0.5), "tpu_first": (0.2, 0.6),
    "grouped": (0.35, 0.5), "depthwise": (0.15, 0.6), "depthwise_passes": (2.5, 0.5), "dense": (0.5, 0.4),
    "bandwidth": (0.75, 0.3), "convolution_passes": (1.0, 0.4), "activation_passes": (0.8, 0.4),
    "norm_passes": (0.9, 0.4), "add_passes": (1.0, 0.4), "concat_passes": (1.2, 0.4), "pool_passes": (1.2, 0.4),
    "fused": (0.5, 0.5), "weight_passes": (1.0, 0.3), "transform_passes": (5.0, 0.7), "waves": (0.5, 0.5),
    "kernel_seconds": (4e-6, 0.6), "host_seconds": (18e-6, 0.6), "step_seconds": (1e-3, 0.6),
    "copy_bytes_per_second": (8e9, 0.3),
}  # fmt: skip
PRIOR = np.log([_PLAUSIBLE[name][0] for name in CONSTANT_NAMES])
SPREAD = np.array([_PLAUSIBLE[name][1] for name in CONSTANT_NAMES])


class Term(NamedTuple):
    """An effect of the groups of a level on a share of the step, and the variance that is plausible for it."""

    level: str
    share: str
    variance: float


_SPATIAL, _POINT = (Share.SPATIAL_NARROW, Share.SPATIAL_WIDE), (Share.POINT_NARROW, Share.POINT_WIDE)
_MATRIX = (*_SPATIAL, *_POINT)
_ALL_OF_A_PROGRAM = (*_MATRIX, Share.MOVED, Share.WEIGHTS, Share.HOST, Share.GROUPED, Share.FIRST)
_OF_A_SOURCE = (*_MATRIX, Share.MOVED, Share.HOST, Share.COPIED)


def _terms() -> tuple[Term, ...]:
    found: list[Term] = []

    def add(level: str, variance: float, *shares: str) -> None:
        found.extend(Term(level, str(share), variance) for share in shares)

    add("architecture", 0.02, WHOLE, Share.MOVED, *_SPATIAL)
    add("architecture_precision", 0.02, WHOLE, *_MATRIX, Share.MOVED, Share.GROUPED, Share.FIRST)
    add("device", 0.01, WHOLE, *_MATRIX, Share.MOVED)
    add("device_precision", 0.01, WHOLE, *_MATRIX, Share.MOVED)
    add("program", 0.02, WHOLE, *_ALL_OF_A_PROGRAM)
    add("source", 0.01, WHOLE, *_OF_A_SOURCE, Share.LAUNCHED, Share.GROUPED)
    add("publisher", 0.01, WHOLE)
    add("source_device", 0.01, WHOLE, *_OF_A_SOURCE, Share.WEIGHTS)
    add("series", 0.005, WHOLE)
    add("network", 0.01, WHOLE)
    add("family", 0.01, WHOLE)
    add("network_program", 0.005, WHOLE)
    add("tiny_device", 0.003, WHOLE)
    add("network_source_device", 0.005, WHOLE)
    add("network_size", 0.003, WHOLE)
    add("configuration", 0.003, WHOLE)
    add("program", 0.0004, DOUBLINGS)
    add("device_precision", 0.0004, DOUBLINGS)
    add("source_device", 0.0004, DOUBLINGS)
    add("network_source_device", 0.0001, DOUBLINGS)
    return tuple(found)


TERMS = _terms()
_NOISE = (0.0008, 0.002, 0.04, 0.01)
START = np.log([*(term.variance for term in TERMS), *_NOISE])
_VARIANCE_SPREAD = 1.5
# Rows farther off than so many deviations count less.
_FAR = 3.0
_LEAST_SCATTER = 0.5
_STEP = 0.5
_STAYED = 0.01
_COLUMNS = {
    **{str(share): position for position, share in enumerate(SHARES)},
    WHOLE: len(SHARES),
    DOUBLINGS: len(SHARES) + 1,
}


@dataclass(kw_only=True)
class Fit:
    """Rows with the state of their fit: logarithms of the constants and of the variances, and how much each row
    scatters beside its kind. `groups[level]` are the rows of each group, `keys[level]` what they are called."""

    rows: Sequence[NetworkRow]
    arrays: Arrays
    groups: dict[str, list[NDArray[np.int64]]]
    keys: dict[str, list[Level]]
    constants: Floats
    variances: Floats
    scatter: Floats

    @property
    def nothing(self) -> Floats:
        """No effects."""
        return np.zeros((len(self.rows), len(SHARES)))


def start(rows: Sequence[NetworkRow]) -> Fit:
    """Before anything is fitted."""
    keys: dict[str, dict[Level, int]] = defaultdict(dict)
    members: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, row in enumerate(rows):
        for level in row.run.levels:
            number = keys[level[0]].setdefault(level, len(keys[level[0]]))
            members[level[0]][number].append(position)
    return Fit(
        rows=rows,
        arrays=arrays_of(rows),
        groups={level: [np.array(positions) for positions in of_level.values()] for level, of_level in members.items()},
        keys={level: list(of_level) for level, of_level in keys.items()},
        constants=PRIOR.copy(),
        variances=START.copy(),
        scatter=np.maximum([row.count**-0.5 for row in rows], _LEAST_SCATTER),
    )


@dataclass(frozen=True, kw_only=True)
class Tangent:
    """The rows where a fit is: what the prior misses them by, and how they change with constants and with effects (the
    columns of `features`: shares, the whole, doublings of the batch)."""

    missed: Floats
    by_constant: Floats
    features: Floats


def tangent(fit: Fit) -> Tangent:
    """At the constants that the fit has, and without effects: a tangent where the effects are fits the rows no better,
    and moves what is held out farther off (ADR 42)."""
    shares, seconds = seconds_of_shares(fit.arrays, fit.constants, fit.nothing)
    log = np.log(seconds)
    by_constant = np.empty((len(log), len(fit.constants)))
    for position in range(len(fit.constants)):
        moved = fit.constants.copy()
        moved[position] += _DIFFERENCE
        by_constant[:, position] = (np.log(seconds_of_shares(fit.arrays, moved, fit.nothing)[1]) - log) / _DIFFERENCE
    missed = fit.arrays.log_seconds - log - by_constant @ (PRIOR - fit.constants)
    features = np.column_stack([slopes(shares), np.ones(len(log)), fit.arrays.doublings])
    return Tangent(missed=missed, by_constant=by_constant, features=features)


_DIFFERENCE = 0.02


def _by_level() -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for position, term in enumerate(TERMS):
        found[term.level].append(position)
    return dict(found)


BY_LEVEL = _by_level()
_FEATURE = np.array([_COLUMNS[term.share] for term in TERMS])


def _covariance(fit: Fit, at: Tangent, variances: Floats) -> Floats:
    matrix = (at.by_constant * SPREAD**2) @ at.by_constant.T
    for level, terms in BY_LEVEL.items():
        scaled = at.features[:, _FEATURE[terms]] * np.exp(variances[terms] / 2)
        for group in fit.groups.get(level, ()):
            part = scaled[group]
            matrix[np.ix_(group, group)] += part @ part.T
    matrix[np.diag_indices(len(matrix))] += _noise(fit, variances)
    return np.asarray(matrix)


def _noise(fit: Fit, variances: Floats) -> Floats:
    kinds = np.array([row.noise for row in fit.rows])
    return np.asarray(np.exp(variances[len(TERMS) :])[kinds] * fit.scatter)


def _inverse(matrix: Floats) -> tuple[float, Floats]:
    factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    half_log_determinant = float(np.log(np.diag(factor)).sum())
    lower, _ = dpotri(factor, lower=1)
    inverse = np.tril(lower)
    return half_log_determinant, inverse + np.tril(inverse, -1).T


def settle(fit: Fit, rounds: int = 5) -> None:
    """Finds the constants that go with the fit's variances."""
    for _ in range(rounds):
        at = tangent(fit)
        factor = cho_factor(_covariance(fit, at, fit.variances), lower=True, overwrite_a=True, check_finite=False)
        constants = _constants(at, cho_solve(factor, at.missed))
        moved = np.clip(constants - fit.constants, -_STEP, _STEP)
        fit.constants = fit.constants + moved
        if np.abs(moved).max() < _STAYED:
            break


def _constants(at: Tangent, weights: Floats) -> Floats:
    return np.asarray(PRIOR + SPREAD**2 * (at.by_constant.T @ weights))


def _row_effects(fit: Fit, at: Tangent, weights: Floats) -> Floats:
    """The effects of all groups on each row: on shares, the whole, and doublings of the batch."""
    found = np.zeros((len(fit.rows), len(SHARES) + 2))
    for level, terms in BY_LEVEL.items():
        columns, scales = _FEATURE[terms], np.exp(fit.variances[terms])
        for group in fit.groups.get(level, ()):
            found[np.ix_(group, columns)] += scales * (weights[group] @ at.features[np.ix_(group, columns)])
    return found


def fit_variances(fit: Fit, iterations: int) -> None:
    """Moves the variances towards the largest marginal likelihood, and settles."""
    at = tangent(fit)
    kinds = np.array([row.noise for row in fit.rows])

    def objective(values: Floats) -> tuple[float, Floats]:
        half_log_determinant, inverse = _inverse(_covariance(fit, at, values))
        weights = inverse @ at.missed
        gradient = np.empty_like(values)
        for level, terms in BY_LEVEL.items():
            columns, sums = _FEATURE[terms], np.zeros(len(terms))
            for group in fit.groups.get(level, ()):
                part = at.features[np.ix_(group, columns)]
                spread = np.einsum("ik,ij,jk->k", part, inverse[np.ix_(group, group)], part, optimize=True)
                sums += spread - (part.T @ weights[group]) ** 2
            gradient[terms] = 0.5 * np.exp(values[terms]) * sums
        pull = fit.scatter * (np.diag(inverse) - weights**2)
        for kind in range(len(_NOISE)):
            position = len(TERMS) + kind
            gradient[position] = 0.5 * np.exp(values[position]) * pull[kinds == kind].sum()
        away = (values - START) / _VARIANCE_SPREAD
        cost = 0.5 * at.missed @ weights + half_log_determinant + 0.5 * away @ away
        return float(cost), gradient + away / _VARIANCE_SPREAD

    bounds = [(-14.0, 2.0)] * len(START)
    solution = minimize(
        objective, fit.variances, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations}
    )
    fit.variances = np.asarray(solution.x)
    settle(fit)


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """The inverse of the rows' covariance on the tangent, and its product with what the prior misses."""

    fit: Fit
    at: Tangent
    inverse: Floats
    weights: Floats

    def left_out(self, out: NDArray[np.int64]) -> Floats:
        """The logarithms of predicted over measured images per second of rows, all of which are left out: constants and
        effects without them, exactly as the tangent has them, in the product's own form."""
        block = np.linalg.solve(self.inverse[np.ix_(out, out)], self.weights[out])
        weights = self.weights - self.inverse[:, out] @ block
        weights[out] = 0.0
        effects = _row_effects(self.fit, self.at, weights)[out]
        arrays = self.fit.arrays.take(out)
        _, seconds = seconds_of_shares(arrays, _constants(self.at, weights), effects[:, : len(SHARES)])
        doubling = np.clip(effects[:, len(SHARES) + 1], -FALL, RISE)
        predicted = np.log(seconds) + effects[:, len(SHARES)] + doubling * arrays.doublings
        return np.asarray(arrays.log_seconds - predicted)

    def changes_when_left_out(self) -> Floats:
        """The change of each row's own prediction, in logarithms of seconds, when it alone is left out."""
        kept = _noise(self.fit, self.fit.variances) * self.weights
        return np.asarray(kept - self.weights / np.diag(self.inverse))


def posterior(fit: Fit) -> Posterior:
    """Where the fit is."""
    at = tangent(fit)
    _, inverse = _inverse(_covariance(fit, at, fit.variances))
    return Posterior(fit=fit, at=at, inverse=inverse, weights=inverse @ at.missed)


def discount_far_rows(fit: Fit) -> None:
    """Rows that all others say are far off scatter more than their kind: they count less."""
    known = posterior(fit)
    deviations = np.abs(known.weights) / np.sqrt(np.diag(known.inverse))
    fit.scatter = fit.scatter * np.maximum(1.0, 2 * (deviations / _FAR) ** 2)


def fitted(rows: Sequence[NetworkRow], iterations: int = 9) -> Fit:
    """Everything, from the beginning."""
    fit = start(rows)
    settle(fit)
    fit_variances(fit, iterations)
    discount_far_rows(fit)
    fit_variances(fit, iterations)
    return fit


def effects_of(known: Posterior) -> dict[Level, dict[str, float]]:
    """The effects of each group."""
    fit = known.fit
    found: dict[Level, dict[str, float]] = {}
    for level, terms in BY_LEVEL.items():
        columns, scales = _FEATURE[terms], np.exp(fit.variances[terms])
        for key, group in zip(fit.keys.get(level, ()), fit.groups.get(level, ()), strict=True):
            values = scales * (known.weights[group] @ known.at.features[np.ix_(group, columns)])
            found[key] = {TERMS[term].share: float(value) for term, value in zip(terms, values, strict=True)}
    return found


def constants_of(fit: Fit) -> OperatorConstants:
    """The constants as the product has them."""
    return OperatorConstants(
        **{name: float(value) for name, value in zip(CONSTANT_NAMES, np.exp(fit.constants), strict=True)}
    )
