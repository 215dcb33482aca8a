"""The measurements: what is shipped, how it is compiled and how a stated row is read."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trainplan.planner.throughput.compile import DATA, BadTableError, compile_measurements, text_digest
from trainplan.planner.throughput.names import device_name
from trainplan.planner.throughput.rows import BadRowError, measurement_from_row
from trainplan.planner.throughput.values import Parallelism, Quality
from trainplan.pricing.devices import DeviceTable

if TYPE_CHECKING:
    Find = Callable[[str], str | None]

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
    rows: list[dict[str, str]] = []
    for name in ("measurements.csv", "networks.csv"):
        with (DATA / name).open(encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file)
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
    for name in ("sources.csv", "networks.csv"):
        (broken / name).write_bytes((DATA / name).read_bytes())
    text = (DATA / "measurements.csv").read_text(encoding="utf-8")
    (broken / "measurements.csv").write_text(text + text.splitlines()[1] + "\n", encoding="utf-8")
    with pytest.raises(BadTableError, match="UNIQUE"):
        compile_measurements(broken, target)
    (broken / "measurements.csv").write_text(text + "one cell\n", encoding="utf-8")
    with pytest.raises(BadTableError, match=r"line \d+: 1 cells"):
        compile_measurements(broken, target)
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["m.sqlite"]


def test_a_stated_row_is_read(find: Find) -> None:
    read = measurement_from_row(ROW, find, {})
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
        ("image_size", "", "image_size_px is empty"),
        ("n_devices", "2.5", "device_count is not a whole number from 1"),
        ("device", " ", "device is empty"),
    ],
)
def test_a_bad_row_names_its_column(column: str, value: str, message: str, find: Find) -> None:
    with pytest.raises(BadRowError, match=message):
        measurement_from_row({**ROW, column: value}, find, {})


@pytest.mark.parametrize(
    ("stated", "memory_gb", "name"),
    [
        ("K80 (1 GK210 = half board)", 12.0, "K80"),
        ("Tesla K80", None, "K80"),
        ("V100 SXM2", 16.0, "V100"),
        ("V100 SXM2", 32.0, "V100-32GB"),
        ("V100 SXM2 16GB (AWS p3 assumed)", None, "V100"),
        ("A100 SXM4", 80.0, "A100-80GB"),
        ("A100 PCIe", 40.0, "A100-PCIe-40GB"),
        ("NVIDIA GeForce RTX 2080 Ti", 11.0, "RTX 2080 Ti"),
        ("TPU v3 (chip)", 32.0, "TPU v3"),
        ("H200 SXM", 141.0, "H200"),
        ("CPU 2x Xeon E5-2630 v3", 64.0, "cpu"),
        ("Titan X (Pascal)", 12.0, "Titan X Pascal"),
        ("a card nobody knows", None, "a card nobody knows"),
    ],
)
def test_a_device_has_one_name(stated: str, memory_gb: float | None, name: str, find: Find) -> None:
    assert device_name(stated, memory_gb, find) == name


def test_the_shipped_names_are_those_of_the_device_table(find: Find, devices: DeviceTable) -> None:
    with (DATA / "measurements.csv").open(encoding="utf-8", newline="") as file:
        stated = {(row["device_as_stated"], row["device_memory_gb"], row["device"]) for row in csv.DictReader(file)}
    for name, memory, kept in stated:
        assert device_name(name, float(memory) if memory else None, find) == kept, name
    assert len({kept for *_, kept in stated} & {*devices}) >= 30
