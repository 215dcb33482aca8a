"""Several machines: what is read of published runs, that the shipped constants are theirs, and what is missed."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from scripts.fit.report_text import SEVERAL_MACHINES
from scripts.fit.scaling import (
    fit_scaling,
    left_out,
    read_scaling,
    row_lines,
    scaling_digest,
    scaling_lines,
    with_width,
)
from trainplan.planner.throughput.machines import SCALING, scaling_constants

ACCURACY = Path(__file__).parents[3] / "docs" / "accuracy.md"


def test_the_shipped_constants_are_those_of_the_rows() -> None:
    shipped = json.loads(SCALING.read_text(encoding="utf-8"))
    assert shipped["scaling_sha256"] == scaling_digest(), "python -m scripts.fit.scaling"
    fitted = asdict(with_width(read_scaling()))
    assert fitted == pytest.approx(asdict(scaling_constants()), rel=1e-3)


def test_every_row_has_an_address_a_day_and_a_quality() -> None:
    rows = [row.cells for row in read_scaling()]
    assert len({row["id"] for row in rows}) == len(rows) >= 12
    for row in rows:
        assert row["address"], row
        assert row["read_on"], row
        assert row["quality"] in ("A", "B", "C"), row
        assert bool(row["machine_images_per_second"]) == bool(row["machine_ground"]), row


def test_a_row_says_the_seconds_that_its_source_states() -> None:
    rows = {row.cells["id"]: row for row in read_scaling()}
    # 128 machines at 0.68 of a step that one does in 256 / 540.5 s.
    assert rows["horovod-1"].published == pytest.approx(256 / 540.5 / 0.68)
    assert rows["tfdoc-0197"].published == pytest.approx(64 * 32 / 981)
    assert rows["zarzen-1"].published == 0.367171
    assert rows["byteps-1"].published is None
    assert not rows["horovod-4"].is_fitted, "its network is not told"


def test_the_fit_finds_constants_that_made_the_rows() -> None:
    truth = replace(scaling_constants(), network_share=0.9, most_bytes_per_second=2.0e9, overlap=0.3, jitter=0.01)
    rows = [replace(row, published=row.predicted(truth)) if row.published else row for row in read_scaling()]
    fitted = fit_scaling(rows)
    assert fitted.network_share == pytest.approx(truth.network_share, abs=0.011)
    assert fitted.most_bytes_per_second == pytest.approx(truth.most_bytes_per_second, rel=0.01)
    assert fitted.overlap == pytest.approx(truth.overlap, abs=0.02)
    assert fitted.jitter == pytest.approx(truth.jitter, abs=0.002)


def test_the_width_covers_every_row_that_is_predicted() -> None:
    rows, width = read_scaling(), scaling_constants().half_width * 1.001
    assert all(abs(row.off(scaling_constants())) <= width for row in rows if row.published)
    assert all(abs(error) <= width for row, error in left_out(rows) if row.is_fitted)
    assert width > math.log(1.2)


def test_the_page_of_accuracy_has_every_source() -> None:
    rows = read_scaling()
    lines = scaling_lines(rows)
    known = {row.cells["source"] for row in rows if row.published}
    assert all(any(line.startswith(f"| {source} |") for line in lines) for source in known)
    assert all(any(f"| {row.cells['id']}: " in line for line in row_lines(rows)) for row in rows)
    assert "\n".join([SEVERAL_MACHINES, *lines]) in ACCURACY.read_text(encoding="utf-8"), "make accuracy"
