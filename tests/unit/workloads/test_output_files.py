"""The files of an output: every name that a file system takes, and any number of them, can be stored."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainplan.providers.agent.schema import MANIFEST_BYTES, manifest_rows
from trainplan.providers.stores.files import checked_path
from trainplan.workloads.output_files import MOST_MANIFEST_BYTES, arranged, stored_names, write_archive

COMPONENTS = st.binary(min_size=1, max_size=255).map(
    lambda data: os.fsdecode(data.replace(b"/", b"-").replace(b"\0", b"-"))
).filter(lambda name: name not in (".", ".."))  # fmt: skip
PATHS = st.lists(COMPONENTS, min_size=1, max_size=8).map("/".join)


@given(paths=st.lists(PATHS, unique=True, max_size=20))
@example(paths=["a:b", "a%3Ab", "a%3Ab~2"])
@example(paths=["x" * 255, "x" * 254 + "y", "/".join(["d" * 200] * 8)])
def test_every_name_that_a_file_system_takes_can_be_stored(paths: list[str]) -> None:
    names = stored_names(paths)
    assert len(set(names.values())) == len(paths)
    for name in names.values():
        assert manifest_rows(f'[{{"path": {_json(name)}, "sha256": "{"0" * 64}"}}]'.encode()) is not None
        assert checked_path(name) == name
        assert not set(name) & set(':\\*?"<>|')
        assert len(name.encode()) <= 1000
        assert all(len(part.encode()) <= 237 and part[-1] not in ". " for part in name.split("/"))


def _json(text: str) -> str:
    import json

    return json.dumps(text)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("2026-11-28 09:42:22.log", "2026-11-28 09%3A42%3A22.log"),
        ("models\\best.h5", "models%5Cbest.h5"),
        ("two\nlines.txt", "two%0Alines.txt"),
        (os.fsdecode(b"caf\xe9.pt"), "caf%E9.pt"),
        ("plain/épochs=3 [val].ckpt", "plain/épochs=3 [val].ckpt"),
        ("metrics.json", "script-metrics.json"),
        ("100%.txt", "100%.txt"),
    ],
)
def test_what_can_be_stored_keeps_its_name(path: str, name: str) -> None:
    assert stored_names([path], ("metrics.json",)) == {path: name}


def test_files_that_are_too_many_go_into_archives_and_the_rest_stays() -> None:
    paths = [
        "model.pt",
        "notes/a.txt",
        *(f"cats/{number}.jpg" for number in range(30)),
        *(f"{n}.png" for n in range(9)),
    ]
    few = arranged({path: Path(path) for path in paths}, most_files=15)
    assert list(few.archives) == ["cats.tar"]
    assert len(few.files) == 11
    assert few.remarks == ["30 files come home as cats.tar: an output has 15 files at most"]
    fewer = arranged({path: Path(path) for path in paths}, most_files=5)
    assert list(fewer.archives) == ["cats.tar", "files.png.tar"]
    assert set(fewer.files) == {"model.pt", "notes/a.txt"}


def test_folders_that_are_too_many_go_into_one_archive() -> None:
    arrangement = arranged({f"{number}/a": Path("a") for number in range(30)}, most_files=15)
    assert {name: len(members) for name, members in arrangement.archives.items()} == {"files.tar": 30}
    assert not arrangement.files


def test_names_that_no_manifest_holds_go_into_archives() -> None:
    paths = [f"{'長' * 60}/{'い' * 60}{number}" for number in range(6_000)]
    arrangement = arranged({path: Path(path) for path in paths})
    assert len(arrangement.files) + len(arrangement.archives) == 1
    assert MOST_MANIFEST_BYTES < MANIFEST_BYTES


def test_an_archive_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    write_archive(tmp_path / "whole.tar", {"odd:name": tmp_path / "a"})
    with tarfile.open(tmp_path / "whole.tar") as archive:
        assert archive.getnames() == ["odd:name"]
    with pytest.raises(OSError, match="gone"):
        write_archive(tmp_path / "half.tar", {"a": tmp_path / "a", "gone": tmp_path / "gone"})
    assert not (tmp_path / "half.tar").exists()


def test_names_of_devices_and_twins_by_case_are_renamed() -> None:
    paths = ["CON.txt", "logs/aux", "Model.pt", "model.pt", "console.txt"]
    assert stored_names(paths, ("metrics.json",)) == {
        "CON.txt": "%43ON.txt", "logs/aux": "logs/%61ux", "Model.pt": "Model.pt", "model.pt": "model~2.pt",
        "console.txt": "console.txt",
    }  # fmt: skip


def test_a_name_that_the_run_needs_is_told_apart_from_one_that_no_system_takes(tmp_path: Path) -> None:
    remarks = arranged({"metrics.json": tmp_path, "a:b": tmp_path}, ("metrics.json",)).remarks
    assert remarks == [
        "renamed, because trainplan writes its own: 'metrics.json' as 'script-metrics.json'",
        "comes home under a name that every system takes: 'a:b' as 'a%3Ab'",
    ]
