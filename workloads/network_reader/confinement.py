"""What the process that runs a person's file may do: what the kernel forbids it, and what Python forbids it.

The kernel's part is Linux': namespaces without a network and with processes of their own, Landlock (no file is written
outside one folder), and limits. Each is taken where the kernel allows it. The guard of Python is there in any case.
Code that is written to break out of Python's guard can, where the kernel has neither; that is why a person is asked
first.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_SIGKILL = 9
# linux/landlock.h: the calls have these numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_WRITE_FILE = 1 << 1
_CHANGES = (1 << 1) | sum(1 << bit for bit in range(4, 13))
"""Write, remove and make files, folders, devices, sockets, pipes and links."""
_SINCE = {2: 1 << 13, 3: 1 << 14}
"""Move between folders, and truncate: from which version of Landlock on they can be forbidden."""
_NET_SINCE, _NET = 4, 0b11
"""Bind and connect of TCP."""

_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "SYSTEMROOT", "VIRTUAL_ENV")
"""Variables of the environment without which Python or its libraries may not start. No other is passed on: a credential
could be in any of them."""


class Limits(NamedTuple):
    """What the file may take. `seconds` count from when the file begins to run, not from the start of the process."""

    seconds: float = 60.0
    memory_bytes: int = 16 * 1024**3
    """Address space: what TensorFlow maps counts too, and weights do not, which are never made."""
    file_bytes: int = 64 * 1024**2
    processes: int = 512
    """With threads. The kernel does not count those of root; a namespace of processes ends them all the same."""


class ForbiddenError(RuntimeError):
    """The file did what no network needs."""


def environment(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of the process, whose home is `folder`."""
    home = str(folder)
    kept = {name: variables[name] for name in _KEPT if name in variables}
    return kept | {
        "HOME": home,
        "USERPROFILE": home,
        "TMPDIR": home,
        "TEMP": home,
        "KERAS_HOME": home,
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "OMP_NUM_THREADS": "1",
    }


def end_with_parent() -> None:
    """Let the kernel end this process when the one that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Let the kernel make whatever outlives the process that started it a child of this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """The processes that this one has, dead ones that nobody has waited for among them; none where the system does not
    tell."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:  # it has ended meanwhile
            continue
        if int(text.rpartition(")")[2].split()[1]) == os.getpid():
            found.append(int(folder.name))
    return found


def leave_namespaces() -> bool:
    """Leave the network, and have the next process begin a group that the kernel ends with it. False where it may
    not."""
    if sys.platform != "linux":
        return False
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID | _CLONE_NEWNET | _CLONE_NEWIPC):
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            Path(f"/proc/self/{name}").write_text(text)
        except OSError:
            break  # the owner of files is then unnamed in here, and the same
    return True


def limit(limits: Limits) -> None:
    """Bound memory, files and processes, where the system can."""
    if sys.platform == "win32":
        return
    import resource

    rows = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_NOFILE: 512,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in rows.items():
        _, hard = resource.getrlimit(kind)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):  # macOS has no limit of address space that works
            continue


def write_only_in(folder: Path) -> bool:
    """Have the kernel refuse every change of a file outside `folder`, and TCP. False where it has no Landlock.

    Counts for this thread and those that it starts, so it is called before there are any.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _RULESET_VERSION)
    if version < 1:
        return False
    changes = _CHANGES | sum(bit for since, bit in _SINCE.items() if version >= since)
    net = _NET if version >= _NET_SINCE else 0
    attributes = (ctypes.c_uint64 * 2)(changes, net)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), 16 if net else 8, 0)
    if ruleset < 0:
        return False
    try:
        for path, allowed in ((folder, changes), (Path(os.devnull), _WRITE_FILE)):
            _allow(libc, ruleset, path, allowed)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: Any, ruleset: int, path: Path, allowed: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = allowed.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)  # a packed structure
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(descriptor)


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
