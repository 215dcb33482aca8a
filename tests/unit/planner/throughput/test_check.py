"""Which files `plan throughput check` reads, and what it says of the rows that it cannot read."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.unit.planner.cli.command import plan
from trainplan.planner.throughput.columns import COLUMNS
from trainplan.planner.throughput.compile import DATA

OLDER_HEADER = (
    "id,model,params_m,image_size,mode,device,device_memory_gb,interconnect,n_devices,n_nodes,precision,xla,"
    "batch_per_device,framework,framework_version,data,images_per_second,source_repo_or_url,source_path_or_section,"
    "source_date,notes"
)
"""Of collections of measurements that were made before the table had its columns of today."""
# TensorFlow's benchmark page of 2017, "Details DGX-1 / synthetic": 2 P100, VGG16.
TENSORFLOW = (
    "tfdoc-0010,vgg16,138.36,224,train,P100 SXM2,16,NVLink (DGX-1),2,1,fp32,no,64,TensorFlow tf_cnn_benchmarks,"
    "git b1e174e (CUDA8 cuDNN5.1),synthetic,295.00,github:tensorflow/tensorflow@5984ffefd320,"
    "tensorflow/docs_src/performance/benchmarks.md,2017-05,Q=A; variable_update=replicated(NCCL); sgd optimizer"
)
# GluonCV's training log of VGG16, github dmlc/web-data, gluoncv/logs/classification/imagenet/vgg16.log (2018-07-23).
GLUON = (
    "gluoncv-0001,vgg16,138.36,224,train,V100 SXM2,16,NVLink (p3.16xlarge),8,1,fp32,no,32,MXNet,,real,806,"
    'github:dmlc/web-data@f5546159113d,vgg16.log,2018-07-23,"Q=B; whole run of 100 epochs, real ImageNet from RAM disk"'
)
KEYS = ("column", "why", "lines", "values", "count")
EVERY_COLUMN = ",".join(COLUMNS)
OWN = (
    "nobody-0001,profet,README,vgg16,,224,train,T4,Tesla T4,16,,1,1,fp32,no,32,TensorFlow Keras,2.15,synthetic,60.5,,"
    "yes,,,B,2024-02-29,"
)


def a_file(folder: Path, *lines: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_the_projects_own_table_is_read_to_the_last_row() -> None:
    with (DATA / "measurements.csv").open(encoding="utf-8", newline="") as file:
        count = sum(1 for _ in csv.reader(file)) - 1
    said = plan("throughput", "check", DATA / "measurements.csv", "--json")
    assert (said.code, len(said.json["rows"])) == (0, count)
    assert said.json["unreadable"] == []
    assert "unreadable" not in said.json["summary"]["unpredicted_by_reason"]
    assert said.json["summary"]["n"] > 700


@pytest.mark.parametrize(
    ("header", "row"),
    [(OLDER_HEADER, TENSORFLOW), (f"{OLDER_HEADER},source_url", f"{GLUON},https://github.com"), (EVERY_COLUMN, OWN)],
    ids=["older names", "older names and one more column", "today's"],
)
def test_every_layout_of_columns_is_read(tmp_path: Path, header: str, row: str) -> None:
    said = plan("throughput", "check", a_file(tmp_path, header, row), "--json")
    assert (said.code, said.json["unreadable"]) == (0, []), said.err
    (read,) = said.json["rows"]
    assert read["line"] == 2
    assert read["predicted"] > 0


def with_cells(line: int, **cells: str) -> str:
    row = dict(zip(COLUMNS, OWN.split(","), strict=True)) | {"id": f"nobody-{line:04}"} | cells
    return ",".join(row.values())


def test_rows_that_cannot_be_read_are_told_one_line_for_one_cause(tmp_path: Path) -> None:
    lines = [
        *(with_cells(line, image_size_px="") for line in range(2, 9)),
        with_cells(9, images_per_second="n/a"),
        with_cells(10, note='"two\nlines"'),
        with_cells(12, images_per_second="-"),
        with_cells(13, precision="fp99"),
        with_cells(14, xla="maybe"),
        with_cells(15, note="a comma, without quotes"),
        with_cells(16),
    ]
    file = a_file(tmp_path, EVERY_COLUMN, *lines)
    said = plan("throughput", "check", file, "--json")
    assert said.code == 0
    assert (said.json["summary"]["n"], said.json["summary"]["unpredicted_by_reason"]) == (2, {"unreadable": 12})
    precisions = "is not one of fp32, tf32, fp16, amp_fp16, bf16, amp_bf16"
    cells = "has another number of cells than the header, which has 27: a cell with a comma needs quotes"
    assert [tuple(row[key] for key in KEYS) for row in said.json["unreadable"]] == [
        ("image_size_px", "is empty", [2, 3, 4, 5, 6, 7, 8], [], 7),
        ("images_per_second", "is not a number", [9, 12], ["n/a", "-"], 2),
        ("precision", precisions, [13], ["fp99"], 1),
        ("xla", "is not one of yes, no, unknown", [14], ["maybe"], 1),
        ("", cells, [15], [], 1),
    ]  # fmt: skip
    assert [row["line"] for row in said.json["rows"] if row["predicted"]] == [10, 16]
    text = plan("throughput", "check", file).out
    for line in (
        "not predicted: 12 unreadable",
        "unreadable: 7 rows (lines 2, 3, 4, 5, 6 and 2 more): image_size_px is empty",
        "unreadable: 2 rows (lines 9, 12): images_per_second is not a number: 'n/a', '-'",
        f"unreadable: 1 row (line 13): precision {precisions}: 'fp99'",
        f"unreadable: 1 row (line 15): {cells}",
    ):
        assert line in " ".join(text.split()), text


@pytest.mark.parametrize(
    ("device", "framework", "model", "batch"),
    [("RTX 4090", "PyTorch", "vgg16", "128"), ("A10G", "PyTorch", "resnet50", "128"), ("A100", "JAX", "vgg16", "64")],
)
def test_tf32_of_a_source_that_nobody_measured_is_no_slower_than_fp32(
    tmp_path: Path, device: str, framework: str, model: str, batch: str
) -> None:
    """As in an estimate, which had the order of precisions when these rows had not."""
    step = {"source": "mine", "device": device, "framework": framework, "model": model, "batch_per_device": batch}
    rows = (with_cells(line, **step, precision=precision) for line, precision in enumerate(("fp32", "tf32"), 2))
    fp32, tf32 = plan("throughput", "check", a_file(tmp_path, EVERY_COLUMN, *rows), "--json").json["rows"]
    assert tf32["predicted"] >= fp32["predicted"] > 0


def test_the_rows_that_are_farthest_off_are_listed_and_frameworks_have_their_names(tmp_path: Path) -> None:
    programs = ("TensorFlow Keras", "JAX/Flax", "PyTorch timm benchmark.py")
    rows = [with_cells(line, images_per_second=str(60 * line), framework=programs[line % 3]) for line in range(2, 14)]
    file = a_file(tmp_path, EVERY_COLUMN, *rows)
    lines = plan("throughput", "check", file).out.splitlines()
    worst = [line.split()[0] for line in lines[lines.index("farthest off, in images/s:") + 3 :]]
    assert len(worst) == 10
    assert worst[0] == "nobody-0013"
    summary = plan("throughput", "check", file, "--json").json["summary"]
    assert {*summary["by_framework"]} == {"TensorFlow", "JAX", "PyTorch"}


def test_a_file_of_which_no_row_can_be_read_is_an_error(tmp_path: Path) -> None:
    said = plan("throughput", "check", a_file(tmp_path, EVERY_COLUMN, with_cells(2, model=""), with_cells(3, model="")))
    assert (said.code, said.hint) == (2, "docs/measurements.md has what each column takes")
    assert said.error == f"no row of {tmp_path / 'rows.csv'} can be read: 2 rows (lines 2, 3): model is empty"


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("id,net,device,images_per_second", "has no column 'model'"),
        (OLDER_HEADER.replace(",image_size,", ",size,"), "has no column 'image_size_px'"),
        (f"{EVERY_COLUMN},model", "has the column 'model' twice"),
        ("", "has no column 'id'"),
    ],
)
def test_another_table_is_refused_by_its_header(tmp_path: Path, header: str, error: str) -> None:
    said = plan("throughput", "check", a_file(tmp_path, header, OWN), "--json")
    assert (said.code, said.json["exit_code"]) == (2, 2)
    assert error in said.error


def test_a_table_of_several_machines_is_another_one() -> None:
    said = plan("throughput", "check", DATA / "scaling.csv")
    assert (said.code, "has no column 'image_size_px'" in said.error) == (2, True)
