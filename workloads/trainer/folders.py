"""A folder of images with a sub-folder per class, or a folder of TFRecords: found, counted and split."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from workloads.trainer.errors import BadInputError
from workloads.trainer.images import FileImages, Images, Keep, RecordImages, Split

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HOLD_OUT_EVERY = 10
_IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif"})
_HOLD_OUT_NAMES = ("validation", "valid", "val", "test")
_RECORD_HEADER = struct.Struct("<QI")
_RECORD_FOOTER_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the job says of the images: `size` px a side to resize to, `channels`, number of `classes`.

    `count` is the number of training images where the job gives it, which spares counting the records.
    """

    size: int
    channels: int
    classes: int
    count: int | None = None


def open_folder(folder: Path, wanted: Wanted) -> Split:
    """A folder of images or TFRecords, with its hold-out.

    Images: either train/ and validation/ (or valid, val, test), each with a sub-folder per class, or sub-folders
    per class, of which one image in ten, by a hash of its path, is held out. Labels number the classes by name.
    TFRecords: files whose name holds .tfrecord, or shards named train-* and validation-*; where none is named for
    validation or test, every tenth record of each file is held out.
    What has the name of an image or of records and is no regular file (a pipe would hold up training for ever) is left
    out and counted. Names need not be UTF-8.
    Raises BadInputError where the folder holds neither, or not what the job says.
    """
    if not folder.is_dir():
        raise BadInputError(f"there is no folder {folder} where the trainer runs; data.path must name one it can see")
    records, special = _regular(_record_files(folder))
    split = replace(_records(records, wanted), left_out=special) if records else _images(folder, wanted)
    for part, name in ((split.train, "to train on"), (split.hold_out, "to hold out")):
        if part.count == 0:
            raise BadInputError(f"{folder} has no image {name}; it needs at least a few dozen of each class")
    return split


def left_out_text(entries: int) -> str:
    """In words how many entries of a data folder were left out."""
    what = "entries of the data folder are" if entries > 1 else "entry of the data folder is"
    return f"{entries:,} {what} left out: only regular files are read, no pipes, sockets, devices and dangling links"


def _images(folder: Path, wanted: Wanted) -> Split:
    held = _hold_out_folder(folder)
    root = folder if held is None else folder / "train"
    classes = _class_names(root)
    if len(classes) != wanted.classes:
        raise BadInputError(
            f"{root} has {len(classes)} sub-folders, one per class, but the job has {wanted.classes} classes; "
            f"write model.classes: {len(classes)} or correct data.path"
        )
    files, special = _labelled(root, classes)
    if held is not None:
        train = files
        hold_out, held_special = _labelled(folder / held, classes)
        special += held_special
    else:
        train = [file for file in files if not _held_out(file[0])]
        hold_out = [file for file in files if _held_out(file[0])]
    return Split(
        train=_file_images(root, train, wanted),
        hold_out=_file_images(folder / held if held else root, hold_out, wanted),
        class_names=classes,
        left_out=special,
    )


def _hold_out_folder(folder: Path) -> str | None:
    names = {entry.name for entry in folder.iterdir() if entry.is_dir()}
    if "train" not in names:
        return None
    return next((name for name in _HOLD_OUT_NAMES if name in names and names <= {"train", *_HOLD_OUT_NAMES}), None)


def _class_names(root: Path) -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")))


def _labelled(root: Path, classes: tuple[str, ...]) -> tuple[list[tuple[str, int]], int]:
    """(path relative to root, label) of every image, in the same order on every machine; how many were left out."""
    labelled: list[tuple[str, int]] = []
    left_out = 0
    for label, name in enumerate(classes):
        named = [path for path in sorted((root / name).rglob("*")) if path.suffix.lower() in _IMAGE_SUFFIXES]
        images, special = _regular(named)
        labelled += [(path.relative_to(root).as_posix(), label) for path in images]
        left_out += special
    return labelled, left_out


def _regular(paths: list[Path]) -> tuple[list[Path], int]:
    """The regular files, links to such among them, and how many others there are that are no folders."""
    files = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113  # Path.is_file may raise
    return files, sum(not os.path.isdir(path) for path in paths) - len(files)  # noqa: PTH112


def _held_out(relative: str) -> bool:
    digest = hashlib.sha256(os.fsencode(relative)).digest()
    return int.from_bytes(digest[:8], "big") % HOLD_OUT_EVERY == 0


def _file_images(root: Path, files: list[tuple[str, int]], wanted: Wanted) -> Images:
    return FileImages(
        paths=tuple(str(root / relative) for relative, _ in files),
        labels=np.array([label for _, label in files], dtype=np.int32),
        size=wanted.size,
        channels=wanted.channels,
    )


def _record_files(folder: Path) -> list[Path]:
    named = [path for path in folder.rglob("*") if ".tfrecord" in path.name.lower()]
    sharded = [path for pattern in ("train-*", "validation-*", "test-*") for path in folder.glob(pattern)]
    return sorted({*named, *sharded})


def _records(files: list[Path], wanted: Wanted) -> Split:
    held = [file for file in files if file.name.lower().startswith(_HOLD_OUT_NAMES)]
    train = [file for file in files if file not in set(held)]
    if held:
        return Split(
            train=_record_images(train, Keep.ALL, wanted, count=wanted.count),
            hold_out=_record_images(held, Keep.ALL, wanted, count=None),
        )
    return Split(
        train=_record_images(train, Keep.TRAIN, wanted, count=wanted.count),
        hold_out=_record_images(train, Keep.HOLD_OUT, wanted, count=None),
    )


def _record_images(files: list[Path], keep: Keep, wanted: Wanted, *, count: int | None) -> Images:
    return RecordImages(
        files=tuple(str(file) for file in files),
        count=count if count is not None else sum(_kept(count_records(file), keep) for file in files),
        keep=keep,
        size=wanted.size,
        channels=wanted.channels,
    )


def _kept(records: int, keep: Keep) -> int:
    held_out = -(-records // HOLD_OUT_EVERY)
    match keep:
        case Keep.ALL:
            return records
        case Keep.TRAIN:
            return records - held_out
        case Keep.HOLD_OUT:
            return held_out


def count_records(file: Path) -> int:
    """Records in a TFRecord file, from its frames alone: length, checksum, data, checksum.

    Raises BadInputError where a frame runs past the end: the file is cut short or no TFRecord.
    """
    return sum(1 for _ in _frames(file))


def _frames(file: Path) -> Iterable[int]:
    size = file.stat().st_size
    with file.open("rb") as opened:
        position = 0
        while position < size:
            header = opened.read(_RECORD_HEADER.size)
            if len(header) == _RECORD_HEADER.size:
                position += _RECORD_HEADER.size + _RECORD_HEADER.unpack(header)[0] + _RECORD_FOOTER_BYTES
            if len(header) < _RECORD_HEADER.size or position > size:
                raise BadInputError(f"{file} is cut short or is not an uncompressed TFRecord file; write it again")
            opened.seek(position)
            yield position
