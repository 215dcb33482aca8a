"""A hostile container that leaves links where the agent writes after a restart: nothing of the machine is written."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.providers.agent.machine import FakeClock, MemoryStore, Rented, drained
from trainplan.providers.agent.checkpoints import Checkpoints
from trainplan.providers.agent.downloads import fetch
from trainplan.providers.agent.plain_file import NotPlainError, open_plain, plain_folder, written_whole
from trainplan.providers.agent.spec import File

WEIGHTS = b"weights of step 9"
SHARD = b"a shard of the data"
HOST = b"a file of the machine"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def a_tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        member = tarfile.TarInfo("cat/1.png")
        member.size = len(SHARD)
        tar.addfile(member, io.BytesIO(SHARD))
    return made.getvalue()


ARCHIVE = a_tar()
FILES = (
    File(path="shard", uri="", to="data/set/shard", sha256=sha256(SHARD), size_bytes=len(SHARD)),
    File(path="wheel", uri="", to="machine/wheel", sha256=sha256(SHARD), size_bytes=len(SHARD)),
    File(path="a.tar", uri="", to="data/tar/a.tar", sha256=sha256(ARCHIVE), size_bytes=len(ARCHIVE), unpack=True),
)
# Each makes one link or other obstacle: what the container sees as /run-dir, /data and /machine is below `disk`.
LINKS: dict[str, Callable[[Path, Path], None]] = {
    "job.json": lambda disk, host: (disk / "run-dir/job.json").symlink_to(host / "kept"),
    "job.json.partial": lambda disk, host: (disk / "run-dir/job.json.partial").symlink_to(host / "kept"),
    "a folder job.json": lambda disk, _: (disk / "run-dir/job.json").mkdir(),
    "a pipe job.json": lambda disk, _: os.mkfifo(disk / "run-dir/job.json"),
    "checkpoints": lambda disk, host: (disk / "run-dir/checkpoints").symlink_to(host),
    "a file checkpoints": lambda disk, _: (disk / "run-dir/checkpoints").touch(),
    "checkpoints/step-9": lambda disk, host: linked(disk / "run-dir/checkpoints/step-00000009", host),
    "checkpoints/step-9/state": lambda disk, host: linked(
        disk / "run-dir/checkpoints/step-00000009/state.npz", host / "kept"
    ),
    "data/set": lambda disk, host: (disk / "data/set").symlink_to(host),
    "data/set/shard": lambda disk, host: linked(disk / "data/set/shard", host / "kept"),
    "data/set/shard.partial": lambda disk, host: linked(disk / "data/set/shard.partial", host / "kept"),
    "data/tar": lambda disk, host: (disk / "data/tar").symlink_to(host),
    "machine/wheel": lambda disk, host: (disk / "machine/wheel").symlink_to(host / "kept"),
}


def linked(path: Path, to: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to(to)


def a_store() -> MemoryStore:
    store = MemoryStore(FakeClock())
    mark = json.dumps({"step": 9, "files": {"state.npz": sha256(WEIGHTS)}}).encode()
    store.objects |= {
        "shard": SHARD,
        "wheel": SHARD,
        "a.tar": ARCHIVE,
        "checkpoints/step-00000009/state.npz": WEIGHTS,
        "checkpoints/step-00000009/complete.json": mark,
    }
    return store


@pytest.mark.parametrize("link", LINKS)
def test_nothing_is_written_through_a_link_after_a_restart(tmp_path: Path, link: str) -> None:
    host = tmp_path / "etc"
    host.mkdir()
    (host / "kept").write_bytes(HOST)
    rented = Rented(tmp_path, a_store(), files=FILES)
    LINKS[link](rented.paths.root, host)
    drained(fetch(rented.machine))
    assert drained(rented.agent.checkpoints.restore()) == "step-00000009"
    assert {path.name: path.read_bytes() for path in host.iterdir()} == {"kept": HOST}
    disk, folder = rented.paths.root, rented.paths.run_dir / "checkpoints" / "step-00000009"
    assert (rented.paths.run_dir / "job.json").read_bytes() == b"{}"
    assert (folder / "state.npz").read_bytes() == WEIGHTS
    assert {(disk / to).read_bytes() for to in ("data/set/shard", "data/tar/cat/1.png", "machine/wheel")} == {SHARD}
    assert not any(path.is_symlink() for path in disk.rglob("*"))


@pytest.mark.parametrize("where", ["checkpoints", "checkpoints/step-00000012", "checkpoints/step-00000012/state.npz"])
def test_no_file_of_the_machine_is_sent_as_a_checkpoint(tmp_path: Path, where: str) -> None:
    host, local = tmp_path / "etc", tmp_path / "run-dir" / "checkpoints"
    made = host.joinpath(*where.replace("checkpoints", ".").replace("state.npz", "").split("/")[1:2])
    (tmp_path / "run-dir").mkdir()
    target = tmp_path / "run-dir" / where
    target.parent.mkdir(parents=True, exist_ok=True)
    if where.endswith("npz"):
        (target.parent / "complete.json").write_text("{}")
        host.mkdir()
        (host / "shadow").write_bytes(HOST)
        target.symlink_to(host / "shadow")
    else:
        folder = host / "step-00000012" if where == "checkpoints" else made
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "complete.json").write_text("{}")
        (folder / "shadow").write_bytes(HOST)
        target.symlink_to(host if where == "checkpoints" else folder)
    store = MemoryStore(FakeClock())
    drained(Checkpoints(store, local, tmp_path / "spool", FakeClock()).push("step-00000012"))
    assert HOST not in store.objects.values()


def test_a_folder_below_is_reached_without_links(tmp_path: Path) -> None:
    top, host = tmp_path / "top", tmp_path / "host"
    for folder in (top, host):
        folder.mkdir()
    (top / "a").symlink_to(host)
    with pytest.raises(NotPlainError), plain_folder(top, top / "a"):
        pass
    with pytest.raises(ValueError, match="leads out"), plain_folder(top, top / ".." / "host"):
        pass
    with written_whole(top, top / "a" / "b" / "c") as file:
        file.write(b"x")
    assert list(host.iterdir()) == []
    with open_plain(top / "a" / "b" / "c") as again:
        assert again.read() == b"x"


def test_a_file_that_was_not_written_whole_gets_no_name(tmp_path: Path) -> None:
    def broken_off() -> None:
        with written_whole(tmp_path, tmp_path / "x") as file:
            file.write(b"half")
            raise EOFError

    with pytest.raises(EOFError):
        broken_off()
    assert not (tmp_path / "x").exists()
