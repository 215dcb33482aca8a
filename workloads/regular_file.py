"""Read a file that a person names without waiting: opening a named pipe would wait until another program writes."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# O_NONBLOCK: to open does not wait. O_NOCTTY: a terminal does not become this process's own.
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularError(OSError):
    """The path leads to a pipe, a socket or a device; `strerror` says which, and that a regular file is expected."""


def open_regular(path: Path) -> io.BufferedReader:
    """The file for reading; a link is what it leads to. Raises NotRegularError, at once, OSError (for a folder
    IsADirectoryError), and ValueError for a null in the name."""
    kind = _kind(path.stat().st_mode)
    if kind:  # before it is opened: that alone can rewind a tape
        raise _not_regular(path, kind)
    descriptor = os.open(path, _FLAGS)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):  # it has changed meanwhile
            raise _not_regular(path, _kind(mode))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def regular_bytes(path: Path, most_bytes: int = -1) -> bytes:
    """What is in it, at most so many bytes (-1: all). Raises as `open_regular`."""
    with open_regular(path) as file:
        return file.read(most_bytes)


def regular_text(path: Path) -> str:
    """The UTF-8 text in it, without a byte order mark. Raises as `open_regular`, and UnicodeDecodeError."""
    with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig") as file:
        return file.read()


def hint_of(error: Exception, otherwise: str) -> str:
    """What to do about a file that cannot be read: `otherwise`, unless it is no regular file."""
    return "write what it gives into a file, and name that" if isinstance(error, NotRegularError) else otherwise


def _kind(mode: int) -> str:
    return next((name for is_it, name in _KINDS if is_it(mode)), "")


def _not_regular(path: Path, kind: str) -> NotRegularError:
    return NotRegularError(errno.EINVAL, f"it is {kind}, and a regular file is expected", str(path))
