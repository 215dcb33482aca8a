"""What the compiler of the measurements refuses, and the page that lists the columns."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.unit.planner.cli.command import plan
from trainplan.planner.throughput.columns import COLUMNS, FASTEST_IMAGES_PER_SECOND
from trainplan.planner.throughput.compile import COLUMNS_PAGE, DATA, BadTableError, compile_measurements
from trainplan.planner.throughput.rows import OLDER_NAMES

ROOT = Path(__file__).parents[4]
ROW = {
    "id": "nobody-0001", "source": "profet", "source_section": "README", "model": "vgg16", "parameters_million": "",
    "image_size_px": "224", "mode": "train", "device": "T4", "device_as_stated": "Tesla T4", "device_memory_gb": "16",
    "interconnect": "", "device_count": "1", "node_count": "1", "precision": "fp32", "xla": "no",
    "batch_per_device": "32", "framework": "TensorFlow Keras", "framework_version": "2.15", "data": "synthetic",
    "images_per_second": "60.5", "spread_fraction": "", "optimizer_step": "yes", "parallelism": "", "layout": "",
    "quality": "B", "measured_on": "2024-02-29", "note": "",
}  # fmt: skip


def _compiled(folder: Path, **cells: str) -> None:
    """Compiles a table of this one row. Raises BadTableError."""
    text = io.StringIO()
    writer = csv.DictWriter(text, tuple(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerow({**ROW, **cells})
    (folder / "measurements.csv").write_text(text.getvalue(), encoding="utf-8")
    (folder / "networks.csv").write_text(text.getvalue().splitlines()[0] + "\n", encoding="utf-8")
    (folder / "sources.csv").write_bytes((DATA / "sources.csv").read_bytes())
    compile_measurements(folder, folder / "measurements.sqlite")


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("device", "cpu"), ("device", "Apple M1"), ("measured_on", ""), ("measured_on", "2024"),
        ("measured_on", "2020-2024"), ("measured_on", "2024-02"), ("xla", "unknown"), ("batch_per_device", ""),
    ],
)  # fmt: skip
def test_a_row_that_can_be_true_is_taken(tmp_path: Path, column: str, cell: str) -> None:
    _compiled(tmp_path, **{column: cell})


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("device", "RTX 9999", "device 'RTX 9999' is not in pricing/data/devices.toml; did you mean"),
        ("device", "t4", "device 't4' is a spelling: write 'T4'"),
        ("precision", "fp99", "precision 'fp99' is not one of fp32, tf32, fp16, amp_fp16, bf16, amp_bf16"),
        ("xla", "maybe", "xla 'maybe' is not one of yes, no, unknown"),
        ("images_per_second", "4200000000", "images_per_second '4200000000' is more than 100,000 for each device"),
        ("images_per_second", "9000", "times the peak rate of T4"),
        ("images_per_second", "0", "images_per_second '0' is not a number from"),
        ("images_per_second", "nan", "images_per_second 'nan' is not a number from"),
        ("images_per_second", "", "images_per_second '' is not a number from"),
        ("measured_on", "yesterday", "measured_on 'yesterday' is not a day as 2024-02-29, a month"),
        ("measured_on", "2023-02-29", "measured_on '2023-02-29' is not a day"),
        ("measured_on", "2206", "up to this year"),
        ("measured_on", "1998", "is not a day"),
        ("source", "hearsay", "source 'hearsay' is not in sources.csv: add a row there"),
        ("quality", "D", "quality 'D' is not one of A, B, C"),
        ("device_count", "2.5", "device_count '2.5' is not a whole number from 1"),
        ("id", " ", "id ' ' is empty"),
    ],
)
def test_a_row_that_cannot_be_true_is_refused(tmp_path: Path, column: str, cell: str, message: str) -> None:
    with pytest.raises(BadTableError, match=r"^measurements\.csv, line 2: ") as caught:
        _compiled(tmp_path, **{column: cell})
    assert message in str(caught.value)


def test_the_fastest_shipped_row_is_near_the_bound() -> None:
    with (DATA / "measurements.csv").open(encoding="utf-8", newline="") as file:
        each = [float(row["images_per_second"]) / int(row["device_count"]) for row in csv.DictReader(file)]
    assert FASTEST_IMAGES_PER_SECOND / 2 < max(each) < FASTEST_IMAGES_PER_SECOND


def test_the_page_lists_every_column(golden: Golden) -> None:
    older = {name: old for old, name in OLDER_NAMES.items()}
    rows = [
        f"| `{name}` | {column.meaning} | {column.allowed} | {f'`{older[name]}`' if name in older else ''} |"
        for name, column in COLUMNS.items()
    ]
    page = ROOT / COLUMNS_PAGE
    text = page.read_text(encoding="utf-8")
    before, start, _ = text.partition("| column |")
    assert start
    table = "| column | what it says | cells | older name |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    golden.check(page, before + table)


def test_check_reads_the_projects_own_table(tmp_path: Path) -> None:
    lines = (DATA / "measurements.csv").read_text(encoding="utf-8").splitlines()
    vgg = [line for line in lines if line.startswith("profet-") and ",vgg16," in line and ",train,T4," in line]
    assert vgg
    (tmp_path / "own.csv").write_text("\n".join([lines[0], *vgg]) + "\n", encoding="utf-8")
    summary = plan("throughput", "check", tmp_path / "own.csv", "--json").json["summary"]
    assert (summary["n"], summary["seen"], summary["unpredicted"]) == (len(vgg), len(vgg), 0)
