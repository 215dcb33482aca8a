"""What the trainer, or a script of the person's own, has printed: in whole lines, from where a reader stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from trainplan.workloads.terminal_text import overtyped

if TYPE_CHECKING:
    from trainplan.providers.base import RunStore

PRINTED, WRITTEN = "output.log", "trainer.log"
"""What a machine printed, kept as it ends; and what the trainer's own output is written to as it comes."""
PIECE_BYTES = 1024 * 1024
MOST_BYTES = 256 * 1024 * 1024
"""Of one log; a container on this computer may write it as fast as it is read."""
MOST_LINES_AT_ONCE = 40
"""Of what is shown at one look; more would push everything else off the screen."""


def new_output(store: RunStore, prefix: str, counts: dict[str, int], *, is_last: bool) -> Iterator[str]:
    """The lines of the logs below `prefix` beyond `counts`, the bytes of each that were read before. A line whose end
    is not written yet stays for the next call, unless this one is the last. Of a progress bar, the newest state.

    What the machine printed (output.log) is left out where the trainer has written its lines itself: they are the same.
    """
    paths = store.list(prefix)
    printed = {f"{prefix}/{PRINTED}"} if f"{prefix}/{WRITTEN}" in paths else set()
    for path in (path for path in paths if path not in printed):
        is_more = counts.get(path, 0) < MOST_BYTES
        while is_more:
            piece = store.get(path, start=counts.get(path, 0), size=PIECE_BYTES)
            is_whole = len(piece) < PIECE_BYTES
            end = len(piece) if is_whole and is_last else max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
            data = piece[:end] if end or is_whole else piece
            counts[path] = counts.get(path, 0) + len(data)
            lines = data.decode("utf-8", "replace").split("\n")
            yield from map(overtyped, lines if lines[-1] else lines[:-1])
            is_more = not is_whole and counts[path] < MOST_BYTES
            if counts[path] >= MOST_BYTES:
                yield f"(what follows in {path} is not shown: it is longer than {MOST_BYTES // 2**20} MiB)"


class PrintedLines:
    """The output of one attempt, look by look: its files in the store or, where there are none, what `printed` returns,
    the newest lines of the machine itself."""

    def __init__(self, store: RunStore, attempt: int, printed: Callable[[], Iterable[str]] | None) -> None:
        self._store = store
        self._prefix = f"attempts/{attempt}/log"
        self._printed = printed
        self._counts: dict[str, int] = {}
        self._before: list[str] = []

    def new(self, *, is_last: bool) -> tuple[str, ...]:
        """The lines since the last call; of many the newest, with a line that counts the others. Raises
        ProviderError."""
        lines = [*new_output(self._store, self._prefix, self._counts, is_last=is_last)]
        if not self._counts and self._printed is not None:
            now = [line.rstrip("\n") for line in self._printed()]
            lines, self._before = _beyond(self._before, now), now
        hidden = len(lines) - MOST_LINES_AT_ONCE
        if hidden <= 0:
            return tuple(lines)
        return (f"({hidden:,} more lines: plan logs shows all)", *lines[hidden:])


def _beyond(before: list[str], now: list[str]) -> list[str]:
    """The lines of `now` behind those of `before`; each has the newest lines of a longer text."""
    overlap = next((size for size in range(min(len(before), len(now)), 0, -1) if before[-size:] == now[:size]), 0)
    return now[overlap:]
