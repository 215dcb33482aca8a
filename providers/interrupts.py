"""Signals as notes: a handler raises nothing, and whatever looks, waits or asks a provider asks here first.

An exception out of a handler comes up wherever Python stands, and is dropped where Python ignores exceptions: in a
`__del__`, in a callback of a weak reference, in a generator that is thrown away.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

HANG_UPS = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name))
MOST_UNASKED = 2
"""Ctrl-C so often while nothing asks: the next one ends the process as the system does it."""
_NOTES: deque[int] = deque()
_WAKES: list[tuple[int, int]] = []
"""The ends of a pipe on which a handler wakes whoever waits."""


class HungUp(BaseException):
    """The terminal has gone, or the computer goes down."""


def error_of(number: int) -> BaseException:
    """What a signal is to whoever follows a run."""
    return KeyboardInterrupt() if number == signal.SIGINT else HungUp(signal.Signals(number).name)


_ERRORS: list[Callable[[int], BaseException]] = [error_of]


def ask() -> None:
    """Raise what the oldest signal is, where one has come and nobody has heard of it."""
    if _NOTES and threading.current_thread() is threading.main_thread():
        raise _ERRORS[-1](_NOTES.popleft())


def wait(seconds: float) -> None:
    """Let real seconds go by, less where a signal comes. Raises what `ask` raises."""
    ask()
    if not _WAKES or threading.current_thread() is not threading.main_thread():
        time.sleep(seconds)  # noqa: TID251  the one place that waits
        return
    reader, _ = _WAKES[-1]
    if select.select([reader], [], [], seconds)[0]:
        with suppress(BlockingIOError):
            os.read(reader, 1024)
    ask()


@contextmanager
def noted(error: Callable[[int], BaseException] = error_of, kinds: Sequence[int] = HANG_UPS) -> Iterator[None]:
    """Signals of these kinds and Ctrl-C are noted meanwhile, and `ask` raises what `error` makes of them.

    The second hang-up ends the process, as does Ctrl-C that nothing has asked for. Outside the main thread, and where
    Ctrl-C has a handler of its own (a notebook), nothing changes for it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    wanted = [*kinds, *([signal.SIGINT] if own else [])]
    _ERRORS.append(error)
    _WAKES.append(_pipe())
    before = {kind: signal.signal(kind, _note) for kind in wanted}
    try:
        yield
    finally:
        for kind, earlier in before.items():
            signal.signal(kind, earlier)
        for end in _WAKES.pop():
            os.close(end)
        _ERRORS.pop()
        _NOTES.clear()


def _note(number: int, frame: object) -> None:
    del frame
    _NOTES.append(number)
    if number != signal.SIGINT:
        for kind in HANG_UPS:
            signal.signal(kind, signal.SIG_DFL)
    elif _NOTES.count(number) >= MOST_UNASKED:
        signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):  # the pipe is full: whoever waits is woken already
        os.write(_WAKES[-1][1], b"!")


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer
