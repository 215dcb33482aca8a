"""MNIST and CIFAR in their published files: the same images and labels from each format, and words for damage."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainplan.workloads.data_folder.published import published_set
from trainplan.workloads.data_folder.values import DataFolderError
from trainplan.workloads.trainer.folders import FolderQuery, open_folder
from trainplan.workloads.trainer.images import ArrayImages

RANDOM = np.random.default_rng(0)
GREY, GREY_LABELS = RANDOM.integers(0, 256, (9, 28, 28), np.uint8), np.arange(9, dtype=np.uint8) % 3
COLOUR, COLOUR_LABELS = RANDOM.integers(0, 256, (12, 3072)).astype(np.uint8), list(range(12))


def idx(array: Any) -> bytes:
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + bytes(array.tobytes())


def mnist_idx(folder: Path, *, packed: bool) -> None:
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    for name, array in zip(names, (GREY[:6], GREY_LABELS[:6], GREY[6:], GREY_LABELS[6:]), strict=True):
        data = idx(array)
        (folder / f"{name}{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)


def mnist_npz(folder: Path) -> None:
    parts = {"x_train": GREY[:6], "y_train": GREY_LABELS[:6], "x_test": GREY[6:], "y_test": GREY_LABELS[6:]}
    np.savez(folder / "mnist.npz", **parts)  # type: ignore[arg-type]


def pickled(rows: slice, key: bytes) -> bytes:
    return pickle.dumps({b"data": COLOUR[rows], key: COLOUR_LABELS[rows]}, protocol=2)


def cifar10(folder: Path, *, packed: bool) -> None:
    members = {f"data_batch_{number}": pickled(slice(2 * number - 2, 2 * number), b"labels") for number in range(1, 6)}
    members["test_batch"] = pickled(slice(10, 12), b"labels")
    members["batches.meta"] = pickle.dumps({b"label_names": [b"class %d" % label for label in range(12)]}, protocol=2)
    if not packed:
        for name, data in members.items():
            (folder / name).write_bytes(data)
        return
    with tarfile.open(folder / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def cifar100(folder: Path) -> None:
    (folder / "train").write_bytes(pickled(slice(0, 10), b"fine_labels"))
    (folder / "test").write_bytes(pickled(slice(10, 12), b"fine_labels"))
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"a", b"b"]}, protocol=2))


def rows(first: int, end: int, *, coarse: bool) -> bytes:
    return b"".join(bytes([*([7] if coarse else []), COLOUR_LABELS[row], *COLOUR[row]]) for row in range(first, end))


def cifar10_binary(folder: Path) -> None:
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").write_bytes(rows(2 * number - 2, 2 * number, coarse=False))
    (folder / "test_batch.bin").write_bytes(rows(10, 12, coarse=False))
    (folder / "batches.meta.txt").write_text("".join(f"class {label}\n" for label in range(12)))


def cifar100_binary(folder: Path) -> None:
    (folder / "train.bin").write_bytes(rows(0, 10, coarse=True))
    (folder / "test.bin").write_bytes(rows(10, 12, coarse=True))


WRITERS: dict[str, Any] = {
    "MNIST (IDX)": lambda folder: mnist_idx(folder, packed=False),
    "MNIST (IDX), packed": lambda folder: mnist_idx(folder, packed=True),
    "MNIST (npz)": mnist_npz,
    "CIFAR-10 (Python)": lambda folder: cifar10(folder, packed=False),
    "CIFAR-10 (Python), packed": lambda folder: cifar10(folder, packed=True),
    "CIFAR-10 (binary)": cifar10_binary,
    "CIFAR-100 (Python)": cifar100,
    "CIFAR-100 (binary)": cifar100_binary,
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_published_format_gives_the_images_and_labels(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path)
    found = published_set(tmp_path)
    assert found is not None
    assert found.name == name.removesuffix(", packed")
    grey = name.startswith("MNIST")
    split = open_folder(tmp_path, FolderQuery(size=28 if grey else 32, channels=1 if grey else 3, classes=12))
    assert isinstance(split.train, ArrayImages)
    assert isinstance(split.hold_out, ArrayImages)
    pixels = np.concatenate([split.train.pixels, split.hold_out.pixels])
    labels = [*split.train.labels.tolist(), *split.hold_out.labels.tolist()]
    if grey:
        assert (split.train.count, split.hold_out.count) == (6, 3)
        assert (pixels[..., 0] == GREY).all()
        assert labels == GREY_LABELS.tolist()
    else:
        assert (split.train.count, split.hold_out.count) == (10, 2)
        assert (pixels.transpose(0, 3, 1, 2).reshape(12, 3072) == COLOUR).all()
        assert labels == COLOUR_LABELS
    if name.startswith("CIFAR-10 "):
        assert split.class_names == tuple(f"class {label}" for label in range(12))


def test_another_folder_is_no_published_set(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "readme.md").touch()
    assert published_set(tmp_path) is None


@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_file_is_told(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-100] if path.stat().st_size > 1_000 else path.read_bytes())
    with pytest.raises(DataFolderError, match=r"is damaged .*fetch its files again"):
        published_set(tmp_path)


def test_a_pickle_that_holds_more_than_arrays_is_not_run(tmp_path: Path) -> None:
    cifar100(tmp_path)
    (tmp_path / "train").write_bytes(pickle.dumps({b"data": __import__("os").system}, protocol=2))
    with pytest.raises(DataFolderError, match=r"it holds \w+\.system, which is no array"):
        published_set(tmp_path)
