"""What a finished run's model says of images: `python -m trainplan.workloads.trainer.predict` answers one question on
stdin.

The question is a JSON object: `model` (the path of model.keras, or the folder of an exported file, whose export.json is
read; Keras is not loaded then), `framework`, `size` and `channels` of the model's images, `paths` of those to look at,
`most` classes for each. The answers are lines of JSON on stdout, one for each
path: `path` and either `scores`, pairs of a label and its probability, the likeliest first, or `error`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from trainplan.workloads.exported.record import RecordError, read_record
from trainplan.workloads.job import Framework
from trainplan.workloads.trainer.backend import load
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.exports.loaders import FileError, open_file
from trainplan.workloads.trainer.images import FileImages, Pixels, pixels_of_file

_BATCH = 32
Model = Callable[[Pixels], Any]
"""Takes (images, size, size, channels), 0 to 255; gives probabilities as (images, classes)."""


class Question(TypedDict):
    """What is asked; see the module."""

    model: str
    framework: str
    size: int
    channels: int
    paths: list[str]
    most: int


def answers(question: Question, model: Model) -> Iterator[dict[str, Any]]:
    """One answer for each path, in their order; an image that cannot be read has an `error`."""
    paths = question["paths"]
    for begin in range(0, len(paths), _BATCH):
        part = paths[begin : begin + _BATCH]
        read = [_read(path, question) for path in part]
        pixels = [image for image in read if not isinstance(image, str)]
        scores = iter(np.asarray(model(np.stack(pixels))) if pixels else ())
        for path, image in zip(part, read, strict=True):
            if isinstance(image, str):
                yield {"path": path, "error": image}
            else:
                yield {"path": path, "scores": _likeliest(next(scores), question["most"])}


def _read(path: str, question: Question) -> Pixels | str:
    """The pixels, as training reads them; why there are none in words."""
    images = FileImages(
        paths=(path,), labels=np.zeros(1, np.int32), size=question["size"], channels=question["channels"]
    )
    try:
        return pixels_of_file(images, 0)
    except BadInputError as error:
        return str(error)


def _likeliest(scores: Any, most: int) -> Sequence[tuple[int, float]]:
    order = np.argsort(-scores, kind="stable")[:most]
    return [(int(label), float(scores[label])) for label in order]


def _loaded(question: Question) -> Model:
    """Raises BadInputError."""
    return _exported(Path(question["model"])) if Path(question["model"]).is_dir() else _kept(question)


def _exported(folder: Path) -> Model:
    try:
        record = read_record(folder)
        return open_file(folder, record.format, record.output)
    except ModuleNotFoundError as error:
        raise BadInputError(f"{error.name} is not installed") from error
    except (RecordError, FileError) as error:
        raise BadInputError(str(error)) from error


def _kept(question: Question) -> Model:
    keras = load(Framework(question["framework"])).keras
    try:
        model = keras.models.load_model(question["model"], compile=False)
    # What Keras raises for a file that is none of its models, or of another version's, is listed nowhere.
    except Exception as error:
        raise BadInputError(f"the model cannot be loaded: {' '.join(str(error).split())[:500]}") from error
    return lambda pixels: model.predict(pixels, verbose=0)


def main() -> int:
    """Answer the question on stdin; errors are one line on stderr."""
    # Frameworks write to stdout as they like: the answers have it for themselves.
    replies, sys.stdout = sys.stdout, sys.stderr
    question: Question = json.load(sys.stdin)
    try:
        model = _loaded(question)
    except BadInputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for answer in answers(question, model):
        replies.write(json.dumps(answer) + "\n")
        replies.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
