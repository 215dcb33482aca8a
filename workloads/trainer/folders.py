"""A data folder as the images to train on and those to hold out: images in folders, or TFRecords."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainplan.workloads.data_folder.layout import read_layout
from trainplan.workloads.data_folder.npz import pixel_factor
from trainplan.workloads.data_folder.parquet import ParquetLayout
from trainplan.workloads.data_folder.published import Part, PublishedSet
from trainplan.workloads.data_folder.records import KEYS, Keys, count_records, held_out_of, keys_of, read_records
from trainplan.workloads.data_folder.shards import refuse_no_training_files
from trainplan.workloads.data_folder.values import DataFolderError, ImageLayout, RecordLayout, wrong_count_text
from trainplan.workloads.trainer.damage import label_text
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.images import FileImages, Images, RecordImages, Split, in_memory

# Beside this each label is checked when it is trained on: that the first ones are told before the framework is loaded.
_PROBED_FILES = 16
_PROBED_RECORDS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderQuery:
    """What the job says of the images: `size` px a side to resize to, `channels`, number of `classes`.

    `count` is the number of training images where the job gives it; `first_label` is the label that records give to
    the first class.
    """

    size: int
    channels: int
    classes: int
    count: int | None = None
    first_label: int = 0


def open_folder(folder: Path, query: FolderQuery) -> Split:
    """A folder of images, TFRecords or a published set, with its hold-out.

    Which files are which is told by trainplan.workloads.data_folder. What is left out is in the split, with reasons.
    Names need not be UTF-8.
    Raises BadInputError where the folder holds neither, can be read in two ways, or is not what the job says.
    """
    try:
        split = _opened(folder, query)
    except DataFolderError as error:
        raise BadInputError(str(error)) from error
    for part, name in ((split.train, "to train on"), (split.hold_out, "to hold out")):
        if part.count == 0:
            raise BadInputError(f"{folder} has no image {name}; it needs at least a few dozen of each class")
    if query.count is not None and query.count != split.train.count:
        raise BadInputError(wrong_count_text(query.count, split.train.count))
    return split


def _opened(folder: Path, query: FolderQuery) -> Split:
    layout = read_layout(folder)
    if isinstance(layout, PublishedSet):
        return published_split(layout)
    if isinstance(layout, ParquetLayout):
        raise DataFolderError(
            f"{layout.train[0]} is Parquet, which is not read where a run trains: plan launch writes a folder of it on "
            "your computer as images, and so does plan data convert FOLDER TO"
        )
    return _images(layout, query) if isinstance(layout, ImageLayout) else _records(layout, query)


def published_split(data: PublishedSet) -> Split:
    """MNIST, CIFAR or a person's own arrays, in memory. Raises DataFolderError for pixels that are normalised."""
    pixels = [_pixels(part) for part in (data.train, data.hold_out)]
    lowest, highest = (
        min(float(part.min(initial=0)) for part in pixels),
        max(float(part.max(initial=0)) for part in pixels),
    )
    factor = pixel_factor(data.train.descr, float(lowest), float(highest))
    train, hold_out = (
        in_memory(
            part if part.dtype == np.uint8 and factor == 1 else np.rint(part.astype(np.float32) * factor),
            np.array(of.labels),
        )
        for part, of in zip(pixels, (data.train, data.hold_out), strict=True)
    )
    return Split(train=train, hold_out=hold_out, class_names=data.class_names)


def _pixels(part: Part) -> npt.NDArray[Any]:
    """(images, side, side, channels), of images that are not square the central square."""
    pixels = np.frombuffer(part.pixels, part.descr)
    if part.planar:
        pixels = pixels.reshape(-1, part.channels, part.height, part.width).transpose(0, 2, 3, 1)
    else:
        pixels = pixels.reshape(-1, part.height, part.width, part.channels)
    side = min(part.height, part.width)
    top, left = (part.height - side) // 2, (part.width - side) // 2
    return pixels[:, top : top + side, left : left + side]


def _images(layout: ImageLayout, query: FolderQuery) -> Split:
    classes = layout.class_names
    if len(classes) != query.classes:
        raise DataFolderError(
            f"{layout.train_root} has {len(classes)} sub-folders, one per class, but the job has {query.classes} "
            f"classes; write model.classes: {len(classes)} or correct data.path"
        )
    return Split(
        train=_file_images(layout.train_root, layout.train, query),
        hold_out=_file_images(layout.hold_out_root, layout.hold_out, query),
        class_names=classes,
        left_out=layout.left_out,
    )


def _file_images(root: Path, files: tuple[tuple[str, int], ...], query: FolderQuery) -> Images:
    return FileImages(
        paths=tuple(str(root / relative) for relative, _ in files),
        labels=np.array([label for _, label in files], dtype=np.int32),
        size=query.size,
        channels=query.channels,
    )


def _records(layout: RecordLayout, query: FolderQuery) -> Split:
    refuse_no_training_files(layout, "TFRecords")
    keys = next(filter(None, map(keys_of, layout.train)), KEYS[0])
    if layout.hold_out:
        pair = tuple(_record_images(files, None, keys, query) for files in (layout.train, layout.hold_out))
    else:
        held = _held_out(layout.train, keys)
        pair = tuple(_record_images(layout.train, kept, keys, query) for kept in (tuple(~mask for mask in held), held))
    return Split(
        train=pair[0],
        hold_out=pair[1],
        class_names=layout.class_names if len(layout.class_names) == query.classes else (),
        left_out=layout.left_out,
    )


_Kept = tuple[npt.NDArray[np.bool_], ...]


def _held_out(files: tuple[Path, ...], keys: Keys) -> _Kept:
    """Of each file, which of its records are held out."""
    by_file = [list(read_records(file, keys)) for file in files]
    held = np.array(held_out_of([record for records in by_file for record in records]), np.bool_)
    ends = np.cumsum([len(records) for records in by_file])
    return tuple(np.split(held, ends[:-1]))


def _record_images(files: tuple[Path, ...], kept: _Kept | None, keys: Keys, query: FolderQuery) -> RecordImages:
    counts = map(count_records, files) if kept is None else (int(mask.sum()) for mask in kept)
    return RecordImages(
        files=tuple(str(file) for file in files),
        count=sum(counts),
        kept=kept,
        size=query.size,
        channels=query.channels,
        classes=query.classes,
        keys=keys,
        first_label=query.first_label,
    )


def check_records(images: Images) -> None:
    """Look at the first records of up to sixteen files. Raises BadInputError where a label is out of range, or where
    they are no records of images."""
    if not isinstance(images, RecordImages):
        return
    for name in images.files[:: -(-len(images.files) // _PROBED_FILES)]:
        try:
            for record in islice(read_records(Path(name), images.keys), _PROBED_RECORDS):
                if not 0 <= record.label - images.first_label < images.classes:
                    raise BadInputError(label_text(f"record {record.number} of {name}", record.label, images))
        except (DataFolderError, OSError) as error:
            raise BadInputError(str(error)) from error
