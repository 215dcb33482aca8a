"""Bringing the model home: whole or not at all, and nothing of the person's is lost."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.conftest import ROOT
from trainplan.planner.errors import ThisMachineError, TrainingFailedError
from trainplan.planner.runs.execution.collect import collect
from trainplan.providers.local.store import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    made = FolderStore(tmp_path / "run")
    made.put("output/model.keras", b"weights")
    entry = {"path": "model.keras", "size_bytes": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}
    made.put("output/manifest.json", json.dumps([entry]).encode())
    return made


def test_what_a_person_put_into_the_folder_meanwhile_stays(store: FolderStore, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "notes.txt").write_text("mine", encoding="utf-8")
    collect(store, home)
    collect(store, home)
    assert (home / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert (home / "model.keras").read_bytes() == b"weights"
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def another_disk(than: Path) -> Path:
    """Temporary files lie on the disk or in memory (scripts/memory.sh): this is a folder in the other of the two."""
    on_disk = ROOT / ".build"
    on_disk.mkdir(exist_ok=True)
    places = [place for place in (Path("/dev/shm"), on_disk) if place.is_dir()]
    other = next((place for place in places if place.stat().st_dev != than.stat().st_dev), None)
    if other is None:
        pytest.skip("needs two file systems")
    return other


def test_the_folder_may_be_a_disk_of_its_own(store: FolderStore, tmp_path: Path) -> None:
    with TemporaryDirectory(dir=another_disk(tmp_path)) as disk:
        (tmp_path / "home").symlink_to(disk)
        collect(store, tmp_path / "home")
        assert [path.name for path in Path(disk).iterdir()] == ["model.keras"]


def put_output(store: FolderStore, files: dict[str, str]) -> None:
    rows = []
    for name, text in files.items():
        store.put(f"output/{name}", text.encode())
        rows.append({"path": name, "size_bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()})
    store.put("output/manifest.json", json.dumps(rows).encode())


def test_what_a_sweep_brought_early_does_not_lie_beside_the_model_of_another_trial(
    store: FolderStore, tmp_path: Path
) -> None:
    home, early, late = tmp_path / "home", '{"ended_early": true}', '{"ended_early": false}'
    put_output(
        store, {"checkpoint/state": "3", "checkpoint/more/x": "3", "notes.txt": "3", "log": "3", "sweep.json": early}
    )
    assert len(collect(store, home)) == 5
    (home / "checkpoint" / "mine.txt").write_text("mine")
    (home / "notes.txt").write_text("changed by the person")
    put_output(store, {"checkpoint/state": "4", "log": "4", "sweep.json": early})
    collect(store, home)  # it has ended early once more
    put_output(store, {"model.bin": "4", "log": "4", "sweep.json": late})
    brought = collect(store, home)
    left = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert left == {"model.bin", "log", "sweep.json", "notes.txt", "checkpoint/mine.txt"}
    assert {path.relative_to(home).as_posix() for path in brought} == left
    assert not (home / "checkpoint" / "more").exists()


def test_a_damaged_file_leaves_the_folder_as_it_was(store: FolderStore, tmp_path: Path) -> None:
    store.put("output/model.keras", b"damaged")
    with pytest.raises(TrainingFailedError):
        collect(store, tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_what_has_arrived_is_not_fetched_again(store: FolderStore, tmp_path: Path) -> None:
    partial = tmp_path / ".home.partial"
    partial.mkdir()
    (partial / "model.keras").write_bytes(b"weights")
    (partial / "of-another-attempt").write_bytes(b"x")
    store.delete("output/model.keras")
    assert collect(store, tmp_path / "home") == [tmp_path / "home" / "model.keras"]


def test_a_store_that_cannot_give_files_gives_bytes(store: FolderStore, tmp_path: Path) -> None:
    class Plain:
        put, get, list, delete = store.put, store.get, store.list, store.delete

    assert collect(Plain(), tmp_path / "home") == [tmp_path / "home" / "model.keras"]
    store.put("output/model.keras", b"damaged")
    with pytest.raises(TrainingFailedError, match="differs from its manifest"):
        collect(Plain(), tmp_path / "home-2")


def test_nothing_is_written_through_a_linked_folder(store: FolderStore, tmp_path: Path) -> None:
    entry = {"path": "logs/x", "size_bytes": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}
    store.put("output/logs/x", b"weights")
    store.put("output/manifest.json", json.dumps([entry]).encode())
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    (home / "logs").symlink_to(elsewhere)
    with pytest.raises(ThisMachineError, match="is a link to another folder"):
        collect(store, home)

    (tmp_path / ".model.partial").symlink_to(elsewhere)
    with pytest.raises(ThisMachineError, match="is a link to another folder"):
        collect(store, tmp_path / "model")
    assert list(elsewhere.iterdir()) == []


def test_a_file_that_is_longer_than_its_manifest_says_is_not_fetched(store: FolderStore, tmp_path: Path) -> None:
    class Counts(FolderStore):
        def get_file(self, *arguments: Any) -> str:
            raise AssertionError(arguments)

    store.put("output/model.keras", b"weights and more")
    with pytest.raises(TrainingFailedError, match=r"model\.keras differs from its manifest"):
        collect(Counts(store.root), tmp_path / "home")
