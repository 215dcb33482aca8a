"""`plan predict`: what the model of a run says of images."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import BadInputError
from trainplan.planner.report.page import Column, Table
from trainplan.planner.runs.predictions import (
    MOST_CLASSES,
    Prediction,
    exported_model,
    image_paths,
    kept_model,
    predictions,
)
from trainplan.workloads.exported.record import record_folder

_COLUMNS = (
    Column("image", shrinks=True),
    Column("class"),
    Column("probability", right=True),
    Column("next", rank_of_need=1),
)


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run, the beginning of its id, a folder with its model, or a file that plan convert has written",
            autocompletion=completion.runs,
        ),
    ],
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Images, or folders of images")],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one CSV row for each image")] = False,
    wide: options.Wide = False,
    as_json: options.Json = False,
) -> None:
    """Name the likeliest classes of images. They are read as the run read its own: upright, and the middle of them."""
    if as_csv and as_json:
        raise BadInputError("--csv and --json are two formats", "give one of them")
    exported = record_folder(Path(name))
    model = exported_model(exported) if exported else kept_model(_folder(name))
    told = predictions(model, image_paths(images), _tell)
    if as_json:
        sys.stdout.write(json.dumps({"model_folder": str(model.folder), "images": list(map(_json, told))}) + "\n")
    elif as_csv:
        _write_csv(told)
    else:
        show([Table(_COLUMNS, [_row(prediction) for prediction in told if not prediction.error])], wide=wide)
    errors = [prediction.error for prediction in told if prediction.error]
    for error in errors:
        _tell(error)
    if errors:
        raise BadInputError(
            f"{len(errors)} of {len(told)} images could not be read", "what is wrong with each is above"
        )


def _folder(name: str) -> Path:
    """Where the model is. Raises BadInputError for a run that leaves none."""
    if (Path(name) / "model.keras").is_file():
        return Path(name)
    with build.journal(options.settings()) as journal:
        run = journal.run(name)
    if not run.model_folder:
        raise BadInputError(f"run {run.run_id} measured this machine, and leaves no model", "plan history lists runs")
    return Path(run.model_folder)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _row(prediction: Prediction) -> tuple[str, ...]:
    (name, probability), *others = prediction.classes
    return prediction.path, name, f"{probability:.1%}", ", ".join(f"{other} {share:.1%}" for other, share in others)


def _json(prediction: Prediction) -> dict[str, object]:
    return {
        "path": prediction.path,
        "classes": [{"class": name, "probability": share} for name, share in prediction.classes],
        "error": prediction.error or None,
    }


def _write_csv(told: Sequence[Prediction]) -> None:
    """One row for each image; the cells of a class are empty where there are fewer, and for one that was not read."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    ranks = range(1, MOST_CLASSES + 1)
    writer.writerow(["path", *(f"{cell}_{rank}" for rank in ranks for cell in ("class", "probability")), "error"])
    for prediction in told:
        cells = [cell for pair in prediction.classes for cell in pair]
        writer.writerow([prediction.path, *cells, *[""] * (2 * MOST_CLASSES - len(cells)), prediction.error])
