"""Data in files of many images, TFRecords or Parquet: which are trained on, which are held out, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from trainplan.workloads.data_folder.entries import Tally, files_below
from trainplan.workloads.data_folder.uses import Use, named_use
from trainplan.workloads.data_folder.values import DataFolderError, RecordLayout

_LABEL_NAMES = "label.labels.txt"
"""Beside its files TensorFlow Datasets writes the names of the feature `label`, one a line."""
_ABOUT_RECORDS = frozenset({_LABEL_NAMES, "dataset_info.json", "features.json"})
# train.tfrecord, a.tfrecords, 00-192x192-798.tfrec, set-train.tfrecord-00000-of-00128, train-00000-of-01024
RECORD_NAME = re.compile(r"\.tfrec(ords?)?(-\d+-of-\d+)?(\.gz|\.zlib)?$|^[^.]*-\d+-of-\d+$")
# What browsers, Windows and macOS put into the name of a second copy of a file.
_COPY = re.compile(r" ?\(\d+\)(?=\.|$)| - copy( \(\d+\))?(?=\.|$)| copy( \d+)?(?=\.|$)")
_SHARD = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<of>[-_]of[-_])(?P<total>\d+)(?P<after>.*)")


class SplitFiles(NamedTuple):
    """Files by their use; `hold_out` is () where no name says one."""

    train: tuple[Path, ...]
    hold_out: tuple[Path, ...]


def record_layout(folder: Path) -> RecordLayout | None:
    """TFRecord files by their names; None where there are none. Raises DataFolderError as `split_files` does."""
    tally = Tally(folder)
    files = files_below(folder, tally)
    records = [path for path in files if RECORD_NAME.search(original_name(path.name))]
    if not records:
        return None
    for path in files:
        if path not in records and path.name not in _ABOUT_RECORDS:
            tally.add("its name is none of TFRecords", path)
    _refuse_two_sets(folder, files)
    split = split_files(folder, records, tally)
    return RecordLayout(
        train=split.train, hold_out=split.hold_out, left_out=tally.left_out(), class_names=_label_names(files)
    )


def split_files(folder: Path, files: list[Path], tally: Tally) -> SplitFiles:
    """A file is for training, validation or testing by any word of its path below the folder (`val/part-000.tfrecord`,
    `toys-validation.tfrecord-00000-of-00001`).

    Beside a validation set a test set is left out: those of ImageNet and of TensorFlow Datasets often have no labels.
    Raises DataFolderError where a path says both, where some files say what they are for and others do not, where a
    shard is missing by the names of the others (`-00000-of-00003`), and where a file is a copy by its name.
    """
    _refuse_copies(folder, files)
    _refuse_missing(folder, files)
    uses = {path: _use(path.relative_to(folder).as_posix()) for path in files}
    _refuse_nameless(folder, uses)
    of_hold_out = next((use for use in (Use.VALIDATION, Use.TEST) if use in uses.values()), None)
    for path, use in uses.items():
        if use not in (None, Use.TRAIN, of_hold_out):
            tally.add(f"the {of_hold_out} set is the hold-out", path)
    return SplitFiles(
        train=tuple(path for path, use in uses.items() if use in (None, Use.TRAIN)),
        hold_out=tuple(path for path, use in uses.items() if use is not None and use is of_hold_out),
    )


def original_name(name: str) -> str:
    """The name in lower case, without what a computer adds to that of a copy: `a (1).tfrecord` is a.tfrecord."""
    return _COPY.sub("", name.lower())


def refuse_no_training_files(split: SplitFiles | RecordLayout, what: str) -> None:
    """Raises DataFolderError where all files are for validation or testing."""
    if not split.train:
        raise DataFolderError(
            f"{split.hold_out[0]} and all other {what} are for validation or testing by their names; name the "
            "training files train-*, or put them into train/"
        )


def _use(relative: str) -> Use | None:
    """What a file is for, by the words of its path; None where no word says it."""
    named = named_use(relative)
    if len(named.words) > 1:
        raise DataFolderError(
            f"{relative} says {' and '.join(sorted(named.words.values()))}: it could be trained on or held out; rename "
            "it so that its path says one of them"
        )
    return named.use


def _refuse_copies(folder: Path, files: list[Path]) -> None:
    there = {path.with_name(path.name.lower()) for path in files}
    for path in files:
        original = original_name(path.name)
        if original != path.name.lower() and path.with_name(original) in there:
            raise DataFolderError(
                f"{_below(folder, [path])} is a copy of {original} by its name, and would be trained on twice; delete "
                "one of them"
            )


def _refuse_missing(folder: Path, files: list[Path]) -> None:
    numbers: dict[tuple[Path, str, int, str], dict[int, str]] = {}
    for path in files:
        match = _SHARD.fullmatch(original_name(path.name))
        if match is not None:
            key = (path.parent, match["before"], int(match["total"]), match["after"])
            numbers.setdefault(key, {})[int(match["number"])] = path.name
    for (parent, _, total, _), there in numbers.items():
        first = 1 if total in there and 0 not in there else 0
        missing = total - sum(first <= number < first + total for number in there)
        if missing > 0:
            number = next(number for number in range(first, first + total) if number not in there)
            text = _missing_text(folder, parent, str(number), missing, next(iter(there.values())))
            raise DataFolderError(text)


def _missing_text(folder: Path, parent: Path, number: str, missing: int, example: str) -> str:
    match = _SHARD.fullmatch(example)
    name = (
        example
        if match is None
        else f"{match['before']}{number.zfill(len(match['number']))}{match['of']}{match['total']}"
    )
    relative = parent.relative_to(folder).as_posix()
    where = "" if relative == "." else f"{relative}/"
    total = "" if match is None else f" of {int(match['total']):,}"
    more = f" and {missing - 1:,} more are" if missing > 1 else " is"
    return (
        f"shard {number}{total}{more} missing ({where}{name}): fetch what is missing, or, if the others "
        "are meant to be all, rename them without -of-"
    )


def _refuse_nameless(folder: Path, uses: dict[Path, Use | None]) -> None:
    nameless = [path for path, use in uses.items() if use is None]
    named = [path for path, use in uses.items() if use is not None]
    if nameless and named:
        raise DataFolderError(
            f"{_below(folder, named)} says what it is for and {_below(folder, nameless)} does not; begin its name with "
            "train- or validation-, or move it out of the folder"
        )


def _refuse_two_sets(folder: Path, files: Iterable[Path]) -> None:
    described = [path.parent for path in files if path.name == "dataset_info.json"]
    if len(described) > 1:
        raise DataFolderError(
            f"{folder} holds {len(described)} data sets or versions of one ({_below(folder, described)} is one); "
            "name a single one in data.path"
        )


def _below(folder: Path, paths: list[Path]) -> str:
    return paths[0].relative_to(folder).as_posix()


def _label_names(files: Iterable[Path]) -> tuple[str, ...]:
    file_path = next((path for path in files if path.name == _LABEL_NAMES), None)
    if file_path is None:
        return ()
    return tuple(line for line in file_path.read_text(encoding="utf-8", errors="replace").splitlines() if line)
