"""Steps of other nets: what they say of links, libraries and versions, and in which folds they are left out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scripts.fit import evaluate
from scripts.fit import folds as names
from scripts.fit.constants import _Problem, fit_constants
from scripts.fit.evaluate import fit
from scripts.fit.folds import folds, trained_others, trained_pairs
from scripts.fit.others import other_arrays, read_others
from scripts.fit.pairs import pair_arrays, read_pairs
from scripts.fit.rows import arithmetic, read_rows
from scripts.fit.sharing import sharing_lines
from scripts.fit.widths import sharing_scales
from trainplan.planner.throughput.evidence import Evidence, Nearness
from trainplan.planner.throughput.setup import Library, Link

ROWS = read_rows()
PAIRS = read_pairs()
OTHERS = read_others()


def test_pairs_are_one_net_of_one_program_on_one_device_and_on_several() -> None:
    assert {pair.library for pair in PAIRS} >= {Library.NCCL, Library.HOROVOD, Library.DDP, Library.SERVER}
    assert Library.DATA_PARALLEL not in {pair.library for pair in PAIRS}
    for pair in PAIRS:
        assert pair.count > 1
        assert pair.link is not Link.ONE
        assert pair.volume > 0
        # No program shares a step at no cost; runs repeat within a tenth.
        assert pair.seconds > 0.9 * pair.alone_seconds, pair.id


def test_the_derivatives_of_sharing_are_those_of_the_residuals() -> None:
    some = [row for row in ROWS if row.setup.count > 1][::10] + ROWS[::60]
    problem = _Problem(arithmetic(some), pair_arrays(PAIRS[::20], 0.1))
    at = problem.first + 0.1 * np.random.default_rng(1).normal(size=len(problem.first))
    found = problem.jacobian(at)
    for column in range(0, len(at), 3):
        aside = np.zeros_like(at)
        aside[column] = 1e-6
        numeric = (problem.residuals(at + aside) - problem.residuals(at - aside)) / 2e-6
        assert np.allclose(found[:, column], numeric, atol=1e-4), column


def test_pairs_that_wait_less_make_their_library_reach_further() -> None:
    data = arithmetic([row for row in ROWS if row.setup.count == 1][::20])
    ddp = [pair for pair in PAIRS if pair.library is Library.DDP]
    assert len(ddp) > 10
    fast = [replace(pair, seconds=pair.alone_seconds * 1.01) for pair in ddp]
    slow = [replace(pair, seconds=pair.alone_seconds * 2) for pair in ddp]
    reach = [fit_constants(data, pairs).links().libraries[Library.DDP].reach for pairs in (slow, fast)]
    assert reach[0] < 0.9 < 1.0 < reach[1]


def test_a_version_without_a_step_alone_is_told_by_other_nets() -> None:
    """TF 2.3 on A100 was timed with VGG16 on two to eight cards only; its ResNets are a third slower than 1.15's."""
    fold = next(one for one in folds(ROWS) if (one.test, one.name) == (names.SHARING, "lambda_tf, A100"))
    data = arithmetic(
        [row for row in ROWS if row.measurement.id in fold.trained and row.setup.device in ("A100", "V100")]
    )
    mine = [other for other in OTHERS if other.setup.device == "A100"]
    assert len({other.setup.source for other in mine}) > 1
    tested = [row for row in ROWS if row.measurement.id in fold.tested and "2.3.0" in row.setup.source]
    off = []
    for others in (mine[:1], mine):
        model, _ = fit(data, (), other_arrays(others))
        off.append(np.mean([abs(math.log(row.seconds / model.seconds(row.setup))) for row in tested]))
    assert off[1] < 0.6 * off[0]


@pytest.mark.parametrize("test", [names.SOURCE, names.DEVICE, names.SHARING, names.SHARING_STRICT, names.LIBRARY])
def test_what_a_fold_leaves_out_no_other_net_tells(test: str) -> None:
    fold_rows = [fold for fold in folds(ROWS) if fold.test == test]
    assert fold_rows
    for fold in fold_rows:
        pairs = trained_pairs(fold, ROWS, PAIRS)
        others = [OTHERS[place] for place in trained_others(fold, ROWS, OTHERS)]
        assert others
        if test == names.SOURCE:
            gone = fold.name.partition(",")[0]
            assert gone not in {pair.source for pair in pairs} | {other.source for other in others}
        elif test == names.DEVICE:
            assert fold.name not in {pair.device for pair in pairs} | {other.setup.device for other in others}
        elif test == names.LIBRARY:
            assert fold.name.partition(":")[0] not in {str(pair.library) for pair in pairs}
        else:
            source, device = fold.name.split(", ")
            assert (source, device) not in {(pair.source, pair.device) for pair in pairs}
            if test == names.SHARING_STRICT:
                assert (source, device) not in {(other.source, other.setup.device) for other in others}


def test_a_link_that_was_farther_off_is_wider_and_one_fold_says_little() -> None:
    def held_out(link: Link, fold: str, off: float) -> evaluate.Tested:
        near = Evidence(
            nearness=Nearness.SAME_SOURCE, ids=("a",), sharing_seen=False, several=True, link=link, library=Library.NCCL
        )
        return evaluate.Tested(test=names.SHARING, fold=fold, id=f"{fold}-{off}", off=off, near=near)

    rows = [held_out(Link.PCIE, f"{number}", 0.1) for number in range(6)]
    one, many = (rows + [held_out(Link.HOST, f"h{number}", -0.3) for number in range(count)] for count in (1, 6))
    assert sharing_scales(rows) == {"pcie/nccl": pytest.approx(1.0)}
    few, all_ = sharing_scales(one), sharing_scales(many)
    assert few["pcie/nccl"] < 1 < few["host/nccl"]
    assert all_["host/nccl"] / all_["pcie/nccl"] > few["host/nccl"] / few["pcie/nccl"] > 1
    assert sharing_scales([replace(row, test=names.SHARING_STRICT) for row in rows]) == {}


def test_the_report_names_each_link_and_library() -> None:
    links, libraries = sharing_lines(ROWS, [])
    assert all(f" {link} " in links for link in Link if link is not Link.ONE)
    assert all(f" {library} " in libraries for library in Library if library is not Library.ONE)
    assert "; mirrored_strategy 1.00, 1.0 ms, 1.0% (no row: as plausible);" in libraries
