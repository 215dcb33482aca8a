"""The images of a layout one by one, each with its label and its split, and how to read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.data_folder.decode import image_bytes
from trainplan.workloads.data_folder.records import KEYS, RecordEntry, bytes_of, held_out_of, keys_of, read_records
from trainplan.workloads.data_folder.values import DataFolderError, ImageLayout, RecordLayout

if TYPE_CHECKING:
    from trainplan.workloads.data_folder.published import Part, PublishedSet


class Sample(NamedTuple):
    """One image: where it is, its label (as the run numbers classes), whether it is held out, how many bytes it has as
    it is stored, and how to read them.

    `read` raises OSError, DataFolderError where a record is damaged, and ImageError where a file is too large.
    """

    where: str
    label: int
    held_out: bool
    size_bytes: int
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file that cannot be read, and why."""

    path: str
    reason: str


def of_images(layout: ImageLayout) -> Iterator[Sample]:
    """Each file. Raises OSError."""
    for root, files, is_hold_out in (
        (layout.train_root, layout.train, False),
        (layout.hold_out_root, layout.hold_out, True),
    ):
        for relative, label in files:
            where = os.path.join(root, relative)  # noqa: PTH118  # of 50,000 files a second less
            yield Sample(where, label, is_hold_out, os.stat(where).st_size, partial(image_bytes, Path(where)))  # noqa: PTH116


def of_records(folder: Path, layout: RecordLayout, damaged: list[Unreadable]) -> list[Sample]:
    """Every record of every shard; a shard that is cut short is told in `damaged`, and its readable records count."""
    hold_out = frozenset(layout.hold_out)
    entries = [
        (file, record)
        for file in (*layout.train, *layout.hold_out)
        for record in _readable(file, file.relative_to(folder).as_posix(), damaged)
    ]
    held = [file in hold_out for file, _ in entries] if hold_out else held_out_of([record for _, record in entries])
    return [
        Sample(
            f"{file.relative_to(folder).as_posix()}, record {record.number}",
            record.label,
            is_held_out,
            record.image[1] - record.image[0],
            lambda file=file, record=record: bytes_of(file, record),  # type: ignore[misc]  # defaults bind the row
        )
        for (file, record), is_held_out in zip(entries, held, strict=True)
    ]


def of_published(data_set: PublishedSet) -> Iterator[Sample]:
    """Each image; what is read are its pixels, and no encoded image."""
    for part, name, is_hold_out in ((data_set.train, "train", False), (data_set.hold_out, "hold-out", True)):
        for number, label in enumerate(part.labels):
            yield Sample(f"{name}, image {number}", label, is_hold_out, part.image_bytes, _reader(part, number))


def _reader(part: Part, number: int) -> Callable[[], bytes]:
    return lambda: part.image(number)


def _readable(file: Path, name: str, damaged: list[Unreadable]) -> Iterator[RecordEntry]:
    try:
        yield from read_records(file, keys_of(file) or KEYS[0])
    except (DataFolderError, OSError) as error:
        damaged.append(Unreadable(path=name, reason=str(error)))
