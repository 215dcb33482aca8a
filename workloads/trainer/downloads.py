"""The known sets that are fetched where they are used: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import pickle
import shutil
import struct
import tarfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workloads.job import DataName
from workloads.trainer.errors import BadInputError
from workloads.trainer.images import Split, in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Arrays = npt.NDArray[Any]
_Pair = tuple[Arrays, Arrays]
_ANSWER_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One file as its publisher serves it. `sha256` is None where the publisher's loader checks none."""

    name: str
    origin: str
    sha256: str | None = None


_GOOGLE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"
# Addresses and sums: keras.datasets of Keras 3.15.1, read 2026-11-21.
ARCHIVES: Mapping[DataName, tuple[Archive, ...]] = {
    DataName.MNIST: (
        Archive(
            name="mnist.npz",
            origin=f"{_GOOGLE}mnist.npz",
            sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
        ),
    ),
    DataName.FASHION_MNIST: tuple(
        Archive(name=name, origin=f"{_GOOGLE}{name}")
        for name in (
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        )
    ),
    DataName.CIFAR10: (
        Archive(
            name="cifar-10-python.tar.gz",
            origin=f"{_TORONTO}cifar-10-python.tar.gz",
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    ),
    DataName.CIFAR100: (
        Archive(
            name="cifar-100-python.tar.gz",
            origin=f"{_TORONTO}cifar-100-python.tar.gz",
            sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        ),
    ),
}


def fetched(name: DataName, data_dir: Path, archives: Mapping[DataName, tuple[Archive, ...]] = ARCHIVES) -> Split:
    """The set, from `data_dir`/NAME where its files lie already, else downloaded to there.

    Raises BadInputError where it can neither be found nor downloaded, or is damaged.
    """
    folder = data_dir / name.value
    files = [_fetch(archive, folder) for archive in archives[name]]
    try:
        train, hold_out = _READERS[name](files)
    except (OSError, EOFError, ValueError, KeyError, pickle.UnpicklingError, tarfile.TarError, zlib.error) as error:
        raise BadInputError(f"{name} in {folder} is damaged ({error}); delete that folder and start again") from error
    return Split(train=in_memory(*train), hold_out=in_memory(*hold_out))


def _fetch(archive: Archive, folder: Path) -> Path:
    path = folder / archive.name
    if path.is_file() and _as_served(path, archive):
        return path
    unfinished = folder / f".{archive.name}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(archive.origin, timeout=_ANSWER_SECONDS) as reply, unfinished.open("wb") as file:
            shutil.copyfileobj(reply, file)
    except (OSError, http.client.HTTPException) as error:
        raise BadInputError(
            f"{archive.origin} cannot be downloaded ({error}); put {archive.name} into {folder} and start again"
        ) from error
    if not _as_served(unfinished, archive):
        unfinished.unlink()
        raise BadInputError(f"{archive.origin} is not what its publisher vouches for (sha256 differs); try again later")
    return unfinished.replace(path)


def _as_served(path: Path, archive: Archive) -> bool:
    if archive.sha256 is None:
        return True
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == archive.sha256


def _mnist(files: list[Path]) -> tuple[_Pair, _Pair]:
    with np.load(files[0], allow_pickle=False) as arrays:
        return (arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])


def _fashion_mnist(files: list[Path]) -> tuple[_Pair, _Pair]:
    arrays = [_idx(file) for file in files]
    return (arrays[0], arrays[1]), (arrays[2], arrays[3])


def _idx(file: Path) -> Arrays:
    """The IDX format: two zero bytes, type 8 (uint8), the number of sides, each side big-endian, then the bytes."""
    data = gzip.decompress(file.read_bytes())
    zeros, kind, sides = struct.unpack_from(">HBB", data)
    if zeros or kind != 8:
        raise ValueError(f"{file.name} is not in the IDX format")
    shape = struct.unpack_from(f">{sides}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * sides).reshape(shape)


def _cifar10(files: list[Path]) -> tuple[_Pair, _Pair]:
    members = _members(files[0])
    parts = [_cifar(members[f"data_batch_{number}"], b"labels") for number in range(1, 6)]
    train = (np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts]))
    return train, _cifar(members["test_batch"], b"labels")


def _cifar100(files: list[Path]) -> tuple[_Pair, _Pair]:
    members = _members(files[0])
    return _cifar(members["train"], b"fine_labels"), _cifar(members["test"], b"fine_labels")


def _members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        opened = {Path(member.name).name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in opened.items() if file is not None}


def _cifar(data: bytes, labels: bytes) -> _Pair:
    batch = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
    images = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, np.asarray(batch[labels])


class _ArraysOnly(pickle.Unpickler):
    """CIFAR comes pickled; nothing but numpy arrays is let out of it."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name.split(".")[0] == "numpy" and global_name in {"_reconstruct", "ndarray", "dtype"}:
            return super().find_class(module_name, global_name)
        if (module_name, global_name) == ("_codecs", "encode"):
            return super().find_class(module_name, global_name)
        raise pickle.UnpicklingError(f"it holds {module_name}.{global_name}, which is no array")


_READERS: Mapping[DataName, Callable[[list[Path]], tuple[_Pair, _Pair]]] = {
    DataName.MNIST: _mnist,
    DataName.FASHION_MNIST: _fashion_mnist,
    DataName.CIFAR10: _cifar10,
    DataName.CIFAR100: _cifar100,
}
