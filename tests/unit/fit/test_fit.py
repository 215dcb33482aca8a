"""The fit: quantiles and widths that leave a fold's rows alone, decisions, hosts and the softened residuals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scripts.fit import evaluate
from scripts.fit.constants import _slope, _soft, fit_constants
from scripts.fit.decision import Candidate, decided, decision_lines, one_at_a_time
from scripts.fit.folds import folds
from scripts.fit.hosts import host_lines
from scripts.fit.others import other_arrays
from scripts.fit.process import at_corrections, prepare
from scripts.fit.rows import CROWDED, NOISES, TINY_BATCH, arithmetic, read_rows
from scripts.fit.widths import crossed_half_widths, half_widths
from trainplan.planner.throughput.compile import DATA
from trainplan.planner.throughput.evidence import Evidence, Nearness
from trainplan.planner.throughput.grid import BATCHES, NODE_COUNT
from trainplan.planner.throughput.model import Correction, Group, load_model


def held_out(id_: str, off: float, nearness: Nearness, fold: str = "a", gap: float = 0.0) -> evaluate.Tested:
    near = Evidence(nearness=nearness, ids=(), sharing_seen=True, depth_gap=gap)
    return evaluate.Tested(test="t", fold=fold, id=id_, off=off, near=near)


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        (range(1, 10), None, 8),  # place ceil(0.8 * 10)
        ([3.0], None, 3.0),  # too few: the widest
        ([1, 2, 3, 4, 100], None, 100),
        ([*range(1, 100), 1000.0], None, 81),
        ([1, 2, 9], [2.0, 2.0, 1.0], 9),  # 0.8 * (5 + 1) is beyond the first two
    ],
)
def test_the_conformal_quantile(values: list[float], weights: list[float] | None, expected: float) -> None:
    assert evaluate.quantile(list(values), weights) == expected


def test_a_card_nobody_measured_counts_once_however_many_rows_it_has() -> None:
    cards = [held_out(f"{card}", 0.1 + card / 100, Nearness.NONE, fold=f"card {card}") for card in range(20)]
    crowd = [held_out(f"crowd-{row}", 0.9, Nearness.NONE, fold="crowd") for row in range(200)]
    widths = half_widths([*cards, *crowd])
    assert widths["none"] == widths["same_architecture"] < 0.3
    same = [held_out(row.id, row.off, Nearness.SAME_DEVICE, fold=row.fold) for row in (*cards, *crowd)]
    assert half_widths(same)["same_device"] == 0.9


def test_a_fold_is_not_held_against_its_own_rows() -> None:
    every = [held_out(f"{row}", 0.1, Nearness.SAME_DEVICE, fold="quiet") for row in range(30)]
    every += [held_out(f"loud-{row}", 0.8, Nearness.SAME_DEVICE, fold="loud") for row in range(30)]
    needed = [held_out("x", 0.0, Nearness.SAME_SOURCE)]
    widths = crossed_half_widths([*every, *needed])
    assert set(widths[:30]) == {0.8}
    assert set(widths[30:60]) == {0.1}
    # What another test says of the same rows is left out as well.
    again = [evaluate.Tested(test="u", fold="other", id=row.id, off=0.5, near=row.near) for row in every[30:]]
    assert set(crossed_half_widths([*every, *again, *needed])[30:60]) == {0.1}


def test_an_unseen_depth_is_held_against_the_square_of_its_distance() -> None:
    rows = [held_out(f"{row}", 0.02, Nearness.SAME_SOURCE, gap=0.2) for row in range(30)]
    assert half_widths(rows)["same_source+other_depth"] == pytest.approx(0.02 / 0.2**2)


def test_a_decision_costs_what_the_machine_taken_costs_more() -> None:
    right = ("a", [Candidate(device="T4", predicted=1.0, true=1.0), Candidate(device="V100", predicted=2.0, true=3.0)])
    wrong = ("b", [Candidate(device="T4", predicted=2.0, true=2.0), Candidate(device="K80", predicted=1.0, true=3.0)])
    found = decided("unseen_gpu", "every candidate", [right, wrong])
    assert found.extra == (0.0, 0.5)
    assert found.wrong == ("b (K80 for T4)",)
    assert found.missed
    single = decided("unseen_gpu", "one candidate", one_at_a_time([right, wrong]))
    assert single.extra == (0.0, 0.0, 0.0, 0.5)
    assert "| unseen_gpu | every candidate | 2 | 1 | 25.0% | 50.0% |" in decision_lines([found, single])


def test_softened_residuals_and_their_slope_agree() -> None:
    at = np.array([-30.0, -1.0, -1e-6, 0.0, 1e-6, 0.3, 4.0])
    step = 1e-5
    numeric = (_soft(at + step) - _soft(at - step)) / (2 * step)
    assert np.allclose(_slope(at), numeric, atol=1e-4)
    assert _soft(np.array([30.0]))[0] < 8


def test_rows_that_disagree_do_not_buy_an_implausible_constant() -> None:
    """The plausible launch of a kernel takes 40 microseconds; held-out folds without the EC2 rows made it 470."""
    rows = read_rows()
    fold = next(fold for fold in folds(rows) if fold.name == "profet, V100")
    data = arithmetic([row for row in rows if row.measurement.id in fold.trained])
    assert 20e-6 < fit_constants(data).constants().launch_seconds < 160e-6
    assert {row.noise for row in rows if row.setup.count == 1 and row.setup.batch < 8} == {TINY_BATCH}
    assert len(NOISES) == CROWDED + 1


def test_the_tangent_at_some_corrections_is_the_slope_of_the_step_there() -> None:
    row = next(row for row in read_rows() if row.measurement.id == "lambda_tf-0694")
    assert row.setup.count == 2
    data = arithmetic([row])
    fitted = fit_constants(data)
    everything, link = (group for group in row.setup.groups if group[0] in ("all", "link"))
    chains = [0.3 * math.sin(node // len(BATCHES)) for node in range(NODE_COUNT)]

    def corrections(nodes: float, waiting: float) -> dict[Group, Correction]:
        moved = tuple(value + nodes for value in chains)
        return {everything: Correction(nodes=moved), link: Correction(waiting=0.4 + waiting)}

    def log_seconds(nodes: float, waiting: float) -> float:
        model = replace(
            load_model(), constants=fitted.constants(), links=fitted.links(), corrections=corrections(nodes, waiting)
        )
        return math.log(model.seconds(row.setup))

    tangent = at_corrections(prepare(data, fitted, other_arrays([])), corrections(0, 0))
    small, at = 1e-6, log_seconds(0, 0)
    features = float(tangent.features["nodes"].sum()), float(tangent.features["waiting"][0, 0])
    slopes = (log_seconds(small, 0) - at) / small, (log_seconds(0, small) - at) / small
    assert slopes == pytest.approx(features, abs=1e-4)
    assert 0.02 < features[1] < 0.9
    # What is left to explain is what the step is off by, plus what the tangent's corrections explain.
    explained = float(tangent.features["nodes"][0] @ np.array(chains)) + 0.4 * features[1]
    assert float(tangent.missed[0]) == pytest.approx(math.log(row.seconds) - at + explained)


def test_rows_that_want_for_memory_scatter_by_themselves() -> None:
    crowded = {row.measurement.id for row in read_rows() if row.noise == CROWDED}
    assert {"profet-0501", "profet-0769", "profet-1162"} <= crowded
    assert all(row.setup.batch > 32 for row in read_rows() if row.measurement.id in crowded)


def test_folds_test_nothing_that_they_are_trained_on() -> None:
    for fold in folds(read_rows()):
        assert fold.tested
        assert not fold.tested & fold.trained, fold.name


def test_hosts_are_held_against_rows_that_state_their_vcpus() -> None:
    with (DATA / "measurements.csv").open(encoding="utf-8") as file:
        stated = sum(" vCPUs" in line for line in file)
    lines = host_lines()
    assert len([line for line in lines if line.startswith("| trainplan-")]) == stated
    if stated:
        assert lines[-1].startswith(f"{stated} rows: MAPE ")
