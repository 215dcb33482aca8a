"""What the process that runs a person's file may do.

The kernel's parts are Linux': namespaces, Landlock and a filter of system calls, each taken where the kernel has it and
on its own; and limits. The guard of Python (`guard.py`) is there in any case. What is promised to the person before
the file runs (`could_do`) rests on the kernel's parts alone.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.network_reader import landlock, namespaces
from trainplan.workloads.network_reader.kernel import gain_nothing
from trainplan.workloads.network_reader.system_calls import refuse_calls

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "SYSTEMROOT", "VIRTUAL_ENV")
"""Variables of the environment without which Python or its libraries may not start. No other is passed on: a credential
could be in any of them."""


class Part(StrEnum):
    """A part of the kernel that confines a process."""

    NAMESPACES = "namespaces"
    LANDLOCK = "Landlock"
    SECCOMP = "seccomp"


_HELD_BY: tuple[tuple[str, frozenset[Part]], ...] = (
    ("read your files", frozenset({Part.NAMESPACES, Part.LANDLOCK})),
    ("change your files", frozenset({Part.NAMESPACES, Part.LANDLOCK})),
    ("change modes, owners and times of your files", frozenset({Part.NAMESPACES, Part.SECCOMP})),
    ("use the network", frozenset({Part.NAMESPACES, Part.SECCOMP})),
    ("talk to other programs, such as Docker or ssh-agent", frozenset({Part.NAMESPACES, Part.SECCOMP})),
    ("send signals to your processes", frozenset({Part.NAMESPACES, Part.SECCOMP})),
    ("look into your processes", frozenset({Part.NAMESPACES, Part.LANDLOCK})),
)
"""What a file could do, and the parts of which each alone prevents it."""


class Limits(NamedTuple):
    """What the file may take. `seconds` count from when the file begins to run, not from the start of the process."""

    seconds: float = 60.0
    memory_bytes: int = 16 * 1024**3
    """Address space: what TensorFlow maps counts too, and weights do not, which are never made."""
    file_bytes: int = 64 * 1024**2
    processes: int = 512
    """With threads. The kernel does not count those of root; a namespace of processes ends them all the same."""


def could_do(parts: Collection[str]) -> tuple[str, ...]:
    """What a file could do where these parts alone hold it; () where they hold all that is promised."""
    return tuple(what for what, held_by in _HELD_BY if not held_by & set(parts))


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


def leave(without: Collection[str] = ()) -> bool:
    """Whether the next process begins in namespaces of its own. `without` are parts that are left out, for tests."""
    return Part.NAMESPACES not in without and namespaces.leave()


def confine(folder: Path, limits: Limits, *, has_left: bool, without: Collection[str] = ()) -> frozenset[Part]:
    """Confine this process for good, and give the parts that hold it; called by the first after `leave`, before it has
    threads. `folder` is where it can write: in memory, with namespaces."""
    _limit(limits)
    if sys.platform != "linux":
        return frozenset()
    needed = namespaces.needed_folders()
    held = set()
    if has_left and namespaces.own_file_system(folder, needed):
        held.add(Part.NAMESPACES)
    namespaces.drop_capabilities()
    gain_nothing()
    if Part.LANDLOCK not in without and landlock.only(
        [*needed, *map(Path, (*namespaces.DEVICES, "/proc/self"))], folder
    ):
        held.add(Part.LANDLOCK)
    if Part.SECCOMP not in without and refuse_calls():
        held.add(Part.SECCOMP)
    return frozenset(held)


def _limit(limits: Limits) -> None:
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
    try:  # where memory runs out, this process is the one to end
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        return


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
