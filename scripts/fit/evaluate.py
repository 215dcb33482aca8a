"""Fits the model without each fold and predicts it: errors, intervals and what they were wide for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.fit.constants import fit_constants
from scripts.fit.folds import CONFIGURATION, CONFIGURATION_SEVERAL, Fold, trained_others, trained_pairs
from scripts.fit.process import at_corrections, fit_variances, posterior, prepare
from trainplan.planner.throughput.evidence import Evidence, EvidenceRow, basis_of, evidence, seen_of
from trainplan.planner.throughput.model import Model

if TYPE_CHECKING:
    from scripts.fit.others import OtherArrays
    from scripts.fit.pairs import Pair
    from scripts.fit.rows import Arithmetic, Row

COVERAGE = 0.8


@dataclass(frozen=True, kw_only=True)
class Tested:
    """One held-out prediction; `off` is the logarithm of predicted over measured images per second."""

    test: str
    fold: str
    id: str
    off: float
    near: Evidence

    @property
    def evidence(self) -> str:
        return self.near.key

    @property
    def basis(self) -> str:
        return str(basis_of(self.near.nearness))

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return math.expm1(self.off)


def fit(data: Arithmetic, pairs: Sequence[Pair], others: OtherArrays) -> tuple[Model, Mapping[str, float]]:
    """The model of these rows, pairs and other nets, without intervals, and what leaving each row out changes."""
    fitted = fit_constants(data, pairs)
    prepared = prepare(data, fitted, others)
    first = posterior(prepared, fit_variances(prepared))
    # Again where they are, once: more often moves a held-out card farther off (ADR 32).
    tangent = at_corrections(prepared, first.corrections)
    posterior_model = posterior(tangent, fit_variances(tangent))
    left_out = {
        row.measurement.id: float(change) for row, change in zip(data.rows, posterior_model.left_out, strict=True)
    }
    model = Model(
        constants=fitted.constants(),
        links=fitted.links(),
        corrections=posterior_model.corrections,
        left_out=left_out,
        half_widths={},
        sharing_scales={},
        measured_libraries=frozenset(str(row.setup.library) for row in data.rows),
        version_shift=0.0,
    )
    return model, left_out


def run_fold(data: Arithmetic, pairs: Sequence[Pair], others: OtherArrays, fold: Fold) -> list[Tested]:
    """Fitted on the fold's training rows alone, and on the pairs that go with them: constants, variances and
    corrections."""
    train = data.take([position for position, row in enumerate(data.rows) if row.measurement.id in fold.trained])
    others_of_fold = others.take(trained_others(fold, data.rows, others.others))
    model, _ = fit(train, trained_pairs(fold, data.rows, pairs), others_of_fold)
    return [_tested(fold, row, model, train.rows) for row in data.rows if row.measurement.id in fold.tested]


def run_folds(
    data: Arithmetic, pairs: Sequence[Pair], others: OtherArrays, fold_list: Sequence[Fold], workers: int
) -> list[Tested]:
    """Every fold; the same folds give the same answers whatever the number of workers."""
    if workers < 2:
        return [row for fold in fold_list for row in run_fold(data, pairs, others, fold)]
    with ProcessPoolExecutor(max_workers=workers) as pool:
        answers = pool.map(
            run_fold, [data] * len(fold_list), [pairs] * len(fold_list), [others] * len(fold_list), fold_list
        )
        return [row for answer in answers for row in answer]


def quantile(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """The conformal quantile: with n values, the one at place ceil(0.8 (n + 1)). With `weights`, the first value that
    0.8 of the weight is at or below, after one more draw of weight 1 beyond them all."""
    counted = weights or [1.0] * len(values)
    rank = COVERAGE * (sum(counted) + 1)
    reached = 0.0
    for value, weight in sorted(zip(values, counted, strict=True)):
        reached += weight
        if reached >= rank - 1e-9:
            return value
    return max(values)


def _tested(fold: Fold, row: Row, model: Model, train: Sequence[Row]) -> Tested:
    near = evidence(
        evidence_of(row),
        [evidence_of(other) for other in train if other.setup.device == row.setup.device],
        frozenset(other.setup.rates.architecture for other in train),
        model.measured_libraries,
    )
    return Tested(
        test=CONFIGURATION_SEVERAL if fold.test == CONFIGURATION and row.setup.count > 1 else fold.test,
        fold=fold.name,
        id=row.measurement.id,
        off=math.log(row.seconds / model.seconds(row.setup)),
        near=near,
    )


def evidence_of(row: Row) -> EvidenceRow:
    """The row as the predictor keeps it, to compare questions with."""
    return seen_of(row.setup, row.measurement.id, row.measurement.model)
