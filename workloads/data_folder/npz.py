"""Images and labels as arrays in .npz files (x_train and y_train, images and labels, …), read without numpy."""

from __future__ import annotations

import ast
import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from trainplan.workloads.data_folder.duplicates import digest_of
from trainplan.workloads.data_folder.hold_out import chosen_by_content, rank
from trainplan.workloads.data_folder.published import DAMAGE, Part, PublishedSet
from trainplan.workloads.data_folder.uses import Use, named_use
from trainplan.workloads.data_folder.values import DataFolderError

_CODES = {
    "|b1": "?", "|u1": "B", "|i1": "b", "<u2": "H", "<i2": "h", "<u4": "I", "<i4": "i", "<u8": "Q", "<i8": "q",
    "<f4": "f", "<f8": "d",
}  # fmt: skip
"""NPY's types of numbers, as `struct` writes them."""
_MOST_LOOKED_AT = 500
_Label = int | str


class _Array(NamedTuple):
    """`name` is that of the array, with the file's before it where there are several files."""

    name: str
    shape: tuple[int, ...]
    descr: str
    data: bytes


class _Pair(NamedTuple):
    images: _Array
    labels: _Array


def npz_set(files: Sequence[Path]) -> PublishedSet:
    """The images and labels of the files. The words of their names say which are trained on and which are held out; of
    two arrays without such a word one image in ten of each class is held out, by its content.

    Raises DataFolderError where arrays cannot be told apart or are no images and labels.
    """
    try:
        arrays = [array for path in files for array in _arrays(path, is_alone=len(files) == 1)]
    except DAMAGE as error:
        raise DataFolderError(f"{files[0].parent} holds .npz files that cannot be read: {error}") from error
    pairs = {use: pair for use in (None, *Use) if (pair := _pair(arrays, use)) is not None}
    train = pairs.get(Use.TRAIN) or pairs.get(None)
    hold_out = pairs.get(Use.VALIDATION) or pairs.get(Use.TEST)
    if train is None:
        raise DataFolderError(f"{_there(arrays)}: needed are arrays of images and labels, as x_train and y_train")
    named = _classes([_labels(pair.labels) for pair in (train, hold_out) if pair is not None])
    parts = [
        _part(pair.images, labels)
        for pair, labels in zip((train, hold_out), named.labels, strict=False)
        if pair is not None
    ]
    if hold_out is None:
        parts = list(_parted(parts[0]))
    if (parts[0].channels, parts[0].descr) != (parts[1].channels, parts[1].descr):
        raise DataFolderError(f"{_there(arrays)}: the images to train on and those held out are of different kinds")
    return PublishedSet(
        name=f"NPZ ({train.images.name}, {train.labels.name})",
        train=parts[0],
        hold_out=parts[1],
        class_names=named.names,
    )


_DARK = 32
"""Pixels that are all below it were counted to another white: 16 in the digits of scikit-learn."""


def pixel_factor(descr: str, lowest: float, highest: float) -> int:
    """What pixels are multiplied by to run from 0 to 255: 1, or 255 for truths and what lies between 0 and 1.

    Raises DataFolderError for pixels that are normalised otherwise.
    """
    if not 0 <= lowest <= highest <= 255:
        raise DataFolderError(
            f"the pixels run from {lowest:g} to {highest:g}: write them as they are in an image, 0 to 255 (or 0 to 1), "
            "and leave normalising to the run"
        )
    return 255 if descr == "|b1" or highest <= 1 else 1


def pixel_warnings(part: Part) -> list[str]:
    """What the pixels of up to 500 images, spread over all, point at. Raises DataFolderError as `pixel_factor` does."""
    if not part.labels:
        return []
    step = -(-len(part.labels) // _MOST_LOOKED_AT)
    views = [_numbers(part.image(number), part.descr) for number in range(0, len(part.labels), step)]
    lowest, highest = min(map(min, views)), max(map(max, views))
    if pixel_factor(part.descr, lowest, highest) > 1 or highest >= _DARK:
        return []
    return [
        f"the pixels run from {lowest:g} to {highest:g}, which is nearly black where white is 255: multiply them by "
        f"255/{highest:g}, unless the images are that dark"
    ]


# --- which array is what ------------------------------------------------------------------------------------------


def _pair(arrays: Iterable[_Array], use: Use | None) -> _Pair | None:
    """The images and labels of a use; None where neither is there."""
    of_use = [array for array in arrays if named_use(array.name).use is use]
    images = [array for array in of_use if len(array.shape) in (3, 4)]
    labels = [array for array in of_use if len(array.shape) == 1 or array.shape[1:] == (1,)]
    if not images and not labels:
        return None
    if len(images) != 1 or len(labels) != 1:
        raise DataFolderError(
            f"{_there(of_use)}: needed is one array of images (images x height x width, with or without channels) and "
            "one of as many labels for each split"
        )
    if images[0].shape[0] != labels[0].shape[0]:
        raise DataFolderError(f"{_there(of_use)}: there must be as many labels as images")
    return _Pair(images[0], labels[0])


def _there(arrays: Iterable[_Array]) -> str:
    shapes = [f"{array.name} of {'x'.join(map(str, array.shape)) or 'one value'}" for array in arrays]
    return f"the .npz files hold {', '.join(shapes[:6]) or 'no array'}"


def _part(array: _Array, labels: tuple[int, ...]) -> Part:
    """Raises DataFolderError for an array that is none of images."""
    if array.descr not in _CODES:
        raise DataFolderError(f"{array.name} holds {array.descr}: write the pixels as uint8")
    _, *sides = array.shape
    planar = len(sides) == 3 and sides[0] in (1, 3) and sides[2] not in (1, 3)
    channels = 1 if len(sides) == 2 else sides[0] if planar else sides[2]
    height, width = sides[1:] if planar else sides[:2]
    if channels not in (1, 3) or not height or not width:
        raise DataFolderError(
            f"{array.name} has the shape {'x'.join(map(str, array.shape))}: images have 1 or 3 channels, and are "
            "images x height x width x channels"
        )
    return Part(
        pixels=array.data, labels=labels, height=height, width=width, channels=channels, planar=planar,
        descr=array.descr,
    )  # fmt: skip


def _parted(part: Part) -> Iterator[Part]:
    """What is trained on, and one in ten of each class."""
    images = [part.image(number) for number in range(len(part.labels))]
    held = chosen_by_content([rank(digest_of(image)) for image in images], part.labels)
    for is_hold_out in (False, True):
        numbers = [number for number, is_held in enumerate(held) if is_held is is_hold_out]
        yield Part(
            pixels=b"".join(images[number] for number in numbers),
            labels=tuple(part.labels[number] for number in numbers),
            height=part.height, width=part.width, channels=part.channels, planar=part.planar, descr=part.descr,
        )  # fmt: skip


# --- labels -------------------------------------------------------------------------------------------------------


class _Classes(NamedTuple):
    labels: list[tuple[int, ...]]
    names: tuple[str, ...]


def _classes(labels: list[list[_Label]]) -> _Classes:
    """Labels as numbers from 0: those of the files where they are such, else in the order of their values."""
    values = sorted({label for part in labels for label in part}, key=lambda label: (isinstance(label, str), label))
    if values == list(range(len(values))):
        return _Classes([tuple(map(int, part)) for part in labels], ())
    numbers = {value: number for number, value in enumerate(values)}
    return _Classes([tuple(numbers[label] for label in part) for part in labels], tuple(map(str, values)))


def _labels(array: _Array) -> list[_Label]:
    """Whole numbers or texts. Raises DataFolderError for others."""
    kind, size = array.descr[1:2], int(array.descr[2:]) if array.descr[2:].isdigit() else 0
    if kind in "US" and size:
        width = size * (4 if kind == "U" else 1)
        cells = (array.data[begin : begin + width] for begin in range(0, len(array.data), width))
        code = "utf-32-le" if kind == "U" else "utf-8"
        return [cell.decode(code, "replace").rstrip("\0") for cell in cells]
    if array.descr in _CODES:
        numbers = _numbers(array.data, array.descr).tolist()
        if all(abs(number) < 2**63 and number == int(number) for number in numbers):  # what is no number is not less
            return [int(number) for number in numbers]
    raise DataFolderError(f"{array.name} holds {array.descr}: write the labels as whole numbers or texts")


def _numbers(data: bytes, descr: str) -> Any:
    """A memoryview of numbers of this type."""
    return memoryview(data).cast(cast("Any", _CODES[descr]))


# --- files --------------------------------------------------------------------------------------------------------


def _arrays(path: Path, *, is_alone: bool) -> Iterator[_Array]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".npy"):
                name = member.removesuffix(".npy")
                yield _array(name if is_alone else f"{path.stem}/{name}", archive.read(member))


def _array(name: str, data: bytes) -> _Array:
    """The NPY format, versions 1 to 3 (numpy.lib.format), in C order."""
    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"{name} is no array")
    length, begin = (
        (struct.unpack_from("<H", data, 8)[0], 10) if data[6] == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
    )
    header = ast.literal_eval(data[begin : begin + length].decode("latin-1"))
    shape, descr = tuple(header["shape"]), str(header["descr"])
    if "O" in descr:
        raise ValueError(f"{name} holds Python objects, which are not read; write whole numbers or texts")
    if header["fortran_order"] and len(shape) > 1:
        raise ValueError(f"{name} is in Fortran order; write numpy.ascontiguousarray of it")
    return _Array(name, shape, descr, data[begin + length :])
