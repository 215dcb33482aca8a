"""The measurements: what is shipped, how it is compiled and how a stated row is read."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from planner.throughput.compile import DATA, BadTableError, compile_measurements, text_digest
from planner.throughput.names import device_name
from planner.throughput.rows import BadRowError, measurement_from_row
from planner.throughput.values import Parallelism, Quality

if TYPE_CHECKING:
    from pathlib import Path

ROW = {
    "id": "ryujaehun-0652",
    "model": "vgg19",
    "image_size": "224",
    "device": "A100 SXM4",
    "device_memory_gb": "80",
    "n_devices": "3",
    "precision": "fp16",
    "xla": "no",
    "batch_per_device": "12",
    "framework": "PyTorch",
    "images_per_second": "1264.2",
    "notes": "Q=B; forward+backward+zero_grad, no optimizer step; nn.DataParallel if >1 GPU",
    "a column nobody knows": "x",
}


def test_the_shipped_table_has_every_row_with_a_known_source() -> None:
    with (DATA / "measurements.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (DATA / "sources.csv").open(encoding="utf-8", newline="") as file:
        sources = {row["source"] for row in csv.DictReader(file)}
    assert len(rows) >= 4_000
    assert {row["source"] for row in rows} == sources
    assert {row["quality"] for row in rows} == {"A", "B", "C"}


def test_compiling_is_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out" / "m.sqlite"
    compile_measurements(DATA, target)
    with closing(sqlite3.connect(target)) as database:
        count = database.execute("SELECT count(*) FROM measurements").fetchone()[0]
        meta = dict(database.execute("SELECT key, value FROM meta"))
    assert count >= 4_000
    assert meta["text_sha256"] == text_digest(DATA)
    before = target.read_bytes()
    broken = tmp_path / "text"
    broken.mkdir()
    (broken / "sources.csv").write_bytes((DATA / "sources.csv").read_bytes())
    text = (DATA / "measurements.csv").read_text(encoding="utf-8")
    (broken / "measurements.csv").write_text(text + text.splitlines()[1] + "\n", encoding="utf-8")
    with pytest.raises(BadTableError, match="UNIQUE"):
        compile_measurements(broken, target)
    (broken / "measurements.csv").write_text(text + "one cell\n", encoding="utf-8")
    with pytest.raises(BadTableError, match=r"line \d+: 1 cells"):
        compile_measurements(broken, target)
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["m.sqlite"]


def test_a_stated_row_is_read() -> None:
    read = measurement_from_row(ROW)
    assert (read.model, read.device, read.device_count) == ("vgg19", "A100-80GB", 3)
    assert (read.quality, read.optimizer_step, read.parallelism) == (
        Quality.B,
        False,
        Parallelism.DATA_PARALLEL,
    )
    assert (read.xla, read.batch_per_device, read.source) == (False, 12, "ryujaehun")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("images_per_second", "0", "positive number"),
        ("images_per_second", "fast", "not a number"),
        ("images_per_second", "nan", "positive number"),
        ("image_size", "", "image_size is empty"),
        ("n_devices", "2.5", "whole number"),
        ("device", " ", "device is empty"),
    ],
)
def test_a_bad_row_names_its_column(column: str, value: str, message: str) -> None:
    with pytest.raises(BadRowError, match=message):
        measurement_from_row({**ROW, column: value})


@pytest.mark.parametrize(
    ("stated", "memory_gb", "name"),
    [
        ("K80 (1 GK210 = half board)", 12.0, "K80"),
        ("Tesla K80", None, "K80"),
        ("V100 SXM2", 16.0, "V100"),
        ("V100 SXM3", 32.0, "V100-32GB"),
        ("V100 SXM2 16GB (AWS p3 assumed)", None, "V100"),
        ("A100 SXM4 80GB", None, "A100-80GB"),
        ("A100", None, "A100-40GB"),
        ("NVIDIA GeForce RTX 2080 Ti", 11.0, "RTX 2080 Ti"),
        ("TPU v3 (chip)", 32.0, "TPU v3"),
        ("TPU v5e-1 (chip)", 16.0, "TPU v5e"),
        ("H200 SXM", 141.0, "H200"),
        ("CPU 2x Xeon E5-2630 v3", 64.0, "cpu"),
        ("Titan X (Pascal)", 12.0, "Titan X (Pascal)"),
    ],
)
def test_a_device_has_one_name(stated: str, memory_gb: float | None, name: str) -> None:
    assert device_name(stated, memory_gb) == name
