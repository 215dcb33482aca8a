"""The processes that a script has started, and their end, whatever they do to stay."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
from pathlib import Path

MOST_PROCESSES = 1_024
"""Of one script at once: loaders of data have dozens. A script with more is ended: it forks without end."""
_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_MOST_ROUNDS = 200
_PAUSE_SECONDS = 0.002


def adopt_orphans() -> None:
    """Whatever a script leaves behind becomes a child of this process, wherever it has gone. Linux alone has it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> set[int]:
    """The processes below a process; empty where the system does not tell."""
    children: dict[int, list[int]] = {}
    try:
        entries = [entry.name for entry in _PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return set()
    for entry in entries:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of a program may hold blanks and brackets: what follows the last bracket is fields.
            state, parent = (_PROC / entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(entry))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def end_all(pid: int, spared: frozenset[int] = frozenset()) -> None:
    """Kill everything below a process. What forks as fast as it is killed is halted first, all of it, and then ends."""
    halted: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        alive = descendants(pid) - spared
        if not alive:
            return
        for number in alive:
            _signal(number, signal.SIGSTOP if alive - halted else signal.SIGKILL)
        halted |= alive
        _reap()
        select.select([], [], [], _PAUSE_SECONDS)
    for number in descendants(pid) - spared:
        _signal(number, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _reap() -> None:
    """Orphans that have ended are ours to take note of."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
