"""A container on this computer that leaves links in its run directory: none is followed to read or to write."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

import pytest

from trainplan.planner.errors import TrainingFailedError
from trainplan.planner.runs.execution.collect import collect
from trainplan.providers.errors import MachineError
from trainplan.providers.local import inside
from trainplan.providers.local.store import FolderStore

SECRET = b"a key of the person's"


@pytest.fixture(params=["descriptors", "names"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reaching a file: relative to open folders, and by names where the system has no such."""
    if request.param == "names":
        monkeypatch.setattr(inside, "HAS_FOLDER_DESCRIPTORS", False)
    return str(request.param)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """What is the person's own, and none of the run's."""
    folder = tmp_path / "host"
    (folder / "step-1").mkdir(parents=True)
    (folder / "kept").write_bytes(SECRET)
    (folder / "step-1" / "kept").write_bytes(SECRET)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    made = FolderStore(tmp_path / "run")
    made.put("output/model.keras", b"model")
    return made


def untouched(host: Path) -> bool:
    found = {path.relative_to(host).as_posix(): path.read_bytes() for path in host.rglob("*") if path.is_file()}
    return found == {"kept": SECRET, "step-1/kept": SECRET}


def test_no_file_is_read_through_a_link(store: FolderStore, host: Path, tmp_path: Path) -> None:
    (store.root / "output" / "linked").symlink_to(host / "kept")
    (store.root / "folder").symlink_to(host)
    os.mkfifo(store.root / "pipe")
    assert list(store.list()) == ["output/model.keras"]
    assert store.sizes() == {"output/model.keras": 5}
    for path in ("output/linked", "folder/kept", "folder/step-1/kept", "pipe", "folder", "output"):
        assert list(store.list(path)) == (["output/model.keras"] if path == "output" else [])
        with pytest.raises(KeyError):
            store.get(path)
        with pytest.raises(KeyError):
            store.get_file(path, tmp_path / "copied")
    assert not (tmp_path / "copied").exists()


def test_a_model_is_not_brought_home_through_a_link(store: FolderStore, host: Path, tmp_path: Path) -> None:
    rows = [{"path": name, "sha256": hashlib.sha256(SECRET).hexdigest()} for name in ("a/kept", "b")]
    store.put("output/manifest.json", json.dumps(rows).encode())
    (store.root / "output" / "a").symlink_to(host)
    (store.root / "output" / "b").symlink_to(host / "kept")
    with pytest.raises(TrainingFailedError, match="the manifest names a/kept, which is not there"):
        collect(store, tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_no_file_is_written_through_a_link(store: FolderStore, host: Path, way: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"ours")
    (store.root / "attempts").symlink_to(host)
    (store.root / "job.json").symlink_to(host / "kept")
    for path in ("attempts/1/log/output.log", "attempts/kept", "attempts/step-1/kept", "job.json"):
        for write in (lambda path: store.put(path, b"ours"), lambda path: store.put_file(path, tmp_path / "source")):
            try:
                write(path)
            except MachineError:
                assert way == "names", "a link in the way is removed where that is safe"
            else:
                assert store.get(path) == b"ours"
            assert untouched(host)
    assert not [path for path in store.root.rglob("*") if path.name.endswith(".partial")]


def test_nothing_is_deleted_through_a_link(store: FolderStore, host: Path) -> None:
    (store.root / "checkpoints").symlink_to(host)
    for path in ("checkpoints/step-1", "checkpoints/kept", "checkpoints", ""):
        with contextlib.suppress(MachineError):
            store.delete(path)
        assert untouched(host)
    assert list(store.list()) == []


def test_a_new_attempt_makes_its_folders_in_the_run_directory(store: FolderStore, host: Path) -> None:
    (store.root / "attempts").symlink_to(host)
    with contextlib.suppress(OSError):
        inside.make_folder(store.root, store.root / "attempts" / "2" / "log")
    assert untouched(host)
    assert sorted(path.name for path in host.iterdir()) == ["kept", "step-1"]
