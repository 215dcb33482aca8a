"""What Python itself refuses to a person's file, with a sentence that names what was tried.

Code that is written to get past Python does; the kernel's parts (`confinement.py`) do not rest on it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class ForbiddenError(RuntimeError):
    """The file did what no network needs."""


_PROCESSES = frozenset(
    {
        "os.fork",
        "os.forkpty",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.startfile/2",
        "subprocess.Popen",
        "pty.spawn",
    }
)
_FILES = frozenset(
    {
        "os.chmod",
        "os.chown",
        "os.link",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.symlink",
        "os.truncate",
        "os.utime",
    }
)
_OTHERS = frozenset({"os.kill", "os.killpg", "signal.pthread_kill"})


def guard(folder: Path) -> Callable[[], str]:
    """Have Python refuse sockets, processes, and changes of files outside `folder`, from now on.

    Returns what tells the first thing that was refused, "" while nothing was: code may catch the error.
    """
    refused: list[str] = []
    root = os.path.realpath(folder)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        reason = _reason(event, arguments, root)
        if reason:
            refused.append(reason)
            raise ForbiddenError(f"it {reason}, which a network does not need")

    sys.addaudithook(refuse)
    return lambda: refused[0] if refused else ""


def _reason(event: str, arguments: tuple[Any, ...], root: str) -> str:
    """Why an event of Python is refused; "" where it is not."""
    if event.startswith("socket."):
        return "opens a socket"
    if event in _PROCESSES:
        return "starts a process"
    if event in _OTHERS:
        return "sends a signal"
    if event in _FILES and not _is_within(arguments[0], root):
        return "changes a file outside its folder"
    if event == "open" and _is_for_writing(arguments) and not _is_within(arguments[0], root):
        return "writes a file outside its folder"
    return ""


def _is_for_writing(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = (*arguments, None, None)[:3]
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def _is_within(path: object, root: str) -> bool:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return True  # a descriptor that was opened before
    text = os.path.realpath(os.fsdecode(path))
    return text == os.devnull or text == root or text.startswith(root + os.sep)
