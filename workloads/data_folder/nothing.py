"""What a person is told of a folder in which nothing is read: what lies there, and what to make of it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from trainplan.workloads.data_folder.entries import is_hidden, walked
from trainplan.workloads.data_folder.values import IMAGE_SUFFIXES

READ = (
    "read are images in a sub-folder for each class, TFRecords, Parquet with an image and a label in each row, .npz "
    "files with arrays x_train and y_train, and MNIST and CIFAR as they are published"
)
_MOST_LOOKED_AT = 20_000
_KINDS_SHOWN = 3
_AS_FILES = "write its images as PNG files into a sub-folder for each class"
_IMAGES = "move each image into the sub-folder of its class"
UNPACK = "unpack it"
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar")
_OTHER_IMAGES = "convert them to PNG or JPEG"
_REMEDIES = {
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), f"HDF5 is not read: {_AS_FILES}, or arrays x_train and y_train as .npz"),
    **dict.fromkeys((".npy", ".mat", ".pkl", ".pickle", ".pt", ".pth", ".arrow", ".feather", ".rec", ".mdb", ".db"),
                    _AS_FILES),
    **dict.fromkeys(ARCHIVES, UNPACK),
    **dict.fromkeys((".tif", ".tiff", ".jp2", ".heic", ".heif", ".avif", ".ico", ".svg", ".ppm", ".pgm", ".dcm"),
                    _OTHER_IMAGES),
    **dict.fromkeys(IMAGE_SUFFIXES, _IMAGES),
}  # fmt: skip


def nothing_text(folder: Path) -> str:
    """One sentence: what lies in the folder, and which layouts are read."""
    suffixes = _suffixes(folder)
    if not suffixes:
        return f"{folder} holds no file; {READ}"
    ordered = sorted(suffixes.items(), key=lambda row: (-row[1], row[0]))
    kinds = [_kind(suffix, count) for suffix, count in ordered[:_KINDS_SHOWN]]
    more = f" and {len(ordered) - _KINDS_SHOWN} other kinds of files" if len(ordered) > _KINDS_SHOWN else ""
    remedies = list(dict.fromkeys(_REMEDIES[suffix] for suffix, _ in ordered if suffix in _REMEDIES))
    flat = ", none of them in a sub-folder of a class" if any(suffix in IMAGE_SUFFIXES for suffix in suffixes) else ""
    todo = f": {'; '.join(remedies[:2])}" if remedies else ""
    there = f"{', '.join(kinds)}{more}" if more else " and ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    return f"{folder} holds {there}{flat}, and nothing that can be trained on{todo}; {READ}"


def _suffixes(folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, names in walked(folder):
        counts.update(os.path.splitext(name)[1].lower() for name in names if not is_hidden(name))  # noqa: PTH122
        if counts.total() > _MOST_LOOKED_AT:
            break
    return counts


def _kind(suffix: str, count: int) -> str:
    name = f"{suffix} file" if suffix else "file without a suffix"
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name.replace('file', 'files')}"
