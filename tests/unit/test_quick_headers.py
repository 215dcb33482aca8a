"""Headers read the quick way are those that the standard library reads."""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable, Iterator

import pytest

from tests.doubles import quick_headers

HEADS = [
    b"\r\n",
    b"Host: 127.0.0.1:80\r\nContent-Length: 3\r\n\r\n",
    b"x-amz-meta: a:b: c \r\nEmpty:\r\nTabs:\t v\r\n\r\n",
    b"Set: 1\r\nSet: 2\r\n\r\n",
    b"Latin: caf\xe9\r\n\r\n",
    b"Long: first\r\n second\r\n\r\n",
    b"no colon\r\nHost: x\r\n\r\n",
    b"Host: x\n\n",
    b"Host: cut off",
]


@pytest.fixture
def both() -> Iterator[tuple[Callable[..., http.client.HTTPMessage], Callable[..., http.client.HTTPMessage]]]:
    real = http.client.parse_headers
    quick_headers.install()
    yield real, http.client.parse_headers
    http.client.parse_headers = real


@pytest.mark.parametrize("head", HEADS)
def test_they_are_what_the_library_reads(both: tuple[Callable[..., http.client.HTTPMessage], ...], head: bytes) -> None:
    real, quick = both
    body = b"" if head.endswith(b"off") else b"body"
    streams = io.BytesIO(head + body), io.BytesIO(head + body)
    theirs, ours = real(streams[0]), quick(streams[1])
    assert ours.items() == theirs.items()
    assert ours.get("HOST") == theirs.get("HOST")
    assert streams[1].read() == streams[0].read()


@pytest.mark.parametrize("head", [b"A: b\r\n" * 101 + b"\r\n", b"A: " + b"b" * 70_000 + b"\r\n\r\n"])
def test_limits_are_those_of_the_library(both: tuple[Callable[..., http.client.HTTPMessage], ...], head: bytes) -> None:
    real, quick = both
    with pytest.raises(http.client.HTTPException) as theirs:
        real(io.BytesIO(head))
    with pytest.raises(type(theirs.value)):
        quick(io.BytesIO(head))
