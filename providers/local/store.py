"""A run directory that is a folder of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from providers.agent.plain_file import NotPlainError, open_plain
from providers.errors import BadRequestError, MachineError
from providers.stores.files import copied, unheard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_PARTIAL = ".partial"


class FolderStore:
    """Files under one folder. A file being written is not listed; it gets its name when it is whole."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, data: bytes) -> None:
        target = self._at(path)
        with _explained(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, data)

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        target = self._at(path)
        with _explained(target):
            try:
                with open_plain(target) as file:
                    file.seek(start)
                    return file.read(-1 if size is None else size)
            except (FileNotFoundError, NotADirectoryError, NotPlainError):
                raise KeyError(path) from None

    def list(self, prefix: str = "") -> Sequence[str]:
        folder = self._at(prefix) if prefix else self.root
        if folder.is_file():
            return [folder.relative_to(self.root).as_posix()]
        with _explained(folder):
            return sorted(self._files(folder))

    def delete(self, prefix: str) -> None:
        folder = self._at(prefix) if prefix else self.root
        with _explained(folder), contextlib.suppress(FileNotFoundError):
            if folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder)
            else:
                folder.unlink()

    def put_file(self, path: str, source: Path, moved: Callable[[int], None] = unheard) -> str:
        target = self._at(path)
        with _explained(target if source.is_file() else source):
            return copied(path, source, target, "", moved)

    def get_file(self, path: str, target: Path, sha256: str = "", moved: Callable[[int], None] = unheard) -> str:
        source = self._at(path)
        if not source.is_file():
            raise KeyError(path)
        return copied(path, source, target, sha256, moved)

    def sizes(self, prefix: str = "") -> Mapping[str, int]:
        found = {}
        for path in self.list(prefix):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                found[path] = self._at(path).stat().st_size
        return found

    def _files(self, folder: Path) -> Iterator[str]:
        for parent, _, names in os.walk(folder):
            for name in names:
                if not name.endswith(_PARTIAL):
                    yield (Path(parent) / name).relative_to(self.root).as_posix()

    def _at(self, path: str) -> Path:
        pure = PurePosixPath(path)
        if not path or pure.is_absolute() or ".." in pure.parts or "\\" in path or ":" in path:
            raise BadRequestError(f"{path!r} is no path within a run directory")
        return self.root.joinpath(*pure.parts)


def write_whole(target: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or what was there before, also after a crash."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=_PARTIAL, dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"{path}: {error.strerror or error}", hint="free some space, or give the folder back to your user"
        ) from error
