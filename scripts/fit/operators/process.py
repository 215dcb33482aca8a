"""A Gaussian process over what the physics of operators misses: effects of groups of measurements on the features of a
step (`trainplan.planner.throughput.features`), and their variances.

Effects are log-linear, so that they are found exactly; constants on the tangent where they are, again and again until
they stay (Gauss and Newton's method). Variances are those of the largest marginal likelihood, held near what is
plausible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.lapack import get_lapack_funcs
from scipy.optimize import minimize

from scripts.fit.operators.arrays import Arrays, Floats, arrays_of, features, half_of_prior, physics, slopes
from scripts.fit.operators.rows import NetworkRow
from trainplan.planner.throughput.features import Block
from trainplan.planner.throughput.operators import CONSTANT_NAMES, Effects, Level, OperatorConstants

# What is plausible before any row is seen, and by what factor it may be off (the standard deviation of its logarithm).
_PLAUSIBLE: dict[str, tuple[float, float]] = {
    "plain_winograd": (2.0, 0.3), "plain_winograd_weights": (0.9, 0.5), "plain_spatial": (0.7, 0.5),
    "plain_point": (0.75, 0.4), "plain_first": (0.5, 0.5), "plain_depth": (30.0, 0.4), "plain_channels": (20.0, 0.4),
    "tensor_same": (0.55, 0.5), "tensor_strided": (0.4, 0.5), "tensor_point": (0.45, 0.5), "tensor_first": (0.12, 0.6),
    "tensor_weights": (0.8, 0.3), "tensor_depth": (50.0, 0.4), "tensor_channels": (20.0, 0.4),
    "tpu_spatial": (0.6, 0.5), "tpu_point": (0.5, 0.5), "tpu_first": (0.2, 0.6),
    "grouped": (0.35, 0.5), "depthwise": (0.15, 0.6), "depthwise_passes": (2.5, 0.5), "dense": (0.5, 0.4),
    "bandwidth": (0.75, 0.3), "convolution_passes": (1.0, 0.4), "activation_passes": (0.8, 0.4),
    "norm_passes": (0.9, 0.4), "add_passes": (1.0, 0.4), "concat_passes": (1.2, 0.4), "pool_passes": (1.2, 0.4),
    "fused": (0.5, 0.5), "weight_passes": (1.0, 0.3), "transform_passes": (5.0, 0.5), "waves": (0.4, 0.3),
    "kernel_seconds": (4e-6, 0.3), "host_seconds": (20e-6, 0.4), "step_seconds": (1e-3, 0.6),
    "copy_bytes_per_second": (8e9, 0.3),
}  # fmt: skip
PRIOR = np.log([_PLAUSIBLE[name][0] for name in CONSTANT_NAMES])
SPREAD = np.array([_PLAUSIBLE[name][1] for name in CONSTANT_NAMES])


class Term(NamedTuple):
    """Effects of the groups of a level on blocks of features that scatter alike, and the variance that is plausible."""

    level: str
    blocks: tuple[Block, ...]
    variance: float


_PARTS = (Block.GROUPED, Block.MOVED, Block.FIRST)
# What is found at which level. Levels are those of operator_runs; nothing of a card reaches the host's time.
TERMS = (
    Term("all", (Block.CONVOLUTIONS,), 0.05),
    Term("all", (Block.BALANCE,), 0.03),
    Term("precision", (Block.RATES,), 0.01),
    Term("numbers", (Block.MOVED,), 0.01),
    Term("layout", _PARTS, 0.02),
    Term("architecture", _PARTS, 0.02),
    Term("architecture", (Block.BUSY,), 0.02),
    Term("architecture_precision", (Block.CONVOLUTIONS,), 0.02),
    Term("architecture_precision", _PARTS, 0.02),
    Term("architecture_precision", (Block.BUSY,), 0.02),
    Term("device", (Block.MOVED,), 0.01),
    Term("device", (Block.BUSY,), 0.01),
    Term("device_precision", (Block.CONVOLUTIONS,), 0.01),
    Term("device_precision", (Block.MOVED,), 0.01),
    Term("device_precision", (Block.BUSY,), 0.01),
    Term("program", (Block.CONVOLUTIONS,), 0.03),
    Term("program", (*_PARTS, Block.WEIGHTS), 0.02),
    Term("program", (Block.HOST,), 0.04),
    Term("program", (Block.WHOLE,), 0.02),
    Term("program", (Block.BALANCE,), 0.02),
    Term("program", (Block.BATCH,), 0.01),
    Term("era", (Block.GROUPED, Block.MOVED), 0.01),
    Term("era", (Block.HOST, Block.LAUNCHED), 0.04),
    Term("era", (Block.WHOLE,), 0.01),
    Term("era_program", (*_PARTS, Block.WEIGHTS), 0.01),
    Term("era_program", (Block.HOST,), 0.04),
    Term("era_program", (Block.WHOLE,), 0.01),
    Term("network", (Block.SIZE_BATCH,), 0.02),
    Term("network", (Block.WHOLE,), 0.01),
    Term("family", (Block.WHOLE,), 0.01),
    Term("publisher", (Block.WHOLE,), 0.01),
    Term("source", (Block.CONVOLUTIONS,), 0.03),
    Term("source", (Block.GROUPED, Block.MOVED, Block.COPIED, Block.LAUNCHED), 0.01),
    Term("source", (Block.HOST,), 0.04),
    Term("source", (Block.WHOLE,), 0.01),
    Term("source_precision", (Block.BALANCE,), 0.02),
    Term("source_precision", (Block.BATCH,), 0.01),
    Term("source_device", (Block.CONVOLUTIONS,), 0.01),
    Term("source_device", (Block.MOVED, Block.WEIGHTS, Block.COPIED), 0.01),
    Term("source_device", (Block.WHOLE,), 0.01),
    Term("series", (Block.WHOLE,), 0.005),
    Term("network_source_device", (Block.WHOLE,), 0.005),
    Term("configuration", (Block.WHOLE,), 0.003),
)
_NOISE = (0.0015, 0.003, 0.02, 0.01)
START = np.log([*(term.variance for term in TERMS), *_NOISE])
_LEAST_NOISE = 2e-4
# Rows farther off than so many deviations count less.
_FAR = 3.0
_LEAST_SCATTER = 0.5
_STEP = 0.5
_STAYED = 0.02
_MOST_ROUNDS = 3
Matrix32 = NDArray[np.float32]
_Number = TypeVar("_Number", np.float32, np.float64)


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
    """The rows where a fit's constants are: what the prior misses them by, the product of features with the half of
    their prior for each term, and the covariance that each term and the constants give at a variance of 1."""

    missed: Floats
    by_constant: Floats
    features: tuple[Floats, ...]
    covariances: tuple[Matrix32, ...]
    of_constants: Matrix32


def tangent(fit: Fit) -> Tangent:
    """At the constants that the fit has."""
    here = physics(fit.arrays, fit.constants)
    by_constant = slopes(fit.arrays, fit.constants, here)
    of_block = {block: values @ half_of_prior(block) for block, values in features(fit.arrays, here).items()}
    of_term = tuple(np.column_stack([of_block[block] for block in term.blocks]) for term in TERMS)
    return Tangent(
        missed=fit.arrays.log_seconds - here.log_seconds - by_constant @ (PRIOR - fit.constants),
        by_constant=by_constant,
        features=of_term,
        covariances=tuple(_of_groups(fit, term, found) for term, found in zip(TERMS, of_term, strict=True)),
        of_constants=((by_constant * SPREAD**2) @ by_constant.T).astype(np.float32),
    )


def _of_groups(fit: Fit, term: Term, found: Floats) -> Matrix32:
    narrow = found.astype(np.float32)
    groups = fit.groups.get(term.level, ())
    if len(groups) == 1 and len(groups[0]) == len(found):
        return np.asarray(narrow @ narrow.T)
    matrix = np.zeros((len(found), len(found)), dtype=np.float32)
    for group in groups:
        matrix[np.ix_(group, group)] = narrow[group] @ narrow[group].T
    return matrix


def _covariance(fit: Fit, at: Tangent, variances: Floats) -> Matrix32:
    matrix = at.of_constants.copy()
    for variance, of_term in zip(variances, at.covariances, strict=False):
        matrix += np.float32(np.exp(variance)) * of_term
    matrix[np.diag_indices(len(matrix))] += _noise(fit, variances).astype(np.float32)
    return matrix


def _noise(fit: Fit, variances: Floats) -> Floats:
    kinds = np.array([row.noise for row in fit.rows])
    return np.asarray(np.exp(variances[len(TERMS) :])[kinds] * fit.scatter + _LEAST_NOISE)


def _inverse(matrix: NDArray[_Number]) -> tuple[float, NDArray[_Number]]:
    """Half of the logarithm of the determinant, and the inverse."""
    factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    half_log_determinant = float(np.log(np.diag(factor)).sum())
    (invert,) = get_lapack_funcs(("potri",), (factor,))
    lower, _ = invert(factor, lower=1)
    lower = np.tril(lower)
    return half_log_determinant, np.asarray(lower + np.tril(lower, -1).T)


def settle(fit: Fit, rounds: int = _MOST_ROUNDS) -> Posterior:
    """Finds the constants that go with the fit's variances."""
    for _ in range(rounds):
        known = posterior(fit)
        constants = PRIOR + SPREAD**2 * (known.at.by_constant.T @ known.weights)
        moved = np.clip(constants - fit.constants, -_STEP, _STEP)
        fit.constants = fit.constants + moved
        if np.abs(moved).max() < _STAYED:
            break
    return posterior(fit)


def fit_variances(fit: Fit, iterations: int) -> Posterior:
    """Moves the variances towards the largest marginal likelihood, and settles."""
    at = tangent(fit)
    kinds, missed = np.array([row.noise for row in fit.rows]), at.missed.astype(np.float32)

    def objective(values: Floats) -> tuple[float, Floats]:
        # 32 bits are enough for a step: the noise keeps the matrix well conditioned.
        half_log_determinant, inverse = _inverse(_covariance(fit, at, values))
        weights = inverse @ missed
        pull = inverse - np.outer(weights, weights)
        gradient = np.empty_like(values)
        for position, of_term in enumerate(at.covariances):
            gradient[position] = 0.5 * np.exp(values[position]) * float(np.vdot(pull, of_term))
        of_rows = fit.scatter * np.diag(pull)
        for kind in range(len(_NOISE)):
            position = len(TERMS) + kind
            gradient[position] = 0.5 * np.exp(values[position]) * of_rows[kinds == kind].sum()
        away = values - START
        cost = 0.5 * float(missed @ weights) + half_log_determinant + 0.5 * away @ away
        return float(cost), gradient + away

    solution = minimize(
        objective, fit.variances, jac=True, method="L-BFGS-B", bounds=[(-12.0, 1.0)] * len(START),
        options={"maxiter": iterations},
    )  # fmt: skip
    fit.variances = np.asarray(solution.x)
    return settle(fit, 2)


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """The inverse of the rows' covariance on the tangent, and its product with what the prior misses."""

    fit: Fit
    at: Tangent
    inverse: Floats
    weights: Floats

    def left_out(self, out: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The logarithms of predicted over measured images per second of rows, all of which are left out, and the
        deviations of these predictions: exactly as the tangent has them."""
        covariance = np.linalg.inv(self.inverse[np.ix_(out, out)])
        return np.asarray(covariance @ self.weights[out]), np.sqrt(np.diag(covariance))

    def changes_when_left_out(self) -> Floats:
        """The change of each row's own prediction, in logarithms of seconds, when it alone is left out."""
        kept = _noise(self.fit, self.fit.variances) * self.weights
        return np.asarray(kept - self.weights / np.diag(self.inverse))


def posterior(fit: Fit) -> Posterior:
    """Where the fit is."""
    at = tangent(fit)
    _, inverse = _inverse(_covariance(fit, at, fit.variances).astype(np.float64))
    return Posterior(fit=fit, at=at, inverse=inverse, weights=inverse @ at.missed)


def discount_far_rows(known: Posterior) -> None:
    """Rows that all others say are far off scatter more than their kind: they count less."""
    deviations = np.abs(known.weights) / np.sqrt(np.diag(known.inverse))
    known.fit.scatter = known.fit.scatter * np.maximum(1.0, 2 * (deviations / _FAR) ** 2)


def fitted(rows: Sequence[NetworkRow], iterations: int = 5) -> Posterior:
    """Everything, from the beginning."""
    fit = start(rows)
    settle(fit)
    discount_far_rows(fit_variances(fit, iterations))
    return fit_variances(fit, iterations)


def effects_of(known: Posterior) -> dict[Level, Effects]:
    """The effects of each group, by the nodes of each block."""
    fit = known.fit
    found: dict[Level, dict[Block, Floats]] = defaultdict(dict)
    for term, variance, values in zip(TERMS, fit.variances, known.at.features, strict=False):
        halves = [half_of_prior(block) for block in term.blocks]
        for key, group in zip(fit.keys.get(term.level, ()), fit.groups.get(term.level, ()), strict=True):
            coefficients = np.exp(variance) * (known.weights[group] @ values[group])
            start = 0
            for block, half in zip(term.blocks, halves, strict=True):
                found[key][block] = half @ coefficients[start : start + len(half)]
                start += len(half)
    return {key: {block: tuple(map(float, values)) for block, values in of.items()} for key, of in found.items()}


def constants_of(fit: Fit) -> OperatorConstants:
    """The constants as the product has them."""
    return OperatorConstants(
        **{name: float(value) for name, value in zip(CONSTANT_NAMES, np.exp(fit.constants), strict=True)}
    )
