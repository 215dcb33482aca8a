"""A folder as shards: the same files give the same tar archives, byte for byte, on every computer."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.workloads.data_folder.entries import is_of_the_computer, walked

SHARD_BYTES = 256_000_000
MOST_LOOKED_AT = 50_000
"""Files that an estimate looks at: a second's work."""
_FORMAT = "trainplan data set 1"


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the folder: its path below it, with slashes. `outside` is the whole path that links lead to where that
    is not below the folder; "" where it is."""

    path: str
    size_bytes: int
    changed_ns: int
    outside: str = ""


@dataclass(frozen=True, slots=True)
class Outside:
    """The files of a folder that lie elsewhere, where links lead: how many, their bytes, and the whole path of the
    first ("" where there is none)."""

    files: int = 0
    size_bytes: int = 0
    first: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One tar archive. `items` are what is in it, () where that is not known here."""

    name: str
    size_bytes: int
    sha256: str
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """`content` is a hash over the sorted paths and bytes of all files: the same files, the same data set.

    `left_out`: entries of the folder that are no regular files, and `outside` the files that lie elsewhere, where it
    was looked at on this computer.
    """

    content: str
    name: str
    files: int
    size_bytes: int
    shards: tuple[Shard, ...]
    left_out: int = 0
    outside: Outside = Outside()


@dataclass(frozen=True, slots=True)
class Scan:
    """The regular files of a folder, and how many entries that are none were left out."""

    items: tuple[Item, ...]
    left_out: int

    @property
    def outside(self) -> Outside:
        """The files that lie elsewhere."""
        items = [item for item in self.items if item.outside]
        first = items[0].outside if items else ""
        return Outside(len(items), sum(item.size_bytes for item in items), first)


def scan(folder: Path) -> Scan:
    """Every regular file below the folder, sorted by path; links are what they lead to.

    Pipes, sockets, devices and dangling links are left out and counted. Names need not be UTF-8: what is not stands in
    a path as Python's surrogate escapes. Raises BadInputError where there is no folder or nothing in it, and
    ThisMachineError where it cannot be read.
    """
    if not os.path.isdir(folder):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
        raise BadInputError(f"{folder} is not a folder", "data sets are uploaded from a folder")
    try:
        entries = list(_entries(folder))
    except OSError as error:
        raise ThisMachineError(f"cannot read {error.filename or folder}: {error.strerror}") from error
    items = sorted((item for item in entries if item is not None), key=lambda item: item.path)
    if not items:
        raise BadInputError(f"{folder} is empty")
    return Scan(tuple(items), len(entries) - len(items))


def folder_bytes(folder: Path, most: int = MOST_LOOKED_AT) -> int | None:
    """Bytes of its files; None where it has more than so many, or cannot be read."""
    total = 0
    try:
        for number, item in enumerate(_entries(folder)):
            if number >= most:
                return None
            total += item.size_bytes if item is not None else 0
    except OSError:
        return None
    return total or None


def read(folder: Path, items: tuple[Item, ...], report: Callable[[int], None]) -> DataSet:
    """Read every file once; `report` hears of the bytes. Raises ThisMachineError."""
    # Packed in another way, the same files are another data set: shards of the two do not fit together.
    content = hashlib.sha256(_FORMAT.encode())
    shards = []
    for number, group in enumerate(grouped(items)):
        tally = _Tally(report)
        pack(folder, group, tally)
        shard = Shard(name=f"shard-{number:05}.tar", size_bytes=tally.size, sha256=tally.sha256, items=group)
        content.update(f"{shard.sha256}\n".encode())
        shards.append(shard)
    return DataSet(
        content=content.hexdigest(),
        name=folder.resolve().name,
        files=len(items),
        size_bytes=sum(shard.size_bytes for shard in shards),
        shards=tuple(shards),
    )


def grouped(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    """Yield the files of each shard, in order; a file is never split."""
    group: list[Item] = []
    size = 0
    for item in items:
        if group and size + item.size_bytes > SHARD_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(item)
        size += item.size_bytes
    yield tuple(group)


class Writes(Protocol):
    """Where an archive goes."""

    def write(self, data: bytes, /) -> object:
        """Take these bytes."""
        ...


def pack(folder: Path, items: Iterable[Item], to: Writes) -> None:
    """Write a tar archive of these files: no times, owners or modes of this computer are in it.

    Raises ThisMachineError where a file cannot be read or has changed its size.
    """
    # PAX holds paths of any length; written as a stream, an archive is never in memory as a whole.
    with tarfile.open(fileobj=to, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive:  # type: ignore[call-overload]
        for item in items:
            path = folder / item.path
            header = tarfile.TarInfo(item.path)
            header.size = item.size_bytes
            try:
                with path.open("rb") as file:
                    archive.addfile(header, file)
            except OSError as error:  # also tarfile's for a file that became shorter
                raise ThisMachineError(
                    f"cannot read {path}: {error.strerror or error}",
                    "make sure that nothing writes to the folder, then try again",
                ) from error


def _entries(folder: Path) -> Iterator[Item | None]:
    """Every entry that is no folder; None for one that is no regular file."""
    top = os.path.realpath(folder)
    # No data, and often not to be read: lost+found is the administrator's.
    for root, names in walked(folder, is_of_the_computer):
        real_root = os.path.realpath(root)
        for name in names:
            item = _item(root / name, folder)
            yield item and _with_outside(item, root / name, os.path.join(real_root, name), top)  # noqa: PTH118


def _with_outside(item: Item, path: Path, real_path: str, top: str) -> Item:
    """The item with where it lies; `real_path` is its path without the links of its folders."""
    real_path = os.path.realpath(path) if path.is_symlink() else real_path
    if real_path.startswith(top.rstrip(os.sep) + os.sep):
        return item
    return replace(item, outside=real_path)


def _item(path: Path, folder: Path) -> Item | None:
    try:
        stat_result = path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):  # a link to nothing, or to itself
            return None
        raise
    if not stat.S_ISREG(stat_result.st_mode):
        return None
    return Item(path.relative_to(folder).as_posix(), stat_result.st_size, stat_result.st_mtime_ns)


class _Tally:
    """Hashes what is written, and keeps none of it."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self.size = 0
        self._digest = hashlib.sha256()
        self._report = report

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self._digest.update(data)
        self._report(len(data))
        return len(data)
