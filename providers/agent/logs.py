"""The container's output on its way to the store, in numbered objects of bounded size."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from trainplan.providers.agent.store import Steps, Store, patiently

if TYPE_CHECKING:
    from trainplan.providers.agent.processes import Running
    from trainplan.providers.agent.vault import Redactor

CHUNK_BYTES = 262_144
MOST_CHUNKS = 200
"""50 MB of an attempt's log are told; then only its end."""
MOST_WAITING = 16
"""Chunks that wait for a store that is away; then the oldest are left out."""
_READ_BYTES = 65_536
_READS = 8
_LONGEST_LINE = 65_536
_LAST_BYTES = 4096


class LogTail:
    """Takes whole lines, covers secrets in them, and keeps in memory what the store has not got yet."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._line = b""
        self._chunk = b""
        self._sent_bytes = 0
        self._number = 1
        self._full: deque[tuple[int, bytes]] = deque()
        self.left_out_bytes = 0
        self._last = b""

    @property
    def last_text(self) -> str:
        """The last lines of the output, cleaned of secrets."""
        return self._last.decode(errors="replace")

    def go_on(self) -> None:
        """Behind what an earlier life of the machine has told. Raises AwayError."""
        names = (path.rpartition("/")[2].partition(".")[0] for path in self._store.list(self._folder))
        self._number = 1 + max((int(name) for name in names if name.isdigit()), default=0)

    def pull(self, source: Running, redactor: Redactor) -> bool:
        """Read on, a bounded piece. True: there was something new."""
        was_heard = False
        for _ in range(_READS):
            data = source.read(_READ_BYTES)
            if not data:
                break
            was_heard = True
            self.add(data, redactor)
        return was_heard

    def add(self, data: bytes, redactor: Redactor) -> None:
        """Append output, cleaned of secrets, in whole lines."""
        text, newline, self._line = (self._line + data).rpartition(b"\n")
        clean = redactor.clean(text + newline)
        if len(self._line) > _LONGEST_LINE:
            # A line without end: told in pieces, but never one that could end within a secret.
            whole = redactor.clean(self._line)
            held_count = min(redactor.longest, len(whole))
            clean, self._line = clean + whole[: len(whole) - held_count], whole[len(whole) - held_count :]
        self._take(clean)

    def push(self) -> None:
        """Raises AwayError or RefusedError."""
        while self._full:
            number, data = self._full[0]
            self._store.put(self._name(number), data)
            self._full.popleft()
        if len(self._chunk) > self._sent_bytes and self._number <= MOST_CHUNKS:
            size = len(self._chunk)
            self._store.put(self._name(self._number), self._chunk)
            self._sent_bytes = size

    def hear_out(self, source: Running, redactor: Redactor) -> Steps[None]:
        """Take the rest of the output, its last line included."""
        source.rest(10.0)
        while self.pull(source, redactor):
            yield 0.0
        self._take(redactor.clean(self._line))
        self._line = b""

    def finish(self, source: Running, redactor: Redactor) -> Steps[None]:
        """Upload the rest of the log, its last line included."""
        yield from self.hear_out(source, redactor)
        if self.left_out_bytes:
            self._chunk = f"... {self.left_out_bytes} bytes of this log were left out\n".encode() + self._chunk
        yield from patiently(self.push)
        if self._number > MOST_CHUNKS:
            yield from patiently(partial(self._store.put, self._name(self._number), self._chunk))

    def _take(self, clean: bytes) -> None:
        self._chunk += clean
        self._last = (self._last + clean)[-_LAST_BYTES:]
        while len(self._chunk) >= CHUNK_BYTES:
            if self._number > MOST_CHUNKS:
                self.left_out_bytes += len(self._chunk) - CHUNK_BYTES
                self._chunk = self._chunk[-CHUNK_BYTES:]
                return
            # The piece ends with a line where there is one.
            cut = self._chunk.rfind(b"\n", 0, CHUNK_BYTES) + 1 or CHUNK_BYTES
            self._full.append((self._number, self._chunk[:cut]))
            self._chunk, self._sent_bytes, self._number = self._chunk[cut:], 0, self._number + 1
            if len(self._full) > MOST_WAITING:
                self.left_out_bytes += len(self._full.popleft()[1])

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:05}.log"
