"""Data sets: the same shards everywhere, sent once, told before, listed and removed."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import flat_provider_rates
from tests.doubles.gcs import GcsDouble
from tests.unit.planner.cli.command import plan
from trainplan.planner.datasets import pack as shards
from trainplan.planner.datasets.pack import Outside, pack, read, scan
from trainplan.planner.datasets.storage_costs import format_bytes, stored, stored_cost
from trainplan.planner.datasets.store import (
    LEAST_NAMED,
    find_data_set,
    index_bytes,
    list_data_sets,
    looked_at,
    planned,
    remove,
    upload,
)
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.pricing.side_rates import BUCKET
from trainplan.providers.base import ProviderSettings
from trainplan.providers.stores import registry
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.pending_uploads import Unfinished
from trainplan.providers.stores.store import ObjectStore, data_store
from trainplan.workloads.data_folder import entries
from trainplan.workloads.data_folder.entries import LEADS_BACK
from trainplan.workloads.data_folder.layout import read_layout
from trainplan.workloads.data_folder.values import ImageLayout

RATES = flat_provider_rates("aws", **{BUCKET: "0.02"})


def silent(_: int) -> None:
    """Nobody listens."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "images"
    for name, data in {
        "cat/1.png": b"a" * 700,
        "cat/2.png": b"b" * 500,
        "dog/ü 1.png": b"c" * 900,
        "labels": b"",
    }.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(data)
    return made


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 1200)


@pytest.fixture
def gcs() -> Iterator[GcsDouble]:
    with GcsDouble() as double:
        yield double


@pytest.fixture
def store(gcs: GcsDouble, tmp_path: Path) -> Iterator[ObjectStore]:
    settings = ProviderSettings(
        home=tmp_path / "home",
        options={"endpoint": gcs.url, "project": "p"},
        environment={},
        now=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )
    bucket = registry.bucket("gcp", settings)
    yield data_store(bucket, unfinished=Unfinished(tmp_path / "uploads"), patience=Patience(sleep=lambda _: None))
    bucket.close()


# --- packing -----------------------------------------------------------------------------------------------------


def test_the_same_files_are_the_same_data_set_wherever_and_whenever(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy" / "images"
    for path in reversed(sorted(path for path in folder.rglob("*") if path.is_file())):
        (other / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (other / path.relative_to(folder)).write_bytes(path.read_bytes())
    os.utime(other / "labels", (1, 1))
    (other / "labels").chmod(0o600)
    first, second = read(folder, scan(folder).items, silent), read(other, scan(other).items, silent)
    assert first.content == second.content
    # Known so that it is the same with every Python: a change makes everybody upload again.
    assert first.content == KNOWN_CONTENT


KNOWN_CONTENT = "9f255f53dabffa84d2c7d8275e8c2f0067d2d6ef1227593a2c39a7c85a28b54d"


@pytest.mark.parametrize("change", ["bytes", "name", "more"])
def test_other_files_are_another_data_set(folder: Path, change: str) -> None:
    before = read(folder, scan(folder).items, silent)
    match change:
        case "bytes":
            (folder / "cat" / "1.png").write_bytes(b"A" * 700)
        case "name":
            (folder / "cat" / "1.png").rename(folder / "cat" / "0.png")
        case _:
            (folder / "cat" / "3.png").write_bytes(b"")
    assert read(folder, scan(folder).items, silent).content != before.content


@pytest.mark.usefixtures("small_shards")
def test_a_shard_has_whole_files_and_nothing_of_this_computer(folder: Path) -> None:
    found = read(folder, scan(folder).items, silent)
    assert [[item.path for item in shard.items] for shard in found.shards] == [
        ["cat/1.png", "cat/2.png"],
        ["dog/ü 1.png", "labels"],
    ]
    packed = io.BytesIO()
    pack(folder, found.shards[1].items, packed)
    assert len(packed.getvalue()) == found.shards[1].size_bytes
    with tarfile.open(fileobj=io.BytesIO(packed.getvalue())) as archive:
        assert [(member.name, member.size, member.mtime, member.uid, member.uname) for member in archive] == [
            ("dog/ü 1.png", 900, 0, 0, ""),
            ("labels", 0, 0, 0, ""),
        ]
        first = archive.extractfile("dog/ü 1.png")
        assert first is not None
        assert first.read() == b"c" * 900


def test_what_a_computer_leaves_everywhere_is_not_sent(folder: Path) -> None:
    before = scan(folder)
    for name in ("lost+found", "$RECYCLE.BIN", "cat/System Volume Information"):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.png").write_bytes(b"x")
    assert scan(folder) == before


def test_folders_that_cannot_be_packed(tmp_path: Path) -> None:
    for wrong in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(BadInputError):
            scan(wrong)


def test_only_regular_files_are_packed_and_the_others_are_counted(folder: Path, tmp_path: Path) -> None:
    before = scan(folder)
    os.mkfifo(folder / "cat" / "pipe.png")
    (folder / "cat" / "zero.png").symlink_to("/dev/zero")
    (folder / "cat" / "nothing.png").symlink_to(folder / "absent")
    (folder / "loop.png").symlink_to(folder / "loop.png")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s.png"))
        found = scan(folder)
    assert (found.items, found.left_out) == (before.items, 5)
    data = looked_at(folder, tmp_path / "home", silent)
    assert data.left_out == 5
    assert looked_at(folder, tmp_path / "home", silent) == data, "read before: told again"
    assert b"left_out" not in index_bytes(data)
    assert replace(data, left_out=0).content == data.content


def test_links_to_folders_are_packed_as_the_trainer_reads_them(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "images"
    for name in ("elsewhere/dog/1.png", "elsewhere/dog/old/2.png", "images/cat/3.png", "images/cat/old/4.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (folder / "dog").symlink_to(elsewhere / "dog")  # a class
    (folder / "cat" / "more").symlink_to(folder / "cat" / "old")  # within a class
    for name, to in {"back": tmp_path, "cat/all": folder, "cat/old/up": folder / "cat"}.items():
        (folder / name).symlink_to(to)
    (elsewhere / "dog" / "cats").symlink_to(folder / "cat")
    (folder / "cat" / "dogs").symlink_to(elsewhere / "dog")  # each in the other
    layout = read_layout(folder)
    assert isinstance(layout, ImageLayout)
    assert layout.class_names == ("cat", "dog")
    trained_on = [path for path, _ in layout.train + layout.hold_out]
    assert sorted(trained_on) == [item.path for item in scan(folder).items]
    assert {"dog/1.png", "cat/more/4.png", "cat/dogs/old/2.png", "dog/cats/3.png"} < set(trained_on)
    assert {left_out.reason for left_out in layout.left_out} == {LEADS_BACK}
    outside = {item.path for item in scan(folder).items if item.outside}
    assert outside == {path for path in trained_on if path.startswith(("dog/", "cat/dogs/")) and "cats" not in path}


def test_what_lies_outside_the_folder_is_counted_with_the_first_place(folder: Path, tmp_path: Path) -> None:
    """Whoever is asked before an upload named one folder: what links bring in from others is theirs to know of."""
    assert scan(folder).outside == Outside()
    (tmp_path / "to-images").symlink_to(folder)
    assert scan(tmp_path / "to-images").outside == Outside(), "the folder itself may be named by a link"
    elsewhere = tmp_path / "imagesque"  # which begins as the folder does
    (elsewhere / "deep").mkdir(parents=True)
    for name, size in (("a.png", 30), ("deep/b.png", 50)):
        (elsewhere / name).write_bytes(bytes(size))
    (folder / "cat" / "within.png").symlink_to(folder / "cat" / "1.png")
    (folder / "cat" / "z.png").symlink_to(elsewhere / "a.png")
    (folder / "bee").symlink_to(elsewhere)
    expected = Outside(3, 110, str((elsewhere / "a.png").resolve()))
    assert scan(folder).outside == expected
    data = looked_at(folder, tmp_path / "home", silent)
    assert data.outside == expected
    assert looked_at(folder, tmp_path / "home", silent) == data, "read before: told again"
    assert b"imagesque" not in index_bytes(data)


def test_folders_that_are_all_linked_to_each_other_end_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MOST_LINKED_FOLDERS", 500)
    names = [f"class{number}" for number in range(8)]
    for name in names:
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "1.png").write_bytes(name.encode())
        for other in names:
            (tmp_path / "images" / name / f"to {other}").symlink_to(tmp_path / "images" / other)
    with pytest.raises(ThisMachineError, match="links lead to more than 500 folders; put the images there"):
        scan(tmp_path / "images")
    said = plan("data", "check", tmp_path / "images")
    assert "links lead to more than 500 folders" in said.error


def test_names_that_are_not_utf_8_are_packed(folder: Path) -> None:
    odd = os.fsdecode(b"cat/\xff\xfe.png")
    (folder / odd).write_bytes(b"odd")
    items = scan(folder).items
    assert odd in [item.path for item in items]
    packed = io.BytesIO()
    pack(folder, items, packed)
    assert read(folder, items, silent).size_bytes == len(packed.getvalue())
    with tarfile.open(fileobj=io.BytesIO(packed.getvalue())) as archive:
        assert odd in archive.getnames()


@pytest.mark.parametrize("name", [b"images", b"im\xff"])
def test_a_folder_whose_own_name_is_not_utf_8_is_looked_at(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    (folder / "1.png").write_bytes(b"x")
    assert looked_at(folder, tmp_path / "home", silent).files == 1


def test_a_folder_is_read_again_only_when_it_has_changed(folder: Path, tmp_path: Path) -> None:
    heard: list[int] = []
    first = looked_at(folder, tmp_path / "home", heard.append)
    assert heard
    heard.clear()
    assert looked_at(folder, tmp_path / "home", heard.append) == first
    assert heard == []
    (folder / "labels").write_bytes(b"new")
    assert looked_at(folder, tmp_path / "home", heard.append) != first
    assert heard


# --- the store ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_shards")
def test_a_data_set_is_sent_once(folder: Path, store: ObjectStore) -> None:
    data = read(folder, scan(folder).items, silent)
    before = planned(data, store, RATES)
    assert (before.missing_shards, before.complete) == (data.shards, False)
    assert before.missing_bytes == data.size_bytes == 20480
    assert before.seconds == pytest.approx(20480 / 2_500_000)
    assert before.stored.usd_per_month == Decimal(20480) / 10**9 * Decimal("0.02")
    assert before.uri == f"gs://trainplan-p-us-central1/data/{data.content}"
    sent: list[int] = []
    upload(before, folder, store, sent.append)
    assert sum(sent) == data.size_bytes
    after = planned(data, store, RATES)
    assert (after.missing_shards, after.complete) == ((), True)


@pytest.mark.usefixtures("small_shards")
def test_only_missing_shards_are_sent(folder: Path, store: ObjectStore) -> None:
    data = read(folder, scan(folder).items, silent)
    upload(planned(data, store, None), folder, store, silent)
    store.delete(f"{data.content}/shard-00001.tar")
    store.delete(f"{data.content}/index.json")
    again = planned(data, store, None)
    assert [shard.name for shard in again.missing_shards] == ["shard-00001.tar"]
    assert [(known.data, known.stored.usd_per_month) for known in list_data_sets(store, None)] == [(None, None)]
    upload(again, folder, store, silent)
    assert planned(data, store, None).complete
    assert [known.data and known.data.name for known in list_data_sets(store, None)] == ["images"]


def test_a_folder_that_has_changed_since_is_not_vouched_for(folder: Path, store: ObjectStore) -> None:
    data = read(folder, scan(folder).items, silent)
    (folder / "cat" / "1.png").write_bytes(b"A" * 700)
    with pytest.raises(ThisMachineError, match="has changed"):
        upload(planned(data, store, None), folder, store, silent)
    (folder / "cat" / "1.png").write_bytes(b"A")
    with pytest.raises(ThisMachineError, match=r"1\.png"):
        upload(planned(data, store, None), folder, store, silent)
    assert list(store.list()) == []


def test_data_sets_are_named_and_removed(folder: Path, store: ObjectStore) -> None:
    data = read(folder, scan(folder).items, silent)
    upload(planned(data, store, None), folder, store, silent)
    known = list_data_sets(store, RATES)
    assert [one.content for one in known] == [data.content]
    assert find_data_set("images", known) == find_data_set(data.content[:LEAST_NAMED], known) == known[0]
    for wrong in ("", "other", data.content[:2]):
        with pytest.raises(BadInputError, match="no data set"):
            find_data_set(wrong, known)
    with pytest.raises(BadInputError, match="2 data sets"):
        find_data_set("images", [known[0], replace(known[0], content="f" * 64)])
    remove(store, data.content)
    assert list_data_sets(store, RATES) == []
    remove(store, data.content)


def test_what_stays_and_what_it_costs(store: ObjectStore) -> None:
    assert stored(store, RATES).size_bytes == 0
    store.put("a", b"x" * 1000)
    assert str(stored(store, RATES)) == "1.0 kB stored, under $0.01 a month"
    assert str(stored_cost(150 * 10**9, RATES)) == "150 GB stored, $3.00 a month"
    assert str(stored_cost(5, None)) == "5 bytes stored, - a month"
    assert [format_bytes(size) for size in (0, 999, 20_000_000, 1_500_000_000)] == [
        "0 bytes", "999 bytes", "20 MB", "1.5 GB",
    ]  # fmt: skip


# --- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def at_google(gcs: GcsDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GcsDouble:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs.url)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    return gcs


@pytest.mark.usefixtures("at_google")
def test_plan_data_uploads_lists_and_removes(folder: Path) -> None:
    said = plan("data", "list", "--provider", "gcp")
    assert (said.code, said.out) == (0, "no data sets at gcp; plan data upload FOLDER uploads one\n")
    said = plan("data", "upload", folder, "--provider", "gcp")
    assert (said.code, said.error) == (2, "the input is not a terminal, so nobody can be asked")
    said = plan("data", "upload", folder, "--provider", "gcp", "--yes")
    assert said.code == 0
    assert said.out.startswith("gs://trainplan-p-us-central1/data/")
    assert "images: 4 files, 10 kB stored, under $0.01 a month" in said.err
    assert "to send: 10 kB, about 1s at 20 Mbit/s; sending is free" in said.err
    said = plan("data", "upload", folder, "--provider", "gcp", "--json")
    assert "it is stored already: nothing is sent" in said.err
    assert (said.json["files"], said.json["sent_bytes"]) == (4, 0)
    assert said.json["outside"] == {"files": 0, "size_bytes": 0, "first": None}
    assert "outside" not in said.err
    said = plan("data", "list", "--provider", "gcp")
    assert said.out.splitlines()[1].split()[0] == "images"
    (listed,) = plan("data", "list", "--provider", "gcp", "--json").json
    said = plan("data", "remove", "images", "--provider", "gcp", "--yes", "--json")
    assert (said.code, said.err) == (0, "removed images (11 kB)\n")
    assert said.json == {**listed, "removed": True}
    assert plan("data", "list", "--provider", "gcp", "--json").out == "[]\n"


@pytest.mark.usefixtures("at_google")
def test_the_question_before_an_upload_tells_of_files_outside_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_bytes(bytes(2_000))
    (folder / "cat" / "3.png").symlink_to(tmp_path / "diary.txt")
    first = str((tmp_path / "diary.txt").resolve())
    line = f"1 of them lies outside the folder, where links lead (2.0 kB); the first is {first}"
    said = plan("data", "upload", folder, "--provider", "gcp")
    assert (said.code, line in said.err.splitlines()) == (2, True), "told before anybody is asked"
    said = plan("data", "upload", folder, "--provider", "gcp", "--yes", "--json")
    assert said.json["outside"] == {"files": 1, "size_bytes": 2_000, "first": first}


@pytest.mark.usefixtures("at_google")
def test_plan_data_with_what_is_not_there(tmp_path: Path) -> None:
    assert plan("data", "list", "--provider", "nobody").code == 2
    assert plan("data", "upload", tmp_path / "nowhere", "--provider", "gcp").code == 2
    assert plan("data", "remove", "nothing", "--provider", "gcp").error == "there is no data set 'nothing'"
    assert plan("data", "list", "--provider", "azure").error == "no storage account is named"
