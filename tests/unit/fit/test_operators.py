"""The fit of the model of operators (scripts/fit/operators): its arithmetic is the product's, and rows are left out."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from scripts.fit.operators.arrays import features, physics, slopes
from scripts.fit.operators.folds import NetworkTested
from scripts.fit.operators.process import Fit, effects_of, posterior, settle, start
from scripts.fit.operators.process import _noise as noise
from scripts.fit.operators.rows import NetworkRow, read_network_rows
from scripts.fit.operators.store import model_of, write_operators
from scripts.fit.operators.widths import crossed, network_half_widths
from scripts.fit.store import measurements_digest
from trainplan.planner.throughput.features import Block, features_of
from trainplan.planner.throughput.operator_evidence import BLENDED
from trainplan.planner.throughput.operators import CONSTANT_NAMES, OPERATORS_FILE, load_operators


@pytest.fixture(scope="module")
def rows() -> list[NetworkRow]:
    """Every twelfth row: of all networks, devices and sources together."""
    return read_network_rows()[::12]


@pytest.fixture(scope="module")
def fit(rows: list[NetworkRow]) -> Fit:
    fit = start(rows)
    settle(fit, 12)
    return fit


def test_every_network_of_the_table_is_read() -> None:
    rows = read_network_rows()
    assert len({row.network for row in rows}) >= 40
    assert len(rows) > 1_900
    assert {"vgg16", "resnet50", "mobilenet_v2", "densenet161"} <= {row.network for row in rows}


def test_the_product_computes_what_the_fit_computed(fit: Fit, rows: list[NetworkRow]) -> None:
    found, model = physics(fit.arrays, fit.constants), model_of(posterior(fit), {})
    of_fit = features(fit.arrays, found)
    for position, row in enumerate(rows):
        parts = model.parts(row.graph, row.setup.batch, row.run)
        assert math.log(parts.seconds) == pytest.approx(found.log_seconds[position], abs=1e-3)
        of_product = features_of(parts, row.setup.batch, row.graph.input_shape.height, row.run.device.rates)
        for block, values in of_fit.items():
            dense = np.zeros(values.shape[1])
            for node, value in of_product.get(block, ()):
                dense[node] += value
            if block is not Block.GROUPED:
                assert values[position] == pytest.approx(dense, abs=1e-3), (row.ids[0], block)


def test_a_measured_step_is_predicted_as_the_fit_has_it(fit: Fit, rows: list[NetworkRow]) -> None:
    """But for few of them, which the bounds of effects and of batches hold back."""
    known = posterior(fit)
    model = model_of(known, {})
    expected = fit.arrays.log_seconds - noise(fit, fit.variances) * known.weights
    off = [
        math.log(model.seconds(row.graph, row.setup.batch, row.run)) - value
        for row, value in zip(rows, expected, strict=True)
    ]
    assert np.quantile(np.abs(off), 0.9) < 0.05


def test_slopes_are_those_of_the_physics(fit: Fit) -> None:
    found = physics(fit.arrays, fit.constants)
    by_constant = slopes(fit.arrays, fit.constants, found)
    for position in range(len(fit.constants)):
        moved = fit.constants.copy()
        moved[position] += 1e-5
        difference = (physics(fit.arrays, moved).log_seconds - found.log_seconds) / 1e-5
        assert by_constant[:, position] == pytest.approx(difference, abs=1e-4), CONSTANT_NAMES[position]


def test_rows_left_out_do_not_count(fit: Fit) -> None:
    """Another measured value of a row that is left out leaves its prediction as it is; of one that is not, moves it."""
    out = np.array([3, 10])
    before = posterior(fit).left_out(out)[0] - fit.arrays.log_seconds[out]
    kept = fit.arrays.log_seconds.copy()
    try:
        fit.arrays.log_seconds[3] += 1.0
        after = posterior(fit).left_out(out)[0] - fit.arrays.log_seconds[out]
        assert after == pytest.approx(before, abs=1e-6)
        assert posterior(fit).left_out(np.array([10]))[0] != pytest.approx(before[1] + kept[10], abs=1e-6)
    finally:
        fit.arrays.log_seconds[:] = kept


def test_the_model_comes_back_from_its_file_as_it_was(fit: Fit, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("operators") / "operators.json"
    known = posterior(fit)
    model = model_of(known, {"scaled": 0.2})
    write_operators(model, {}, path)
    again = load_operators(path)
    assert again.effects == model.effects
    assert again.constants == model.constants
    assert again.measured.counts == model.measured.counts
    assert again.left_out == model.left_out
    assert again.half_widths == {"scaled": 0.2}
    assert set(effects_of(known)) >= set(again.effects)


def test_the_shipped_model_is_of_the_shipped_measurements() -> None:
    document = json.loads(OPERATORS_FILE.read_text(encoding="utf-8"))
    assert document["measurements_sha256"] == measurements_digest()
    assert BLENDED in document["half_widths"]


def test_an_interval_is_held_against_errors_of_other_rows_alone() -> None:
    def row(fold: str, number: int, off: float) -> NetworkTested:
        return NetworkTested(
            test="unseen_network", fold=fold, id=f"{fold}-{number}", is_vgg=False, off=off, deviation=0.1,
            evidence="anchored+new",
        )  # fmt: skip

    near = [row(f"near{fold}", number, 0.1) for fold in range(9) for number in range(10)]
    far = [row("far", number, 2.0) for number in range(10)]
    assert network_half_widths([*near, *far])["anchored+new"] == pytest.approx(0.1)
    assert crossed([*near, *far])[-1] == pytest.approx(0.1)
    assert network_half_widths(far)["anchored+new"] == pytest.approx(2.0)
