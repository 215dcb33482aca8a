"""What a stranger sends to be held in memory: headers of an archive."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from tests.unit.providers.agent.machine import drained
from trainplan.providers.agent.archives import MOST_HEADER_BYTES, UnpackError, unpack

LARGE = 32 * 1024 * 1024


def archive_with(kind: bytes, size: int) -> bytes:
    """A compressed archive whose first member is an extended header of this size, then a file."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = kind, size
    record = f"{size} comment=".encode()
    made = io.BytesIO()
    with gzip.open(made, "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        file.write(record.ljust(size - 1, b"x") + b"\n")
        file.write(b"\0" * (-size % 512))
        member = tarfile.TarInfo("cat.png")
        member.size = 1
        file.write(member.tobuf(tarfile.USTAR_FORMAT) + b"c".ljust(512, b"\0") + b"\0" * 1024)
    return made.getvalue()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_large_header_is_refused_before_it_is_in_memory(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(archive_with(kind, LARGE))
    tracemalloc.start()
    try:
        with pytest.raises(UnpackError, match=f"extended header of {LARGE} bytes"):
            drained(unpack(tmp_path / "a.tar.gz", tmp_path / "data", lambda: True, tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MOST_HEADER_BYTES


def test_a_header_of_usual_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(archive_with(tarfile.XHDTYPE, 2048))
    assert drained(unpack(tmp_path / "a.tar.gz", tmp_path / "data", lambda: True, tmp_path)) == 1
    assert (tmp_path / "data" / "cat.png").read_bytes() == b"c"
