"""Namespaces of Linux: a network without a way out, processes of its own, and a file system of its own."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_RECURSIVE, _PRIVATE, _RELATIVE_TIMES = 16384, 1 << 18, 1 << 21
"""MS_ flags of mount(2)."""
_LAZILY = 2
"""MNT_DETACH."""
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITY_VERSION = 0x20080522
_FOLDER_BYTES, _FOLDER_FILES = 64 * 1024**2, 1_000
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/etc/alternatives", "/etc/ld.so.cache",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip
"""Libraries, and what frameworks ask of the processor. Nothing of a person."""


def leave() -> bool:
    """Leave the network, and have the next process begin a group that the kernel ends with it. False where it may
    not."""
    if sys.platform != "linux":
        return False
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None).unshare(_NEWUSER | _NEWPID | _NEWNET | _NEWIPC):
        return False
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    except OSError:
        return False
    return True


def drop_capabilities() -> None:
    """Keep no right of root's, here or in a namespace."""
    if sys.platform == "linux":
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())


def needed_folders() -> list[Path]:
    """What a Python has to read to import its packages: the system's libraries, its own, and this package."""
    found = [Path(text) for text in _SYSTEM]
    found += [Path(prefix, name) for prefix in (sys.base_prefix, sys.prefix) for name in ("lib", "lib64")]
    found += [Path(text) for text in sys.path if re.search(r"(site|dist)-packages$|/python3\.\d+$|\.zip$", text)]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    found += [Path(text) for text in libraries if text.startswith("/") and re.search("/lib", text)]
    found += list(Path(__file__).parents)[1:3]  # workloads, which is a link in a checkout, and what holds it
    there = [path for path in dict.fromkeys([*found, *(path.resolve() for path in found)]) if path.exists()]
    return [path for path in there if path != Path("/") and not any(one in path.parents for one in there)]


def own_file_system(folder: Path, needed: Iterable[Path]) -> bool:
    """Leave every file but those of `needed`, which can be read alone, and an empty `folder` in memory. False where
    the kernel does not let this process, which is where it was then.

    Called by the first process after `leave`.
    """
    pivot = _PIVOT_ROOT.get(platform.machine())
    if pivot is None:
        return False
    libc = ctypes.CDLL(None)
    if libc.unshare(_NEWNS):
        return False
    try:
        _mount(None, Path("/"), _RECURSIVE | _PRIVATE)
        _mount("tmpfs", folder, _NO_SUID | _NO_DEVICES, "size=1m,mode=755")
        _fill(folder, needed)
        own = folder / folder.relative_to("/")
        own.mkdir(parents=True, exist_ok=True)
        _mount("tmpfs", own, _NO_SUID | _NO_DEVICES, f"size={_FOLDER_BYTES},nr_inodes={_FOLDER_FILES},mode=700")
        _only_read(folder, own)
    except OSError:
        libc.umount2(os.fsencode(folder), _LAZILY)
        return False
    os.chdir(folder)
    if libc.syscall(pivot, b".", b".") or libc.umount2(b".", _LAZILY):
        os._exit(1)  # half way there is no state to go on in
    os.chdir(folder)
    return True


def _fill(root: Path, needed: Iterable[Path]) -> None:
    for path in needed:
        place = root / path.relative_to("/")
        if path.is_symlink():  # /lib of many systems
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path.readlink())
            continue
        _make_like(path, place)
        _mount(str(path), place, _BIND | _RECURSIVE)
    own = root / "proc/self"
    own.mkdir(parents=True)
    (own / "cmdline").write_bytes(b"python\0")  # TensorFlow ends its process where it finds neither
    (own / "exe").symlink_to(sys.executable)
    for device in DEVICES:
        place = root / device[1:]
        _make_like(Path(device), place)
        _mount(device, place, _BIND)


def _make_like(path: Path, place: Path) -> None:
    if path.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _only_read(root: Path, but: Path) -> None:
    """Have every mount from `root` on refuse changes, but one. Flags that it has already are kept: another user's
    namespace may not take them off."""
    rows = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), row.split()[4]) for row in rows]
    for point in map(Path, points):
        if point == but or not (point == root or root in point.parents):
            continue
        kept = os.statvfs(point).f_flag
        times = kept & (os.ST_NOATIME | os.ST_NODIRATIME) | (_RELATIVE_TIMES if kept & os.ST_RELATIME else 0)
        is_device = str(point).startswith(f"{root}/dev/")
        flags = _READ_ONLY | _NO_SUID | (_NO_PROGRAMS if is_device else _NO_DEVICES)
        _mount(None, point, _REMOUNT | _BIND | flags | times | kept & (_NO_DEVICES | _NO_PROGRAMS))


def _mount(what: str | None, where: Path, flags: int, data: str = "") -> None:
    kind = b"tmpfs" if what == "tmpfs" else None
    source = None if what is None else os.fsencode(what)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, os.fsencode(where), kind, ctypes.c_ulong(flags), data.encode() or None):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(where))
