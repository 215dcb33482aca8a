"""What every run store promises (providers/base.py, providers/stores/files.py), in every world."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.providers.stores.worlds import FolderWorld, World
from trainplan.providers.errors import BadRequestError, MachineError
from trainplan.providers.stores.bucket import PART_BYTES, DamagedError
from trainplan.providers.stores.files import FileStore, fetch, stored_bytes

STRANGE = ("a b.txt", "ü/ø.bin", "x+y=z&q.txt", "100%.txt", "h#sh?.txt", "q'uo\"te.txt", "deep/er/and/deeper/f")


def test_put_get_list_delete(world: World | FolderWorld) -> None:
    store = world.store()
    assert list(store.list()) == []
    store.put("output/a.txt", b"12345")
    store.put("output/b/c.txt", b"x")
    store.put("output-2/d.txt", b"y")
    store.put("output/a.txt", b"123456")
    store.put("empty", b"")
    assert store.get("output/a.txt") == b"123456"
    assert store.get("empty") == b""
    assert list(store.list("output")) == ["output/a.txt", "output/b/c.txt"]
    assert list(store.list("output/a.txt")) == ["output/a.txt"]
    assert list(store.list("outp")) == []
    assert store.sizes() == {"empty": 0, "output-2/d.txt": 1, "output/a.txt": 6, "output/b/c.txt": 1}
    assert stored_bytes(store, "output") == 7
    store.delete("output")
    store.delete("output")
    assert list(store.list()) == ["empty", "output-2/d.txt"]
    with pytest.raises(KeyError):
        store.get("output/a.txt")
    store.delete("")
    assert list(store.list()) == []


def test_get_from_a_start(world: World | FolderWorld) -> None:
    store = world.store()
    store.put("f", b"12345")
    for start, expected in ((0, b"12345"), (3, b"45"), (5, b""), (99, b"")):
        assert store.get("f", start=start) == expected
        with pytest.raises(KeyError):
            store.get("absent", start=start)


def test_names_that_have_to_be_quoted(world: World | FolderWorld) -> None:
    store = world.store()
    for name in STRANGE:
        store.put(name, name.encode())
    assert sorted(store.list()) == sorted(STRANGE)
    assert [store.get(name) for name in STRANGE] == [name.encode() for name in STRANGE]
    for name in STRANGE:
        store.delete(name)
    assert list(store.list()) == []


def test_a_store_keeps_to_its_run(world: World | FolderWorld, tmp_path: Path) -> None:
    store = world.store()
    (tmp_path / "f").write_bytes(b"x")
    of_windows = ("a\\b", "c:x") if os.name == "nt" else ()
    for path in ("", "/etc/passwd", "../other", "a/../../b", *of_windows):
        with pytest.raises(BadRequestError):
            store.put(path, b"x")
        with pytest.raises(BadRequestError):
            store.get(path)
        with pytest.raises(BadRequestError):
            store.put_file(path, tmp_path / "f")
        with pytest.raises(BadRequestError):
            store.get_file(path, tmp_path / "g")


def test_runs_do_not_see_each_other(world: World | FolderWorld) -> None:
    first, second = world.store("r1"), world.store("r1-b")
    first.put("f", b"1")
    second.put("f", b"2")
    assert (list(first.list()), first.get("f")) == (["f"], b"1")
    first.delete("")
    assert second.get("f") == b"2"


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 12_345])
def test_files_of_every_size(world: World | FolderWorld, tmp_path: Path, size: int) -> None:
    store = world.store()
    assert isinstance(store, FileStore)
    source, target = tmp_path / "source", tmp_path / "new" / "target"
    there: list[Any] = []
    source.write_bytes(content(size))
    digest = hashlib.sha256(content(size)).hexdigest()
    assert store.put_file("model/weights", source, there.append) == digest
    assert sum(there) == size
    assert store.sizes() == {"model/weights": size}
    arrived: list[int] = []
    assert store.get_file("model/weights", target, digest, arrived.append) == digest
    assert sum(arrived) == size
    assert target.read_bytes() == source.read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["target"]
    assert fetch(store, "model/weights", target) == digest


def test_a_file_that_is_not_as_promised(world: World | FolderWorld, tmp_path: Path) -> None:
    store, target = world.store(), tmp_path / "target"
    store.put("f", b"12345")
    target.write_bytes(b"before")
    with pytest.raises(DamagedError, match="f is not what was promised"):
        store.get_file("f", target, "0" * 64)
    assert target.read_bytes() == b"before"
    with pytest.raises(KeyError):
        store.get_file("absent", target)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["target"]


def test_a_file_that_is_not_there_to_be_sent(world: World | FolderWorld, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="nowhere"):
        world.store().put_file("f", tmp_path / "nowhere")


def content(size: int) -> bytes:
    """Never the same twice within a file."""
    block = b"".join(hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(1024))
    pieces = range(-(-size // len(block)))
    return b"".join(number.to_bytes(4, "big") + block[4:] for number in pieces)[:size]
