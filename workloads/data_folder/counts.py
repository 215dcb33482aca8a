"""How many images a folder has to train on, without a look at the images themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from trainplan.workloads.data_folder.entries import walked
from trainplan.workloads.data_folder.layout import read_layout, refuse_no_folder
from trainplan.workloads.data_folder.parquet import ParquetLayout, rows_of
from trainplan.workloads.data_folder.published import PublishedSet
from trainplan.workloads.data_folder.records import count_records
from trainplan.workloads.data_folder.samples import Sample, Unreadable, of_records
from trainplan.workloads.data_folder.unwrapped import unwrapped
from trainplan.workloads.data_folder.values import DataFolderError, ImageLayout

_MOST_FILES = 50_000
_MOST_BYTES = 2_000_000_000


class Counts(NamedTuple):
    """Images to train on, and held out."""

    train: int
    hold_out: int


def count_images(folder: Path) -> Counts:
    """Count as the trainer does. Raises DataFolderError where nothing can be trained on, and OSError."""
    refuse_no_folder(folder)
    folder = unwrapped(folder)
    layout = read_layout(folder)
    if isinstance(layout, PublishedSet):
        return Counts(len(layout.train.labels), len(layout.hold_out.labels))
    if isinstance(layout, ImageLayout):
        return Counts(len(layout.train), len(layout.hold_out))
    if isinstance(layout, ParquetLayout):
        return _of(rows_of(layout).samples)
    if layout.hold_out:
        return Counts(sum(map(count_records, layout.train)), sum(map(count_records, layout.hold_out)))
    damaged: list[Unreadable] = []
    samples = of_records(folder, layout, damaged)
    if damaged:
        raise DataFolderError(f"{damaged[0].path}: {damaged[0].reason}")
    return _of(samples)


def _of(samples: list[Sample]) -> Counts:
    hold_out = sum(sample.held_out for sample in samples)
    return Counts(len(samples) - hold_out, hold_out)


def is_quick(folder: Path) -> bool:
    """Whether counting takes about a second: up to 50,000 files and 2 GB. Raises OSError."""
    files = total = 0
    for root, names in walked(folder):
        files += len(names)
        total += sum(os.lstat(root / name).st_size for name in names)
        if files > _MOST_FILES or total > _MOST_BYTES:
            return False
    return True
