"""Calls of Linux that Python has no function for. They give -1 where the kernel refuses, and never raise."""

from __future__ import annotations

import ctypes
import platform
import sys

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_SIGKILL = 9
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1


def prctl(option: int, first: int = 0, second: int = 0) -> int:
    """`prctl(2)`."""
    word = ctypes.c_ulong
    return int(ctypes.CDLL(None).prctl(option, word(first), word(second), word(0), word(0)))


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it ends."""
    if sys.platform == "linux":
        prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def adopt_orphans() -> None:
    """Let the kernel make whatever outlives the process that started it a child of this one."""
    if sys.platform == "linux":
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


def gain_nothing() -> None:
    """Let no program that this process starts have more rights than it: setuid counts for nothing. Leave the keys of
    the person's session, which the kernel keeps (Kerberos' for example)."""
    if sys.platform == "linux":
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        number = _KEYCTL.get(platform.machine())
        if number is not None:
            ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None)
