"""What code that is confined tries, by the kernel and not by Python: each gives whether it has succeeded.

It imports nothing of this project or of a framework, and runs where a person's file would (test_confinement.py).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": {"io_uring_setup": 425, "pidfd_open": 434, "keyctl": 250, "add_key": 248}}.get(
    platform.machine(), {"io_uring_setup": 425, "pidfd_open": 434, "keyctl": 219, "add_key": 217}
)
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000


def _connects(family: int, address: bytes) -> bool:
    number = LIBC.socket(family, 1, 0)
    return number >= 0 and LIBC.connect(number, address, len(address)) == 0


def _unix(path: bytes) -> bytes:
    return struct.pack("=H", socket.AF_UNIX) + path


def _tcp(port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, bytes((127, 0, 0, 1)))


def _call(name: str, *arguments: Any) -> bool:
    return bool(LIBC.syscall(NUMBERS[name], *arguments) >= 0)


def _forks(most: int) -> bool:
    """Whether it gets more children than a limit would leave it; they are ended."""
    children = []
    for _ in range(most):
        child = LIBC.fork()
        if child == 0:
            while True:
                LIBC.pause()
        if child < 0:
            break
        children.append(child)
    for child in children:
        LIBC.kill(child, signal.SIGKILL)
        LIBC.waitpid(child, None, 0)
    return len(children) == most


def _fills_the_disk(megabytes: int) -> bool:
    block = b"x" * 1024 * 1024
    for number in range(megabytes // 32):
        with Path(f"part-{number}").open("wb") as file:
            for _ in range(32):
                file.write(block)
    return True


def _reads_others(what: str) -> bool:
    """Whether a process that is not its own shows it its environment or memory."""
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) != os.getpid():
            try:
                with (folder / what).open("rb") as file:
                    if what == "mem":
                        return True
                    if b"SECRET_OF_THE_PERSON" in file.read():
                        return True
            except OSError:
                continue
    return False


def _inherited() -> bool:
    """Whether a descriptor from before can be used, beside its three and the pipe of its answer."""
    kinds = []
    for number in range(3, 256):
        try:
            kinds.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        except OSError:
            try:
                os.fstat(number)
            except OSError:
                continue
            kinds.append(str(number))
    return len(kinds) > 1


def _namespace() -> bool:
    """Whether it gets rights back in a namespace of its own, and mounts there."""
    return LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 and LIBC.mount(b"tmpfs", b"/usr", b"tmpfs", 0, None) == 0


def _limits(pid: int) -> bool:
    return bool(LIBC.prlimit(pid, 0, (ctypes.c_uint64 * 2)(1, 1), None) == 0)


def _flags(path: bytes) -> bool:
    """Whether it changes a flag of a file (no dump), as chattr does."""
    number = LIBC.open(path, os.O_RDONLY)
    if number < 0:
        return False
    try:
        fcntl.ioctl(number, 0x40086602, struct.pack("l", 0x40))
    except OSError:
        return False
    return True


def attempts(there: Path, port: int, pid: int, abstract: str) -> dict[str, Callable[[], bool]]:
    """By name. `there` is a folder of the person with `secret`, `link` and `socket` in it, `pid` a process of theirs,
    `abstract` the name of a socket without a file."""
    secret = os.fsencode(there / "secret")
    return {
        "inherited_descriptors": _inherited,
        "read_a_file": lambda: LIBC.open(secret, os.O_RDONLY) >= 0,
        "read_by_a_link": lambda: LIBC.symlink(secret, b"here") == 0 and LIBC.open(b"here", os.O_RDONLY) >= 0,
        "read_shadow": lambda: LIBC.open(b"/etc/shadow", os.O_RDONLY) >= 0,
        "list_a_folder": lambda: any(there.iterdir()),
        "list_run": lambda: any(Path("/run").iterdir()),
        "write_a_file": lambda: LIBC.open(os.fsencode(there / "new"), os.O_CREAT | os.O_WRONLY, 0o600) >= 0,
        "write_shared_memory": lambda: LIBC.open(b"/dev/shm/trainplan-test", os.O_CREAT | os.O_RDWR, 0o600) >= 0,
        "remove_a_file": lambda: LIBC.unlink(secret) == 0,
        "chmod": lambda: LIBC.chmod(secret, 0o777) == 0,
        "fchmodat": lambda: LIBC.fchmodat(-100, secret, 0o777, 0) == 0,
        "chown": lambda: LIBC.chown(secret, os.getuid(), os.getgid()) == 0,
        "utime": lambda: LIBC.utime(secret, None) == 0,
        "setxattr": lambda: LIBC.setxattr(secret, b"user.x", b"y", 1, 0) == 0,
        "flags": lambda: _flags(secret),
        "hard_link": lambda: LIBC.link(secret, b"mine") == 0,
        "tcp": lambda: _connects(socket.AF_INET, _tcp(port)),
        "unix_socket": lambda: _connects(socket.AF_UNIX, _unix(os.fsencode(there / "socket") + b"\0")),
        "abstract_socket": lambda: _connects(socket.AF_UNIX, _unix(b"\0" + abstract.encode())),
        "ptrace": lambda: LIBC.ptrace(0x4206, pid, None, None) == 0,
        "ptrace_parent": lambda: LIBC.ptrace(0x4206, os.getppid(), None, None) == 0,
        "environment_of_others": lambda: _reads_others("environ"),
        "memory_of_others": lambda: _reads_others("mem"),
        "descriptor_of_others": lambda: _call("pidfd_open", pid, 0),
        "limits_of_others": lambda: _limits(pid),
        "signal": lambda: LIBC.kill(pid, signal.SIGTERM) == 0,
        "mount": lambda: LIBC.mount(b"tmpfs", b"/usr", b"tmpfs", 0, None) == 0,
        "namespace": _namespace,
        "setuid": lambda: LIBC.prctl(39, 0, 0, 0, 0) == 0,  # whether setuid counts
        "io_uring": lambda: _call("io_uring_setup", 1, ctypes.create_string_buffer(120)),
        "keys": lambda: _call("keyctl", 10, -3, b"user", abstract.encode(), 0),
        "type_into_a_terminal": lambda: fcntl.ioctl(0, 0x5412, b"x") is not None,
        "fork_bomb": lambda: _forks(700),
        "fill_the_disk": lambda: _fills_the_disk(128),
    }


def tried(there: Path, port: int, pid: int, abstract: str) -> list[str]:
    """The names of those that have succeeded."""
    done = []
    for name, attempt in attempts(there, port, pid, abstract).items():
        try:
            if attempt():
                done.append(name)
        except OSError:
            continue
    return done


if sys.platform != "linux":
    raise ImportError("what the kernel forbids is Linux'")
