"""Clients as processes: forked from a warm parent, served by it, and really dead when they are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import trainplan.providers.cloud.checks as checks

if TYPE_CHECKING:
    from random import Random

    from tests.faults.harness import Ask

PATIENCE_SECONDS = 300.0
QUIET_SECONDS = 2.0
"""A client of several that has said nothing for so long waits for another one."""
MOST_MESSAGES = 5_000
STOPPED, COPIED, OVER = "stopped", "copied", "over"
"""Messages of a client: it stands at one of its stops; of its copy: it is there; of the client: that has ended."""
FAILED = 99
"""The exit status of a client that a mistake has ended; `forked` tells it as an AssertionError."""


@contextlib.contextmanager
def lines_in_turn() -> Iterator[None]:
    """Lines of a doctor and of a preflight are looked up one after the other here: a fork keeps one thread, and the
    calls of one seed come in one order."""
    before, checks._AT_ONCE = checks._AT_ONCE, False
    try:
        yield
    finally:
        checks._AT_ONCE = before


def die() -> None:
    """As `kill -9` does it: no handler, no finally, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def forked(
    work: Callable[[Ask], None],
    answer: Callable[[tuple[Any, ...]], Any],
    stopped: Callable[[Connection, tuple[Any, ...]], Any] | None = None,
) -> bool:
    """Run `work` in a process of its own, answering what it asks. True: it was killed; False: it came to its end.

    `stopped` answers a client that stands at one of its stops (tests.faults.branches), and is given its line.

    Raises AssertionError for a client that broke down, or that goes on and on.
    """
    pid, ours = _started(work)
    try:
        trouble = _serve(ours, answer if stopped is None else partial(_answered, ours, answer, stopped))
    finally:
        ours.close()
    return _over(pid, trouble)


def forked_together(
    works: Sequence[Callable[[Ask], None]], answer: Callable[[tuple[Any, ...]], Any], chance: Random
) -> list[bool]:
    """Several clients at once: of those that ask, `chance` says who is answered next. The same chance gives the same
    order, as no two of them are at work at one time. Returns and raises for each what `forked` does."""
    clients = [_Client(*_started(work)) for work in works]
    try:
        _serve_all(clients, answer, chance)
    finally:
        for client in clients:
            client.line.close()
    return [_over(client.pid, client.trouble) for client in clients]


@dataclass(eq=False)
class _Client:
    """`asked` is its message that waits for an answer; `gone`: it will send no more."""

    pid: int
    line: Connection
    request: tuple[Any, ...] | None = None
    is_gone: bool = False
    trouble: str = ""

    def hear(self, seconds: float) -> None:
        """Its next message, if it comes within so many seconds."""
        if self.is_gone or self.request is not None or not self.line.poll(seconds):
            return
        try:
            message = self.line.recv()
        except (EOFError, ConnectionResetError):
            self.is_gone = True
            return
        if message[0] == "broke":
            self.is_gone, self.trouble = True, str(message[1])
        else:
            self.request = message


def _serve_all(clients: Sequence[_Client], answer: Callable[[tuple[Any, ...]], Any], chance: Random) -> None:
    for client in clients:
        client.hear(QUIET_SECONDS)
    for _ in range(MOST_MESSAGES):
        asking = [client for client in clients if client.request is not None]
        silent = [client for client in clients if not client.is_gone and client.request is None]
        if not asking and not silent:
            return
        if not asking:
            if not wait([client.line for client in silent], PATIENCE_SECONDS):
                silent[0].trouble = f"a client has said nothing for {PATIENCE_SECONDS:.0f} s"
                return
            for client in silent:
                client.hear(0)
            continue
        client = chance.choice(asking)
        asked, client.request = client.request, None
        assert asked is not None
        with contextlib.suppress(BrokenPipeError):
            client.line.send(answer(asked))
        client.hear(QUIET_SECONDS)
    clients[0].trouble = f"clients go on after {MOST_MESSAGES} calls"


def _started(work: Callable[[Ask], None]) -> tuple[int, Connection]:
    ours, theirs = Pipe()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _live(work, theirs)
    theirs.close()
    return pid, ours


def _over(pid: int, trouble: str) -> bool:
    """Whether a client was killed. Raises AssertionError for one that broke down, or goes on and on."""
    if trouble:
        os.kill(pid, signal.SIGKILL)
    return _killed(os.waitpid(pid, 0)[1], trouble)


def _killed(status: int, trouble: str) -> bool:
    assert not trouble, trouble
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, f"a client ended with status {status}"
    return killed


def _live(work: Callable[[Ask], None], line: Connection) -> None:
    status = FAILED
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, lines_in_turn():  # noqa: PTH123  no path everywhere
            sys.stdout = sys.stderr = nowhere
            in_turn = threading.Lock()
            work(lambda message: _send(line, message, in_turn))
        status = 0
    except BaseException:  # noqa: BLE001  whatever it is, the harness is to hear of it
        line.send(("broke", traceback.format_exc()))
    finally:
        os._exit(status)


def _send(line: Connection, message: tuple[Any, ...], in_turn: threading.Lock) -> Any:
    """What a thread that was not waited for asks late never takes the answer of another."""
    with in_turn:
        line.send(message)
        return line.recv()


def _answered(
    line: Connection,
    answer: Callable[[tuple[Any, ...]], Any],
    stopped: Callable[[Connection, tuple[Any, ...]], Any],
    message: tuple[Any, ...],
) -> Any:
    return stopped(line, message) if message[0] == STOPPED else answer(message)


def copied(ask: Ask) -> bool:
    """In a client: it forks. True in the copy; False in the client, when the copy is gone."""
    pid = os.fork()
    if pid == 0:
        ask((COPIED, os.getpid()))
        return True
    ask((OVER, os.waitpid(pid, 0)[1]))
    return False


def served_copy(line: Connection, value: object, answer: Callable[[tuple[Any, ...]], Any]) -> bool:
    """In a copy of the harness: the client that stands at its stop is told to fork, and its copy is served to its end.
    True: that was killed. Whoever holds the line then has one message of the client's to answer.

    Raises AssertionError as `forked` does.
    """
    line.send(value)
    what, pid = line.recv()
    assert what == COPIED, what
    line.send(None)
    ended: list[int] = []
    trouble = _serve(line, answer, ended)
    if trouble and not ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while (message := line.recv())[0] != OVER:
            """What it had asked last: nobody waits for an answer any more."""
        ended.append(message[1])
    return _killed(ended[0], trouble)


def result_of(work: Callable[[], Any]) -> Any:
    """What `work` gives in a copy of this process, which can be pickled; nothing else that it does is seen here.

    Raises AssertionError where the copy breaks down.
    """
    ours, theirs = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        status = FAILED
        try:
            with lines_in_turn():
                theirs.send(("gives", work()))
            status = 0
        except BaseException:  # noqa: BLE001  whatever it is, the harness is to hear of it
            theirs.send(("broke", traceback.format_exc()))
        finally:
            os._exit(status)
    theirs.close()
    with ours:
        try:
            what, told = ours.recv()
        except EOFError:
            what, told = "broke", "a copy of the harness is gone"
    os.waitpid(pid, 0)
    assert what == "gives", told
    return told


def _serve(line: Connection, answer: Callable[[tuple[Any, ...]], Any], over: list[int] | None = None) -> str:
    """Until the client is gone; what was wrong with it, "" for nothing. Where it is a copy, the client that it was
    copied from tells its exit status, which is put into `over`."""
    for _ in range(MOST_MESSAGES):
        if not line.poll(PATIENCE_SECONDS):
            return f"a client has said nothing for {PATIENCE_SECONDS:.0f} s"
        try:
            message = line.recv()
        except (EOFError, ConnectionResetError):
            return ""
        if message[0] == "broke":
            return str(message[1])
        if message[0] == OVER and over is not None:
            over.append(message[1])
            return ""
        try:
            line.send(answer(message))
        except BrokenPipeError:
            return ""
    return f"a client goes on after {MOST_MESSAGES} calls"
