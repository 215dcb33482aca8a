"""A contact sheet: a few images of each class as a run would see them, in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.workloads.data_folder.check import spread
from trainplan.workloads.data_folder.decode import ImageError, square
from trainplan.workloads.data_folder.values import DataFolderError

if TYPE_CHECKING:
    from trainplan.workloads.data_folder.report import Report
    from trainplan.workloads.data_folder.samples import Sample

MOST_CLASSES = 24
COLUMNS = 8
_SIDE, _GAP, _LABEL_WIDTH = 96, 4, 170
_NAME_LETTERS = 26


def write_sheet(report: Report, file: Path) -> int:
    """Write the picture (by its suffix) and return how many images are on it.

    Each row is a class, of at most 24; each image is the central square that the trainer takes. What cannot be decoded
    is left out. Raises OSError, ValueError for a suffix that is no picture's, ModuleNotFoundError without Pillow.
    """
    from PIL import Image, ImageDraw

    rows = report.classes[:MOST_CLASSES]
    by_class: dict[int, list[Sample]] = {row.label: [] for row in rows}
    for sample in report.samples:
        if sample.label in by_class and not sample.held_out:
            by_class[sample.label].append(sample)
    high = _SIDE + _GAP
    sheet = Image.new("RGB", (_LABEL_WIDTH + COLUMNS * high, max(1, len(rows)) * high), "white")
    drawing, count = ImageDraw.Draw(sheet), 0
    for number, row in enumerate(rows):
        name = row.name.encode("utf-8", "replace").decode("utf-8")[:_NAME_LETTERS]
        drawing.text(
            (6, number * high + 8),
            f"{row.label}  {name}\n{row.train:,} to train on\n{row.hold_out:,} held out",
            "black",
        )
        for column, image in enumerate(_squares(spread(by_class[row.label], COLUMNS))):
            sheet.paste(image, (_LABEL_WIDTH + column * high, number * high))
            count += 1
    sheet.save(file)
    return count


def _squares(samples: list[Sample]) -> list[Any]:
    squares = []
    for sample in samples:
        try:
            squares.append(square(sample.read(), _SIDE, 3))
        except (OSError, ImageError, DataFolderError):
            continue
    return squares
