"""HTTP headers read without the parser of e-mail, which takes a tenth of the time of a double and its clients."""

from __future__ import annotations

import http.client
import io
from http.client import HTTPMessage
from typing import IO, Any

_LONGEST_LINE = 65_536
_MOST_LINES = 100
_ENDS = (b"\r\n", b"\n", b"")


def install() -> None:
    """In this process, for good."""
    real = http.client.parse_headers

    def parse_headers(fp: IO[bytes], _class: type[HTTPMessage] = HTTPMessage) -> Any:
        lines = _read(fp)
        rows = [line.decode("iso-8859-1").partition(":") for line in lines[:-1]]
        if not all(separator and name and name[0] not in " \t" for name, separator, _ in rows):
            return real(io.BytesIO(b"".join(lines)), _class)
        message = _class()
        for name, _, value in rows:
            message.set_raw(name, value.lstrip(" \t").rstrip("\r\n"))
        return message

    http.client.parse_headers = parse_headers  # type: ignore[assignment]


def _read(fp: IO[bytes]) -> list[bytes]:
    """All lines of a head, with the empty one. The limits are those of `http.client`, and so are the errors."""
    lines: list[bytes] = []
    while not lines or lines[-1] not in _ENDS:
        line = fp.readline(_LONGEST_LINE + 1)
        if len(line) > _LONGEST_LINE:
            raise http.client.LineTooLong("header line")
        lines.append(line)
        if len(lines) > _MOST_LINES:
            raise http.client.HTTPException(f"got more than {_MOST_LINES} headers")
    return lines
