"""Which files of a data folder are trained on and which are held out; what can be read in two ways is refused."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

from workloads.data_folder.entries import Tally, files_below, files_in, folders_in
from workloads.data_folder.values import HOLD_OUT_EVERY, DataFolderError, ImageLayout, RecordLayout

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")
TRAIN_NAMES = ("train", "training")
HOLD_OUT_NAMES = ("validation", "valid", "val", "dev", "eval", "test", "testing")
"""In this order: of a validation and a test set, the validation set is tested during the run."""
_LABEL_NAMES = "label.labels.txt"
"""Beside its files TensorFlow Datasets writes the names of the feature `label`, one a line."""
_ABOUT_RECORDS = frozenset({_LABEL_NAMES, "dataset_info.json", "features.json"})
# train.tfrecord, a.tfrecords, set-train.tfrecord-00000-of-00128, train-00000-of-01024.tfrecord.gz, train-00000-of-01024
_RECORD_NAME = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz|\.zlib)?$|^[^.]*-\d+-of-\d+$")


def read_layout(folder: Path) -> ImageLayout | RecordLayout:
    """What the folder holds: TFRecords where there are any, else images. Raises DataFolderError."""
    if not folder.is_dir():
        raise DataFolderError(f"there is no folder {folder}; data.path must name one")
    return record_layout(folder) or image_layout(folder)


# --- a folder per class -------------------------------------------------------------------------------------------


def image_layout(folder: Path) -> ImageLayout:
    """A sub-folder per class, or these below a training and a hold-out folder; other folders beside those are left out.

    Without a hold-out folder one image in ten is held out, by a hash of its path. Raises DataFolderError where the
    folders can be read in two ways.
    """
    tally = Tally(folder)
    train_root, hold_out_root = _roots(folder, tally)
    classes = tuple(path.name for path in folders_in(train_root, tally))
    for path in files_in(train_root, tally):
        tally.add("it is in no class folder", path)
    train = _labelled(train_root, classes, tally)
    if hold_out_root is None:
        hold_out = tuple(file for file in train if _is_held_out(file[0]))
        train = tuple(file for file in train if not _is_held_out(file[0]))
    else:
        for path in folders_in(hold_out_root, tally):
            if path.name not in classes:
                tally.add(f"{train_root.name}/ has no class of that name", path)
        hold_out = _labelled(hold_out_root, classes, tally)
    return ImageLayout(
        train_root=train_root,
        hold_out_root=hold_out_root or train_root,
        class_names=classes,
        train=train,
        hold_out=hold_out,
        left_out=tally.left_out(),
    )


def _roots(folder: Path, tally: Tally) -> tuple[Path, Path | None]:
    """Where the training classes are, and those of the hold-out, if it has a folder."""
    folders = {path.name: path for path in folders_in(folder)}
    trains = [name for name in folders if name.lower() in TRAIN_NAMES]
    helds = sorted((name for name in folders if name.lower() in HOLD_OUT_NAMES), key=_hold_out_rank)
    if not trains and not helds:
        return folder, None
    _refuse_unclear(folder, folders, trains, helds)
    if not helds:
        return (folders[trains[0]] if len(folders) == 1 else folder), None
    folders_in(folder, tally)
    for name, path in folders.items():
        if name not in (trains[0], helds[0]):
            tally.add(f"beside {trains[0]}/ and {helds[0]}/ no other folder is read", path)
    for path in files_in(folder, tally):
        tally.add("it is in no class folder", path)
    return folders[trains[0]], folders[helds[0]]


def _refuse_unclear(folder: Path, folders: dict[str, Path], trains: list[str], helds: list[str]) -> None:
    if len(trains) > 1:
        raise DataFolderError(f"{folder} has {trains[0]}/ and {trains[1]}/; rename or move the one that is not meant")
    others = [name for name in folders if name not in (*trains, *helds)]
    if helds and not trains:
        raise DataFolderError(
            f"{folder} has {helds[0]}/ and no train/: it could be a hold-out or a class; put the training classes into "
            f"train/ beside it, or rename it if it is a class"
        )
    # A class may be called train (beside bus and car); a training set has class folders of its own.
    if trains and not helds and others and folders_in(folders[trains[0]]):
        raise DataFolderError(
            f"{folder} has {trains[0]}/ with sub-folders beside {others[0]}/, and no folder val/ or test/: name the "
            "hold-out val/, or move what is no data elsewhere"
        )


def _hold_out_rank(name: str) -> tuple[int, str]:
    return HOLD_OUT_NAMES.index(name.lower()), name


def _labelled(root: Path, classes: tuple[str, ...], tally: Tally) -> tuple[tuple[str, int], ...]:
    """(path below root, label) of every image."""
    labelled = []
    for label, name in enumerate(classes):
        for path in files_below(root / name, tally) if (root / name).is_dir() else ():
            if path.suffix.lower() in IMAGE_SUFFIXES:
                labelled.append((path.relative_to(root).as_posix(), label))
            else:
                tally.add(_other_suffix(path), path)
    return tuple(labelled)


def _other_suffix(path: Path) -> str:
    what = f"{path.suffix.lower()} is no format that is read" if path.suffix else "a name without a suffix"
    return f"{what}; images are {', '.join(IMAGE_SUFFIXES)}"


def _is_held_out(relative: str) -> bool:
    digest = hashlib.sha256(os.fsencode(relative)).digest()
    return int.from_bytes(digest[:8], "big") % HOLD_OUT_EVERY == 0


# --- TFRecords ----------------------------------------------------------------------------------------------------


def record_layout(folder: Path) -> RecordLayout | None:
    """TFRecord files by their names; None where there are none.

    A file is for training, validation or testing by any word of its path below the folder (`val/part-000.tfrecord`,
    `toys-validation.tfrecord-00000-of-00001`). Beside a validation set a test set is left out: those of ImageNet and
    of TensorFlow Datasets often have no labels. Raises DataFolderError where a path says both, or where some files say
    what they are for and others do not.
    """
    tally = Tally(folder)
    files = files_below(folder, tally)
    records = [path for path in files if _RECORD_NAME.search(path.name.lower())]
    if not records:
        return None
    for path in files:
        if not _RECORD_NAME.search(path.name.lower()) and path.name not in _ABOUT_RECORDS:
            tally.add("its name is none of TFRecords", path)
    _refuse_two_sets(folder, files)
    roles = {path: _role(path.relative_to(folder).as_posix()) for path in records}
    train = tuple(path for path, role in roles.items() if role in (None, "train"))
    _refuse_nameless(folder, roles)
    hold_out_role = min((role for role in roles.values() if role not in (None, "train")), key=_role_rank, default=None)
    for path, role in roles.items():
        if role not in (None, "train", hold_out_role):
            tally.add(f"the {hold_out_role} set is the hold-out", path)
    return RecordLayout(
        train=train,
        hold_out=tuple(path for path, role in roles.items() if hold_out_role and role == hold_out_role),
        left_out=tally.left_out(),
        class_names=_label_names(files),
    )


_ROLES = {
    **dict.fromkeys(TRAIN_NAMES, "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev", "eval"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def _role_rank(role: str | None) -> int:
    return ("validation", "test").index(role or "test")


def _role(relative: str) -> str | None:
    """What a file is for, by the words of its path; None where no word says it."""
    roles = {word: _ROLES[word] for word in re.findall(r"[a-z]+", relative.lower()) if word in _ROLES}
    if len(set(roles.values())) > 1:
        raise DataFolderError(
            f"{relative} says {' and '.join(sorted(roles))}: it could be trained on or held out; rename it so that its "
            "path says one of them"
        )
    return next(iter(roles.values()), None)


def _refuse_nameless(folder: Path, roles: dict[Path, str | None]) -> None:
    nameless = [path for path, role in roles.items() if role is None]
    paths = [path for path, role in roles.items() if role is not None]
    if nameless and paths:
        raise DataFolderError(
            f"{_below(folder, paths)} says what it is for and {_below(folder, nameless)} does not; begin its name with "
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
