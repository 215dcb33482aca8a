"""Landlock, which has the kernel refuse files by their folder (include/uapi/linux/landlock.h)."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# These calls have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_IN_ITS_FOLDER = _WRITE_FILE | _READ_FILE | _READ_DIR | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE
"""Not devices, sockets, pipes and links."""
_FIRST_RIGHTS = (1 << 13) - 1
_SINCE = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Move between folders, truncate, and ioctl of devices: from which version of Landlock on they can be forbidden."""
_TRUNCATE = 1 << 14
_NET_SINCE, _NET = 4, 0b11
"""Bind and connect of TCP."""
_SCOPES_SINCE, _SCOPES = 6, 0b11
"""Abstract sockets of, and signals to, processes outside."""


def only(read: Iterable[Path], write_in: Path) -> bool:
    """Refuse to read any file but those below `read`, to change any but those below `write_in`, and TCP. False where
    the kernel has no Landlock.

    Counts for this thread and those that it starts, so it is called before there are any; needs PR_SET_NO_NEW_PRIVS.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _RULESET_VERSION)
    if version < 1:
        return False
    rights = _FIRST_RIGHTS | sum(bit for since, bit in _SINCE.items() if version >= since)
    net = _NET if version >= _NET_SINCE else 0
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    attributes = (ctypes.c_uint64 * 3)(rights, net, scopes)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), 24 if scopes else 16 if net else 8, 0)
    if ruleset < 0:
        return False
    try:
        for path in read:
            _allow(libc, ruleset, path, _READ_FILE | (_READ_DIR if path.is_dir() else 0))
        _allow(libc, ruleset, os.devnull, (_WRITE_FILE | _READ_FILE | _TRUNCATE) & rights)
        _allow(libc, ruleset, write_in, (_IN_ITS_FOLDER | _TRUNCATE) & rights)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: Any, ruleset: int, path: Path | str, allowed: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = allowed.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)  # a packed structure
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(descriptor)
