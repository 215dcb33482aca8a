"""Predictions in the cell of a notebook: each image, small, beside the classes that the model gives it."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.report.html import Content, Markup, table, tag
from trainplan.planner.report.notebook_cell import cell
from trainplan.planner.report.page import Cell, Column, Table, Tone
from trainplan.workloads.data_folder.decode import ImageError, square
from trainplan.workloads.regular_file import regular_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainplan.planner.runs.predictions import Prediction

MOST_SHOWN = 60
"""Images in a cell: with their pictures about half a megabyte, which is saved with the notebook."""
SIDE_PIXELS = 112
_QUALITY = 80
_MOST_IMAGE_BYTES = 64 * 1024 * 1024
"""A larger file has no picture: the cell is drawn while somebody waits."""
_COLUMNS = (
    Column("image"),
    Column("file", shrinks=True),
    Column("class"),
    Column("probability", right=True),
    Column("next"),
)


def predictions_cell(predictions: Sequence[Prediction]) -> str:
    """A row for each of the first predictions. An image that cannot be read any more has no picture."""
    if not predictions:
        return cell(tag("p", "no image"))
    rows = [_row(prediction) for prediction in predictions[:MOST_SHOWN]]
    more = len(predictions) - len(rows)
    rest = tag("p", f"and {more:,} more: the list has them all", class_="muted") if more > 0 else None
    return cell(table(Table(_COLUMNS, rows), "images and their classes"), rest)


def _row(prediction: Prediction) -> list[str | Cell]:
    picture, name = _picture(prediction.path), Path(prediction.path).name
    if prediction.error or not prediction.classes:
        return [picture, name, Cell(prediction.error or "no class", Tone.BAD), "", ""]
    (first, share), *others = prediction.classes
    following = ", ".join(f"{other} {less:.1%}" for other, less in others[:2])
    return [picture, name, first, f"{share:.1%}", following]


def _picture(path: str) -> Markup:
    """The central square, which is what the model was asked about; nothing where it cannot be read here."""
    try:
        image = square(regular_bytes(Path(path), _MOST_IMAGE_BYTES), SIDE_PIXELS, 3)
    except (OSError, ValueError, ImageError, ImportError):
        return Markup()
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=_QUALITY)
    source: Content = f"data:image/jpeg;base64,{base64.b64encode(encoded.getvalue()).decode()}"
    return tag("img", src=str(source), alt=Path(path).name, width=SIDE_PIXELS, height=SIDE_PIXELS)
