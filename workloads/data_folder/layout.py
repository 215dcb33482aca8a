"""Which images of a folder are trained on and which are held out; what can be read in two ways is refused."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from trainplan.workloads.data_folder.entries import Tally, files_below, files_in, folders_in
from trainplan.workloads.data_folder.hold_out import chosen_by_name, rank
from trainplan.workloads.data_folder.nothing import ARCHIVES, UNPACK, nothing_text
from trainplan.workloads.data_folder.npz import npz_set
from trainplan.workloads.data_folder.parquet import ParquetLayout, is_parquet, parquet_layout
from trainplan.workloads.data_folder.published import PublishedSet, published_set
from trainplan.workloads.data_folder.shards import record_layout
from trainplan.workloads.data_folder.unwrapped import holds_images, unwrapped
from trainplan.workloads.data_folder.uses import NamedUse, Use, named_use
from trainplan.workloads.data_folder.values import IMAGE_SUFFIXES, DataFolderError, ImageLayout, RecordLayout

_Classes = dict[str, list["Path"]]
"""The folders of each class, by its name in composed Unicode (NFC): macOS writes names in decomposed form."""


Layout = PublishedSet | RecordLayout | ImageLayout | ParquetLayout


def read_layout(folder: Path) -> Layout:
    """What the folder holds: a published set, TFRecords where there are any, else images, else Parquet or arrays.

    Raises DataFolderError where it can be read in two ways, and where nothing in it can be read.
    """
    refuse_no_folder(folder)
    layout = published_set(folder) or record_layout(folder)
    if layout is not None:
        return layout
    try:
        return image_layout(folder)
    except DataFolderError:
        other = _of_other_files(folder)
        if other is None:
            raise
        return other


def _of_other_files(folder: Path) -> PublishedSet | ParquetLayout | None:
    """What is read of a folder without images in folders; None where there are some, or nothing else.

    Raises DataFolderError.
    """
    tally = Tally(folder)
    files = files_below(folder, tally)
    if any(path.suffix.lower() in IMAGE_SUFFIXES and path.parent != folder for path in files):
        return None
    if any(map(is_parquet, files)):
        return parquet_layout(folder, files, tally)
    arrays = [path for path in files if path.suffix.lower() == ".npz"]
    return npz_set(arrays) if arrays else None


def refuse_no_folder(folder: Path) -> None:
    """Raises DataFolderError where it is a file, or nothing."""
    if os.path.isdir(folder):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
        return
    if os.path.exists(folder):  # noqa: PTH110
        todo = f"{UNPACK}, then name its folder" if folder.suffix.lower() in ARCHIVES else "name the folder of the data"
        raise DataFolderError(f"{folder} is a file; {todo}")
    raise DataFolderError(f"there is no folder {folder}; data.path must name one")


def image_layout(folder: Path) -> ImageLayout:
    """A sub-folder per class, or these below a training and a hold-out folder; other folders beside those are left out.

    Without a hold-out folder one image in ten of each class is held out, by a hash of its path. Names of classes that
    differ only in their Unicode form are one class; those of the hold-out may differ in case too. Raises
    DataFolderError where the folders can be read in two ways.
    """
    tally = Tally(folder)
    train_root, hold_out_root = _roots(folder, tally)
    classes = _classes_in(train_root, tally)
    names = tuple(sorted(classes))
    for path in files_in(train_root, tally):
        _add_loose(path, tally)
    train = _labelled(train_root, names, classes, tally)
    if hold_out_root is None:
        held = chosen_by_name([rank(os.fsencode(relative)) for relative, _ in train], [label for _, label in train])
        hold_out = tuple(file for file, is_held in zip(train, held, strict=True) if is_held)
        train = tuple(file for file, is_held in zip(train, held, strict=True) if not is_held)
    else:
        for path in files_in(hold_out_root, tally):
            _add_loose(path, tally)
        in_hold_out = _same_classes(names, _classes_in(hold_out_root, tally), train_root.name, tally)
        hold_out = _labelled(hold_out_root, names, in_hold_out, tally)
    if not train and not hold_out:
        raise DataFolderError(nothing_text(folder))
    return ImageLayout(
        train_root=train_root,
        hold_out_root=hold_out_root or train_root,
        class_names=names,
        train=train,
        hold_out=hold_out,
        left_out=tally.left_out(),
    )


def _add_loose(path: Path, tally: Tally) -> None:
    if path.suffix.lower() in IMAGE_SUFFIXES:
        tally.add_loose(path)
    else:
        tally.add("it is in no class folder", path)


# --- classes ------------------------------------------------------------------------------------------------------


def _classes_in(root: Path, tally: Tally) -> _Classes:
    classes: _Classes = {}
    for path in folders_in(root, tally):
        classes.setdefault(unicodedata.normalize("NFC", path.name), []).append(path)
    return classes


def _same_classes(names: tuple[str, ...], hold_out: _Classes, train_name: str, tally: Tally) -> _Classes:
    """The hold-out's folders by the training classes' names: the same name, else the only one but for its case."""
    by_lower_case: dict[str, list[str]] = {}
    for name in names:
        by_lower_case.setdefault(name.casefold(), []).append(name)
    same: _Classes = {name: list(paths) for name, paths in hold_out.items() if name in names}
    for name, paths in hold_out.items():
        alike = by_lower_case.get(name.casefold(), [])
        if name in names:
            continue
        if len(alike) == 1 and alike[0] not in hold_out:
            same.setdefault(alike[0], []).extend(paths)
        else:
            for path in paths:
                tally.add(f"{train_name}/ has no class of that name", path)
    return same


def _labelled(root: Path, names: tuple[str, ...], classes: _Classes, tally: Tally) -> tuple[tuple[str, int], ...]:
    """(path below root, label) of every image."""
    labelled = []
    for label, name in enumerate(names):
        for below in classes.get(name, ()):
            for path in files_below(below, tally):
                if path.suffix.lower() in IMAGE_SUFFIXES:
                    labelled.append((path.relative_to(root).as_posix(), label))
                else:
                    tally.add(_other_suffix(path), path)
    return tuple(labelled)


def _other_suffix(path: Path) -> str:
    what = f"{path.suffix.lower()} is not supported" if path.suffix else "a name without a suffix"
    return f"{what}; images are {', '.join(IMAGE_SUFFIXES)}"


# --- the folders of the splits --------------------------------------------------------------------------------------


def _roots(folder: Path, tally: Tally) -> tuple[Path, Path | None]:
    """Where the training classes are, and those of the hold-out, if it has a folder."""
    folders = {path.name: path for path in folders_in(folder)}
    uses = _uses(folder, folders)
    trains = _named(uses, Use.TRAIN)
    hold_outs = [*_named(uses, Use.VALIDATION), *_named(uses, Use.TEST)]
    if not trains and not hold_outs:
        _refuse_likely_splits(folder, folders)
        return folder, None
    _refuse_unclear(folder, folders, uses, trains, hold_outs)
    if not hold_outs:
        is_class = len(folders) > 1
        return (folder if is_class else unwrapped(folders[trains[0]])), None
    train = _the_only(folder, trains, uses)
    hold_out = _hold_out(folder, folders, uses)
    folders_in(folder, tally)
    for name, path in folders.items():
        if name not in (train, hold_out):
            tally.add(f"beside {train}/ and {hold_out}/ no other folder is read", path)
    for path in files_in(folder, tally):
        tally.add("it is in no class folder", path)
    train_root = unwrapped(folders[train])
    classes = {unicodedata.normalize("NFC", path.name) for path in folders_in(train_root)}
    return train_root, unwrapped(folders[hold_out], but=classes)


def _uses(folder: Path, folders: dict[str, Path]) -> dict[str, NamedUse]:
    """What the names say of folders that may be splits; folders of images beside classes are classes of such a name."""
    uses = {name: use for name in folders if (use := named_use(name)).words}
    beside_classes = any(holds_images(folders[name]) for name in folders if name not in uses)
    for name, use in list(uses.items()):
        is_flat = not folders_in(folders[name])
        if is_flat and beside_classes and not use.is_plain:
            del uses[name]
        elif use.use is None:
            raise DataFolderError(
                f"{folder} has {name}/, which says {' and '.join(use.words.values())}: it could be trained on or held "
                "out; rename it so that it says one of them, or none if it is a class"
            )
    return uses


def _named(uses: dict[str, NamedUse], use: Use) -> list[str]:
    """The folders of a use; `train` before `train_masks`, which is read where nothing is called more plainly."""
    names = [name for name, named in uses.items() if named.use is use]
    exact, plain = [name for name in names if uses[name].is_exact], [name for name in names if uses[name].is_plain]
    return exact or plain or names


def _the_only(folder: Path, names: list[str], uses: dict[str, NamedUse]) -> str:
    if len(names) > 1:
        what = "training set" if uses[names[0]].use is Use.TRAIN else "hold-out"
        raise DataFolderError(
            f"{folder} has {names[0]}/ and {names[1]}/: either could be the {what}; rename or move the one that is not "
            "meant"
        )
    return names[0]


def _hold_out(folder: Path, folders: dict[str, Path], uses: dict[str, NamedUse]) -> str:
    """The validation set, else the test set; the first of them that has folders of classes, else the first."""
    sets = [names for use in (Use.VALIDATION, Use.TEST) if (names := _named(uses, use))]
    sorted_into_classes = [names for names in sets if any(folders_in(folders[name]) for name in names)]
    return _the_only(folder, (sorted_into_classes or sets)[0], uses)


def _refuse_unclear(
    folder: Path, folders: dict[str, Path], uses: dict[str, NamedUse], trains: list[str], hold_outs: list[str]
) -> None:
    others = [name for name in folders if name not in uses]
    if len(trains) > 1:
        _the_only(folder, trains, uses)
    if hold_outs and not trains:
        raise DataFolderError(
            f"{folder} has {hold_outs[0]}/ and no train/: it could be a hold-out or a class; put the training classes "
            f"into train/ beside it, or rename it if it is a class"
        )
    # A class may be called train (beside bus and car); a training set has class folders of its own.
    if trains and not hold_outs and others and (folders_in(folders[trains[0]]) or not uses[trains[0]].is_exact):
        raise DataFolderError(
            f"{folder} has {trains[0]}/ beside {others[0]}/, and no folder val/ or test/: {trains[0]}/ could be the "
            "training set or a class; name the hold-out val/, or move what is no data elsewhere"
        )


_MOST_SPLITS = 3


def _refuse_likely_splits(folder: Path, folders: dict[str, Path]) -> None:
    """Folders without such a word that may be splits all the same: two or three of the same classes (`tr`, `te`), or
    classes that hold the splits (`cat/train`, `cat/val`)."""
    within = {name: {path.name for path in folders_in(path)} for name, path in folders.items()}
    shared = sorted(set.intersection(*within.values())) if len(within) > 1 else []
    are_uses = [name for name in shared if named_use(name).words]
    if len(shared) < 2 or not (are_uses or len(within) <= _MOST_SPLITS):
        return
    names, inner = " and ".join(f"{name}/" for name in list(within)[:2]), ", ".join(shared[:3])
    remedy = (
        f"put {shared[0]}/ and {shared[1]}/ above the classes"
        if are_uses
        else "call the training set train/ and its hold-out val/, or, if these are the classes, put the images of each "
        "directly into its folder"
    )
    raise DataFolderError(
        f"{folder} has {names} with sub-folders of the same names ({inner}): they could be classes or parts of one "
        f"set; {remedy}"
    )
