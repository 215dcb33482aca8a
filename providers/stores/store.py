"""A run directory in a bucket: paths below a prefix, repeated calls, and a bucket that the first write creates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from trainplan.providers.cloud.propagation import pair_of_bucket, settled
from trainplan.providers.errors import BadRequestError, MachineError
from trainplan.providers.stores.bucket import (
    DATA,
    PART_BYTES,
    RUNS,
    Bucket,
    BucketMissingError,
    DamagedError,
    Entry,
    ObjectPart,
    Upload,
    UploadLostError,
    part_bytes,
)
from trainplan.providers.stores.files import checked_path, promised, unheard
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.pending_uploads import Source, Unfinished

if TYPE_CHECKING:
    from trainplan.providers.base import RunId

Answer = TypeVar("Answer")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_DELETED = 1000  # keys in one delete call (Bucket.delete)


class ObjectStore:
    """`trainplan.providers.base.RunStore` and `trainplan.providers.stores.files.FileStore` over a bucket.

    A read from a bucket that does not exist finds nothing; the first write creates the bucket.
    """

    def __init__(
        self, bucket: Bucket, prefix: str, *, unfinished: Unfinished | None = None, patience: Patience | None = None
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/"
        self._unfinished = unfinished
        self._patience = patience or Patience()
        # Our own bucket is checked before the first write, so that one that a crash left incomplete is completed.
        self._ready = not bucket.ours

    @property
    def uri(self) -> str:
        """The address of the directory, from which a rented machine reads it."""
        return f"{self._bucket.uri}/{self._prefix}".rstrip("/")

    def beside(self, prefix: str) -> ObjectStore:
        """The store of another prefix of the same bucket (trainplan.providers.stores.bucket.RUNS, DATA)."""
        return ObjectStore(self._bucket, prefix, unfinished=self._unfinished, patience=self._patience)

    def put(self, path: str, data: bytes) -> None:
        key = self._key(path)
        self._writing(lambda: self._patience(lambda: self._bucket.put(key, data)))

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        return self._range(path, start, size)

    def list(self, prefix: str = "") -> Sequence[str]:
        return list(self.sizes(prefix))

    def delete(self, prefix: str) -> None:
        keys = [entry.key for entry in self._under(prefix)]
        for start in range(0, len(keys), _MOST_DELETED):
            self._patience(partial(self._bucket.delete, keys[start : start + _MOST_DELETED]))

    def put_file(self, path: str, source: Path, moved: Callable[[int], None] = unheard) -> str:
        key = self._key(path)
        return self._writing(lambda: upload(self._bucket, key, source, self._unfinished, self._patience, moved))

    def get_file(self, path: str, target: Path, sha256: str = "", moved: Callable[[int], None] = unheard) -> str:
        return download(path, target, sha256, partial(self._range, path), moved)

    def sizes(self, prefix: str = "") -> Mapping[str, int]:
        counts = {entry.key.removeprefix(self._prefix): entry.size_bytes for entry in self._under(prefix)}
        return dict(sorted(counts.items()))

    def _range(self, path: str, start: int, size: int | None) -> bytes:
        key = self._key(path)
        try:
            return self._patience(lambda: self._bucket.get(key, start, size))
        except (KeyError, BucketMissingError):
            raise KeyError(path) from None

    def _under(self, prefix: str) -> Iterator[Entry]:
        """The objects at the prefix or below it. `output-2/x` is not below `output`, though its key begins with it."""
        start = self._key(prefix) if prefix else self._prefix
        after, last = "", False
        while not last:
            try:
                page = self._patience(partial(self._bucket.page, start, after))
            except BucketMissingError:
                return
            for entry in page.entries:
                if not prefix or entry.key == start or entry.key.startswith(f"{start}/"):
                    yield entry
            after, last = page.more, not page.more

    def _writing(self, action: Callable[[], Answer]) -> Answer:
        if not self._ready:
            self._make()
        try:
            return action()
        except BucketMissingError:
            self._make()
        # Calls may not find a new bucket for some minutes (providers/cloud/propagation.py).
        return self._settled(action)

    def _make(self) -> None:
        self._settled(lambda: self._patience(self._bucket.make))
        self._ready = True

    def _settled(self, action: Callable[[], Answer]) -> Answer:
        pair = pair_of_bucket(self._bucket.provider)
        if pair is None:
            return self._patience(action, on=(BucketMissingError,))
        return settled(
            action, lambda error: pair if isinstance(error, BucketMissingError) else None, self._patience.sleep
        )

    def _key(self, path: str) -> str:
        return self._prefix + checked_path(path)


def run_store(
    bucket: Bucket, run_id: RunId, *, unfinished: Unfinished | None = None, patience: Patience | None = None
) -> ObjectStore:
    """The directory of one run. Raises BadRequestError if the run id cannot be the name of a folder."""
    return ObjectStore(bucket, f"{RUNS}/{_name(run_id)}", unfinished=unfinished, patience=patience)


def data_store(
    bucket: Bucket, *, unfinished: Unfinished | None = None, patience: Patience | None = None
) -> ObjectStore:
    """The data sets of this bucket."""
    return ObjectStore(bucket, DATA, unfinished=unfinished, patience=patience)


def _name(run_id: str) -> str:
    if not _NAME.fullmatch(run_id):
        raise BadRequestError(f"{run_id!r} is no name of a run")
    return run_id


_PIECE = 1024 * 1024


def download(
    path: str, target: Path, sha256: str, read: Callable[[int, int], bytes], moved: Callable[[int], None]
) -> str:
    """The file's SHA-256 in hex. `read(start, size)` gives a piece, b"" past the end.

    Raises KeyError, DamagedError, OSError and ProviderError. What had arrived of a promised file stays beside the
    target as `.NAME.SHA256.partial`; what is not as promised is fetched once more from its beginning.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not sha256:
        return _fetched(path, target, "", read, moved)
    partial = _partial(target, sha256)
    began = partial.exists()
    try:
        return _fetched(path, target, sha256, read, moved)
    except DamagedError:
        if not began:
            raise
    return _fetched(path, target, sha256, read, moved)


def _fetched(
    path: str, target: Path, sha256: str, read: Callable[[int, int], bytes], moved: Callable[[int], None]
) -> str:
    partial = _partial(target, sha256)
    try:
        value = promised(path, _filled(partial, bool(sha256), read, moved), sha256)
    except (KeyError, DamagedError):
        partial.unlink(missing_ok=True)
        raise
    partial.replace(target)
    return value


def _filled(partial: Path, goes_on: bool, read: Callable[[int, int], bytes], moved: Callable[[int], None]) -> str:
    """The SHA-256 of the file, once it is whole."""
    digest, start = hashlib.sha256(), 0
    with partial.open("r+b" if goes_on and partial.exists() else "w+b") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            start += len(piece)
        moved(start)
        while data := read(start, PART_BYTES):
            file.write(data)
            digest.update(data)
            start += len(data)
            moved(len(data))
    return digest.hexdigest()


def _partial(target: Path, sha256: str) -> Path:
    return target.with_name(f".{target.name}.{sha256[:16] or 'unchecked'}.partial")


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
