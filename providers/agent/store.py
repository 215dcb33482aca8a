"""The run directory as the machine sees it: whole objects, parts of large ones, patience while the store is away."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import Any, Callable, Generator, Protocol, TypeVar

from trainplan.providers.agent.plain_file import open_plain, written_whole


class Upload(Protocol):
    """A large object on its way: nobody sees it before `finish`."""

    def part(self, number: int, data: bytes, start: int) -> None:
        """Part `number` from 0, which begins at byte `start`. Sending one again is harmless."""

    def finish(self) -> None:
        """Complete the object: until then nobody can read it."""


class Store(Protocol):
    """Paths are below the run directory. Every call raises AwayError or RefusedError."""

    def put(self, path: str, data: bytes) -> None: ...

    def get(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """Raises KeyError where there is none."""
        ...

    def list(self, prefix: str) -> dict[str, int]:
        """Bytes by path of everything below the folder `prefix`."""
        ...

    def delete(self, path: str) -> None:
        """Delete one object; an object that does not exist is no error."""

    def begin(self, path: str, size: int) -> Upload:
        """Begin to write an object of `size` bytes in parts."""
        ...


PART_BYTES = 8 * 1024 * 1024
"""A multiple of 256 KiB, as Google wants it; at most 10,000 of them, as S3 wants it: 84 GB."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0

Answer = TypeVar("Answer")
Steps = Generator[float, None, Answer]
"""Work in small pieces: it yields the seconds it wants to wait before the next one."""


class AwayError(Exception):
    """The store did not answer, or not for now: later it may."""


class DeniedError(AwayError):
    """The store does not let this machine do that; its right may be on its way."""


class RefusedError(Exception):
    """The store will not do this, however often it is asked."""


def raise_for_status(status: int, body: bytes, what: str, *, reads: bool = False) -> None:
    """Return for a success. Raises AwayError or RefusedError, and KeyError where a read found nothing.

    Missing permission is AwayError: roles take minutes to arrive (Azure: up to 30). So is a bucket that is not there.
    """
    if 200 <= status < 300:
        return
    text = f"{what}: {status} {body[:300].decode(errors='replace')}".strip()
    if reads and status == 404 and b"NoSuchBucket" not in body and b"ContainerNotFound" not in body:
        raise KeyError(what)
    if b"NoSuchUpload" in body:
        raise RefusedError(text)
    if status in (401, 403, 404, 408, 409, 425, 429) or status >= 500:
        raise AwayError(text)
    raise RefusedError(text)


def patiently(action: Callable[[], Answer], pause: float = FIRST_PAUSE) -> Steps[Answer]:
    """Does it, and while the store is away again and again, with growing pauses."""
    while True:
        try:
            return action()
        except AwayError:
            yield pause
            pause = min(2 * pause, LONGEST_PAUSE)


def upload(store: Store, path: str, source: Path, report: Callable[[int], object] = int) -> Steps[str]:
    """Upload one file in parts and return its SHA-256 in hex. `report` hears of the bytes. Raises OSError where it
    cannot be read.
    """
    digest, start = hashlib.sha256(), 0
    large: Any = None
    with open_plain(source) as file:
        size = os.fstat(file.fileno()).st_size
        while start < size or not size:
            data = file.read(PART_BYTES)
            digest.update(data)
            if size <= PART_BYTES:
                yield from patiently(partial(store.put, path, data))
                break
            if len(data) != min(PART_BYTES, size - start):
                raise OSError(f"{source.name} became shorter while it was read")
            large = large or (yield from patiently(partial(store.begin, path, size)))
            yield from patiently(partial(large.part, start // PART_BYTES, data, start))
            start += len(data)
            report(len(data))
            yield 0.0
    if large:
        yield from patiently(large.finish)
    return digest.hexdigest()


def download(store: Store, path: str, target: Path, size: int, top: Path) -> Steps[str]:
    """Download one object to a file in parts and return its SHA-256 in hex. No link is followed from the folder `top`
    to the file.

    Raises KeyError where it is not there, and OSError where the disk cannot be written.
    """
    digest, start = hashlib.sha256(), 0
    with written_whole(top, target) as file:
        while start < size:
            data = yield from patiently(partial(store.get, path, start, PART_BYTES))
            if not data:
                break
            file.write(data)
            digest.update(data)
            start += len(data)
            yield 0.0
    return digest.hexdigest()
