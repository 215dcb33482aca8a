"""The protocol of a vendor's object storage: one bucket, calls that are sent once and not repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainplan.providers.errors import ProviderError

RUNS = "runs"
"""The prefix of the run directories. The age limit of the bucket applies to this prefix alone."""
DATA = "data"
"""The prefix of the data sets."""
KEEP_DAYS = 90  # the default of the setting `keep_days`
UNFINISHED_DAYS = 1
"""The bucket deletes an upload that nobody finished after so many days."""
PART_BYTES = 8 * 1024 * 1024
"""The least size of a part: a multiple of 256 KiB, which Google requires, and above the 5 MiB that S3 requires."""
MOST_PARTS = 10_000
"""The most parts of one upload: the limit of S3. Azure's limit is 50,000."""
_PART_UNIT = 256 * 1024


class BucketMissingError(ProviderError):
    """The bucket does not exist yet: reading returns nothing, writing creates it."""


class UploadLostError(ProviderError):
    """The store does not know this upload any more. It has to start again."""


class DamagedError(ProviderError):
    """The data that arrived has another size or hash than expected."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object."""

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of a list, by key; `more` asks for those after them, "" at the end."""

    entries: tuple[Entry, ...]
    more: str


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """A piece of a large object: its number from 0, where it begins, its bytes."""

    number: int
    start: int
    data: bytes


class Upload(Protocol):
    """The upload of a large object, which no reader sees before `finish`. Every call may raise ProviderError."""

    @property
    def token(self) -> str:
        """Return the token with which another process continues the upload."""
        ...

    def holds(self, part: ObjectPart) -> bool:
        """Whether the store had exactly this part already when the upload was resumed."""
        ...

    def send(self, part: ObjectPart) -> None:
        """Send a part. Parts are sent in order and may be sent again. The store checks each hash, or the hash of the
        object."""

    def finish(self) -> None:
        """Raises UploadLostError, also where the stored data differs from what was sent."""


class Bucket(Protocol):
    """Keys are UTF-8 and begin without a slash. Every call is one request or few, and raises ProviderError.

    A bucket that is not there is a BucketMissingError in every call but `make`.
    """

    @property
    def provider(self) -> str:
        """The provider's name, for messages."""
        ...

    @property
    def uri(self) -> str:
        """`s3://bucket`, `gs://bucket` or `azblob://account/container`."""
        ...

    @property
    def ours(self) -> bool:
        """Whether trainplan chose the name. `make` keeps the settings of such a bucket; one that the user named is only
        created."""
        ...

    def make(self) -> None:
        """Create the bucket if it does not exist: private, without versions, with rules that delete unfinished uploads
        and old runs.

        Idempotent, also after a crash in between. Raises PermissionDeniedError if the bucket belongs to another
        account.
        """

    def put(self, key: str, data: bytes) -> None:
        """Write the object completely or not at all. The store checks its hash."""

    def get(self, key: str, start: int, size: int | None) -> bytes:
        """The bytes from `start`, at most `size`; b"" past the end. Raises KeyError where there is none."""
        ...

    def page(self, prefix: str, after: str) -> Page:
        """One page of the objects whose keys begin with `prefix`; `after` is `more` of the page before, "" at first."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete at most 1000 objects; one that does not exist is no error."""

    def begin(self, key: str, size_bytes: int) -> Upload:
        """Begin to upload an object of `size_bytes` in parts."""
        ...

    def resume(self, key: str, size_bytes: int, token: str) -> Upload:
        """Raises UploadLostError."""
        ...

    def close(self) -> None:
        """Close the connections."""


def part_bytes(size_bytes: int) -> int:
    """The size in bytes of the parts of an object of `size_bytes`, so that there are at most MOST_PARTS."""
    # -(-a // b) divides integers and rounds up; a float would lose bytes of very large objects.
    least = -(-size_bytes // MOST_PARTS)
    return max(PART_BYTES, -(-least // _PART_UNIT) * _PART_UNIT)
