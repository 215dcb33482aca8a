"""Files of a run directory on this computer, which its container writes too: no link that it left leads out of it.

Where the system can open files relative to a folder (Linux, macOS), a link that is put in the way between a look and
the opening is not followed either. Where it cannot (Windows), each folder on the way is looked at before.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from trainplan.providers.agent.plain_file import NotPlainError, new_plain, open_plain, plain_folder, unfinished_name

HAS_FOLDER_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def open_inside(root: Path, path: Path) -> BinaryIO:
    """The file `path` below `root` for reading. Raises NotPlainError for what is no plain file or lies behind a link,
    and OSError."""
    if not HAS_FOLDER_DESCRIPTORS:
        refuse_links(root, path.parent)
        return open_plain(path)
    with plain_folder(root, path.parent) as folder:
        try:
            descriptor = os.open(path.name, _READ, dir_fd=folder)
        except OSError as error:
            if _is_something_else(path.name, folder):
                raise NotPlainError(path) from error
            raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotPlainError(path)
        return cast("BinaryIO", os.fdopen(descriptor, "rb"))
    except BaseException:
        os.close(descriptor)
        raise


@contextlib.contextmanager
def new_inside(root: Path, path: Path) -> Iterator[BinaryIO]:
    """A new file, which gets its name once all of it is on the disk, in place of whatever has it; nothing is left of
    one that is not finished. A link in place of a folder on the way is removed. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    unfinished = unfinished_name(path.with_name(f".{path.name}.{secrets.token_hex(4)}"))
    if not HAS_FOLDER_DESCRIPTORS:
        refuse_links(root, path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _new_file(root, unfinished) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _give_name(root, unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_inside(root, unfinished)
        raise


def make_folder(root: Path, folder: Path) -> None:
    """The folder and those on the way to it. A link in the place of one of them is removed. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    if not HAS_FOLDER_DESCRIPTORS:
        refuse_links(root, folder)
        folder.mkdir(parents=True, exist_ok=True)
        return
    with plain_folder(root, folder, make=True):
        pass


def remove_inside(root: Path, path: Path) -> None:
    """Remove the folder, file or link `path`; nothing there is no error. Raises OSError."""
    if not HAS_FOLDER_DESCRIPTORS:
        refuse_links(root, path.parent)
        _remove(path)
        return
    with contextlib.suppress(FileNotFoundError), plain_folder(root, path.parent) as folder:
        if stat.S_ISDIR(os.lstat(path.name, dir_fd=folder).st_mode):
            shutil.rmtree(path.name, dir_fd=folder)
        else:
            os.unlink(path.name, dir_fd=folder)


def refuse_links(root: Path, folder: Path) -> None:
    """Raises NotPlainError where `folder` or one between it and `root` is a link."""
    while folder != root:
        if folder.is_symlink() or (hasattr(folder, "is_junction") and folder.is_junction()):
            raise NotPlainError(folder)
        folder = folder.parent


def _is_something_else(name: str, folder: int) -> bool:
    try:
        return not stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def _new_file(root: Path, path: Path) -> Iterator[BinaryIO]:
    if not HAS_FOLDER_DESCRIPTORS:
        with path.open("xb") as file:
            yield file
        return
    with plain_folder(root, path.parent, make=True) as folder, new_plain(folder, path.name) as file:
        yield file


def _give_name(root: Path, unfinished: Path, path: Path) -> None:
    if not HAS_FOLDER_DESCRIPTORS:
        unfinished.replace(path)
        return
    with plain_folder(root, path.parent, make=True) as folder:
        os.replace(unfinished.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
