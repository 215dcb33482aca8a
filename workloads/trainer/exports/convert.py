"""Writes a kept model in other formats: `python -m trainplan.workloads.trainer.exports.convert` answers one question on
stdin.

The question is a JSON object (`Question`). The first answer, a line of JSON on stdout, tells of the images; what
model.keras says of them lies in `to` as REFERENCE. Then comes one for each format with its `error`, "" where there is
none, as soon as its file is written into a folder of its own in `to`.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from trainplan.workloads.data_folder.unwrapped import unwrapped
from trainplan.workloads.job import job_from_json
from trainplan.workloads.terms import ExportFormat, Framework
from trainplan.workloads.trainer.backend import Toolkit, load
from trainplan.workloads.trainer.data import open_data
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.exports import conversions
from trainplan.workloads.trainer.exports.compare import REFERENCE
from trainplan.workloads.trainer.exports.images import Chosen, choose
from trainplan.workloads.trainer.exports.replies import own_stdout
from trainplan.workloads.trainer.folders import FolderQuery, open_folder
from trainplan.workloads.trainer.images import Pixels, Split

_BATCH = 32
Converter = Callable[[Any, Any, ExportFormat, Path, Pixels], None]
"""Takes Keras, the model, the format, the folder to write into, and images to calibrate with."""


class Question(TypedDict):
    """`model` is the path of model.keras, whose images are `size` px a side. The images are those that the job (as
    JSON) held out, with what it downloads in `data_dir`, or of a folder `data` of them where that is not "".
    `images` is how many are checked on at most, `calibration` how many give 8-bit numbers their ranges."""

    model: str
    job: str
    data: str
    data_dir: str
    first_label: int
    size: int
    channels: int
    formats: list[str]
    images: int
    calibration: int
    to: str


def main(convert: Converter = conversions.convert) -> int:
    """Answer the question on stdin; errors that end it are one line on stderr."""
    reply = own_stdout()
    question: Question = json.load(sys.stdin)
    try:
        # Trained with JAX or PyTorch, too: the file is Keras', and only TensorFlow writes all formats.
        toolkit = load(Framework.TENSORFLOW)
        model = _model(toolkit.keras, question["model"])
        chosen = choose(_split(question, model), question["images"], question["calibration"])
    except BadInputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    _write_reference(model, chosen, Path(question["to"]))
    reply(_told(toolkit, chosen))
    for name in question["formats"]:
        folder = Path(question["to"]) / name
        folder.mkdir()
        reply({"format": name, "error": _error(convert, toolkit.keras, model, folder, chosen.calibration)})
    return 0


def _model(keras: Any, path: str) -> Any:
    try:
        model = keras.models.load_model(path, compile=False)
    # What Keras raises for a file that is none of its models, or of another version's, is listed nowhere.
    except Exception as error:
        raise BadInputError(f"the model cannot be loaded: {' '.join(str(error).split())[:500]}") from error
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise BadInputError(
            f"the model has {len(model.inputs)} inputs and {len(model.outputs)} outputs, and one is needed"
        )
    return model


def _split(question: Question, model: Any) -> Split:
    if not question["data"]:
        return open_data(job_from_json(question["job"]), Path(question["data_dir"]))
    query = FolderQuery(
        size=question["size"],
        channels=question["channels"],
        classes=int(model.outputs[0].shape[-1]),
        first_label=question["first_label"],
    )
    return open_folder(unwrapped(Path(question["data"])), query)


def _write_reference(model: Any, chosen: Chosen, folder: Path) -> None:
    probabilities = np.asarray(model.predict(chosen.pixels, batch_size=_BATCH, verbose=0), np.float32)
    np.savez(folder / REFERENCE, pixels=chosen.pixels, labels=chosen.labels, probabilities=probabilities)


def _told(toolkit: Toolkit, chosen: Chosen) -> dict[str, Any]:
    return {
        "images": len(chosen.labels),
        "calibration_images": len(chosen.calibration),
        "calibration_overlap": chosen.overlap,
        "versions": {"keras": toolkit.keras_version, "tensorflow": toolkit.framework_version},
    }


def _error(convert: Converter, keras: Any, model: Any, folder: Path, calibration: Pixels) -> str:
    """Why the model cannot be written into the folder, whose name is the format; "" where it was."""
    try:
        convert(keras, model, ExportFormat(folder.name), folder, calibration)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
    except Exception as error:  # noqa: BLE001 - one format that fails leaves the others alone
        traceback.print_exc()
        return " ".join(str(error).split())[:500] or type(error).__name__
    return ""


if __name__ == "__main__":
    raise SystemExit(main())
