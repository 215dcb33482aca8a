"""Names the file and the record of which a framework's pipeline complains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainplan.workloads.data_folder.records import damaged_record
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.images import Images, RecordImages

# What tf.data raises of a record whose checksum does not fit, and where there are fewer records than were said.
_OFFSET = re.compile(r"(?:corrupted|truncated) record at (\d+)")
_COUNTED = re.compile(r"expected to contain \d+ elements? but contained only (\d+)")
# TensorFlow makes a text of what Python raises in its pipeline, and puts others around it.
_BEGIN, _END = "<<trainplan: ", " :trainplan>>"
_MARKED = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)


def marked(error: BadInputError) -> ValueError:
    """The error to raise in a pipeline of TensorFlow, so that `naming_damaged` finds the message again."""
    # TensorFlow takes no text that is not UTF-8, and names of files need not be.
    return ValueError(f"{_BEGIN}{error}{_END}".encode("utf-8", "backslashreplace").decode())


@contextmanager
def naming_damaged(images: Images) -> Iterator[None]:
    """Raises BadInputError in the place of the framework's own where an image of `images` cannot be decoded."""
    try:
        yield
    except BadInputError:
        raise
    except Exception as error:
        text = _text(images, str(error))
        if text is None:
            raise
        raise BadInputError(text) from error


def _text(images: Images, text: str) -> str | None:
    """What to do about the pipeline's complaint; None where it is none about the data."""
    message, offset, count = _MARKED.search(text), _OFFSET.search(text), _COUNTED.search(text)
    if message is not None:
        return message[1]
    if offset is not None and isinstance(images, RecordImages):
        return f"{_place(images, int(offset[1]))} is damaged: its checksum does not fit; write the file again"
    if count is not None and isinstance(images, RecordImages):
        return count_text(images.count, int(count[1]))
    return None


def _place(images: RecordImages, offset: int) -> str:
    """Which record of which file is damaged; TensorFlow says only where in a file."""
    for name in images.files:
        number = damaged_record(Path(name), offset)
        if number is not None:
            return f"record {number} of {name}"
    return f"a record {offset:,} bytes behind the beginning of its file"


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
