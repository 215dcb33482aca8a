"""Archives of a data set become its files: plain files below one folder, and nothing else."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Callable, Iterator, Optional, Tuple

from trainplan.providers.agent.plain_file import plain_folder

if TYPE_CHECKING:
    from trainplan.providers.agent.store import Steps

ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
"""Of the names of archives that can be unpacked."""
_PIECE = 1024 * 1024
MOST_HEADER_BYTES = 1024 * 1024
"""Of an extended header, which is read into memory whole: names and times of one file take a few hundred."""
_READ_WHOLE = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_Member = Tuple[str, int, Optional[Callable[[], IO[bytes]]]]
"""Name, bytes, and how it is read: None for a folder."""


class UnpackError(Exception):
    """The archive is damaged, or holds what must not be unpacked."""


class _Header(tarfile.TarInfo):
    """A header of an archive, refused before `tarfile` reads a large one into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        if header.type in _READ_WHOLE and header.size > MOST_HEADER_BYTES:
            raise UnpackError(f"it has an extended header of {header.size} bytes")
        return header


def unpack(archive: Path, folder: Path, room: Callable[[], bool], top: Path) -> Steps[int]:
    """Every file of the archive below the folder, over what is there; the bytes. Doing it again changes nothing.

    No link is followed from the folder `top` on. `room` says whether the disk may be written on. Raises UnpackError for
    a damaged archive, for a member that is absolute, leads out of the folder or is neither file nor folder (a link, a
    device), and where there is no room; OSError where the disk cannot be written.
    """
    with plain_folder(top, folder, make=True):
        root = folder.resolve()
    paths, written_bytes = {root}, 0
    try:
        for name, size, opened in _members(archive):
            target = root.joinpath(*_parts(name))
            if opened is None:
                continue
            if not room():
                raise UnpackError(f"the machine's disk is full at {name}; rent it with a larger one")
            _folder_of(target, root, paths)
            with opened() as source:
                yield from _write(source, target, size)
            written_bytes += size
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise UnpackError(f"it cannot be unpacked: {error}") from error
    return written_bytes


def _members(archive: Path) -> Iterator[_Member]:
    """Yield the members in the order of the archive. Raises UnpackError for what is neither file nor folder."""
    return _of_zip(archive) if archive.name.endswith(".zip") else _of_tar(archive)


def _of_tar(archive: Path) -> Iterator[_Member]:
    with tarfile.open(archive, "r:*", tarinfo=_Header) as tar:
        member = tar.next()
        while member is not None:
            if not member.isfile() and not member.isdir():
                raise UnpackError(f"{member.name} is a link or a device")
            # A sparse file's holes would take what the archive does not.
            if member.issparse():
                raise UnpackError(f"{member.name} is a sparse file")
            yield member.name, member.size, None if member.isdir() else _opener(tar, member)
            # A million files are not held in memory.
            tar.members.clear()  # type: ignore[attr-defined]
            member = tar.next()


def _opener(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        entry = tar.extractfile(member)
        if entry is None:
            raise UnpackError(f"{member.name} has no bytes")
        return entry

    return opened


def _of_zip(archive: Path) -> Iterator[_Member]:
    with closing(zipfile.ZipFile(archive)) as zipped:
        for member in zipped.infolist():
            mode = member.external_attr >> 16
            if mode and (mode & 0o170000) not in (0, 0o100000, 0o040000):
                raise UnpackError(f"{member.filename} is a link or a device")
            if member.flag_bits & 1:
                raise UnpackError(f"{member.filename} is encrypted")
            opened = None if member.filename.endswith("/") else _zip_opener(zipped, member)
            yield member.filename, member.file_size, opened


def _zip_opener(zipped: zipfile.ZipFile, member: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: zipped.open(member)


def _parts(name: str) -> tuple[str, ...]:
    """Return the parts of a path below the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
        raise UnpackError(f"{name!r} would lead out of its folder")
    return path.parts


def _folder_of(target: Path, root: Path, paths: set[Path]) -> None:
    """Create the folder of a file. Raises UnpackError for a link, which a container may have left."""
    folder = target.parent
    if folder in paths:
        return
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != folder:
        raise UnpackError(f"{folder.relative_to(root)} leads out of its folder")
    paths.add(folder)


def _write(source: IO[bytes], target: Path, size: int) -> Steps[None]:
    """Never more than the archive has promised, and never through a link."""
    if target.is_symlink() or target.is_file():
        target.unlink()
    remaining = size
    with target.open("xb") as file:
        while data := source.read(min(_PIECE, remaining + 1)):
            remaining -= len(data)
            if remaining < 0:
                break
            file.write(data)
            yield 0.0
    if remaining:
        raise UnpackError(f"{target.name} is not as long as the archive says")
