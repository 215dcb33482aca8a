"""Turns a framework's complaint about an image into the name of the file that is damaged."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from workloads.trainer.errors import BadInputError
from workloads.trainer.images import FileImages, Images, RecordImages

if TYPE_CHECKING:
    from collections.abc import Iterator

# What tf.data raises when a file, or a record in a file, cannot be decoded.
_READ_ERRORS = frozenset({"InvalidArgumentError", "DataLossError", "NotFoundError"})


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
            case RecordImages() if "decode" in str(error).lower() or "image" in str(error).lower():
                raise BadInputError(
                    f"an image in the TFRecords cannot be decoded: {str(error).splitlines()[0][:200]}"
                ) from error
        raise


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
