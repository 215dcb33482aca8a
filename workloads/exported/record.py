"""export.json, which lies beside every exported file: what the file takes, what it gives, and how its check went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from trainplan.workloads.regular_file import regular_bytes
from trainplan.workloads.terms import ExportFormat
from trainplan.workloads.values import Value

RECORD = "export.json"
FILES = {
    ExportFormat.SAVEDMODEL: "saved_model",
    ExportFormat.ONNX: "model.onnx",
    ExportFormat.TFLITE: "model.tflite",
    ExportFormat.TFLITE_INT8: "model.tflite",
}
"""The file of each format, in a folder of its own; a SavedModel is a folder."""
MODULES = {
    ExportFormat.SAVEDMODEL: "tensorflow",
    ExportFormat.ONNX: "onnxruntime",
    ExportFormat.TFLITE: "ai_edge_litert",
    ExportFormat.TFLITE_INT8: "ai_edge_litert",
}
"""What each format is opened with."""
IS_FLOAT = {format: format is not ExportFormat.TFLITE_INT8 for format in ExportFormat}
_MOST_BYTES = 16 * 1024 * 1024
Share = Annotated[float, Field(ge=0, le=1)]


class RecordError(ValueError):
    """An export.json that is not there, or that this version of the product has not written."""


class Input(Value):
    """The images that a file takes: `shape` is height, width and channels, of pixels from 0 to 255 as unsigned bytes.

    How an image becomes one is always the same (workloads/data_folder/decode.py): upright, its central square, resized.
    """

    shape: tuple[int, int, Literal[1, 3]]
    dtype: Literal["uint8"] = "uint8"
    range: tuple[Literal[0], Literal[255]] = (0, 255)
    channels: Literal["grey", "red, green, blue"]
    framing: Literal["upright, central square, resized"] = "upright, central square, resized"


class Output(Value):
    """A probability for each class: `scale` times the number that the file gives less `zero_point`."""

    classes: Annotated[int, Field(ge=1)]
    dtype: Literal["float32", "uint8"] = "float32"
    scale: float = 1.0
    zero_point: int = 0


class Operation(Value):
    """An operation of the file, its version (of ONNX: of the operator set), and how often it occurs."""

    name: str
    version: int
    count: int


class Check(Value):
    """The file against model.keras, on images that the run held out.

    `top1_before` and `top1_after` are the shares of images of which model.keras and the file name the right class,
    `agreement` the share of which both name the same. `largest_difference` is that of any probability.
    `milliseconds_per_image` is of one image at a time, with one thread of `processor`. `calibration_images` gave the
    ranges of the 8-bit numbers; `calibration_overlap` of them were checked too. `clipped`: the share of the logits
    at an end of their range.
    """

    images: Annotated[int, Field(ge=1)]
    top1_before: Share
    top1_after: Share
    agreement: Share
    largest_difference: Annotated[float, Field(ge=0)]
    milliseconds_per_image: Annotated[float, Field(gt=0)]
    processor: str
    calibration_images: int | None = None
    calibration_overlap: int | None = None
    clipped: Share | None = None


class EdgeTpu(Value):
    """What is known of compiling the file for a Coral board. `refused` are sentences; `command` compiles it."""

    compiled: Literal[False] = False
    compiler: str
    refused: tuple[str, ...]
    command: str


class ExportRecord(Value):
    """The whole file. `model_sha256` is that of the model.keras that it was made from."""

    format: ExportFormat
    file: str
    size_bytes: int
    sha256: str
    model_sha256: str
    job_name: str
    input: Input
    output: Output
    class_names: tuple[str, ...]
    operations: tuple[Operation, ...]
    check: Check
    versions: dict[str, str]
    edge_tpu: EdgeTpu | None = None

    def to_json(self) -> str:
        """The text of export.json."""
        return self.model_dump_json(indent=1, exclude_none=True) + "\n"


def read_record(folder: Path) -> ExportRecord:
    """The record in the folder of an exported file. Raises RecordError."""
    path = folder / RECORD
    try:
        text = regular_bytes(path, _MOST_BYTES)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from None
    try:
        record = ExportRecord.model_validate_json(text)
    except (ValidationError, RecursionError) as error:
        raise RecordError(f"{path} is no export.json of this product: {_first(error)}") from None
    if record.file != FILES[record.format]:
        raise RecordError(f"{path} names the file {record.file!r}, which is not that of the format {record.format}")
    return record


def record_folder(path: Path) -> Path | None:
    """Where the export.json of what somebody named is: the exported file, its folder, or the record; None: nowhere."""
    folders = (path, path.parent) if path.is_dir() else (path.parent,)
    return next((folder for folder in folders if path.exists() and (folder / RECORD).is_file()), None)


def _first(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    row = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, row['loc'])) or 'the text'}: {row['msg']}"
