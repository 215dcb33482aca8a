"""The processes that a script has started, and their end, whatever they do to stay."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

MOST_PROCESSES = 1_024
"""Of one script at once: loaders of data have dozens. A script with more is ended: it forks without end."""
END_SECONDS = 10.0
"""How long processes that go on forking are hunted."""
_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_SECONDS = 0.001


def adopt_orphans() -> None:
    """Whatever a script leaves behind becomes a child of this process, wherever it has gone. Linux alone has it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> set[int]:
    """The processes below a process, those that have ended and were not waited for included; empty where the system
    does not tell."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in _children(waiting.pop()) if child not in found]
        found.update(new)
        waiting += new
    return found


def end_all(pid: int, spared: frozenset[int] = frozenset()) -> None:
    """Kill everything below this process. Each is halted when it is seen, so that what forks as fast as it is killed is
    caught; once all of it stands still it is killed."""
    until = time.monotonic() + END_SECONDS
    halted: set[int] = set()
    while time.monotonic() < until:
        if _halts_more(pid, spared, halted):
            continue
        if not halted:
            return
        for number in halted:
            _signal(number, signal.SIGKILL)
        halted.clear()
        select.select([], [], [], _PAUSE_SECONDS)
        _reap()


def _halts_more(pid: int, spared: frozenset[int], halted: set[int]) -> bool:
    """Halt what is seen below the process for the first time; whether there was any."""
    before, seen, waiting = len(halted), set[int](), [pid]
    while waiting:
        for child in _children(waiting.pop()):
            if child in spared or child in seen:
                continue
            seen.add(child)
            if child not in halted:
                _signal(child, signal.SIGSTOP)
                halted.add(child)
            waiting.append(child)
    return len(halted) > before


def _children(pid: int) -> Iterable[int]:
    """By the list that the kernel keeps for each thread, which is quick; where it keeps none, by a look at all."""
    found: list[int] = []
    try:
        tasks = list((_PROC / str(pid) / "task").iterdir())
        for task in tasks:
            found += map(int, (task / "children").read_text().split())
    except FileNotFoundError:
        return [] if not (_PROC / str(pid)).exists() else _children_by_parent(pid)
    except (OSError, ValueError):
        return []
    return found


def _children_by_parent(pid: int) -> Iterable[int]:
    found: list[int] = []
    try:
        entries = [entry.name for entry in _PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return found
    for entry in entries:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of a program may hold blanks and brackets: what follows the last bracket is fields.
            if int((_PROC / entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry))
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _reap() -> None:
    """Orphans that have ended are ours to take note of."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
