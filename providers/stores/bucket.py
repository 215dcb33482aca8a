"""What a vendor's object storage is asked: one bucket, one call at a time, without patience."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from providers.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = "runs"
"""Below it lies a folder for each run; the bucket's age limit holds for it alone."""
DATA = "data"
"""Below it lies a folder for each data set."""
KEEP_DAYS = 90
UNFINISHED_DAYS = 1
"""After so long the bucket drops an upload that nobody finished."""
PART_BYTES = 8 * 1024 * 1024
"""A multiple of 256 KiB, as Google wants it, and more than 5 MiB, as S3 does."""
MOST_PARTS = 10_000
"""What S3 takes; Azure takes 50,000."""
_PART_UNIT = 256 * 1024


class BucketMissingError(ProviderError):
    """The bucket does not exist yet: reading returns nothing, writing creates it."""


class UploadLostError(ProviderError):
    """The store has forgotten this upload: it begins anew."""


class DamagedError(ProviderError):
    """What arrived is not what was promised."""


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
    """A large object on its way, which nobody sees before `finish`. Every call raises ProviderError."""

    @property
    def token(self) -> str:
        """Return the token with which another process continues the upload."""
        ...

    def holds(self, part: ObjectPart) -> bool:
        """Whether the store had exactly this part already when the upload was resumed."""
        ...

    def send(self, part: ObjectPart) -> None:
        """Parts go in order; one may be sent again. The store checks each by its hash, or the whole at the end."""

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
        """Whether its name is our own: then it is made, and kept, as it should be; a person's is only made."""
        ...

    def make(self) -> None:
        """Make it if need be: private, nothing kept that was deleted, unfinished uploads dropped, old runs deleted.

        Idempotent, also after a crash half-way. Raises PermissionDeniedError where it belongs to somebody else.
        """

    def put(self, key: str, data: bytes) -> None:
        """Write whole or not at all, checked by its hash."""

    def get(self, key: str, start: int, size: int | None) -> bytes:
        """The bytes from `start`, at most `size`; b"" past the end. Raises KeyError where there is none."""
        ...

    def page(self, prefix: str, after: str) -> Page:
        """Objects whose key begins so; `after` is the `more` of the page before, "" for the first."""
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
        """Let go of its connections."""


def part_bytes(size_bytes: int) -> int:
    """How large the parts of an object of this size are, so that there are not too many."""
    least = -(-size_bytes // MOST_PARTS)
    return max(PART_BYTES, -(-least // _PART_UNIT) * _PART_UNIT)
