"""Which process a pid means: a pid is reused, a pid with its birth is not."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

_STARTED_FIELD = 19  # of /proc/PID/stat behind the command's name: field 22, proc(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """`birth` is opaque: equal for as long as the pid means the same process, also across restarts of the machine."""

    pid: int
    birth: str

    @property
    def alive(self) -> bool:
        """Whether it still runs: its pid may belong to another process by now."""
        return birth(self.pid) == self.birth

    def signal(self, number: int) -> None:
        """Send a signal if it still lives; a pid that means another process by now gets none."""
        with contextlib.suppress(ProcessLookupError), _handle_of(self.pid) as send:
            if self.alive:
                send(number)

    def kill(self) -> None:
        """End it at once."""
        self.signal(getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows SIGTERM is the kill


def this_process() -> Process:
    """The process that runs this code."""
    return Process(pid=os.getpid(), birth=birth(os.getpid()) or "")


def process(pid: int) -> Process:
    """A process that was just started. One that is over already is a Process that is not alive."""
    return Process(pid=pid, birth=birth(pid) or "over")


def birth(pid: int) -> str | None:
    """What tells this process from a later one of the same pid; None: there is none, or it only waits to be reaped."""
    if sys.platform == "linux":
        return _linux_birth(pid)
    return created_at(pid)


@contextlib.contextmanager
def _handle_of(pid: int):  # type: ignore[no-untyped-def]  # a function of a signal's number
    """Something that signals the process that has `pid` now, and no later one where the system can promise that."""
    if not hasattr(os, "pidfd_open"):
        yield lambda number: os.kill(pid, number)
        return
    handle = os.pidfd_open(pid)
    try:
        yield lambda number: signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _linux_birth(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else f"{boot} {fields[_STARTED_FIELD - 1]}"


def created_at(pid: int) -> str | None:
    """The instant at which the system says a process began, where there is no /proc; None as for `birth`."""
    import psutil

    try:
        item = psutil.Process(pid)
        return None if item.status() == psutil.STATUS_ZOMBIE else repr(item.create_time())
    except psutil.Error:
        return None
