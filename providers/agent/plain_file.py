"""Files below a folder that a container writes too: no link, pipe or device that it left is followed or opened."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO, Iterator, cast

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_MORE = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class NotPlainError(OSError):
    """The path exists and is not a regular file."""


def open_plain(path: Path) -> BinaryIO:
    """The file for reading. A link is not followed and a pipe is not waited for. Raises NotPlainError and OSError."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):  # a link, a folder, a socket
            raise NotPlainError(path) from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotPlainError(path)
        return cast("BinaryIO", os.fdopen(descriptor, "rb"))
    except BaseException:
        os.close(descriptor)
        raise


def plain_bytes(path: Path, most_bytes: int, start: int = 0) -> bytes:
    """Read at most so many bytes from `start` on. Raises NotPlainError and OSError."""
    with open_plain(path) as file:
        file.seek(start)
        return file.read(most_bytes)


@contextlib.contextmanager
def plain_folder(top: Path, folder: Path, *, make: bool = False) -> Iterator[int]:
    """A descriptor of `folder`, reached from `top` without following a link; `top` itself is the machine's own.

    With `make`, a folder that is not there is made, and a link or file in its place removed. Raises NotPlainError where
    one is in the way, FileNotFoundError where there is none, OSError, and ValueError for a folder not below `top`.
    """
    descriptor = os.open(top, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        for name in _names(top, folder):
            inner = _open_or_make(descriptor, name) if make else _inner(descriptor, name)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def written_whole(top: Path, path: Path) -> Iterator[BinaryIO]:
    """A new file, which gets its name once all of it is written, in place of whatever has it. Raises OSError."""
    unfinished = unfinished_name(path)
    with plain_folder(top, path.parent, make=True) as folder:
        with new_plain(folder, unfinished.name) as file:
            yield file
        finish_plain(top, path)


def unfinished_name(path: Path) -> Path:
    """What a file is called until all of it is there."""
    return path.with_name(path.name + ".partial")


def new_plain(folder: int, name: str) -> BinaryIO:
    """A new file for writing in the folder of this descriptor, in place of a file or link of this name."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    return cast("BinaryIO", os.fdopen(os.open(name, _NEW, 0o644, dir_fd=folder), "wb"))


def more_of_plain(folder: int, name: str) -> BinaryIO:
    """A file of the folder, to write on at its end. Raises NotPlainError for what is no plain file, and OSError."""
    descriptor = os.open(name, _MORE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlainError(name)
    return cast("BinaryIO", os.fdopen(descriptor, "ab"))


def finish_plain(top: Path, path: Path) -> None:
    """Give an unfinished file its name, in place of whatever has it."""
    with plain_folder(top, path.parent, make=True) as folder:
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(path, ignore_errors=True)
        os.replace(unfinished_name(path).name, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_below(top: Path, path: Path) -> None:
    """Remove the folder, file or link `path`; nothing there is no error. No link is followed. Raises OSError."""
    with plain_folder(top, path.parent, make=True) as folder:
        try:
            os.unlink(path.name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError:  # a folder: what rmtree removes it reaches without following links
            shutil.rmtree(path)


def is_plain(path: Path) -> bool:
    """Whether the path is a regular file. A symbolic link to one does not count."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _names(top: Path, folder: Path) -> tuple[str, ...]:
    names = folder.relative_to(top).parts
    if ".." in names:
        raise ValueError(f"{folder} leads out of {top}")
    return names


def _inner(folder: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotPlainError(name) from error
        raise


def _open_or_make(folder: int, name: str) -> int:
    try:
        return _inner(folder, name)
    except NotPlainError:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    with contextlib.suppress(FileExistsError):  # two launches at once make the same folders; a link is refused below
        os.mkdir(name, 0o755, dir_fd=folder)
    return _inner(folder, name)
