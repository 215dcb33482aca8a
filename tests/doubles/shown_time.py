"""The time of a double in memory that it shares with whoever lives in it: each launch asks for it a hundred times."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ROW = struct.Struct("<q")


class ShownTime:
    """Microseconds since 1970 in a file of eight bytes, which is mapped into each process that reads or writes it."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _ROW.size)

    @classmethod
    def make(cls) -> tuple[ShownTime, Path]:
        """A new one, and its file, which whoever maps it as well needs only for that."""
        memory = Path("/dev/shm")
        number, name = tempfile.mkstemp(prefix="plan-time-", dir=memory if memory.is_dir() else None)
        os.write(number, bytes(_ROW.size))
        os.close(number)
        return cls(Path(name)), Path(name)

    def show(self, now: datetime) -> None:
        _ROW.pack_into(self._page, 0, (now - _EPOCH) // _MICROSECOND)

    def read(self) -> datetime:
        return _EPOCH + _ROW.unpack_from(self._page, 0)[0] * _MICROSECOND


NO_TIME: tuple[ShownTime | None, Path | None] = (None, None)
"""In the place of what `make` returns, where nobody looks at the time."""
