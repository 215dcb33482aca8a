"""The trainer's progress.jsonl on its way to the store: thinned, so that days of training stay a small object."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.providers.agent.plain_file import NotPlainError, plain_bytes
from trainplan.providers.agent.schema import LONGEST_LINE_BYTES, instant, progress_line
from trainplan.providers.agent.store import Steps, Store, patiently

if TYPE_CHECKING:
    from trainplan.providers.agent.clock import Clock
    from trainplan.providers.agent.vault import Redactor

MOST_BYTES = 4 * 1024 * 1024
"""Of all lines; epochs and the end have twice that."""
_READ_BYTES = 262_144
_GAPS = ((120.0, 2.0), (3600.0, 10.0), (float("inf"), 60.0))
"""Seconds since the first step, and how far apart steps are told until then."""


class ProgressTail:
    """Follows `source`, keeps the thinned copy in `spool`, and puts that at `path`. Append-only for its readers.

    What is kept hangs on the lines alone, so that a second life of the agent writes the same bytes again.
    """

    def __init__(self, source: Path, spool: Path, store: Store, path: str) -> None:
        self.first: dict[str, Any] = {}
        """The trainer's `start` line."""
        self.last: dict[str, Any] = {}
        self._source = source
        self._spool = spool
        self._store = store
        self._path = path
        self._offset = 0
        self._rest = b""
        self._size = 0
        self._sent_bytes = 0
        self._sent_sha256 = ""
        self._first_step: float | None = None
        self._last_step = float("-inf")
        spool.write_bytes(b"")

    def pull(self, redactor: Redactor) -> bool:
        """Read on, a bounded piece. True: there was something new."""
        data = self._read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-LONGEST_LINE_BYTES - 1 :]
        # A full disk costs lines, and is told of elsewhere.
        with contextlib.suppress(OSError), self._spool.open("ab") as file:
            for line in lines:
                if self._keeps(line):
                    self._size += file.write(redactor.clean(line) + b"\n")
        return bool(data)

    @property
    def stored_sha256(self) -> str:
        """Return the SHA-256, in hex, of what was stored last; "" where nothing was."""
        return self._sent_sha256

    def push(self) -> None:
        """Raises AwayError or RefusedError."""
        if self._size > self._sent_bytes:
            size = self._size
            data = self._spool.read_bytes()
            self._store.put(self._path, data)
            self._sent_bytes, self._sent_sha256 = size, hashlib.sha256(data).hexdigest()

    def finish(self, redactor: Redactor) -> Steps[None]:
        """Upload the rest of the progress."""
        while self.pull(redactor):
            yield 0.0
        yield from patiently(self.push)

    def _read(self) -> bytes:
        """What comes next; b"" for nothing, and for what is no plain file: a link could lead to a file of the machine,
        and a pipe would hold up the agent."""
        try:
            return plain_bytes(self._source, _READ_BYTES, self._offset)
        except (NotPlainError, OSError):
            return b""

    def _keeps(self, line: bytes) -> bool:
        document = progress_line(line)
        if document is None:
            return False
        event = document["event"]
        self.last = document
        if event == "start":
            self.first = document
        if self._size > (2 if event in ("epoch", "end") else 1) * MOST_BYTES:
            return False
        return event != "step" or self._is_due(document)

    def _is_due(self, document: dict[str, Any]) -> bool:
        when = instant(document.get("time"))
        if when is None:
            return False
        at = when.timestamp()
        if self._first_step is None:
            self._first_step = at
        since = at - self._first_step
        gap = next(gap for until, gap in _GAPS if since <= until)
        if at - self._last_step < gap:
            return False
        self._last_step = at
        return True


class Pulse:
    """When something last moved: progress or a line of the log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.steady()

    def beat(self) -> None:
        """Note a sign of life."""
        self._at = self._clock.steady()

    @property
    def silent_seconds(self) -> float:
        """How long ago the last sign of life was."""
        return self._clock.steady() - self._at
