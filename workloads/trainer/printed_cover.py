"""Covers secrets in what a program prints, before it is written anywhere: as bytes that come in pieces of any size."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import io
import os
import re
import select
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from trainplan.workloads.secret_rules import LineCover, covered, may_hold_secrets, names_a_secret, secret_spans

IDLE_SECONDS = 0.5
"""After so long without more, the beginning of a line is written too: a row of dots is a sign of life."""
_PIECE_BYTES = 16 * 1024
_LONGEST, _CONTEXT = 16 * 1024, 4096
"""Characters: of a line without an end that is kept, and of its end that is looked at again with what follows."""
_SHORTEST_VALUE = 8
_LINE = re.compile(r"[^\r\n]*[\r\n]+")
_UNFINISHED = re.compile(r"[A-Za-z0-9][\w+/.~-]{7,}\Z")


class PrintedCover:
    """`add(data)` is what of the data, and of what came before, is to be written; `rest()` the line that has not ended,
    as far as it can be shown. `values` are secrets that are known, of at least eight characters."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # Losslessly, whatever bytes they are.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._values = [value for value in values if len(value) >= _SHORTEST_VALUE]
        self._lines = LineCover()
        self._line = ""
        self._told = 0
        """So many characters of the line are written."""

    @property
    def is_waiting(self) -> bool:
        """Whether there is a line that has not ended."""
        return len(self._line) > self._told

    def add(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Whole lines, and of one that does not end all but its end."""
        text = self._line + self._decoder.decode(data, is_last)
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        whole, self._line = text[:end], text[end:]
        told = self._whole(whole) if whole else ""
        if is_last or len(self._line) > _LONGEST:
            told += self._begun(len(self._line) if is_last else len(self._line) - _CONTEXT)
            out_of_sight = min(self._told, max(0, len(self._line) - 2 * _CONTEXT))
            self._told, self._line = self._told - out_of_sight, self._line[out_of_sight:]
        return told.encode("utf-8", "surrogateescape")

    def rest(self) -> bytes:
        """What there is of the last line, but for a long word that may go on."""
        word = _UNFINISHED.search(self._line, max(self._told, len(self._line) - _CONTEXT))
        return self._begun(word.start() if word else len(self._line)).encode("utf-8", "surrogateescape")

    def _whole(self, text: str) -> str:
        begin, self._told = self._told, 0
        is_plain = not (self._lines.is_in_key or self._value_in(text) or may_hold_secrets(text))
        if is_plain:
            return text[begin:]
        told = []
        for match in _LINE.finditer(text):
            body = match[0].rstrip("\r\n")
            ends = match[0][len(body) :]
            if self._lines.hides(body):
                told.append(f"…{ends}")
            else:
                told.append(covered(body, self._spans(body), begin) + ends)
            begin = 0
        return "".join(told)

    def _begun(self, end: int) -> str:
        """The line that has not ended, to here or to the beginning of a secret that goes on behind."""
        if self._lines.is_in_key or end <= self._told:
            return ""
        spans = self._spans(self._line)
        end = min([end, *(start for start, stop in spans if start < end < stop)])
        begin, self._told = self._told, max(self._told, end)
        return covered(self._line[:end], [span for span in spans if span[1] <= end], begin) if end > begin else ""

    def _spans(self, text: str) -> list[tuple[int, int]]:
        known = [match.span() for value in self._values for match in re.finditer(re.escape(value), text)]
        return _apart([*known, *secret_spans(text)])

    def _value_in(self, text: str) -> bool:
        return any(value in text for value in self._values)


class CoveredStream(io.TextIOBase):
    """A stream of this process's, to which nothing that looks like a secret is written."""

    def __init__(self, below: TextIO, cover: PrintedCover) -> None:
        self._below, self._cover = below, cover

    def write(self, text: str) -> int:
        self._pass_on(self._cover.add(text.encode("utf-8", "surrogateescape")))
        return len(text)

    def flush(self) -> None:
        self._pass_on(self._cover.rest())
        self._below.flush()

    def finish(self) -> None:
        """Write what a line without an end still has."""
        with contextlib.suppress(ValueError, OSError):  # it was closed before
            self._pass_on(self._cover.add(b"", is_last=True))
            self._below.flush()

    def fileno(self) -> int:
        return self._below.fileno()

    def isatty(self) -> bool:
        return self._below.isatty()

    def _pass_on(self, data: bytes) -> None:
        if data:
            encoding = self._below.encoding or "utf-8"  # which need not have the sign that covers
            text = data.decode("utf-8", "surrogateescape")
            self._below.write(text.encode(encoding, "backslashreplace").decode(encoding))


def cover_prints() -> None:
    """From here on nothing in this process prints a secret: a person's network has no process of its own."""
    for name in ("stdout", "stderr"):
        below = getattr(sys, name)
        if not isinstance(below, CoveredStream):
            stream = CoveredStream(below, PrintedCover(secret_values(os.environ)))
            setattr(sys, name, stream)
            atexit.register(stream.finish)


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, and those that overlap as one."""
    apart: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """What stands in variables that have the names of secrets, line by line."""
    values = [value for name, value in environment.items() if names_a_secret(name, value)]
    return [line.strip() for value in values for line in value.splitlines()]


def relay(source: int, target: int, cover: PrintedCover) -> None:
    """Write what comes from one descriptor to another, until nobody writes any more. A target that takes nothing (a
    full disk) costs lines, and never holds up who prints."""
    while True:
        ready, _, _ = select.select([source], [], [], IDLE_SECONDS if cover.is_waiting else None)
        data = os.read(source, _PIECE_BYTES) if ready else b""
        _write(target, cover.add(data, is_last=not data) if ready else cover.rest())
        if ready and not data:
            return


def _write(target: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(target, data) :]
    except OSError:
        return
