"""Held-out images that were trained on too, byte for byte: what an accuracy of 100 % may rest on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import assert_never

from trainplan.workloads.data_folder.decode import image_bytes
from trainplan.workloads.data_folder.duplicates import digest_of
from trainplan.workloads.data_folder.records import bytes_of, read_records
from trainplan.workloads.trainer.images import ArrayImages, FileImages, Images, RecordImages, Split

_Item = tuple[object, "Callable[[], bytes]"]
"""What equal images have in common and can be had without reading them, and how to read one."""


def count_copies(split: Split) -> int:
    """How many test images are among those trained on. Reads only those that could be; 0 where one is gone."""
    try:
        there = {key for key, _ in _items(split.hold_out)}
        trained: dict[object, list[Callable[[], bytes]]] = {}
        for key, read in _items(split.train):
            if key in there:
                trained.setdefault(key, []).append(read)
        digests = {digest_of(read()) for reads in trained.values() for read in reads}
        return sum(key in trained and digest_of(read()) in digests for key, read in _items(split.hold_out))
    except (OSError, ValueError):
        return 0


def _items(images: Images) -> Iterator[_Item]:
    match images:
        case ArrayImages(pixels=pixels):
            for row in pixels:
                yield hash(row.tobytes()), row.tobytes
        case FileImages(paths=paths):
            for path in paths:
                yield os.stat(path).st_size, partial(image_bytes, Path(path))  # noqa: PTH116
        case RecordImages():
            yield from _of_records(images)
        case _:
            assert_never(images)


def _of_records(images: RecordImages) -> Iterator[_Item]:
    for number, name in enumerate(images.files):
        kept = None if images.kept is None else images.kept[number]
        file = Path(name)
        for record in read_records(file, images.keys):
            if kept is None or kept[record.number]:
                read = lambda file=file, record=record: bytes_of(file, record)  # noqa: E731
                yield record.image[1] - record.image[0], read
