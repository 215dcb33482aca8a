"""What a check of a data folder found."""

from __future__ import annotations

from dataclasses import dataclass

from trainplan.workloads.data_folder.duplicates import Duplicates
from trainplan.workloads.data_folder.samples import Sample, Unreadable
from trainplan.workloads.data_folder.values import LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """`label` as the run numbers the class; `name` is "" where nothing tells it."""

    label: int
    name: str
    train: int
    hold_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Width and height in pixels: of the image with the fewest pixels, of the middle one, of the one with the most."""

    least: tuple[int, int]
    middle: tuple[int, int]
    most: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`first_label` and `last_label` are those of the files, None for folders of images, whose names are the labels.

    `decoded` images were read, of which `unreadable_images` could not be; `sizes` and `channels` (1 grey, 3 colour) are
    theirs, None where none was read. `notes` say what a run does not take of the images. `duplicates` is None where
    they were not looked for. `problems` are what a run would fail for or train wrongly with, `warnings` what one should
    know of the folder before.
    """

    folder: str
    kind: str
    classes: tuple[ClassCount, ...]
    train_images: int
    hold_out_images: int
    first_label: int | None
    last_label: int | None
    size_bytes: int
    decoded: int
    unreadable_images: int
    unreadable: tuple[Unreadable, ...]
    sizes: Sizes | None
    channels: int | None
    left_out: tuple[LeftOut, ...]
    duplicates: Duplicates | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
