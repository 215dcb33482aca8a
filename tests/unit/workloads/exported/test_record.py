"""export.json is read as it was written, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainplan.workloads.exported.edge_tpu import edge_tpu, refusals
from trainplan.workloads.exported.record import (
    FILES,
    RECORD,
    Check,
    ExportRecord,
    Input,
    Operation,
    Output,
    RecordError,
    read_record,
    record_folder,
)
from trainplan.workloads.terms import ExportFormat

RECORDED = ExportRecord(
    format=ExportFormat.ONNX,
    file="model.onnx",
    size_bytes=1,
    sha256="0",
    model_sha256="1",
    job_name="net",
    input=Input(shape=(4, 4, 3), channels="red, green, blue"),
    output=Output(classes=3),
    class_names=("red", "green", "blue"),
    operations=(Operation(name="Conv", version=15, count=1),),
    check=Check(
        images=10,
        top1_before=1,
        top1_after=1,
        agreement=1,
        largest_difference=0,
        milliseconds_per_image=0.1,
        processor="one",
    ),
    versions={},
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(RECORDED.to_json())
    assert read_record(tmp_path) == RECORDED


def changed(*keys: str, value: Any) -> str:
    record = json.loads(RECORDED.to_json())
    inner = record
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        changed("file", value="../../model.onnx"),
        changed("format", value="pickle"),
        changed("input", "range", value=[0, 1]),
        changed("input", "channels", value="blue, green, red"),
        changed("input", "shape", value=[4, 4, 2]),
        changed("surprise", value=1),
        changed("check", "agreement", value=2),
    ],
    ids=lambda text: text[:20],
)
def test_another_text_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(RecordError, match=r"export\.json"):
        read_record(tmp_path)


def test_a_file_its_folder_and_its_record_are_the_same_export(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(RECORDED.to_json())
    (tmp_path / "model.onnx").write_bytes(b"")
    for path in (tmp_path, tmp_path / RECORD, tmp_path / "model.onnx"):
        assert record_folder(path) == tmp_path
    assert record_folder(tmp_path / "gone.onnx") is None
    saved = tmp_path / "beside" / FILES[ExportFormat.SAVEDMODEL]
    saved.mkdir(parents=True)
    assert record_folder(saved) is None
    (tmp_path / "beside" / RECORD).write_text("")
    assert record_folder(saved) == tmp_path / "beside"


def test_an_operation_is_refused_from_its_version_on() -> None:
    def refused(name: str, version: int) -> tuple[str, ...]:
        return edge_tpu([Operation(name=name, version=version, count=1)], "model.tflite").refused

    assert refused("CONV_2D", 5) == refused("SOFTMAX", 99) == ()
    assert (
        "CONV_2D version 7: version 6 was refused (https://github.com/google-coral/edgetpu/issues/631"
        in refused("CONV_2D", 7)[0]
    )
    assert "assumed" in refused("FULLY_CONNECTED", 12)[0]
    board = edge_tpu([], "model.tflite")
    assert (board.compiled, board.command) == (False, "edgetpu_compiler -s model.tflite")


def test_every_row_has_a_source_and_a_day() -> None:
    assert len(refusals()) >= 4
    for row in refusals():
        assert row.source.startswith(("https://", "tensorflow/"))
        assert row.date <= "2026-11-26"
