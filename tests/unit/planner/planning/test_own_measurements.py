"""Measurements of this machine: kept line by line, and readable after a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.clock import NOON
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.planning.own_measurements import OwnMeasurement, load_measurements
from trainplan.planner.planning.own_rows import add_row

ROW = OwnMeasurement(
    machine="m", shape="s", images_per_second=812.5, setup_seconds=6.0, per_epoch_seconds=0.25, after_seconds=None,
    measured_at=NOON, run_id="run-1", framework="tensorflow 2.20.0",
)  # fmt: skip


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "state" / "measurements.jsonl"
    rows = [ROW, replace(ROW, run_id="run-2", setup_seconds=None), replace(ROW, framework="ü\n")]
    for row in rows:
        add_row(path, row)
    assert load_measurements(path) == rows


def test_none_yet_is_no_error(tmp_path: Path) -> None:
    assert load_measurements(tmp_path / "none") == []
    assert load_measurements(Path("/dev/null/home") / "none") == [], "a service account has such a home"


@pytest.mark.parametrize(
    "line",
    [
        '{"machine": "m", "shape": "s", "images_per_sec',
        "",
        "null",
        "[1]",
        "{}",
        '{"measured_at": 3}',
        '{"measured_at": "2026-11-21T12:00:00+00:00", "unknown": 1}',
        '{"measured_at": "yesterday"}',
    ],
)
def test_a_line_that_was_cut_off_or_is_none_is_passed_over(tmp_path: Path, line: str) -> None:
    path = tmp_path / "m.jsonl"
    add_row(path, ROW)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    add_row(path, replace(ROW, run_id="run-2"))
    assert [row.run_id for row in load_measurements(path)] == ["run-1", "run-2"]


def test_a_row_after_a_crash_in_the_middle_of_a_line_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    add_row(path, ROW)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"machine": "m", "sha')
    add_row(path, replace(ROW, run_id="run-2"))
    assert [row.run_id for row in load_measurements(path)] == ["run-1", "run-2"]


def test_a_file_that_is_not_text_or_no_file_is_this_machines_error(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"\xff\xff\n")
    with pytest.raises(ThisMachineError, match="cannot read"):
        load_measurements(path)
    with pytest.raises(ThisMachineError, match="cannot read"):
        load_measurements(tmp_path)
    with pytest.raises(ThisMachineError, match="cannot write"):
        add_row(tmp_path, ROW)
