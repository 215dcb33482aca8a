"""`plan convert`: the model of a run as files for a phone, a browser, a Coral board, or another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.api.exports import MOST_LOSS_POINTS, ExportChoice, export_named
from trainplan.planner.api.names import one_of
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.exports import print_exports
from trainplan.planner.runs.exports import IMAGES
from trainplan.workloads.terms import ExportFormat


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run, the beginning of its id, or a folder with its model",
            autocompletion=completion.runs,
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", help=f"Formats, with commas between: {', '.join(ExportFormat)}; all: each of them")
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="The run's images, where they are not where the job has them"),
    ] = None,
    allow_loss: Annotated[
        float, typer.Option("--allow-loss", min=0, max=100, help="Points of top-1 that 8-bit numbers may cost")
    ] = MOST_LOSS_POINTS,
    images: Annotated[int, typer.Option("--images", min=1, help="Test images to check on, at most")] = IMAGES,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where the files go (default: exports, beside the model)"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write the files and check them, on this computer. What fails its check is not kept; the run stays as it is."""
    choice = ExportChoice(formats=_formats(to), data=data, out=out, images=images, loss_points=allow_loss)
    print_exports(export_named(name, choice, options.settings()), as_json)


def _formats(text: str) -> tuple[ExportFormat, ...]:
    names = [*ExportFormat] if text == "all" else [name.strip() for name in text.split(",")]
    return tuple(dict.fromkeys(ExportFormat(one_of("--to", name, [*ExportFormat])) for name in names))
