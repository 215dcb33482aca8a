"""MNIST and CIFAR in the files that their authors publish, read from a folder without numpy."""

from __future__ import annotations

import ast
import gzip
import io
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainplan.workloads.data_folder.values import DataFolderError

_ARCHIVES = (".tar.gz", ".tgz", ".tar")
DAMAGE = (OSError, EOFError, ValueError, KeyError, IndexError, pickle.UnpicklingError, tarfile.TarError, zlib.error,
           zipfile.BadZipFile, struct.error)  # fmt: skip
"""What is raised by the readers of a damaged file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`pixels` of all images: `height` x `width` x `channels` an image, a plane per channel where `planar`; of NPY's
    type `descr`, a byte each where nothing else is said. `labels` from 0, one an image."""

    pixels: bytes
    labels: tuple[int, ...]
    height: int
    width: int
    channels: int
    planar: bool = False
    descr: str = "|u1"

    @property
    def image_bytes(self) -> int:
        """The bytes of one image."""
        return self.height * self.width * self.channels * int(self.descr[2:])

    def image(self, number: int) -> bytes:
        """The pixels of one image, as they lie in the file."""
        return self.pixels[number * self.image_bytes : (number + 1) * self.image_bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSet:
    """A data set as it is published, or as arrays of a person's own.

    `class_names` are () where its files do not tell them.
    """

    name: str
    train: Part
    hold_out: Part
    class_names: tuple[str, ...] = ()


def published_set(folder: Path) -> PublishedSet | None:
    """The set that lies in the folder (files, or the archive they come in); None where there is none.

    Known are MNIST's IDX files and mnist.npz, and CIFAR-10 and CIFAR-100 as Python pickles and as binary files
    (https://www.cs.toronto.edu/~kriz/cifar.html, read 2026-11-23). Raises DataFolderError where a file is damaged.
    """
    try:
        return _read(path for path in sorted(folder.iterdir()) if path.is_file())
    except DAMAGE as error:
        raise DataFolderError(f"the data set in {folder} is damaged ({error}); fetch its files again") from error


def set_in_files(files: Iterable[Path]) -> PublishedSet:
    """The set that these files (or the archive they come in) are. Raises an error of `DAMAGE` where they are none."""
    data = _read(files)
    if data is None:
        raise ValueError("it is no set in a published format")
    return data


def _read(paths: Iterable[Path]) -> PublishedSet | None:
    files: dict[str, Callable[[], bytes]] = {}
    for path in paths:
        name = path.name.lower()
        if not name.endswith(_ARCHIVES):
            files[name.removesuffix(".gz").replace(".idx", "-idx")] = path.read_bytes
        elif name.startswith("cifar-1"):
            files |= _members(path)
    read = next((read for names, read in _PUBLISHED_SETS if names <= files.keys()), None)
    return read(files) if read is not None else None


def _members(archive: Path) -> dict[str, Callable[[], bytes]]:
    with tarfile.open(archive) as tar:
        opened = {member.name.rpartition("/")[2]: tar.extractfile(member) for member in tar if member.isfile()}
        read = {name: file.read() for name, file in opened.items() if file is not None}
    return {name: lambda data=data: data for name, data in read.items()}  # type: ignore[misc]


# --- MNIST --------------------------------------------------------------------------------------------------------

_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _mnist_idx(files: Mapping[str, Callable[[], bytes]]) -> PublishedSet:
    arrays = [_idx(name, files[name]()) for name in _IDX]
    return PublishedSet(name="MNIST (IDX)", train=_grey(*arrays[:2]), hold_out=_grey(*arrays[2:]))


def _idx(name: str, data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Shape and bytes: two zero bytes, type 8 (uint8), the number of sides, each side big-endian, then the bytes."""
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    zeros, kind, sides = struct.unpack_from(">HBB", data)
    if zeros or kind != 8:
        raise ValueError(f"{name} is not in the IDX format")
    return struct.unpack_from(f">{sides}I", data, 4), data[4 + 4 * sides :]


def _mnist_npz(files: Mapping[str, Callable[[], bytes]]) -> PublishedSet:
    with zipfile.ZipFile(io.BytesIO(files["mnist.npz"]())) as archive:
        arrays = [_npy(archive.read(f"{name}.npy")) for name in ("x_train", "y_train", "x_test", "y_test")]
    return PublishedSet(name="MNIST (npz)", train=_grey(*arrays[:2]), hold_out=_grey(*arrays[2:]))


def _npy(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The NPY format, versions 1 and 2 (numpy.lib.format): of uint8, in C order."""
    if data[:6] != b"\x93NUMPY":
        raise ValueError("it is no array")
    length, begin = (
        (struct.unpack_from("<H", data, 8)[0], 10) if data[6] == 1 else (struct.unpack_from("<I", data, 8)[0], 12)
    )
    header = ast.literal_eval(data[begin : begin + length].decode("latin-1"))
    if header["descr"] != "|u1" or header["fortran_order"]:
        raise ValueError(f"it holds {header['descr']}, not bytes")
    return tuple(header["shape"]), data[begin + length :]


def _grey(images: tuple[tuple[int, ...], bytes], labels: tuple[tuple[int, ...], bytes]) -> Part:
    (count, height, width), pixels = images
    if labels[0] != (count,) or len(pixels) != count * height * width or len(labels[1]) != count:
        raise ValueError(f"{count} images and {labels[0]} labels do not fit each other")
    return Part(pixels=pixels, labels=tuple(labels[1]), height=height, width=width, channels=1)


# --- CIFAR --------------------------------------------------------------------------------------------------------

_SIDE = 32
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def _cifar10_python(files: Mapping[str, Callable[[], bytes]]) -> PublishedSet:
    return PublishedSet(
        name="CIFAR-10 (Python)",
        train=_joined([_pickled(files[name](), b"labels") for name in _BATCHES]),
        hold_out=_joined([_pickled(files["test_batch"](), b"labels")]),
        class_names=_names(files, "batches.meta", b"label_names"),
    )


def _cifar100_python(files: Mapping[str, Callable[[], bytes]]) -> PublishedSet:
    return PublishedSet(
        name="CIFAR-100 (Python)",
        train=_joined([_pickled(files["train"](), b"fine_labels")]),
        hold_out=_joined([_pickled(files["test"](), b"fine_labels")]),
        class_names=_names(files, "meta", b"fine_label_names"),
    )


def _cifar10_binary(files: Mapping[str, Callable[[], bytes]]) -> PublishedSet:
    return PublishedSet(
        name="CIFAR-10 (binary)",
        train=_joined([_rows(files[f"{name}.bin"](), 1) for name in _BATCHES]),
        hold_out=_joined([_rows(files["test_batch.bin"](), 1)]),
        class_names=_lines(files, "batches.meta.txt"),
    )


def _cifar100_binary(files: Mapping[str, Callable[[], bytes]]) -> PublishedSet:
    return PublishedSet(
        name="CIFAR-100 (binary)",
        train=_joined([_rows(files["train.bin"](), 2)]),
        hold_out=_joined([_rows(files["test.bin"](), 2)]),
        class_names=_lines(files, "fine_label_names.txt"),
    )


_PUBLISHED_SETS: tuple[tuple[frozenset[str], Callable[[Mapping[str, Callable[[], bytes]]], PublishedSet]], ...] = (
    (frozenset(_IDX), _mnist_idx),
    (frozenset({"mnist.npz"}), _mnist_npz),
    (frozenset({*_BATCHES, "test_batch"}), _cifar10_python),
    (frozenset({*(f"{name}.bin" for name in _BATCHES), "test_batch.bin"}), _cifar10_binary),
    (frozenset({"train", "test", "meta"}), _cifar100_python),
    (frozenset({"train.bin", "test.bin"}), _cifar100_binary),
)

_Rows = tuple[bytes, tuple[int, ...]]


def _rows(data: bytes, label_bytes: int) -> _Rows:
    """Each row is the label (of CIFAR-100 the coarse one before it) and three planes of 32 x 32."""
    row = label_bytes + 3 * _SIDE * _SIDE
    if not data or len(data) % row:
        raise ValueError(f"{len(data)} bytes are no rows of {row}")
    view = memoryview(data)
    pixels = b"".join(view[begin + label_bytes : begin + row] for begin in range(0, len(data), row))
    return pixels, tuple(data[label_bytes - 1 :: row])


def _pickled(data: bytes, labels: bytes) -> _Rows:
    batch = _Plain(io.BytesIO(data), encoding="bytes").load()
    array = batch[b"data"]
    if not isinstance(array, _Array) or array.shape[1:] != (3 * _SIDE * _SIDE,):
        raise ValueError("its data are no rows of 3 x 32 x 32 bytes")
    return array.data, tuple(int(label) for label in batch[labels])


def _joined(parts: list[_Rows]) -> Part:
    pixels, labels = b"".join(part[0] for part in parts), tuple(label for part in parts for label in part[1])
    if len(pixels) != len(labels) * 3 * _SIDE * _SIDE:
        raise ValueError(f"{len(pixels)} bytes are not {len(labels)} images")
    return Part(pixels=pixels, labels=labels, height=_SIDE, width=_SIDE, channels=3, planar=True)


def _names(files: Mapping[str, Callable[[], bytes]], name: str, key: bytes) -> tuple[str, ...]:
    if name not in files:
        return ()
    return tuple(
        text.decode("utf-8", "replace") for text in _Plain(io.BytesIO(files[name]()), encoding="bytes").load()[key]
    )


def _lines(files: Mapping[str, Callable[[], bytes]], name: str) -> tuple[str, ...]:
    if name not in files:
        return ()
    return tuple(line for line in files[name]().decode("utf-8", "replace").splitlines() if line)


class _Array:
    """What a pickled numpy array of bytes says of itself."""

    shape: tuple[int, ...] = ()
    data = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, kind, by_columns, self.data = state
        if not isinstance(kind, _Kind) or kind.code != "u1" or not isinstance(self.data, bytes):
            raise pickle.UnpicklingError("an array is not one of bytes")
        if by_columns:
            rows = len(self.data) // (3 * _SIDE * _SIDE)
            if self.shape != (rows, 3 * _SIDE * _SIDE):
                raise pickle.UnpicklingError("an array in columns is not one of images")
            self.data = b"".join(self.data[row::rows] for row in range(rows))


class _Kind:
    def __init__(self, code: Any = "", *_: object) -> None:
        self.code = code.decode() if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        pass


def _array(*_: object) -> _Array:
    return _Array()


class _Plain(pickle.Unpickler):
    """An unpickler that makes only arrays of bytes and plain values, without numpy."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        stands_in = {"_reconstruct": _array, "ndarray": _Array, "dtype": _Kind}
        if module_name.split(".")[0] == "numpy" and global_name in stands_in:
            return stands_in[global_name]
        if (module_name, global_name) == ("_codecs", "encode"):
            return super().find_class(module_name, global_name)
        raise pickle.UnpicklingError(f"it holds {module_name}.{global_name}, which is no array")
