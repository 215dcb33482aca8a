"""The standard streams of a command: filtered for the terminal, and no reason to end a command where they break.

Text of a machine, a job file or a vendor may hold characters that a terminal obeys. `guarded` puts a filter before
stdout and stderr, so that no command can forget it. Messages on stderr break between words at a terminal; what goes
to stdout may be read by a program and is left as it is. The two views that move the cursor themselves
(trainplan.planner.cli.live_view, `plan status --watch`) write to `unfiltered`, and pages in colour
(trainplan.planner.cli.screen) are written by `write_styled`; all three pass what they show through
`trainplan.workloads.terminal_text.visible`.

A stream that is closed, full or without a reader must not keep a command from ending a machine: what cannot be written
is dropped, and `undelivered` tells of it at the end.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from trainplan.workloads.terminal_text import visible, wrapped


class GuardedStream:
    """A text stream that shows control characters as visible escapes, and takes what cannot be written.

    `failure` is why something could not be written, "" for nothing; `reader_has_gone` where a pipe's end was closed;
    `is_empty` until something is written.
    """

    def __init__(
        self, stream: TextIO | None, clean: Callable[[str], str] = visible, *, breaks_lines: bool = False
    ) -> None:
        """`breaks_lines`: at a terminal, lines that are longer than it is wide are broken between words."""
        self.stream = stream
        self._breaks_lines = breaks_lines
        self.failure = ""
        self.reader_has_gone = False
        self.is_empty = True
        self._clean = clean

    def write(self, text: str) -> int:
        """Write the text; a stream that fails once is not written to again."""
        self.is_empty = self.is_empty and not text
        if self.stream is None:
            self.failure = "it is closed"
        elif not self.failure:
            text_to_show = self._clean(text)
            if self._breaks_lines and self.isatty():
                text_to_show = wrapped(text_to_show, terminal_size(self.stream).columns)
            self._attempt(self.stream.write, _encodable(text_to_show, self.stream))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, until one of them cannot be written."""
        for line in lines:
            if self.failure:
                return
            self.write(line)

    def flush(self) -> None:
        """Pass on what is buffered; a failure is kept in `failure`."""
        if self.stream is not None and not self.failure:
            self._attempt(self.stream.flush)

    def isatty(self) -> bool:
        """Whether it is a terminal. A stream that is closed is none."""
        return self.stream is not None and self.stream.isatty()

    def _attempt(self, action: Callable[..., object], *arguments: str) -> None:
        try:
            action(*arguments)
        except BrokenPipeError as error:
            self.failure, self.reader_has_gone = str(error.strerror), True
        except OSError as error:
            self.failure = error.strerror or str(error)
        except ValueError:  # Python's own word for a stream that was closed
            self.failure = "it is closed"

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click would write there, past the filter
            raise AttributeError(name)
        return getattr(self.stream, name)


def _encodable(text: str, stream: TextIO) -> str:
    """The text with what the stream's encoding does not have as escapes: a letter is no reason to lose the rest."""
    encoding = getattr(stream, "encoding", None)
    if not encoding or text.isascii():
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def terminal_size(stream: TextIO) -> os.terminal_size:
    """Columns and lines of the terminal behind a stream: $COLUMNS and $LINES, else what it says, else 80 by 24."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):  # no terminal of this system, or a closed one
        columns = lines = 0
    return os.terminal_size((_number_in("COLUMNS") or columns or 80, _number_in("LINES") or lines or 24))


def _number_in(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0


@contextmanager
def guarded() -> Iterator[None]:
    """stdout and stderr behind the filter; a closed stdin is an empty one."""
    before = sys.stdin, sys.stdout, sys.stderr
    if cast("TextIO | None", sys.stdin) is None:
        sys.stdin = io.StringIO()
    sys.stdout = cast("TextIO", GuardedStream(before[1]))
    sys.stderr = cast("TextIO", GuardedStream(before[2], breaks_lines=True))
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def unfiltered(stream: TextIO) -> TextIO:
    """The stream without the filter, for what moves the cursor itself; it takes what cannot be written all the same."""
    inner = stream.stream if isinstance(stream, GuardedStream) else stream
    return cast("TextIO", GuardedStream(inner, lambda text: text))


def write_styled(stream: TextIO, text: str) -> None:
    """Write a text whose escape sequences were made by this program: its cells went through `visible` before."""
    unguarded = unfiltered(stream)
    unguarded.write(text)
    unguarded.flush()
    if isinstance(stream, GuardedStream) and isinstance(unguarded, GuardedStream):
        stream.failure, stream.reader_has_gone = unguarded.failure, unguarded.reader_has_gone
        stream.is_empty = False


def has_failed(stream: TextIO) -> bool:
    """Whether a stream takes nothing any more."""
    return isinstance(stream, GuardedStream) and bool(stream.failure)


def is_empty(stream: TextIO) -> bool:
    """Whether nothing was written to a guarded stream."""
    return isinstance(stream, GuardedStream) and stream.is_empty


def undelivered(stream: TextIO) -> str:
    """Why not all of a stream's text has arrived; "" where it has, or where its reader wanted no more of it."""
    stream.flush()
    if not isinstance(stream, GuardedStream) or stream.reader_has_gone:
        return ""
    return stream.failure


def open_closed_descriptors() -> None:
    """Point the descriptors 0, 1 and 2 at nothing where they are closed: else the next file that is opened, a journal
    say, gets one of them, and a library that complains on stderr would write into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
