"""A run's model as files for other places: written and checked in processes of their own, which load the frameworks.

A format that fails is an error of that file alone: model.keras, the run and earlier exports stay as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainplan.planner.errors import ThisMachineError
from trainplan.planner.home.files import persons_files
from trainplan.planner.runs.predictions import KeptModel
from trainplan.providers.stores.files import sha256_of
from trainplan.workloads.exported.edge_tpu import edge_tpu
from trainplan.workloads.exported.record import FILES, RECORD, Check, ExportRecord, Input, Operation, Output
from trainplan.workloads.extras import install_hint
from trainplan.workloads.passed_variables import passed_variables
from trainplan.workloads.terms import ExportFormat
from trainplan.workloads.wording import Option

FOLDER = "exports"
"""Beside model.keras: a folder for each format."""
CALIBRATION_IMAGES = 200
MOST_OFF = 0.05
"""Between the accuracy of the run's own test and that on the images here, as a share: what a sample explains."""
IMAGES = 1_000
"""Test images that a file is checked on, as far as there are that many."""
_CONVERT = ("-P", "-m", "trainplan.workloads.trainer.exports.convert")
_CHECK = ("-P", "-m", "trainplan.workloads.trainer.exports.check")
_NEEDS = {
    ExportFormat.SAVEDMODEL: ("tensorflow",),
    ExportFormat.ONNX: ("tensorflow", "tf2onnx", "onnxruntime"),
    ExportFormat.TFLITE: ("tensorflow", "ai_edge_litert"),
    ExportFormat.TFLITE_INT8: ("tensorflow", "ai_edge_litert"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportQuery:
    """What is exported to which folder. The test images are those of the `job` (as JSON), with what it downloads in
    `data_dir`, or of the folder `data`. `allowed_loss` is of top-1, as a share."""

    model: KeptModel
    formats: tuple[ExportFormat, ...]
    to: Path
    job: str = ""
    data: Path | None = None
    first_label: int = 0
    data_dir: Path
    images: int = IMAGES
    allowed_loss: float
    processor: str
    converter: tuple[str, ...] = ()
    """The command that converts (none: that of this Python)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A format: the folder with its file and export.json, or why there is none."""

    format: ExportFormat
    folder: Path | None = None
    record: ExportRecord | None = None
    error: str = ""


def doubt(model: KeptModel, export: Export) -> str:
    """What to look at where model.keras is right far less or more often than in the run's own test; "" where it is not.

    These are other images then, or they are read in another way.
    """
    if model.accuracy is None or export.record is None:
        return ""
    check = export.record.check
    if abs(check.top1_before - model.accuracy) <= MOST_OFF:
        return ""
    return (
        f"model.keras is right in {check.top1_before:.1%} of these {check.images:,} images, and the run's own test "
        f"in {model.accuracy:.1%}: are they the images that the run held out?"
    )


def export_model(query: ExportQuery, show: Callable[[Export], None]) -> list[Export]:
    """Each format in turn; `show` gets it as soon as it is written or has failed.

    Raises ThisMachineError where nothing can be exported: without TensorFlow, the model, its images or room.
    """
    _refuse_lack(query.formats)
    exports: list[Export] = []
    try:
        with persons_files():
            query.to.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=".new-", dir=query.to))
            try:
                for export in _each(query, folder):
                    exports.append(export)
                    show(export)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise ThisMachineError(
            f"cannot write to {query.to}: {error.strerror or error}", f"make room, or give {Option.OUT}"
        ) from None
    return exports


def _refuse_lack(formats: Sequence[ExportFormat]) -> None:
    modules = dict.fromkeys(name for format in formats for name in _NEEDS[format])
    lacking = [name for name in modules if find_spec(name) is None]
    if lacking:
        raise ThisMachineError(
            f"plan convert needs {', '.join(lacking)}, which this Python has not", install_hint("convert,train-cpu")
        )


def _each(query: ExportQuery, folder: Path) -> Iterator[Export]:
    answers = _answers(query, folder)
    told = next(answers, {})
    for answer in answers:
        format = ExportFormat(answer["format"])
        error = answer["error"] and f"it could not be converted: {answer['error']}"
        yield _failed(format, error) if error else _checked(query, folder / format, format, told)


def _failed(format: ExportFormat, error: str) -> Export:
    return Export(format=format, error=error)


def _answers(query: ExportQuery, folder: Path) -> Iterator[dict[str, Any]]:
    """What the converting process answers, as it comes: the images first, then a format each."""
    question = {
        "model": str(query.model.folder / "model.keras"),
        "job": query.job,
        "data": str(query.data or ""),
        "data_dir": str(query.data_dir),
        "first_label": query.first_label,
        "size": query.model.size,
        "channels": query.model.channels,
        "formats": list(query.formats),
        "images": query.images,
        "calibration": CALIBRATION_IMAGES,
        "to": str(folder),
    }
    command = query.converter or (sys.executable, *_CONVERT)
    log = folder / "log"
    count = 0
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=passed_variables(os.environ),
        ) as process,
    ):
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError), process.stdin:  # one that has ended already says why in its log
                process.stdin.write(json.dumps(question))
            for line in process.stdout:
                count += 1
                yield json.loads(line)
        finally:
            process.kill()
    if count != 1 + len(query.formats):
        last = _last_line(log.read_text(encoding="utf-8", errors="replace"))
        raise ThisMachineError(
            f"{question['model']} could not be converted: {last}", f"{Option.DATA('FOLDER')} names other images"
        )


def _checked(query: ExportQuery, folder: Path, format: ExportFormat, told: dict[str, Any]) -> Export:
    """The file against model.keras, in a process without Keras; then it is moved to where it stays."""
    question = json.dumps({"folder": str(folder), "format": format, "allowed_loss": query.allowed_loss})
    command = (sys.executable, *_CHECK)
    process = subprocess.run(
        command, input=question, capture_output=True, text=True, check=False, env=passed_variables(os.environ)
    )
    if process.returncode:
        return _failed(format, f"the file was written, but {_last_line(process.stderr)}")
    answer = json.loads(process.stdout)
    record = _record(query, folder, format, told, answer)
    if answer["faults"]:
        return Export(format=format, record=record, error="; ".join(answer["faults"]))
    (folder / RECORD).write_text(record.to_json(), encoding="utf-8")
    target = query.to / format
    _replace(folder, target)
    return Export(format=format, folder=target, record=record)


def _last_line(text: str) -> str:
    *_, last = ["it said nothing", *text.strip().splitlines()]
    return last.removeprefix("error: ")


def _record(
    query: ExportQuery, folder: Path, format: ExportFormat, told: dict[str, Any], answer: dict[str, Any]
) -> ExportRecord:
    operations = tuple(Operation.model_validate(row) for row in answer["operations"])
    is_int8 = format is ExportFormat.TFLITE_INT8
    check = Check.model_validate(
        {
            **answer["figures"],
            "processor": query.processor,
            "calibration_images": told["calibration_images"] if is_int8 else None,
            "calibration_overlap": told["calibration_overlap"] if is_int8 else None,
        }
    )
    size, sha256 = _size_and_digest(folder / FILES[format])
    return ExportRecord(
        format=format,
        file=FILES[format],
        size_bytes=size,
        sha256=sha256,
        model_sha256=sha256_of(query.model.folder / "model.keras"),
        job_name=query.model.job_name,
        input=Input(
            shape=(query.model.size, query.model.size, 1 if query.model.channels == 1 else 3),
            channels="grey" if query.model.channels == 1 else "red, green, blue",
        ),
        output=Output.model_validate(answer["output"]),
        class_names=query.model.class_names,
        operations=operations,
        check=check,
        versions=told["versions"] | answer["versions"],
        edge_tpu=edge_tpu(operations, FILES[format]) if is_int8 else None,
    )


def _size_and_digest(path: Path) -> tuple[int, str]:
    """Of a SavedModel, the bytes of all its files, and the digest of its graph."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files), sha256_of(path if path.is_file() else path / "saved_model.pb")


def _replace(folder: Path, target: Path) -> None:
    """The new export in the place of an earlier one, which is there until the new one is."""
    old = folder.with_name(f"old-{target.name}")
    if target.exists():
        target.rename(old)
    folder.rename(target)
