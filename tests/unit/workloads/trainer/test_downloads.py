"""The sets that are downloaded, read from archives in their publishers' formats."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from tests.unit.workloads.trainer.builders import arrays
from trainplan.workloads.job import DataName
from trainplan.workloads.trainer.downloads import ARCHIVES, Archive, fetched, fetched_file
from trainplan.workloads.trainer.errors import BadInputError, TrainerError, UnreachableError

RANDOM = np.random.default_rng(0)


# The tests' own archives have no publisher's sum, and nothing answers where they would be downloaded.
UNREACHABLE = {
    name: tuple(replace(archive, sha256=None, origin=f"file:///no/such/{archive.name}") for archive in archives)
    for name, archives in ARCHIVES.items()
}


def idx(array: Any) -> bytes:
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.tobytes())


def grey(count: int) -> tuple[Any, Any]:
    return RANDOM.integers(0, 256, (count, 28, 28), np.uint8), RANDOM.integers(0, 10, count, np.uint8)


def tar(path: Path, members: dict[str, Any]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            data = pickle.dumps(content, protocol=2)
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def test_mnist(tmp_path: Path) -> None:
    (train_x, train_y), (test_x, test_y) = grey(6), grey(3)
    (tmp_path / "mnist").mkdir()
    np.savez(tmp_path / "mnist/mnist.npz", x_train=train_x, y_train=train_y, x_test=test_x, y_test=test_y)
    train, hold_out = arrays(fetched(DataName.MNIST, tmp_path, UNREACHABLE))
    assert (train.pixels[..., 0] == train_x).all()
    assert (hold_out.labels == test_y).all()


def test_fashion_mnist(tmp_path: Path) -> None:
    (train_x, train_y), (test_x, test_y) = grey(6), grey(3)
    (tmp_path / "fashion_mnist").mkdir()
    for archive, array in zip(ARCHIVES[DataName.FASHION_MNIST], (train_x, train_y, test_x, test_y), strict=True):
        (tmp_path / "fashion_mnist" / archive.name).write_bytes(idx(array))
    train, hold_out = arrays(fetched(DataName.FASHION_MNIST, tmp_path, UNREACHABLE))
    assert train.pixels.shape == (6, 28, 28, 1)
    assert (train.pixels[..., 0] == train_x).all()
    assert (hold_out.labels == test_y).all()


def colour(count: int, labels: bytes) -> dict[bytes, Any]:
    """A batch as CIFAR stores it: one row an image, all red, then all green, then all blue."""
    return {b"data": RANDOM.integers(0, 256, (count, 3072)).astype(np.uint8), labels: list(range(count))}


def test_cifar10(tmp_path: Path) -> None:
    batches = {f"cifar-10-batches-py/data_batch_{number}": colour(2, b"labels") for number in range(1, 6)}
    (tmp_path / "cifar10").mkdir()
    tar(
        tmp_path / "cifar10/cifar-10-python.tar.gz", {**batches, "cifar-10-batches-py/test_batch": colour(3, b"labels")}
    )
    train, hold_out = arrays(fetched(DataName.CIFAR10, tmp_path, UNREACHABLE))
    assert train.pixels.shape == (10, 32, 32, 3)
    assert hold_out.labels.tolist() == [0, 1, 2]
    stored = batches["cifar-10-batches-py/data_batch_1"][b"data"][1]
    assert train.pixels[1, 4, 5].tolist() == [stored[colour_ * 1024 + 4 * 32 + 5] for colour_ in range(3)]


def test_cifar100_has_the_fine_labels(tmp_path: Path) -> None:
    (tmp_path / "cifar100").mkdir()
    members: dict[str, Any] = {
        "cifar-100-python/train": colour(4, b"fine_labels"),
        "cifar-100-python/test": colour(2, b"fine_labels"),
        "cifar-100-python/meta": {b"fine_label_names": [b"apple", b"bear"]},
    }
    tar(tmp_path / "cifar100/cifar-100-python.tar.gz", members)
    train, hold_out = arrays(fetched(DataName.CIFAR100, tmp_path, UNREACHABLE))
    assert (train.count, hold_out.count) == (4, 2)
    assert train.labels.tolist() == [0, 1, 2, 3]


def test_an_array_stored_by_columns_has_the_same_images(tmp_path: Path) -> None:
    """numpy pickles the bytes of such an array as they lie in memory, column after column."""
    (tmp_path / "cifar100").mkdir()
    stored = colour(4, b"fine_labels")
    by_columns = stored | {b"data": np.asfortranarray(stored[b"data"])}
    members = {"train": by_columns, "test": stored, "meta": {b"fine_label_names": []}}
    tar(tmp_path / "cifar100/cifar-100-python.tar.gz", members)
    train, hold_out = arrays(fetched(DataName.CIFAR100, tmp_path, UNREACHABLE))
    assert (train.pixels == hold_out.pixels).all()
    assert train.pixels[1, 4, 5, 0] == stored[b"data"][1, 4 * 32 + 5]


def test_an_address_that_does_not_answer_says_where_to_put_the_file(tmp_path: Path) -> None:
    waits: list[float] = []
    with pytest.raises(UnreachableError, match=r"is not reached .*; put mnist\.npz into .*mnist and start again"):
        fetched(DataName.MNIST, tmp_path, UNREACHABLE, waits.append)
    assert waits == [5, 15, 30]
    weights = Archive(name="w.h5", origin="file:///no/such/w.h5", without="begin at random")
    with pytest.raises(UnreachableError, match=r"and start again, or begin at random$"):
        fetched_file(weights, tmp_path, waits.append)


@pytest.mark.parametrize(
    ("replies", "error", "asked"), [([503, 429, 200], None, 3), ([404], BadInputError, 1), ([403], BadInputError, 1)]
)
def test_a_server_that_is_down_for_a_while_is_asked_again(
    tmp_path: Path, replies: list[int], error: type[Exception] | None, asked: int
) -> None:
    content = served(tmp_path)
    data, left = (tmp_path / "served.npz").read_bytes(), list(replies)

    class Publisher(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code = left.pop(0)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(data if code == 200 else b"")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Publisher) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}/mnist.npz"
        archives = {DataName.MNIST: (replace(content[DataName.MNIST][0], origin=origin),)}
        if error is None:
            assert arrays(fetched(DataName.MNIST, tmp_path / "data", archives, lambda _: None))[0].count == 6
        else:
            with pytest.raises(error):
                fetched(DataName.MNIST, tmp_path / "data", archives, lambda _: None)
        server.shutdown()
    assert len(replies) - len(left) == asked


def test_a_full_disk_is_no_server_that_is_down(tmp_path: Path) -> None:
    (tmp_path / "data/mnist/.mnist.npz.new").mkdir(parents=True)
    with pytest.raises(TrainerError, match="cannot be written") as caught:
        fetched(DataName.MNIST, tmp_path / "data", served(tmp_path), lambda _: None)
    assert caught.value.exit_code == 70


@pytest.mark.parametrize("name", [DataName.MNIST, DataName.FASHION_MNIST, DataName.CIFAR10, DataName.CIFAR100])
def test_a_damaged_archive_is_named(tmp_path: Path, name: DataName) -> None:
    (tmp_path / name.value).mkdir()
    for archive in ARCHIVES[name]:
        (tmp_path / name.value / archive.name).write_bytes(b"<html>not found</html>")
    with pytest.raises(BadInputError, match=f"{name} in .* is damaged"):
        fetched(name, tmp_path, UNREACHABLE)


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("true",))


def test_an_archive_with_code_in_it_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "cifar100").mkdir()
    members = {"train": {b"data": Hostile()}, "test": {b"data": Hostile()}, "meta": {}}
    tar(tmp_path / "cifar100/cifar-100-python.tar.gz", members)
    with pytest.raises(BadInputError, match="which is no array"):
        fetched(DataName.CIFAR100, tmp_path, UNREACHABLE)


def served(tmp_path: Path, **changes: Any) -> dict[DataName, tuple[Archive, ...]]:
    """MNIST with six images, as an archive that can be downloaded."""
    (train_x, train_y), (test_x, test_y) = grey(6), grey(3)
    np.savez(tmp_path / "served.npz", x_train=train_x, y_train=train_y, x_test=test_x, y_test=test_y)
    origin = (tmp_path / "served.npz").as_uri()
    digest = hashlib.sha256((tmp_path / "served.npz").read_bytes()).hexdigest()
    fields = {"name": "mnist.npz", "origin": origin, "sha256": digest} | changes
    return {DataName.MNIST: (Archive(**fields),)}


def test_what_was_downloaded_is_not_downloaded_again(tmp_path: Path) -> None:
    archives = served(tmp_path)
    fetched(DataName.MNIST, tmp_path / "data", archives)
    (tmp_path / "served.npz").unlink()
    train, _ = arrays(fetched(DataName.MNIST, tmp_path / "data", archives))
    assert train.count == 6


def test_a_damaged_file_is_downloaded_again(tmp_path: Path) -> None:
    (tmp_path / "data/mnist").mkdir(parents=True)
    (tmp_path / "data/mnist/mnist.npz").write_bytes(b"half")
    train, _ = arrays(fetched(DataName.MNIST, tmp_path / "data", served(tmp_path)))
    assert train.count == 6


def test_a_download_that_is_not_the_publishers_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="sha256 differs"):
        fetched(DataName.MNIST, tmp_path / "data", served(tmp_path, sha256="0" * 64))
    assert list((tmp_path / "data/mnist").iterdir()) == []
