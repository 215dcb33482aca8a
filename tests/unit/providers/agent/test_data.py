"""Data on a rented machine: archives that become files and nothing else, a disk that holds them, the open web."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
import urllib.request
import zipfile
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.unit.providers.agent.machine import Rented, drained
from trainplan.planner.datasets.pack import pack, scan
from trainplan.providers.agent import web
from trainplan.providers.agent.archives import UnpackError, unpack
from trainplan.providers.agent.downloads import FetchError, fetch
from trainplan.providers.agent.spec import File, SpecError, read_spec
from trainplan.providers.agent.store import PART_BYTES
from trainplan.providers.agent.web import WebError, download

IMAGES = {
    "cat/1.png": b"c" * 3000,
    "dog/ü 1.png": b"d" * 10,
    "dog/deep/2.png": b"",
    "shard-00000.tar": b"a file's name",
}


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def a_tar(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as tar:  # type: ignore[call-overload]
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def tar_of(files: dict[str, bytes], mode: str = "w") -> bytes:
    return a_tar(*((tarfile.TarInfo(name), data) for name, data in files.items()), mode=mode)


def zip_of(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("cat/", b"")
        for name, data in files.items():
            zipped.writestr(name, data)
    return made.getvalue()


# --- unpacking ---------------------------------------------------------------------------------------------------


def test_our_own_shards_become_the_folder_again(tmp_path: Path) -> None:
    """What trainplan.planner.datasets.pack packs is what a machine unpacks."""
    for name, data in IMAGES.items():
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(data)
    packed = io.BytesIO()
    pack(tmp_path / "images", scan(tmp_path / "images").items, packed)
    (tmp_path / "shard.tar").write_bytes(packed.getvalue())
    for _ in range(2):  # a second time changes nothing
        assert drained(unpack(tmp_path / "shard.tar", tmp_path / "data", lambda: True, tmp_path)) == sum(
            map(len, IMAGES.values())
        )
        assert files(tmp_path / "data") == IMAGES


def test_names_that_are_not_utf_8_come_through_our_shards(tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe.png")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / odd).write_bytes(b"odd")
    packed = io.BytesIO()
    pack(tmp_path / "images", scan(tmp_path / "images").items, packed)
    (tmp_path / "shard.tar").write_bytes(packed.getvalue())
    drained(unpack(tmp_path / "shard.tar", tmp_path / "data", lambda: True, tmp_path))
    assert files(tmp_path / "data") == {odd: b"odd"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.tar.gz", tar_of(IMAGES, "w:gz")),
        ("a.tgz", tar_of(IMAGES, "w:gz")),
        ("a.tar.bz2", tar_of(IMAGES, "w:bz2")),
        ("a.tar.xz", tar_of(IMAGES, "w:xz")),
        ("a.zip", zip_of(IMAGES)),
    ],
)
def test_archives_of_other_people_are_unpacked(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    drained(unpack(tmp_path / name, tmp_path / "data", lambda: True, tmp_path))
    assert files(tmp_path / "data") == IMAGES


def a_member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def a_zipped_link() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        link = zipfile.ZipInfo("cat/1.png")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(link, "/etc/shadow")
    return made.getvalue()


HOSTILE = {
    "absolute.tar": a_tar((a_member("/etc/evil"), b"x")),
    "up.tar": a_tar((a_member("cat/../../evil"), b"x")),
    "symlink.tar": a_tar((a_member("cat", tarfile.SYMTYPE, "/etc"), b"")),
    "hardlink.tar": a_tar((a_member("cat", tarfile.LNKTYPE, "../evil"), b"")),
    "device.tar": a_tar((a_member("null", tarfile.CHRTYPE), b"")),
    "pipe.tar": a_tar((a_member("pipe", tarfile.FIFOTYPE), b"")),
    "up.zip": zip_of({"../evil": b"x"}),
    "absolute.zip": zip_of({"/etc/evil": b"x"}),
    "backslash.zip": zip_of({"..\\evil": b"x"}),
    "symlink.zip": a_zipped_link(),
    "cut.tar": tar_of({"cat/1.png": b"c" * 9000})[:5000],
    "cut.tar.gz": tar_of({"cat/1.png": bytes(range(256)) * 90}, "w:gz")[:-40],
    "nothing.tar": b"this is no archive",
    "nothing.zip": b"this is no archive",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_damaged_archives_are_refused(tmp_path: Path, name: str) -> None:
    archive, folder = tmp_path / "in" / name, tmp_path / "in" / "deep" / "data"
    archive.parent.mkdir()
    archive.write_bytes(HOSTILE[name])
    with pytest.raises(UnpackError):
        drained(unpack(archive, folder, lambda: True, tmp_path))
    outside = [
        path for path in tmp_path.rglob("*") if path.is_file() and path != archive and folder not in path.parents
    ]
    assert outside == []
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_nothing_is_written_through_a_link_that_a_container_left(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "data"
    outside.mkdir()
    folder.mkdir()
    (tmp_path / "a.tar").write_bytes(tar_of({"cat/1.png": b"new"}))
    (folder / "cat").symlink_to(outside)
    with pytest.raises(UnpackError, match="leads out"):
        drained(unpack(tmp_path / "a.tar", folder, lambda: True, tmp_path))
    (folder / "cat").unlink()
    (folder / "cat").mkdir()
    (outside / "1.png").write_bytes(b"old")
    (folder / "cat" / "1.png").symlink_to(outside / "1.png")
    drained(unpack(tmp_path / "a.tar", folder, lambda: True, tmp_path))
    assert (outside / "1.png").read_bytes() == b"old"
    assert (folder / "cat" / "1.png").read_bytes() == b"new"


def test_a_full_disk_ends_the_unpacking(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(IMAGES))
    left = iter([True, False])
    with pytest.raises(UnpackError, match="disk is full"):
        drained(unpack(tmp_path / "a.tar", tmp_path / "data", lambda: next(left), tmp_path))
    assert len(files(tmp_path / "data")) == 1


# --- fetching ----------------------------------------------------------------------------------------------------


def a_shard(number: int, data: bytes, **changes: Any) -> File:
    name = f"shard-{number:05}.tar"
    values = {
        "path": f"data/{name}", "uri": "", "to": f"data/abc/{name}", "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": len(data), "unpack": True,
    }  # fmt: skip
    return File(**{**values, **changes})


SHARDS = [tar_of({f"class-{number}/{number}.png": bytes([number]) * 5000}) for number in range(3)]
UNPACKED = {f"class-{number}/{number}.png": bytes([number]) * 5000 for number in range(3)}


def rented_with_shards(tmp_path: Path, **changes: Any) -> Rented:
    rows = tuple(a_shard(number, data, **changes) for number, data in enumerate(SHARDS))
    rented = Rented(tmp_path, files=rows)
    rented.store.objects |= {row.path: data for row, data in zip(rows, SHARDS, strict=True)}
    return rented


def test_shards_are_unpacked_one_after_another_and_gone(tmp_path: Path) -> None:
    rented = rented_with_shards(tmp_path)
    assert rented.run().state == "done"
    assert files(rented.paths.root / "data" / "abc") == UNPACKED
    assert [path.name for path in rented.paths.root.rglob("*.tar*")] == []
    assert rented.status["fetched_bytes"] == sum(map(len, SHARDS)) + 2


def test_how_much_has_come_is_told(tmp_path: Path) -> None:
    rented = rented_with_shards(tmp_path)
    told: list[tuple[int, int]] = []
    drained(fetch(rented.machine, report=lambda *heard: told.append(heard)))
    total = sum(map(len, SHARDS)) + len("{}")
    assert [count for count, _ in told] == [2 + 10240 * number for number in (1, 2, 3)]
    assert {whole for _, whole in told} == {total}
    assert told[-1][0] == total
    rented.agent._has_come(3 * 10**9, 12 * 10**9)
    rented.agent.status.write()
    assert rented.status["message"] == "fetching: 3.0 of 12.0 GB are here"


def test_the_disk_never_holds_more_than_the_set_and_one_shard(tmp_path: Path) -> None:
    rented = rented_with_shards(tmp_path)
    most = 0
    steps = fetch(rented.machine)
    for _ in steps:
        held = [path for path in rented.paths.root.rglob("*") if path.is_file()]
        assert sum(".tar" in path.name for path in held) <= 1
        most = max(most, sum(path.stat().st_size for path in held))
    assert most <= sum(map(len, UNPACKED.values())) + max(map(len, SHARDS)) + len("{}")


@pytest.mark.parametrize("pieces", range(1, 14))
def test_a_restart_goes_on_from_what_is_unpacked(tmp_path: Path, pieces: int) -> None:
    """The machine goes down after each piece of the work in turn, and comes up again."""
    rented = rented_with_shards(tmp_path)
    steps = fetch(rented.machine)
    for _ in range(pieces):
        next(steps, None)
    asked: list[str] = []
    get = rented.store.get

    def counted(path: str, start: int = 0, size: int | None = None) -> bytes:
        asked.append(path)
        return get(path, start, size)

    before = list((rented.paths.spool / "unpacked").glob("*"))
    rented.store.get = counted  # type: ignore[method-assign]
    drained(fetch(rented.machine))
    assert files(rented.paths.root / "data" / "abc") == UNPACKED
    assert len({path for path in asked if path.endswith(".tar")}) <= len(SHARDS) - len(before)


def test_a_shard_that_is_not_what_was_promised_is_not_unpacked(tmp_path: Path) -> None:
    rented = rented_with_shards(tmp_path)
    rented.store.objects["data/shard-00001.tar"] = tar_of({"class-1/1.png": b"evil" * 1250})
    ending = rented.run()
    assert (ending.reason, ending.state) == ("NOT_FETCHED", "failed")
    assert "sha256 differs" in ending.message
    assert not (rented.paths.root / "data" / "abc" / "class-1").exists()


def test_a_shard_that_cannot_be_unpacked_says_which(tmp_path: Path) -> None:
    evil = HOSTILE["up.tar"]
    rented = Rented(tmp_path, files=(a_shard(0, evil),))
    rented.store.objects["data/shard-00000.tar"] = evil
    assert "data/shard-00000.tar: 'cat/../../evil' would lead out" in rented.run().message


@pytest.mark.parametrize(("free", "is_told"), [(10**8, True), (10**9, False)])
def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(tmp_path: Path, free: int, is_told: bool) -> None:
    rented = rented_with_shards(tmp_path)
    rented.free_bytes = free
    if not is_told:
        drained(fetch(rented.machine))
        return
    with pytest.raises(FetchError, match=r"data needs 0\.1 GB, the machine's disk has 0\.1 GB free"):
        drained(fetch(rented.machine))
    assert files(rented.paths.root / "data") == {}


@pytest.mark.parametrize("full", ["data", ""])
def test_data_is_held_to_the_disk_that_it_goes_to(tmp_path: Path, full: str) -> None:
    """Where data has a disk of its own, the room on the machine's does not count."""
    rented = rented_with_shards(tmp_path)
    crowded = rented.paths.root / full
    machine = replace(rented.machine, free_bytes=lambda path: 10**8 if path == crowded else 10**12)
    if not full:
        drained(fetch(machine))
        return
    with pytest.raises(FetchError, match=r"has 0\.1 GB free"):
        drained(fetch(machine))


def test_data_without_a_hash_is_held_to_its_size(tmp_path: Path) -> None:
    row = File(path="d/a.tfrecord", uri="", to="data/a.tfrecord", sha256="", size_bytes=5)
    for data, fits in ((b"12345", True), (b"1234", False), (b"123456", False)):
        rented = Rented(tmp_path / str(len(data)), files=(row,))
        rented.store.objects["d/a.tfrecord"] = data
        if fits:
            drained(fetch(rented.machine))
            assert (rented.paths.root / "data" / "a.tfrecord").read_bytes() == data
            continue
        with pytest.raises(FetchError, match="another size"):
            drained(fetch(rented.machine))
        assert not (rented.paths.root / "data" / "a.tfrecord").exists()


@pytest.mark.parametrize("size", [0, PART_BYTES])
def test_an_object_that_has_grown_by_a_part_is_seen(tmp_path: Path, size: int) -> None:
    rented = Rented(tmp_path, files=(File(path="d", uri="", to="data/d", sha256="", size_bytes=size),))
    rented.store.objects["d"] = bytes(size + 1)
    with pytest.raises(FetchError, match="another size"):
        drained(fetch(rented.machine))


def test_a_bucket_of_ones_own_may_be_in_another_region(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []
    row = File(path="", uri="s3://mine/set/a.tfrecord", to="data/a.tfrecord", sha256="", size_bytes=3)
    rented = Rented(tmp_path, files=(row,))

    def send(method: str, url: str, headers: Any = None, body: Any = None, timeout: float = 20.0) -> Any:
        if "169.254" in url:
            text = '{"AccessKeyId": "A", "SecretAccessKey": "S", "Token": "T", "Expiration": "2030-01-01T00:00:00Z"}'
            return 200, {}, text.encode() if url.endswith("role") else b"role"
        asked.append((method, url))
        if method == "HEAD":
            return 301, {"x-amz-bucket-region": "eu-west-1"}, b""
        return 200, {}, b"abc"

    boot = {"cloud": "aws", "run_uri": "s3://ours/runs/r1", "region": "us-east-1", "endpoints": {}}
    rented.machine.access.__init__(boot, send, rented.clock.now)  # type: ignore[misc]
    drained(fetch(rented.machine))
    assert asked == [
        ("HEAD", "https://mine.s3.us-east-1.amazonaws.com"),
        ("GET", "https://mine.s3.eu-west-1.amazonaws.com/set/a.tfrecord"),
    ]


# --- what a spec may ask for -------------------------------------------------------------------------------------


def a_spec(**row: Any) -> str:
    values = {"path": "", "uri": "s3://b/x", "to": "data/x", "sha256": "", "size_bytes": 1} | row
    return json.dumps(
        {
            "run_id": "r", "attempt": 1, "images": ["x@sha256:" + "0" * 64], "command": ["true"], "files": [values],
            "device": {"kind": "cpu", "name": "cpu", "count": 1},
            "deadline": "2026-11-21T12:00:00Z", "boot_deadline": "2026-11-21T11:00:00Z",
            "job_sha256": "b" * 64,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        {"to": "machine/x"},
        {"to": "machine/x", "sha256": "e" * 63},
        {"sha256": "E" * 64},
        {"to": "machine/x.tar", "sha256": "e" * 64, "unpack": True},
        {"to": "data"},
        {"to": "data/../machine/x", "sha256": "e" * 64},
        {"to": "/data/x"},
        {"uri": "http://example.org/x"},
        {"uri": "file:///etc/passwd"},
        {"size_bytes": -1},
    ],
)
def test_files_that_no_spec_may_ask_for(row: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        read_spec(a_spec(**row))


def test_only_data_may_come_without_a_hash() -> None:
    assert read_spec(a_spec()).files[0].sha256 == ""
    assert read_spec(a_spec(uri="https://example.org/x.tar", to="data/x.tar", unpack=True)).files[0].unpack


# --- the open web ------------------------------------------------------------------------------------------------


class Answer(io.BytesIO):
    def __init__(self, data: bytes, status: int, headers: dict[str, str], breaks: bool) -> None:
        super().__init__(data)
        self.status, self.headers, self.breaks = status, headers, breaks

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data and self.breaks:
            raise ConnectionResetError("gone")
        return data


class Web:
    """One address. An answer breaks off after each of `cuts` bytes in turn; `errors` come before it."""

    def __init__(self, data: bytes, *, ranges: bool = True, cuts: tuple[int, ...] = (), errors: tuple[int, ...] = ()):
        self.data, self.ranges, self.cuts, self.errors = data, ranges, list(cuts), list(errors)
        self.requests: list[str] = []

    def __call__(self, url: str, headers: dict[str, str]) -> Answer:
        self.requests.append(headers.get("range", ""))
        if self.errors:
            raise HTTPError(url, self.errors.pop(0), "No", Message(), io.BytesIO())
        start = int(headers["range"][6:-1]) if self.ranges and "range" in headers else 0
        rest = self.data[start:]
        told = {"Content-Length": str(len(rest))}
        if start:
            told["Content-Range"] = f"bytes {start}-{len(self.data) - 1}/{len(self.data)}"
        cut = self.cuts.pop(0) if self.cuts else None
        return Answer(rest[:cut], 206 if start else 200, told, cut is not None)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PIECE_BYTES", 100)


DATA = bytes(range(256)) * 4


def test_a_download_that_breaks_off_is_gone_on_with(tmp_path: Path) -> None:
    there = Web(DATA, cuts=(300, 250), errors=(503, 429))
    drained(download("https://example.org/x", tmp_path / "x", len(DATA), tmp_path, there))
    assert (tmp_path / "x").read_bytes() == DATA
    assert there.requests == ["", "", "", "bytes=300-", "bytes=550-"]


def test_a_server_that_knows_no_ranges_is_asked_for_all_of_it_again(tmp_path: Path) -> None:
    there = Web(DATA, ranges=False, cuts=(300,))
    drained(download("https://example.org/x", tmp_path / "x", len(DATA), tmp_path, there))
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_download_is_gone_on_with_after_a_restart(tmp_path: Path) -> None:
    steps = download("https://example.org/x", tmp_path / "x", len(DATA), tmp_path, Web(DATA))
    for _ in range(3):
        next(steps)
    steps.close()
    there = Web(DATA)
    drained(download("https://example.org/x", tmp_path / "x", len(DATA), tmp_path, there))
    assert there.requests[0].startswith("bytes=")
    assert (tmp_path / "x").read_bytes() == DATA


@pytest.mark.parametrize(
    ("there", "message"),
    [(Web(DATA, errors=(404,)), "404"), (Web(DATA, errors=(403,)), "open to everybody"), (Web(DATA + b"!"), "1025")],
)
def test_what_the_web_will_never_give(tmp_path: Path, there: Web, message: str) -> None:
    with pytest.raises(WebError, match=message):
        drained(download("https://example.org/x", tmp_path / "x", len(DATA), tmp_path, there))
    assert not (tmp_path / "x").exists()


def test_a_server_that_sends_more_than_it_said_fills_no_disk(tmp_path: Path) -> None:
    def there(url: str, headers: dict[str, str]) -> Answer:
        return Answer(bytes(10**6), 200, {}, False)

    with pytest.raises(WebError, match="larger than"):
        drained(download("https://example.org/x", tmp_path / "x", 1000, tmp_path, there))
    assert list(tmp_path.iterdir()) == []


def test_nothing_leads_from_https_to_http() -> None:
    request = urllib.request.Request("https://example.org/x")
    for target in ("http://169.254.169.254/latest/", "file:///etc/passwd", "ftp://x/y"):
        with pytest.raises(WebError, match="not https"):
            web._NeverDown().redirect_request(request, None, 302, "", {}, target)
    assert web._NeverDown().redirect_request(request, None, 302, "", {}, "https://other.example/x") is not None


def test_an_archive_from_the_web_is_unpacked(tmp_path: Path) -> None:
    data = tar_of(IMAGES, "w:gz")
    address = "https://example.org/set.tar.gz"
    row = File(path="", uri=address, to="data/set.tar.gz", sha256="", size_bytes=len(data), unpack=True)
    rented = Rented(tmp_path, files=(row,))
    drained(fetch(rented.machine, Web(data, cuts=(200,), errors=(500,))))
    assert files(rented.paths.root / "data") == IMAGES
    with pytest.raises(FetchError, match="404"):
        drained(fetch(Rented(tmp_path / "b", files=(row,)).machine, Web(data, errors=(404,))))
