"""Files in a run directory that are too large for memory, in every store."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

from trainplan.providers.errors import BadRequestError
from trainplan.providers.stores.bucket import DamagedError

if TYPE_CHECKING:
    from trainplan.providers.base import RunStore

_PIECE = 1024 * 1024


def unheard(_: int) -> None:
    """Ignore the number of bytes that have been moved."""


def checked_path(path: str) -> str:
    """The normalized path. Raises BadRequestError for a path that would leave its directory."""
    # Where a path becomes a file on Windows, a backslash is a separator, and a colon names a drive or a stream.
    pure = PurePosixPath(path)
    is_elsewhere = os.name == "nt" and ("\\" in path or ":" in path)
    if not path or not pure.parts or pure.is_absolute() or ".." in pure.parts or is_elsewhere:
        raise BadRequestError(f"{path!r} is no path within a run directory")
    return pure.as_posix()


@runtime_checkable
class KeptHere(Protocol):
    """A run store that is the folder of this computer in which the run was trained."""

    @property
    def root(self) -> Path:
        """The run directory."""
        ...


@runtime_checkable
class FileStore(Protocol):
    """What most run stores can do besides: move files without holding them in memory, and tell sizes."""

    def put_file(self, path: str, source: Path, moved: Callable[[int], None] = unheard) -> str:
        """Write a file whole or not at all, continue an upload that was interrupted; its SHA-256 in hex.

        `moved` hears of the bytes that are there, as they get there. Raises DamagedError where the file changes
        meanwhile, MachineError where it cannot be read, and ProviderError.
        """
        ...

    def get_file(self, path: str, target: Path, sha256: str = "", moved: Callable[[int], None] = unheard) -> str:
        """Write `target` whole or not at all; its SHA-256 in hex.

        With the promised `sha256` an interrupted download is continued, and anything else is a DamagedError.
        Raises KeyError where there is no such file, OSError where the target cannot be written.
        """
        ...

    def sizes(self, prefix: str = "") -> Mapping[str, int]:
        """Bytes by path of everything under the prefix, sorted by path."""
        ...


def fetch(store: RunStore, path: str, target: Path, sha256: str = "") -> str:
    """`FileStore.get_file`, from a store that cannot in one piece."""
    if isinstance(store, FileStore):
        return store.get_file(path, target, sha256)
    data = store.get(path)
    value = promised(path, hashlib.sha256(data).hexdigest(), sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return value


def copied(path: str, source: BinaryIO, target: Path, sha256: str, moved: Callable[[int], None]) -> str:
    """Copy a file whole or not at all; its SHA-256 in hex. Raises DamagedError naming `path`, and OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            digest = copied_bytes(source, file, moved)
            file.flush()
            os.fsync(file.fileno())
        value = promised(path, digest, sha256)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return value


def copied_bytes(source: BinaryIO, target: BinaryIO, moved: Callable[[int], None]) -> str:
    """Copy the rest of one open file into another and return its SHA-256 in hex. `moved` is called with the bytes."""
    digest = hashlib.sha256()
    while piece := source.read(_PIECE):
        target.write(piece)
        digest.update(piece)
        moved(len(piece))
    return digest.hexdigest()


def stored_bytes(store: RunStore, prefix: str = "") -> int:
    """How much lies under the prefix. Reads everything of a store that cannot tell."""
    if isinstance(store, FileStore):
        return sum(store.sizes(prefix).values())
    return sum(len(store.get(path)) for path in store.list(prefix))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def promised(path: str, value: str, sha256: str) -> str:
    """The hash that was found. Raises DamagedError where another one was promised."""
    if sha256 and value != sha256:
        raise DamagedError(
            f"{path} is not what was promised: SHA-256 {value[:12]}, not {sha256[:12]}", hint="try again"
        )
    return value
