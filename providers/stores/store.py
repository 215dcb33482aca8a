"""A run directory in a bucket: paths below a prefix, repeated calls, and a bucket that the first write creates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from providers.cloud.propagation import pair_of_bucket, settled
from providers.errors import BadRequestError
from providers.stores.bucket import DATA, RUNS, Bucket, BucketMissingError, Entry
from providers.stores.download import download
from providers.stores.files import unheard
from providers.stores.patience import Patience
from providers.stores.upload import upload

if TYPE_CHECKING:
    from providers.base import RunId
    from providers.stores.pending_uploads import Unfinished

Answer = TypeVar("Answer")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_DELETED = 1000  # keys in one delete call (Bucket.delete)


class ObjectStore:
    """`providers.base.RunStore` and `providers.stores.files.FileStore` over a bucket.

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
        """The store of another prefix of the same bucket (providers.stores.bucket.RUNS, DATA)."""
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
        return self._prefix + checked(path)


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


def checked(path: str) -> str:
    """The normalized path. Raises BadRequestError for a path that would leave its directory."""
    # A backslash or a colon would be a separator or a drive where a path becomes a file on Windows (assumed).
    pure = PurePosixPath(path)
    if not path or not pure.parts or pure.is_absolute() or ".." in pure.parts or "\\" in path or ":" in path:
        raise BadRequestError(f"{path!r} is no path within a run directory")
    return pure.as_posix()


def _name(run_id: str) -> str:
    if not _NAME.fullmatch(run_id):
        raise BadRequestError(f"{run_id!r} is no name of a run")
    return run_id
