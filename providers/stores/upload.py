"""Uploads a file to a bucket: in parts, hashed while it is read, resumed after an interruption."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from providers.errors import MachineError
from providers.stores.bucket import Bucket, DamagedError, ObjectPart, Upload, UploadLostError, part_bytes
from providers.stores.pending_uploads import Source, Unfinished

if TYPE_CHECKING:
    from providers.stores.patience import Patience

_BEGINNINGS = 3
"""How often an upload is started at most, if the store loses it."""


def upload(
    bucket: Bucket,
    key: str,
    path: Path,
    unfinished: Unfinished | None,
    patience: Patience,
    moved: Callable[[int], None],
) -> str:
    """Upload the file and return its SHA-256 in hex. Raises DamagedError, MachineError and ProviderError."""
    try:
        stat = path.stat()
        source = Source(uri=f"{bucket.uri}/{key}", size_bytes=stat.st_size, changed_ns=stat.st_mtime_ns)
        with path.open("rb") as file:
            sending = _Sending(bucket, key, file, source, patience, moved)
            sha256 = sending.small() if stat.st_size <= part_bytes(stat.st_size) else sending.large(unfinished)
    except OSError as error:
        raise MachineError(f"cannot read {path}: {error.strerror or error}") from error
    return sha256


class _Sending:
    """One file that is being uploaded."""

    def __init__(
        self,
        bucket: Bucket,
        key: str,
        file: BinaryIO,
        source: Source,
        patience: Patience,
        moved: Callable[[int], None],
    ) -> None:
        self._bucket = bucket
        self._key = key
        self._file = file
        self._source = source
        self._patience = patience
        self._moved = moved

    def small(self) -> str:
        data = self._file.read()
        self._check(len(data))
        self._patience(lambda: self._bucket.put(self._key, data))
        self._moved(len(data))
        return hashlib.sha256(data).hexdigest()

    def large(self, unfinished: Unfinished | None) -> str:
        """Upload a file in parts; start anew where the store has lost the parts."""
        count = 0

        def move(there: int) -> None:
            nonlocal count
            self._moved(max(0, there - count))
            count = max(count, there)

        for remaining in reversed(range(_BEGINNINGS)):
            try:
                return self._once(unfinished, move)
            except UploadLostError:
                self._forget(unfinished)
                if not remaining:
                    raise
        raise AssertionError("the last beginning returns or raises")

    def _once(self, unfinished: Unfinished | None, move: Callable[[int], None]) -> str:
        sending = self._new_upload(unfinished)
        # Parts that the store has are read too: the hash is of the whole file, as it is now.
        digest = hashlib.sha256()
        for part in self._parts():
            digest.update(part.data)
            if not sending.holds(part):
                self._patience(partial(sending.send, part))
            move(part.start + len(part.data))
        # The token is forgotten only after `finish`: a process that is killed before can resume the upload.
        self._patience(sending.finish)
        self._forget(unfinished)
        return digest.hexdigest()

    def _new_upload(self, unfinished: Unfinished | None) -> Upload:
        """Resume the interrupted upload of this file, or begin a new one."""
        size = self._source.size_bytes
        token = unfinished.token(self._source) if unfinished else None
        if token is not None:
            try:
                return self._patience(lambda: self._bucket.resume(self._key, size, token))
            except UploadLostError:
                self._forget(unfinished)
        upload = self._patience(lambda: self._bucket.begin(self._key, size))
        if unfinished:
            unfinished.keep(self._source, upload.token)
        return upload

    def _parts(self) -> Iterator[ObjectPart]:
        self._file.seek(0)
        size = part_bytes(self._source.size_bytes)
        number = start = 0
        while data := self._file.read(size):
            if start + len(data) > self._source.size_bytes:  # another process appends to the file: stop here
                break
            yield ObjectPart(number, start, data)
            number, start = number + 1, start + len(data)
        self._check(start)
        if self._file.read(1):
            self._check(start + 1)

    def _check(self, read: int) -> None:
        if read != self._source.size_bytes:
            raise DamagedError(
                f"{self._file.name} changed while it was sent", hint="try again when nothing writes to it"
            )

    def _forget(self, unfinished: Unfinished | None) -> None:
        if unfinished:
            unfinished.forget(self._source)
