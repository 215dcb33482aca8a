"""An object into a file: in parts, hashed on the way, continued after an interruption."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from providers.stores.bucket import PART_BYTES, DamagedError
from providers.stores.files import promised

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
