"""Clients as processes: forked from a warm parent, served by it, and really dead when they are killed."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from tests.faults.harness import Ask

PATIENCE_SECONDS = 30.0
MOST_MESSAGES = 5_000
FAILED = 99
"""The exit status of a client that a mistake has ended; `forked` tells it as an AssertionError."""


def die() -> None:
    """As `kill -9` does it: no handler, no finally, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def forked(work: Callable[[Ask], None], answer: Callable[[tuple[Any, ...]], Any]) -> bool:
    """Run `work` in a process of its own, answering what it asks. True: it was killed; False: it came to its end.

    Raises AssertionError for a client that broke down, or that goes on and on.
    """
    ours, theirs = Pipe()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _live(work, theirs)
    theirs.close()
    try:
        trouble = _serve(ours, answer)
    finally:
        ours.close()
    if trouble:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    assert not trouble, trouble
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, f"a client ended with status {status}"
    return killed


def _live(work: Callable[[Ask], None], line: Connection) -> None:
    status = FAILED
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123  devnull is no path everywhere
            sys.stdout = sys.stderr = nowhere
            work(lambda message: _asked(line, message))
        status = 0
    except BaseException:  # noqa: BLE001  whatever it is, the harness is to hear of it
        line.send(("broke", traceback.format_exc()))
    finally:
        os._exit(status)


def _asked(line: Connection, message: tuple[Any, ...]) -> Any:
    line.send(message)
    return line.recv()


def _serve(line: Connection, answer: Callable[[tuple[Any, ...]], Any]) -> str:
    """Until the client is gone; what was wrong with it, "" for nothing."""
    for _ in range(MOST_MESSAGES):
        if not line.poll(PATIENCE_SECONDS):
            return f"a client has said nothing for {PATIENCE_SECONDS:.0f} s"
        try:
            message = line.recv()
        except (EOFError, ConnectionResetError):
            return ""
        if message[0] == "broke":
            return str(message[1])
        try:
            line.send(answer(message))
        except BrokenPipeError:
            return ""
    return f"a client goes on after {MOST_MESSAGES} calls"
