"""The fit of the model of operators (scripts/fit/operators): its arithmetic is the product's, and rows are left out."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from scripts.fit.operators.arrays import seconds_of_shares
from scripts.fit.operators.folds import NetworkTested
from scripts.fit.operators.process import Fit, effects_of, posterior, settle, start
from scripts.fit.operators.process import _row_effects as row_effects
from scripts.fit.operators.rows import NetworkRow, read_network_rows
from scripts.fit.operators.store import model_of, write_operators
from scripts.fit.operators.widths import crossed, network_half_widths
from scripts.fit.store import measurements_digest
from trainplan.planner.throughput.operator_evidence import BLENDED
from trainplan.planner.throughput.operators import FALL, OPERATORS_FILE, RISE, SHARES, load_operators


@pytest.fixture(scope="module")
def rows() -> list[NetworkRow]:
    """Every twelfth row: of all networks, devices and sources together."""
    return read_network_rows()[::12]


@pytest.fixture(scope="module")
def fit(rows: list[NetworkRow]) -> Fit:
    fit = start(rows)
    settle(fit)
    return fit


def test_every_network_of_the_table_is_read() -> None:
    rows = read_network_rows()
    assert len({row.network for row in rows}) >= 40
    assert len(rows) > 1_900
    assert {"vgg16", "resnet50", "mobilenet_v2", "densenet161"} <= {row.network for row in rows}


def test_the_product_computes_what_the_fit_computed(fit: Fit, rows: list[NetworkRow]) -> None:
    known = posterior(fit)
    effects = row_effects(fit, known.at, known.weights)
    _, seconds = seconds_of_shares(fit.arrays, fit.constants, effects[:, : len(SHARES)])
    doubling = np.clip(effects[:, len(SHARES) + 1], -FALL, RISE) * fit.arrays.doublings
    expected = np.log(seconds) + effects[:, len(SHARES)] + doubling
    model = model_of(fit, {})
    # Effects are stored to the thousandth, and a step is in a score of groups.
    for row, value in zip(rows, expected, strict=True):
        assert math.log(model.seconds(row.graph, row.setup.batch, row.run)) == pytest.approx(value, abs=0.02)


def test_rows_left_out_do_not_count(fit: Fit) -> None:
    """Another measured value of a row that is left out leaves its prediction as it is; of one that is not, moves it."""
    out = np.array([3, 10])
    before = posterior(fit).left_out(out) - fit.arrays.log_seconds[out]
    kept = fit.arrays.log_seconds.copy()
    try:
        fit.arrays.log_seconds[3] += 1.0
        after = posterior(fit).left_out(out) - fit.arrays.log_seconds[out]
        assert after == pytest.approx(before, abs=1e-6)
        assert posterior(fit).left_out(np.array([10])) != pytest.approx(before[1] + kept[10], abs=1e-6)
    finally:
        fit.arrays.log_seconds[:] = kept


def test_the_model_comes_back_from_its_file_as_it_was(fit: Fit, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("operators") / "operators.json"
    model = model_of(fit, {"scaled": 0.2})
    write_operators(model, {}, path)
    again = load_operators(path)
    assert again.effects == model.effects
    assert again.constants == model.constants
    assert again.measured.counts == model.measured.counts
    assert again.left_out == model.left_out
    assert again.half_widths == {"scaled": 0.2}
    assert set(effects_of(posterior(fit))) >= set(again.effects)


def test_the_shipped_model_is_of_the_shipped_measurements() -> None:
    document = json.loads(OPERATORS_FILE.read_text(encoding="utf-8"))
    assert document["measurements_sha256"] == measurements_digest()
    assert BLENDED in document["half_widths"]


def test_an_interval_is_held_against_errors_of_other_rows_alone() -> None:
    def row(fold: str, number: int, off: float) -> NetworkTested:
        return NetworkTested(
            test="unseen_network", fold=fold, id=f"{fold}-{number}", is_vgg=False, off=off, evidence="anchored+new"
        )

    near = [row(f"near{fold}", number, 0.1) for fold in range(9) for number in range(10)]
    far = [row("far", number, 2.0) for number in range(10)]
    assert network_half_widths([*near, *far])["anchored+new"] == pytest.approx(0.1)
    assert crossed([*near, *far])[-1] == pytest.approx(0.1)
    assert network_half_widths(far)["anchored+new"] == pytest.approx(2.0)
