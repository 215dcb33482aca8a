"""Turns a framework's complaint about an image into the name of the file that is damaged."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workloads.trainer.errors import BadInputError
from workloads.trainer.images import ArrayImages, FileImages, Images, RecordImages

if TYPE_CHECKING:
    from collections.abc import Iterator

# What tf.data raises when a file, or a record in a file, cannot be decoded, or when there are fewer than were said.
_READ_ERRORS = frozenset({"InvalidArgumentError", "DataLossError", "NotFoundError", "FailedPreconditionError"})
LABEL_MARK = "a label is out of range:"
_LABEL = re.compile(rf"{LABEL_MARK}\W*(-?\d+)")
_COUNTED = re.compile(r"expected to contain \d+ elements? but contained only (\d+)")


@contextmanager
def naming_damaged(images: Images) -> Iterator[None]:
    """Raises BadInputError in the place of the framework's own where an image of `images` cannot be decoded."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in _READ_ERRORS:
            raise
        match images:
            case FileImages():
                damaged = first_damaged(images)
                if damaged is not None:
                    raise BadInputError(f"{damaged} cannot be read as an image; replace or delete it") from error
            case RecordImages():
                text = _records_text(images, str(error))
                if text is not None:
                    raise BadInputError(text) from error
            case ArrayImages():
                pass
        raise


def _records_text(images: RecordImages, text: str) -> str | None:
    """What to do about the pipeline's complaint; None where it is none about the records."""
    label, match = _LABEL.search(text), _COUNTED.search(text)
    if label is not None:
        return label_text("a record", int(label[1]), images)
    if match is not None:
        return count_text(images.count, int(match[1]))
    if "decode" in text.lower() or "image" in text.lower():
        return f"an image in the TFRecords cannot be decoded: {text.splitlines()[0][:200]}"
    return None


def count_text(count: int, total: int) -> str:
    """What to do where the training records are fewer than were counted."""
    return (
        f"the training records hold {total:,} images, and {count:,} were counted before; see that nobody changes the "
        "data during the run"
    )


def label_text(where: str, label: int, images: RecordImages) -> str:
    """Which record's label is out of range, and what to write instead."""
    first, last = images.first_label, images.first_label + images.classes - 1
    remedy = "correct the records or model.classes"
    if label == last + 1 and first == 0:
        remedy = f"write data.first_label: 1 if the labels run from 1 to {label}, else correct model.classes"
    elif label == first - 1:
        remedy = f"write data.first_label: {label}, or leave it out where the labels begin at 0"
    return f"{where} has the label {label}; the {images.classes} classes have the labels {first} to {last}: {remedy}"


def first_damaged(images: FileImages) -> str | None:
    """The first file that does not decode; reads every file up to it."""
    from PIL import Image

    for path in images.paths:
        try:
            with Image.open(path) as opened:
                opened.load()
        except (OSError, SyntaxError, ValueError):
            return path
    return None
