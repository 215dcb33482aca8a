"""What a run's model says of images: asked of the trainer in a process of its own, which alone loads the framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.workloads.data_folder.entries import Tally, files_below
from trainplan.workloads.data_folder.values import IMAGE_SUFFIXES
from trainplan.workloads.exported.record import MODULES, RECORD, RecordError, read_record
from trainplan.workloads.extras import install_hint
from trainplan.workloads.passed_variables import passed_variables
from trainplan.workloads.regular_file import regular_bytes
from trainplan.workloads.terms import ExportFormat, Framework

MOST_CLASSES = 5
"""Classes that are told of an image."""
_MODEL, _METRICS = "model.keras", "metrics.json"
_TRAINER = ("-P", "-m", "trainplan.workloads.trainer.predict")
_MOST_METRICS_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptModel:
    """A model as a run has left it: `size` is the height and width of its images in pixels. `accuracy` is the share of
    its test images that the run's own test found right; None where nothing says so. `format`: it is the exported
    file of that format in `folder`; None: model.keras."""

    folder: Path
    job_name: str = ""
    accuracy: float | None = None
    format: ExportFormat | None = None
    size: int
    channels: int
    framework: Framework
    class_names: tuple[str, ...]

    def name_of(self, label: int) -> str:
        """The class of a label; the label itself where the data had no names."""
        return self.class_names[label] if 0 <= label < len(self.class_names) else str(label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Of one image: the likeliest classes with their probabilities, or why it could not be read."""

    path: str
    classes: tuple[tuple[str, float], ...] = ()
    error: str = ""

    def _repr_html_(self) -> str:
        from trainplan.planner.runs.prediction_cell import predictions_cell

        return predictions_cell([self])


class Predictions(list[Prediction]):
    """Predictions in the order of their images; a notebook draws them with the images."""

    def _repr_html_(self) -> str:
        from trainplan.planner.runs.prediction_cell import predictions_cell

        return predictions_cell(self)


def kept_model(folder: Path) -> KeptModel:
    """The model in a run's folder. Raises BadInputError where there is none, or a script wrote it, ThisMachineError
    where it is of no use."""
    metrics = _metrics(folder)
    if metrics.get("simulated") is True:
        raise BadInputError(
            f"the run of {folder} is simulated: no net was trained, so that there is no model",
            "plan launch with another provider, local for example, trains one",
        )
    if _is_of_script(metrics):
        raise BadInputError(
            f"a script of your own has written what is in {folder}: nobody knows what its model takes",
            "load it as the script wrote it; predict and convert are for the models of jobs without a script",
        )
    if not (folder / _MODEL).is_file():
        raise BadInputError(f"there is no {_MODEL} in {folder}", "a run that has succeeded leaves one")
    try:
        metrics = json.loads(regular_bytes(folder / _METRICS, _MOST_METRICS_BYTES))
        height, width, channels = metrics["input"]["shape"]
        if not (height == width and isinstance(height, int) and height > 0 and channels in (1, 3)):
            raise ValueError(f"an input of {metrics['input']['shape']}")
        names = metrics["class_names"]
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("class_names is no list of names")
        framework = Framework(metrics["framework"])
        job_name, accuracy = str(metrics.get("name", "")), metrics.get("hold_out_accuracy")
    except OSError as error:
        raise ThisMachineError(
            f"cannot read {folder / _METRICS}: {error.strerror}", "it is written beside the model"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        message = f"{folder / _METRICS} does not say what the model takes: {error!r}"
        raise ThisMachineError(message, "only the trainer of this product writes it so") from None
    return KeptModel(
        folder=folder,
        job_name=job_name,
        accuracy=float(accuracy) if isinstance(accuracy, int | float) else None,
        size=height,
        channels=channels,
        framework=framework,
        class_names=tuple(names),
    )


def _metrics(folder: Path) -> dict[str, Any]:
    """What the run's metrics say; {} where nothing can be read."""
    try:
        metrics = json.loads(regular_bytes(folder / _METRICS, _MOST_METRICS_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return metrics if isinstance(metrics, dict) else {}


def _is_of_script(metrics: dict[str, Any]) -> bool:
    """Whether a script has written the output of the run: its metrics have steps and say nothing of an input."""
    return {"job_digest", "steps"} <= metrics.keys() and "input" not in metrics


def exported_model(folder: Path) -> KeptModel:
    """The exported file in a folder, as its export.json describes it. Raises ThisMachineError."""
    try:
        record = read_record(folder)
    except RecordError as error:
        raise ThisMachineError(str(error), "plan convert writes it beside the file that it exports") from None
    height, width, channels = record.input.shape
    if height != width or height < 1:
        raise ThisMachineError(f"{folder / RECORD} says that images have {height} x {width} pixels", "they are square")
    return KeptModel(
        folder=folder,
        job_name=record.job_name,
        format=record.format,
        size=height,
        channels=channels,
        framework=Framework.TENSORFLOW,
        class_names=record.class_names,
    )


def image_paths(named: Iterable[Path]) -> list[str]:
    """The files that are named, and the images below the folders. Raises BadInputError where there are none."""
    paths: list[str] = []
    for path in named:
        if not path.is_dir():
            if not path.exists():
                raise BadInputError(f"there is no file or folder {path}", "name images, or folders of images")
            paths.append(str(path))
            continue
        below = [str(file) for file in files_below(path, Tally(path)) if file.suffix.lower() in IMAGE_SUFFIXES]
        if not below:
            raise BadInputError(f"there is no image in {path}", f"images are {', '.join(IMAGE_SUFFIXES)}")
        paths += below
    return paths


def predictions(
    model: KeptModel, paths: Sequence[str], say: Callable[[str], None], program: Sequence[str] = ()
) -> list[Prediction]:
    """What the model says of each image, in their order. `program` is the trainer's command (none: of this Python).

    Raises ThisMachineError where no framework is there, or the model cannot be loaded.
    """
    path = model.folder if model.format else model.folder / _MODEL
    question = {
        "model": str(path),
        "framework": _framework(model, say),
        "size": model.size,
        "channels": model.channels,
        "paths": list(paths),
        "most": MOST_CLASSES,
    }
    command = [*(program or (sys.executable, *_TRAINER))]
    process = subprocess.run(
        command, input=json.dumps(question), capture_output=True, text=True, check=False,
        env=passed_variables(os.environ),
    )  # fmt: skip
    if process.returncode:
        *_, last = ["it said nothing", *process.stderr.strip().splitlines()]
        raise ThisMachineError(f"{path} could not be asked: {last.removeprefix('error: ')}")
    return [_prediction(model, json.loads(line)) for line in process.stdout.splitlines()]


def _framework(model: KeptModel, say: Callable[[str], None]) -> Framework:
    """The run's own framework where this Python has it, else another: the file is Keras', whatever trained it.

    An exported file has none: what opens it has to be there. Raises ThisMachineError.
    """
    if model.format is not None:
        _refuse_lack(model.format)
        return model.framework
    there = [framework for framework in (model.framework, *Framework) if find_spec(framework) is not None]
    if not there:
        raise ThisMachineError(
            "this Python has no TensorFlow, JAX or PyTorch to ask the model with",
            f"{install_hint('train-cpu')}; report.md beside the model has the code for another Python",
        )
    if there[0] is not model.framework:
        say(f"the model was trained with {model.framework}, which this Python has not: {there[0]} is asked instead")
    return Framework(there[0])


def _refuse_lack(format: ExportFormat) -> None:
    module = MODULES[format]
    if find_spec(module) is None:
        extra = "train-cpu" if format is ExportFormat.SAVEDMODEL else "convert"
        raise ThisMachineError(f"a file of the format {format} is opened with {module}", install_hint(extra))


def _prediction(model: KeptModel, answer: dict[str, Any]) -> Prediction:
    return Prediction(
        path=answer["path"],
        classes=tuple((model.name_of(label), score) for label, score in answer.get("scores", ())),
        error=answer.get("error", ""),
    )
