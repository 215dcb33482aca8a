"""A Gaussian process over what the physics misses: corrections by group, fitted by marginal likelihood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from scripts.fit.rows import NOISES, OTHER_NET, Arithmetic, Floats
from trainplan.planner.throughput.grid import (
    BATCHES,
    CHANNELS,
    CONV_COUNT,
    DENSE_NODES,
    NODE_COUNT,
    OTHER_START,
    SIDES,
    SMALL_NODES,
)
from trainplan.planner.throughput.model import Correction, Group

if TYPE_CHECKING:
    from scripts.fit.constants import Fitted
    from scripts.fit.others import OtherArrays

# What is corrected at which level. Levels are those of Setup.groups; a level that bought nothing was left out.
TERMS: tuple[tuple[str, str], ...] = (
    ("all", "nodes"),
    ("all", "pressure"),
    ("architecture", "constant"),
    ("architecture_precision", "constant"),
    ("architecture_precision", "nodes"),
    ("device", "constant"),
    ("device_precision", "constant"),
    ("device_precision", "nodes"),
    ("framework", "constant"),
    ("framework", "nodes"),
    ("source", "constant"),
    ("source", "nodes"),
    ("source_device", "constant"),
    ("source_device", "nodes"),
    ("series", "constant"),
    ("link", "waiting"),
    ("link_architecture", "waiting"),
    ("link_source_device", "waiting"),
    ("link_series", "waiting"),
    ("link", "doubling"),
    ("link_source_device", "doubling"),
    ("net", "other_net"),
)
_LEVEL_OF_OTHERS = "net"
"""What another net takes more than VGG16: no level of a VGG's step, and not kept."""
# Where each variance is looked for, before any row is seen, and how far it may be from there (logarithms).
_PLAUSIBLE = {"nodes": 0.03, "constant": 0.02, "pressure": 0.25, "waiting": 0.1, "doubling": 0.001, "other_net": 0.1}
_PLAUSIBLE_NOISE = (4e-4, 9e-4, 9e-4, 3e-3, 1e-2, 0.25, 2e-2, 0.1)
_VARIANCE_SPREAD = 1.0
# How far along the grid a correction carries, in doublings of channels, side and batch.
_REACH = (1.0, 1.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Rows with the physics taken off, and behind them other nets: `missed`, and what each term's correction
    multiplies. `count` are the rows."""

    count: int
    noise: NDArray[np.int64]
    missed: Floats
    features: dict[str, Floats]
    groups: dict[str, list[Group]]


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """The corrections, and for each row what leaving it out changes of its own prediction."""

    corrections: dict[Group, Correction]
    left_out: Floats


def prepare(data: Arithmetic, fitted: Fitted, others: OtherArrays) -> Prepared:
    """Another net tells what concerns whole steps: it has none of VGG16's parts, and one device alone."""
    seconds = fitted.seconds(data)
    rows, more = len(data.rows), len(others.others)
    features = {
        "nodes": (data.nodes @ fitted.coefficients) / seconds[:, None],
        "pressure": data.pressure[:, None],
        "waiting": np.maximum(0.0, 1 - fitted.alone(data) / seconds)[:, None],
        "doubling": data.doublings[:, None],
    }
    features = {kind: np.vstack([columns, np.zeros((more, columns.shape[1]))]) for kind, columns in features.items()}
    features["constant"] = np.ones((rows + more, 1))
    features["other_net"] = np.concatenate([np.zeros(rows), np.ones(more)])[:, None]
    nobody = {_LEVEL_OF_OTHERS: (_LEVEL_OF_OTHERS,)}
    by_row = [{group[0]: group for group in row.setup.groups} | nobody for row in data.rows]
    by_row += [{group[0]: group for group in (*other.setup.groups, other.own_group)} for other in others.others]
    missed = data.log_seconds - np.log(seconds)
    if more:
        missed = np.concatenate([missed, others.missed(fitted.alone(others.data))])
    return Prepared(
        count=rows,
        noise=np.concatenate([data.noise, np.full(more, OTHER_NET)]),
        missed=missed,
        features=features,
        groups={level: [row[level] for row in by_row] for level, _ in TERMS},
    )


def at_corrections(prepared: Prepared, corrections: Mapping[Group, Correction]) -> Prepared:
    """The rows of `prepare`, with what a correction multiplies taken at these corrections in place of none.

    A correction is a factor of a part of the step, so that a step is not linear in it: a part that takes longer counts
    for more. This is the tangent there (as in Gauss and Newton's method), whose covariance is that of a linear model.
    """
    rows = prepared.count
    nodes, delays = np.zeros((rows, NODE_COUNT)), np.zeros((rows, 1))
    for level in dict.fromkeys(level for level, _ in TERMS):
        for position, group in enumerate(prepared.groups[level][:rows]):
            correction = corrections.get(group, Correction())
            nodes[position] += correction.nodes or 0.0
            delays[position] += correction.waiting
    parts, waiting = prepared.features["nodes"].copy(), prepared.features["waiting"].copy()
    parts[:rows] *= np.exp(nodes)
    whole = (parts.sum(axis=1, keepdims=True) + waiting)[:rows]
    waiting[:rows] /= whole
    parts[:rows] *= (1 - waiting[:rows] * delays) / whole
    missed = prepared.missed.copy()
    missed[:rows] += (parts[:rows] * nodes).sum(axis=1) - np.log(whole)[:, 0]
    return replace(prepared, missed=missed, features=prepared.features | {"nodes": parts, "waiting": waiting})


def node_prior() -> Floats:
    """The covariance of corrections on the grid: neighbours are alike."""
    near = [_near(np.array(axis), reach) for axis, reach in zip((CHANNELS, SIDES, BATCHES), _REACH, strict=True)]
    prior = np.eye(NODE_COUNT)
    prior[:CONV_COUNT, :CONV_COUNT] = np.kron(np.kron(near[0], near[1]), near[2])
    prior[SMALL_NODES:DENSE_NODES, SMALL_NODES:DENSE_NODES] = near[2]
    prior[DENSE_NODES:OTHER_START, DENSE_NODES:OTHER_START] = near[2]
    return prior


def fit_variances(prepared: Prepared, rounds: int = 30) -> Floats:
    """The logarithms of the variance of each term, then of each kind of noise, by penalised marginal likelihood."""
    kernels = _kernels(prepared)
    start = _start()
    noise = prepared.noise
    missed = prepared.missed

    def objective(values: Floats) -> tuple[float, Floats]:
        half_log_determinant, inverse = _inverse(kernels, values, noise)
        weights = inverse @ missed
        pull = inverse - np.outer(weights, weights)
        away = (values - start) / _VARIANCE_SPREAD
        cost = 0.5 * missed @ weights + half_log_determinant + 0.5 * away @ away
        by_term = 0.5 * np.exp(values[: len(TERMS)]) * (kernels @ pull.ravel())
        diagonal = np.diag(pull)
        by_noise = [
            np.exp(values[len(TERMS) + kind]) * diagonal[noise == kind].sum() / 2 for kind in range(len(NOISES))
        ]
        return float(cost), np.concatenate([by_term, by_noise]) + away / _VARIANCE_SPREAD

    bounds = [(-14.0, 3.0)] * len(TERMS) + [(-9.0, 0.0)] * len(NOISES)
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": rounds})
    return np.asarray(solution.x)


def posterior(prepared: Prepared, variances: Floats) -> Posterior:
    """The corrections that follow from the rows under these variances."""
    noise = prepared.noise
    _, inverse = _inverse(_kernels(prepared), variances, noise)
    weights = inverse @ prepared.missed
    scatter = np.exp(variances[len(TERMS) :])[noise]
    return Posterior(
        corrections=_corrections(prepared, variances, weights),
        left_out=(scatter * weights - weights / np.diag(inverse))[: prepared.count],
    )


def _corrections(prepared: Prepared, variances: Floats, weights: Floats) -> dict[Group, Correction]:
    prior = node_prior()
    values: dict[Group, dict[str, Floats]] = {}
    for (level, kind), log_variance in zip(TERMS, variances, strict=False):
        if level == _LEVEL_OF_OTHERS:
            continue
        sums: dict[Group, Floats] = {}
        for group, feature, weight in zip(prepared.groups[level], prepared.features[kind], weights, strict=True):
            sums[group] = sums.get(group, 0.0) + weight * feature
        for group, total in sums.items():
            spread = prior @ total if kind == "nodes" else total
            values.setdefault(group, {})[kind] = np.exp(log_variance) * spread
    return {group: _correction(terms) for group, terms in values.items()}


def _correction(terms: dict[str, Floats]) -> Correction:
    single = {kind: float(terms[kind][0]) for kind in ("constant", "pressure", "waiting", "doubling") if kind in terms}
    nodes = tuple(float(value) for value in terms["nodes"]) if "nodes" in terms else ()
    return Correction(nodes=nodes, **single)


def _kernels(prepared: Prepared) -> Floats:
    """The covariance of every term between all rows, one flattened matrix a term."""
    count = len(prepared.missed)
    kernels = np.empty((len(TERMS), count * count))
    prior = node_prior()
    products = {
        kind: (feature @ prior if kind == "nodes" else feature) @ feature.T
        for kind, feature in prepared.features.items()
    }
    for position, (level, kind) in enumerate(TERMS):
        kernels[position] = (products[kind] * _same(prepared.groups[level])).ravel()
    return kernels


def _same(groups: Sequence[Group]) -> Floats:
    numbers = {group: number for number, group in enumerate(set(groups))}
    positions = np.array([numbers[group] for group in groups])
    return np.asarray(positions[:, None] == positions[None, :], dtype=np.float64)


def _inverse(kernels: Floats, values: Floats, noise: NDArray[np.int64]) -> tuple[float, Floats]:
    """Half the logarithm of the covariance's determinant, and its inverse."""
    count = len(noise)
    covariance = (np.exp(values[: len(TERMS)]) @ kernels).reshape(count, count)
    covariance[np.diag_indices(count)] += np.exp(values[len(TERMS) :])[noise]
    factor = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    half_log_determinant = float(np.log(np.diag(factor)).sum())
    lower, _ = dpotri(factor, lower=True)
    inverse = np.tril(lower)
    return half_log_determinant, inverse + np.tril(inverse, -1).T


def _near(axis: Floats, reach: float) -> Floats:
    return np.asarray(np.exp(-0.5 * ((axis[:, None] - axis[None, :]) / reach) ** 2))


def _start() -> Floats:
    return np.log([*(_PLAUSIBLE[kind] for _, kind in TERMS), *_PLAUSIBLE_NOISE])
